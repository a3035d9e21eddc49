package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/placet-dev/placet/edge/feed"
	"github.com/placet-dev/placet/record"
)

// maxStreams is how many streams one caller, person or reader may have open.
const maxStreams = 16

// streams counts those that are open, by who listens.
type streams struct {
	mu   sync.Mutex
	open map[string]int
}

// enter counts one more; leave takes it back.
func (s *streams) enter(who string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[who] >= maxStreams {
		return nil, record.Errorf(record.Limited, "%d streams are open for you; close one", maxStreams)
	}
	if s.open == nil {
		s.open = map[string]int{}
	}
	s.open[who]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[who]--; s.open[who] == 0 {
			delete(s.open, who)
		}
	}, nil
}

// name is whose streams are counted together.
func (v viewer) name() string {
	tenant := string(v.tenant()) + "\n"
	switch {
	case v.caller.Valid():
		o := v.caller.Owner()
		return "caller\n" + tenant + o.Principal.String() + "\n" + string(o.Agent)
	case v.reader.Valid():
		return "reader\n" + tenant + v.reader.Name()
	}
	return "person\n" + tenant + v.person.Principal().String()
}

// expires is when the viewer's token ends; zero: it does not say.
func (v viewer) expires() time.Time {
	switch {
	case v.caller.Valid():
		return v.caller.Expires()
	case v.person.Valid():
		return v.person.Expires()
	}
	return time.Time{}
}

// bounded ends with the time of a stream, and with the token.
func (d *door) bounded(ctx context.Context, v viewer) (context.Context, context.CancelFunc) {
	most := d.stream
	if end := v.expires(); !end.IsZero() {
		most = min(most, end.Sub(d.now()))
	}
	return context.WithTimeout(ctx, most)
}

// stream is an answer that goes on: server-sent events, for as long as the
// credential counts.
type stream struct {
	door     *door
	to       http.ResponseWriter
	control  *http.ResponseController
	follower *feed.Follower
	again    func(context.Context) (viewer, bool) // who listens, verified now
	viewer   viewer                               // as of the last time
}

// streamed makes a stream. send is called at once, and whenever a call of the
// tenant, or the one that is named, has moved.
func (d *door) streamed(ctx context.Context, call record.CallID, send func(context.Context, *stream) error) *huma.StreamResponse {
	v, creds := watcher(ctx), credentials(ctx)
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		leave, err := d.streams.enter(v.name())
		if err != nil {
			d.refuse(hctx, err)
			return
		}
		defer leave()
		r, w := humago.Unwrap(hctx)
		ctx, cancel := d.bounded(r.Context(), v)
		defer cancel()
		follower, err := d.feed.Follow(ctx, v.tenant(), call)
		if err != nil {
			d.refuse(hctx, err)
			return
		}
		defer follower.Close()
		s := &stream{door: d, to: w, control: http.NewResponseController(w), follower: follower, viewer: v,
			again: func(ctx context.Context) (viewer, bool) { return d.still(ctx, creds, v) }}
		if err := s.run(ctx, func() error { return send(ctx, s) }); err != nil {
			d.log.Debug("a stream ended", "error", err)
		}
	}}
}

// run returns when the client leaves, the time is up, a write fails or the
// credential no longer counts: it is verified before anything is sent, and at every
// sign of life.
func (s *stream) run(ctx context.Context, send func() error) error {
	s.to.Header().Set("Content-Type", "text/event-stream")
	s.to.WriteHeader(http.StatusOK)
	beat := time.NewTicker(s.door.beat)
	defer beat.Stop()
	for due := true; ; {
		var ok bool
		if s.viewer, ok = s.again(ctx); !ok {
			return nil
		}
		var err error
		if due {
			err = send()
		} else {
			err = s.write([]byte(": \n\n")) // a comment finds out whether anybody still listens
		}
		if err == nil {
			err = s.control.Flush()
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.follower.C:
			due = true
		case <-beat.C:
			due = false
		}
	}
}

// send writes one event.
func (s *stream) send(seq int64, kind string, body any) error {
	text, err := encode(body)
	if err != nil {
		return err
	}
	return s.write(slices.Concat([]byte("id: "+strconv.FormatInt(seq, 10)+"\nevent: "+kind+"\ndata: "), text, []byte("\n\n")))
}

const writeTimeout = 10 * time.Second

func (s *stream) write(frame []byte) error {
	// Not every writer has deadlines; then the server's own count.
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := s.to.Write(frame)
	return err
}

// poll holds a request, at most for so many seconds, until done says that there is
// something to answer. It reports whether the viewer still is who they were: whoever
// waited is verified again. The answer is made under a context that outlives the
// wait, so that a server that stops still gives it.
func (d *door) poll(ctx context.Context, v viewer, w *feed.Follower, seconds int, done func([]feed.Item) bool) (viewer, error) {
	wait, stop := d.bounded(ctx, v)
	defer stop()
	timer := time.NewTimer(time.Duration(seconds) * time.Second)
	defer timer.Stop()
	for over := false; !over; {
		select {
		case <-wait.Done():
			over = true
		case <-timer.C:
			over = true
		case <-w.C:
			items, lost := w.Take()
			over = lost || done(items)
		}
	}
	now, ok := d.still(context.WithoutCancel(ctx), credentials(ctx), v)
	if !ok {
		return now, nobody()
	}
	return now, nil
}
