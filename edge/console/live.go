package console

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// live tells an open page that what it shows has moved: one event, without
// content. The page asks for itself again, and that request is checked like any
// other. Who listens is verified at every look.
func (c *Console) live(w http.ResponseWriter, r *http.Request) error {
	name := c.sessionName(r)
	v, err := c.signedIn(r.Context(), name, false)
	if err != nil {
		return err
	}
	if !v.In() {
		return record.Errorf(record.Unauthenticated, "you are no longer signed in")
	}
	q := r.URL.Query()
	seen, err := c.versionNow(r.Context(), v, q)
	if err != nil {
		return err
	}
	if v.session.streams.Add(1) > maxStreams {
		v.session.streams.Add(-1)
		return record.Errorf(record.Limited, "too many open pages of one sign-in")
	}
	defer v.session.streams.Add(-1)
	ctx, cancel := context.WithTimeout(r.Context(), c.o.Stream)
	defer cancel()
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	out := &stream{w, http.NewResponseController(w)}
	if q.Get("seen") != seen { // it moved between the page and this request
		out.send("event: change\ndata: \n\n")
		return nil
	}
	tick := time.NewTicker(c.o.Poll)
	defer tick.Stop()
	for out.send(": \n\n") {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if v, err = c.signedIn(ctx, name, false); err != nil || !v.In() {
			out.send("event: over\ndata: \n\n")
			return nil
		}
		now, err := c.versionNow(ctx, v, q)
		if err != nil || now != seen {
			out.send("event: change\ndata: \n\n")
			return nil
		}
	}
	return nil
}

// versionNow is the version of what a page shows to this person.
func (c *Console) versionNow(ctx context.Context, v viewer, q url.Values) (string, error) {
	switch {
	case q.Has("inbox"):
		of, err := url.ParseQuery(q.Get("inbox"))
		if err != nil {
			return "", record.Errorf(record.Invalid, "there is no such list")
		}
		found, _, err := c.questions(ctx, v, filterOf(of), pageRows)
		return versionOf(found), err
	case q.Has("question"):
		l, err := c.load(ctx, v, q.Get("question"))
		if err != nil {
			return "", err
		}
		told, err := c.storyOf(ctx, l)
		return version(l) + "." + told.version(), err
	case q.Has("call"):
		id := record.CallID(q.Get("call"))
		if !record.ValidID("call", string(id)) {
			return "", absent()
		}
		l, err := c.o.Reader.Call(ctx, v.person.Tenant(), id)
		if err == nil && !v.sees(l) {
			err = absent()
		}
		if err != nil {
			return "", hide(err)
		}
		return version(l), nil
	case q.Has("run"):
		return c.runNow(ctx, v, record.RunID(q.Get("run")))
	}
	return "", absent()
}

// runNow is for who saw the run's page. A version tells no more than that
// something of the run moved.
func (c *Console) runNow(ctx context.Context, v viewer, id record.RunID) (string, error) {
	if !record.ValidID("run", string(id)) {
		return "", absent()
	}
	run, err := c.o.Reader.Run(ctx, v.person.Tenant(), id)
	if err != nil {
		return "", hide(err)
	}
	calls, err := c.o.Reader.Calls(ctx, dispatch.CallQuery{Tenant: v.person.Tenant(), Run: id, Limit: maxTimeline})
	if err != nil {
		return "", err
	}
	ok := v.Reads()
	for i := 0; i < len(calls) && !ok; i++ {
		if calls[i].Approval != "" {
			l, err := c.o.Reader.Call(ctx, v.person.Tenant(), calls[i].ID)
			ok = err == nil && v.sees(l)
		}
	}
	if !ok {
		return "", absent()
	}
	return runVersion(run, calls), nil
}

// stream writes server-sent events.
type stream struct {
	to      http.ResponseWriter
	control *http.ResponseController
}

const writeTimeout = 10 * time.Second

// send reports whether somebody still listens.
func (s *stream) send(frame string) bool {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer has deadlines
	if _, err := s.to.Write([]byte(frame)); err != nil {
		return false
	}
	return s.control.Flush() == nil
}
