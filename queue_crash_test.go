package placet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/credential/issuertest"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/local"
)

// crashClock is a clock that the test sets ahead by what it writes into a file.
func crashClock(dir string) func() time.Time {
	return func() time.Time {
		text, err := os.ReadFile(filepath.Join(dir, "ahead"))
		if err != nil {
			return time.Now()
		}
		ahead, _ := time.ParseDuration(string(text)) // of a text that the test wrote
		return time.Now().Add(ahead)
	}
}

// queueTools are left to the queue. Each writes the key and the attempt into the ledger,
// on the disk before it answers: one does it, one loses the answer of its first attempt
// and may be tried again, one loses every answer, one refuses.
func queueTools(dir string) (out []Tool) {
	for name, t := range map[string]struct {
		retry  registry.Retry
		answer func(attempt int) error
	}{
		"later": {registry.RetryNever, func(int) error { return nil }},
		"again": {registry.RetryIdempotent, func(attempt int) error {
			if attempt == 1 {
				return errors.New("the connection was lost")
			}
			return nil
		}},
		"lost":    {registry.RetryNever, func(int) error { return errors.New("the connection was lost") }},
		"refuses": {registry.RetryNever, func(int) error { return local.ErrRefused }},
	} {
		out = append(out, Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`),
			Entry: registry.Entry{Scope: "pay", Write: true, Sources: []registry.SourceName{"direct"}, Retry: &t.retry, Dispatch: registry.DispatchQueued,
				Approval: registry.Asking{When: registry.Asked}},
			Handler: func(_ context.Context, c local.Call) (json.RawMessage, error) {
				f, err := os.OpenFile(filepath.Join(dir, "ledger"), os.O_APPEND|os.O_CREATE|os.O_WRONLY|os.O_SYNC, 0o600)
				if err != nil {
					return nil, err
				}
				defer f.Close()
				if _, err := fmt.Fprintf(f, "%s:%d\n", c.Key, c.Attempt); err != nil {
					return nil, err
				}
				return json.RawMessage(`{"content":[]}`), t.answer(c.Attempt)
			}})
	}
	return out
}

// queueing is a server whose process dies once, beside an issuer that lives on and is
// asked for anna while she is away.
type queueing struct {
	*crashing
	idp   *issuertest.Provider
	ahead time.Duration
	run   string // holds the delegation
}

func newQueueing(t *testing.T) *queueing {
	t.Helper()
	q := &queueing{crashing: newCrashing(t), idp: issuertest.New(t)}
	q.idp.SetLife(12 * time.Hour)
	q.idp.SetUser("anna", &issuertest.User{Scopes: []string{"pay"}, Tenant: "dev"})
	q.idp.SetClient("placet", issuertest.Client{Secret: "secret-of-placet"})
	q.bearer["anna"] = q.idp.Token(t, issuertest.Login{User: "anna", Agent: "bot", Audience: q.url + "/mcp", Scopes: []string{"pay"}, Life: 12 * time.Hour})
	secret := filepath.Join(q.dir, "secret")
	for name, text := range map[string]string{"secret": "secret-of-placet", "placet.yaml": "version: 1\nenvironment: test\npublic_url: " + q.url +
		"\nstore: sqlite:state.db\nregistry: [tools.yaml]\nissuers:\n  - {issuer: \"" + q.idp.URL + "\", algorithms: [RS256], tenant: dev, claims: {groups: groups}, max_token_age: 12h, " +
		"delegation: {client_id: placet, client_secret: \"file:" + secret + "\", max: 12h}}\n"} {
		if err := os.WriteFile(filepath.Join(q.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return q
}

// silent has the issuer give no tokens, or give them again.
func (q *queueing) silent(is bool) {
	if !is {
		q.idp.Before(nil)
		return
	}
	q.idp.Before(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
}

// delegates has the run go on while anna is away, and wakes the server's clock.
func (q *queueing) delegates() {
	var out struct{}
	until := time.Now().Add(q.ahead + 6*time.Hour).UTC().Format(time.RFC3339)
	q.ask("anna", http.MethodPost, "/v1/runs/"+q.run+"/delegation", `{"until":"`+until+`"}`, &out)
}

// pass sets the server's clock ahead.
func (q *queueing) pass(d time.Duration) {
	q.ahead += d
	file := filepath.Join(q.dir, "ahead")
	err := os.WriteFile(file+".new", []byte(q.ahead.String()), 0o600)
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		q.t.Fatal(err)
	}
	q.delegates()
}

// queuedCall is a call of the queue as its agent sees it.
type queuedCall struct {
	Run     string
	State   record.State
	Attempt int
	Again   *time.Time `json:"again_at"`
}

func (q *queueing) look(call string) (v queuedCall) {
	q.ask("anna", http.MethodGet, "/v1/calls/"+call, "", &v)
	return v
}

// proposes leaves a call to the queue, in the run that holds the delegation or in a new one.
func (q *queueing) proposes(tool string) string {
	body := fmt.Sprintf(`{"tool":%q,"arguments":{}}`, tool)
	if q.run != "" {
		body = fmt.Sprintf(`{"run":%q,"tool":%q,"arguments":{}}`, q.run, tool)
	}
	var a crashAnswer
	q.ask("anna", http.MethodPost, "/v1/calls", body, &a)
	return a.Call
}

// was reports whether the log has an event of a call.
func (q *queueing) was(call, kind string) bool {
	var page struct{ Events []struct{ Kind string } }
	q.ask("anna", http.MethodGet, "/v1/events?call="+call, "", &page)
	return slices.ContainsFunc(page.Events, func(e struct{ Kind string }) bool { return e.Kind == kind })
}

func (q *queueing) sees(what string, there func() bool) {
	q.t.Helper()
	ctx, cancel := context.WithTimeout(q.t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !there() {
		if q.t.Failed() {
			q.t.FailNow()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			q.t.Fatalf("%s never came", what)
		}
	}
}

// died returns at which write the process died, and after how many attempts of the call.
func (q *queueing) died() (written string, attempt int, died bool) {
	text, err := os.ReadFile(filepath.Join(q.dir, "point"))
	if err != nil {
		return "", 0, false
	}
	number, err := os.ReadFile(filepath.Join(q.dir, "attempt"))
	if err == nil {
		attempt, err = strconv.Atoi(string(number))
	}
	if err != nil && !os.IsNotExist(err) {
		q.t.Error(err)
	}
	return string(text), attempt, true
}

// lost reports whether the process died between an attempt's reservation and its outcome.
func (q *queueing) lost(when string) (attempt int, lost bool) {
	written, attempt, died := q.died()
	if !died {
		return 0, false
	}
	if when == "after" {
		return attempt, strings.Contains(written, string(record.EventExecuting))
	}
	for _, kind := range []record.EventKind{record.EventSucceeded, record.EventFailed, record.EventUnknown} {
		if slices.Contains(strings.Fields(written), string(kind)) {
			return attempt, true
		}
	}
	return 0, false
}

// settles lets time pass until the queue is done with a call: to its next try, and over
// the lease of an attempt that died with its process.
func (q *queueing) settles(call, when string) (v queuedCall) {
	q.sees("an end of the call", func() bool {
		v = q.look(call)
		if v.State == record.Unknown && v.Again == nil && q.was(call, "parked") {
			q.delegates() // anna's agent comes back, and leaves again
			return false
		}
		if v.State.Terminal() || v.State == record.Unknown && v.Again == nil {
			return true
		}
		attempt, lost := q.lost(when)
		if v.State == record.Executing && lost && v.Attempt == attempt {
			q.pass(2 * time.Minute)
		} else if v.Again != nil {
			if wait := time.Until(v.Again.Add(-q.ahead)); wait > 0 {
				q.pass(wait + 11*time.Second) // a process leaves alone for ten what a silent issuer held back
			}
		}
		return false
	})
	return v
}

// queueScenario is a way through the queue.
type queueScenario struct {
	name   string
	play   func(q *queueing, point string) (call string)
	ends   record.State // unless the process died within an attempt
	tries  int
	writes []string // the kinds of writes to die at that must be met, by an event of each
}

var queueScenarios = []queueScenario{
	{name: "queued, and run under a delegation", ends: record.Succeeded, tries: 1,
		writes: []string{"queued", "delegated", "delegation_used", "executing", "succeeded"},
		play: func(q *queueing, point string) string {
			q.start(point)
			call := q.proposes("later")
			q.run = q.look(call).Run
			q.delegates()
			return call
		}},
	{name: "put off, lost, and tried again", ends: record.Succeeded, tries: 2,
		writes: []string{"queued", "limited", "delegation_used", "executing", "unknown", "succeeded"},
		play: func(q *queueing, point string) string {
			q.start("|")
			q.run = q.opens()
			q.delegates()
			q.silent(true)
			q.restart("v1", point)
			call := q.proposes("again")
			q.sees("that it is put off", func() bool { return q.was(call, "limited") })
			q.silent(false)
			return call
		}},
	{name: "lost, and dead", ends: record.Unknown, tries: 1, writes: []string{"queued", "executing", "unknown"},
		play: func(q *queueing, point string) string { return q.begins("lost", point) }},
	{name: "failed, and dead", ends: record.Failed, tries: 1, writes: []string{"queued", "executing", "failed"},
		play: func(q *queueing, point string) string { return q.begins("refuses", point) }},
}

func (q *queueing) opens() string {
	var run struct{ ID string }
	q.ask("anna", http.MethodPost, "/v1/runs", "{}", &run)
	return run.ID
}

// begins has a run with a delegation, and then the process that dies.
func (q *queueing) begins(tool, point string) string {
	q.start("|")
	q.run = q.opens()
	q.delegates()
	q.restart("v1", point)
	return q.proposes(tool)
}

// TestQueueCrashPoints kills the real process before and after every durable write on the
// way of a queued call. Afterwards it is done once, or its outcome is not known; nothing
// of it waits; no attempt is made twice, and no further time makes another.
func TestQueueCrashPoints(t *testing.T) {
	for _, s := range queueScenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			met := map[string]bool{}
			for n := 1; ; n++ {
				died := false
				for _, when := range []string{"before", "after"} {
					t.Run(fmt.Sprintf("%s write %d", when, n), func(t *testing.T) {
						written, end := s.crash(t, n, when)
						died = died || end
						for _, kind := range strings.Fields(written) {
							met[kind] = true
						}
					})
				}
				if !died || testing.Short() && n == 2 {
					break
				}
			}
			for _, kind := range s.writes {
				if !met[kind] && !testing.Short() {
					t.Errorf("the process never died at the write of %s, but at %v", kind, met)
				}
			}
		})
	}
}

func (s queueScenario) crash(t *testing.T, n int, when string) (written string, died bool) {
	q := newQueueing(t)
	call := s.play(q, fmt.Sprintf("%d|%s", n, when))
	v := q.settles(call, when)
	written, _, died = q.died()
	attempt, lost := q.lost(when)
	ledger := q.ledger()
	told := fmt.Sprintf("%s %q: %s after %d attempts, the ledger holds %q", when, written, v.State, v.Attempt, ledger)

	ends := s.ends
	switch {
	case when == "before" && strings.Contains(written, string(record.EventDelegationUsed)):
		// The issuer was asked, and what it gave for the next time is lost: it says no from
		// then on. What has not run is denied; what is not known waits for its agent.
		if v.Attempt == 0 {
			ends = record.Denied
		}
	case lost && s.tries == 1: // and may not be tried again
		ends = record.Unknown
	}
	if v.State != ends || v.Again != nil || !died && v.Attempt != s.tries {
		t.Errorf("%s; want %s", told, ends)
	}
	var want []string // each attempt once, but the one that was reserved and not begun
	for n := range v.Attempt {
		if !lost || when == "before" || n+1 != attempt {
			key, _, _ := strings.Cut(strings.Join(ledger, " "), ":")
			want = append(want, fmt.Sprintf("%s:%d", key, n+1))
		}
	}
	if !slices.Equal(ledger, want) {
		t.Errorf("%s; want %q", told, want)
	}

	if t.Failed() {
		return written, died
	}
	var dead struct{ Calls []struct{ ID string } }
	q.ask("anna", http.MethodGet, "/v1/calls?dead=true", "", &dead)
	if listed := len(dead.Calls) == 1 && dead.Calls[0].ID == call; listed != (v.State != record.Succeeded) {
		t.Errorf("%s; dead are %v", told, dead.Calls)
	}
	q.pass(time.Hour)
	if again := q.look(call); again.State != v.State || again.Attempt != v.Attempt || !slices.Equal(q.ledger(), ledger) {
		t.Errorf("%s; an hour later it is %s after %d attempts, and the ledger holds %q", told, again.State, again.Attempt, q.ledger())
	}
	return written, died
}
