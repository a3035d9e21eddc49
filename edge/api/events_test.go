package api

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/identity"
)

func TestEventsShowNoMoreThanIsYours(t *testing.T) {
	h := newHouse(t)
	o := h.things()
	for _, e := range h.events("") {
		if strings.Contains(string(e.Body), "ord_1001") || strings.Contains(string(e.Body), "1200.00") {
			t.Errorf("an event holds an argument's value: %s", e.Body)
		}
	}
	h.want(h.do(h.anna(), "GET", "/v1/events", ""), 403, "forbidden")
	h.want(h.do(h.lena(), "GET", "/v1/events", ""), 403, "forbidden")
	h.want(h.do(h.lena(), "GET", "/v1/events?run="+o.run, ""), 403, "forbidden")
	mine := h.do(h.anna(), "GET", "/v1/events?call="+o.call, "")
	for _, secret := range []string{`"private"`, `"place"`, `"rule"`, "decided_by", "binding", "idempotency_key"} {
		if strings.Contains(mine.body, secret) {
			t.Errorf("the caller reads %s: %s", secret, mine.body)
		}
	}
	if !strings.Contains(mine.body, `"kind":"approval_requested"`) || !strings.Contains(mine.body, "anna") {
		t.Errorf("the caller's own events: %s", mine.body)
	}
	if asked := h.do(h.lena(), "GET", "/v1/events?call="+o.call, ""); asked.status != 200 || !strings.Contains(asked.body, `"kind":"approval_requested"`) {
		t.Errorf("the approver's: %d %s", asked.status, asked.body)
	}
	if all := h.do(h.login("sec", "acme", "security"), "GET", "/v1/events", ""); !strings.Contains(all.body, `"binding"`) || !strings.Contains(all.body, o.call) {
		t.Errorf("the reader's: %s", all.body)
	}
	if all := h.do(h.login("sec", "globex", "security"), "GET", "/v1/events", ""); all.get("events") != "[]" {
		t.Errorf("another tenant's: %s", all.body)
	}
}

func TestEventsGoOnFromNext(t *testing.T) {
	h := newHouse(t)
	o := h.things()
	first := h.do(h.anna(), "GET", "/v1/events?limit=1&call="+o.call, "")
	second := h.do(h.anna(), "GET", "/v1/events?limit=1&call="+o.call+"&after="+first.get("next"), "")
	if first.get("next") == second.get("next") || second.get("events") == "[]" {
		t.Errorf("first %s\nsecond %s", first.body, second.body)
	}
}

// follow opens a stream and sends its lines.
func (h *house) follow(ctx context.Context, w who, query string) <-chan string {
	h.t.Helper()
	return h.stream(ctx, w, "/v1/events/stream?"+query)
}

func (h *house) stream(ctx context.Context, w who, path string) <-chan string {
	h.t.Helper()
	req, err := http.NewRequestWithContext(ctx, "GET", h.url+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	for name, value := range w {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		h.t.Fatalf("stream: %d %v", resp.StatusCode, resp.Header)
	}
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		defer resp.Body.Close()
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return lines
}

// until reads lines until one starts with a text, and fails if none comes.
func until(t *testing.T, lines <-chan string, prefix string) string {
	t.Helper()
	timeout := time.After(10 * time.Second)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("the stream ended before %q", prefix)
			}
			if strings.HasPrefix(line, prefix) {
				return line
			}
		case <-timeout:
			t.Fatalf("no %q", prefix)
		}
	}
}

func TestStreamFollowsAndResumes(t *testing.T) {
	h := newHouse(t)
	o := h.things()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	lines := h.follow(ctx, h.anna(), "call="+o.call)
	until(t, lines, "event: proposed")
	until(t, lines, "event: approval_requested")
	h.do(h.lena(), "POST", "/v1/approvals/"+o.approval+"/approve", `{"binding":"`+o.binding+`"}`)
	id := strings.TrimPrefix(until(t, lines, "id: "), "id: ")
	h.want(h.do(h.anna(), "POST", "/v1/calls/"+o.call+"/dispatch", ""), 200, "")
	until(t, lines, "event: succeeded")
	resumed := h.follow(ctx, h.anna().with(who{"Last-Event-ID": id}), "call="+o.call)
	if line := until(t, resumed, "event: "); line == "event: proposed" {
		t.Error("a resumed stream starts over")
	}
	until(t, resumed, "event: succeeded")
}

func TestStreamEndsWithItsCredential(t *testing.T) {
	h := newHouse(t)
	o := h.things()
	short := h.token(identity.TokenSpec{Audience: proposing, Subject: "anna", Tenant: "acme", Agent: "bot", TTL: time.Minute})
	lines := h.follow(context.Background(), short, "call="+o.call)
	until(t, lines, "event: proposed")
	h.offset.Add(int64(2 * time.Minute))
	timeout := time.After(10 * time.Second)
	for {
		select {
		case _, ok := <-lines:
			if !ok {
				return
			}
		case <-timeout:
			t.Fatal("the stream outlives its token")
		}
	}
}

func TestStreamEndsInAnyCase(t *testing.T) {
	h := newHouse(t, func(o *Options) { o.Stream = 50 * time.Millisecond })
	o := h.things()
	for range h.follow(context.Background(), h.anna(), "call="+o.call) {
	}
}
