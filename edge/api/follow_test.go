package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
		time.Sleep(time.Millisecond)
	}
}

// sees reads events until one is of an approval in a state, and returns its id.
func sees(t *testing.T, lines <-chan string, approval, state string) string {
	t.Helper()
	for {
		id := strings.TrimPrefix(until(t, lines, "id: "), "id: ")
		var v ApprovalView
		if err := json.Unmarshal([]byte(strings.TrimPrefix(until(t, lines, "data: "), "data: ")), &v); err != nil {
			t.Fatal(err)
		}
		if string(v.ID) == approval && string(v.State) == state {
			return id
		}
	}
}

// another asks a question with values of its own.
func (h *house) another(amount string) things {
	h.t.Helper()
	r := h.want(h.do(h.anna(), "POST", "/v1/calls", strings.Replace(askingBody, "1200.00", amount, 1)), 202, "above_limit")
	o := things{run: r.get("run"), call: r.get("call"), approval: r.get("approval")}
	o.binding = h.do(h.lena(), "GET", "/v1/approvals/"+o.approval, "").get("binding")
	return o
}

func TestQuestionsAreFollowed(t *testing.T) {
	h := newHouse(t)
	o := h.things()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	lena, anna := h.stream(ctx, h.lena(), "/v1/approvals/events"), h.stream(ctx, h.anna(), "/v1/approvals/events")
	others := []<-chan string{
		h.stream(ctx, h.login("lena", "globex", "leads"), "/v1/approvals/events"), h.stream(ctx, h.login("carl", "acme", "support"), "/v1/approvals/events"),
		h.stream(ctx, h.agent("bert", "acme"), "/v1/approvals/events"),
	}
	for _, lines := range append([]<-chan string{lena, anna}, others...) {
		if lines == lena || lines == anna {
			sees(t, lines, o.approval, "pending")
		}
		until(t, lines, "event: ready")
	}
	second := h.another("700.00")
	sees(t, lena, second.approval, "pending")
	sees(t, anna, second.approval, "pending")
	h.do(h.lena(), "POST", "/v1/approvals/"+o.approval+"/approve", `{"binding":"`+o.binding+`"}`)
	id := sees(t, lena, o.approval, "approved")
	h.want(h.do(h.anna(), "POST", "/v1/calls/"+o.call+"/dispatch", ""), 200, "")
	sees(t, lena, o.approval, "consumed")
	sees(t, anna, o.approval, "consumed")
	h.effects(1)

	// Whoever comes back gets what moved since, and not what waits.
	back := h.stream(ctx, h.lena().with(who{"Last-Event-ID": id}), "/v1/approvals/events")
	sees(t, back, o.approval, "consumed")
	if line := until(t, back, "event: "); line != "event: ready" {
		t.Errorf("%s after all that moved", line)
	}
	// A number of another log starts over.
	far := h.stream(ctx, h.lena().with(who{"Last-Event-ID": "999999999"}), "/v1/approvals/events")
	sees(t, far, second.approval, "pending")
	cancel()
	for _, lines := range others {
		for line := range lines {
			if strings.Contains(line, "apr_") {
				t.Errorf("somebody else reads %s", line)
			}
		}
	}
}

// What the agent's side follows names no approver.
func TestFollowingAgentLearnsNoApprover(t *testing.T) {
	h := newHouse(t)
	o := h.things()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	lines := h.stream(ctx, h.anna(), "/v1/approvals/events")
	h.do(h.lena(), "POST", "/v1/approvals/"+o.approval+"/approve", `{"binding":"`+o.binding+`"}`)
	for {
		line := until(t, lines, "data: ")
		if strings.Contains(line, "lena") || strings.Contains(line, "leads") {
			t.Fatalf("told: %s", line)
		}
		if strings.Contains(line, `"approved"`) {
			return
		}
	}
}

func TestStreamsAreBoundedAndLeaveNothing(t *testing.T) {
	h := newHouse(t)
	h.things()
	h.do(h.lena(), "GET", "/v1/approvals", "")
	http.DefaultClient.CloseIdleConnections()
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range maxStreams {
		until(t, h.stream(ctx, h.lena(), "/v1/approvals/events"), "event: ready")
	}
	h.want(h.do(h.lena(), "GET", "/v1/approvals/events", ""), 429, "limited")
	h.want(h.do(h.lena(), "GET", "/v1/approvals?state=void&wait=1", ""), 429, "limited")
	mia, leave := context.WithCancel(ctx)
	until(t, h.stream(mia, h.login("mia", "acme", "leads"), "/v1/approvals/events"), "event: ready") // somebody else has their own
	leave()
	cancel()
	eventually(t, "the goroutines of closed streams end", func() bool {
		http.DefaultClient.CloseIdleConnections()
		return runtime.NumGoroutine() <= before
	})
	again, stop := context.WithCancel(context.Background())
	defer stop()
	until(t, h.stream(again, h.lena(), "/v1/approvals/events"), "event: ready")
}

func TestQuestionStreamEndsWithItsCredential(t *testing.T) {
	h := newHouse(t)
	h.things()
	short := h.token(identity.TokenSpec{Audience: answering, Subject: "lena", Tenant: "acme", Groups: []string{"leads"}, TTL: time.Minute})
	lines := h.stream(context.Background(), short, "/v1/approvals/events")
	until(t, lines, "event: ready")
	h.offset.Add(int64(2 * time.Minute))
	h.another("700.00")
	for line := range lines {
		if strings.Contains(line, "700.00") {
			t.Fatalf("a token that is over reads %s", line)
		}
	}
}

// waits starts a request that is held, and sends its answer.
func (h *house) waits(w who, path string) <-chan reply {
	out := make(chan reply, 1)
	go func() { out <- h.do(w, "GET", path, "") }()
	return out
}

func (h *house) held(answer <-chan reply) {
	h.t.Helper()
	select {
	case r := <-answer:
		h.t.Fatalf("it was not held: %d %s", r.status, r.body)
	case <-time.After(50 * time.Millisecond):
	}
}

func TestLongPoll(t *testing.T) {
	h := newHouse(t)
	empty := h.waits(h.lena(), "/v1/approvals?state=pending&wait=30")
	h.held(empty)
	o := h.things()
	page := <-empty
	if page.status != 200 || !strings.Contains(page.body, o.approval) || page.get("version") == "" {
		t.Fatalf("%d %s", page.status, page.body)
	}
	// With a version that is another one, and without wait, the answer is there at once.
	if r := h.do(h.lena(), "GET", "/v1/approvals?state=pending&wait=30&version=other", ""); r.get("version") != page.get("version") {
		t.Errorf("version %s, then %s", page.get("version"), r.get("version"))
	}
	one := h.do(h.lena(), "GET", "/v1/approvals/"+o.approval, "")
	list := h.waits(h.lena(), "/v1/approvals?state=pending&wait=30&version="+page.get("version"))
	question := h.waits(h.lena(), "/v1/approvals/"+o.approval+"?wait=30&version="+one.get("version"))
	call := h.waits(h.anna(), "/v1/calls/"+o.call+"?wait=30")
	h.held(list)
	h.held(question)
	h.held(call)
	h.another("700.00")
	if r := <-list; r.status != 200 || r.get("version") == page.get("version") {
		t.Errorf("the list: %d %s", r.status, r.body)
	}
	h.held(question)
	h.held(call)
	h.do(h.lena(), "POST", "/v1/approvals/"+o.approval+"/approve", `{"binding":"`+o.binding+`"}`)
	if r := <-question; r.get("state") != "approved" || r.get("outcome") == "" {
		t.Errorf("the question: %s", r.body)
	}
	if r := <-call; r.status != 200 || !strings.Contains(r.get("text"), "it is given now") {
		t.Errorf("the call: %s", r.body)
	}
	h.effects(0)
	h.want(h.do(h.anna(), "POST", "/v1/calls/"+o.call+"/dispatch", ""), 200, "")
	h.effects(1)
	// Nothing new: the answer is what there was, after the time that was asked for.
	if r := h.do(h.lena(), "GET", "/v1/approvals/"+o.approval+"?wait=1", ""); r.status != 200 || r.get("state") != "consumed" || r.get("settled") != "true" {
		t.Errorf("%d %s", r.status, r.body)
	}
	h.want(h.do(h.lena(), "GET", "/v1/approvals?wait=61", ""), 400, "invalid")
	h.want(h.do(h.login("carl", "acme", "support"), "GET", "/v1/approvals/"+o.approval+"?wait=30", ""), 404, "not_found")
	h.want(h.do(h.agent("bert", "acme"), "GET", "/v1/calls/"+o.call+"?wait=30", ""), 404, "not_found")
}

// Whoever waited is verified again: news is not for a token that is over.
func TestLongPollVerifiesAgain(t *testing.T) {
	h := newHouse(t)
	o := h.things()
	short := h.token(identity.TokenSpec{Audience: answering, Subject: "lena", Tenant: "acme", Groups: []string{"leads"}, TTL: time.Minute})
	answer := h.waits(short, "/v1/approvals/"+o.approval+"?wait=30")
	h.held(answer)
	h.offset.Add(int64(2 * time.Minute))
	h.do(h.lena(), "POST", "/v1/approvals/"+o.approval+"/approve", `{"binding":"`+o.binding+`"}`)
	h.want(<-answer, 401, "unauthenticated")
}

// counted counts what is read.
type counted struct {
	Reader
	calls, events atomic.Int64
}

func (c *counted) Call(ctx context.Context, t record.TenantID, id record.CallID) (dispatch.Loaded, error) {
	c.calls.Add(1)
	return c.Reader.Call(ctx, t, id)
}

func (c *counted) Events(ctx context.Context, q dispatch.EventQuery) ([]record.Event, error) {
	c.events.Add(1)
	return c.Reader.Events(ctx, q)
}

// A change is read once, however many wait; and while nothing changes, nothing is read.
func TestOneFeedForAllWhoWait(t *testing.T) {
	var c *counted
	h := newHouse(t, func(o *Options) { c = &counted{Reader: o.Reader}; o.Reader = c })
	o := h.things()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	const many = 60
	var all []<-chan string
	for n := range many {
		all = append(all, h.stream(ctx, h.login(fmt.Sprint("lead-", n), "acme", "leads"), "/v1/approvals/events"))
	}
	for _, lines := range all {
		until(t, lines, "event: ready")
	}
	calls, events := c.calls.Load(), c.events.Load()
	time.Sleep(50 * time.Millisecond) // some beats of every stream
	if c.calls.Load() != calls || c.events.Load() != events {
		t.Errorf("%d calls and %d pages of the log were read while nothing changed", c.calls.Load()-calls, c.events.Load()-events)
	}
	h.do(h.lena(), "POST", "/v1/approvals/"+o.approval+"/approve", `{"binding":"`+o.binding+`"}`)
	for _, lines := range all {
		sees(t, lines, o.approval, "approved")
	}
	if read := c.calls.Load() - calls; read > 3 {
		t.Errorf("one answer made %d reads of its call for %d listeners", read, many)
	}
}
