package api

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/record"
)

const askingBody = `{"tool":"refund","arguments":{"order":"ord_1001","amount":"1200.00"},"purpose":"the customer asked"}`

func TestCallRunsOnceAndItsResultIsUntouched(t *testing.T) {
	h := newHouse(t)
	anna := h.anna()
	r := h.want(h.do(anna, "POST", "/v1/calls", `{"tool":"note","arguments":{"order":"a"}}`), 200, "")
	if !strings.Contains(r.body, resultText) {
		t.Errorf("the result changed on its way: %s", r.body)
	}
	if r.get("state") != "succeeded" || r.get("ran") != "true" || r.get("verdict") != "allow" {
		t.Errorf("answer: %s", r.body)
	}
	h.effects(1)
	// Equal, without a key: the recorded result (rule A7).
	again := h.want(h.do(anna, "POST", "/v1/calls", `{"arguments":{"order":"a"}, "tool":"note"}`), 200, "already_done")
	if again.get("call") != r.get("call") || again.get("ran") != "false" || !strings.Contains(again.body, resultText) {
		t.Errorf("repeat: %s", again.body)
	}
	h.effects(1)
	shown := h.do(anna, "GET", "/v1/calls/"+r.get("call"), "")
	if shown.status != 200 || !strings.Contains(shown.body, resultText) || shown.get("arguments") != `{"order":"a"}` {
		t.Errorf("shown: %s", shown.body)
	}
}

// What undoes a call is named to readers and operators, for calls that had their
// effect or may have had it. Nobody proposes it.
func TestWhatUndoesACall(t *testing.T) {
	h := newHouse(t)
	done := h.want(h.do(h.anna(), "POST", "/v1/calls", `{"tool":"note","arguments":{"order":"a"}}`), 200, "")
	open := h.want(h.do(h.anna(), "POST", "/v1/calls", `{"tool":"note","arguments":{"order":"b"},"dispatch":false}`), 200, "")
	named := `"compensate":"slow"`
	for _, w := range []who{h.login("otto", "acme", "security"), h.key("ops")} {
		if r := h.do(w, "GET", "/v1/calls/"+done.get("call"), ""); r.status != 200 || !strings.Contains(r.body, named) {
			t.Errorf("%d %s", r.status, r.body)
		}
		if r := h.do(w, "GET", "/v1/calls/"+open.get("call"), ""); r.status != 200 || strings.Contains(r.body, named) {
			t.Errorf("nothing happened yet: %d %s", r.status, r.body)
		}
	}
	if r := h.do(h.anna(), "GET", "/v1/calls/"+done.get("call"), ""); r.status != 200 || strings.Contains(r.body, named) {
		t.Errorf("the agent is told: %d %s", r.status, r.body)
	}
	lost := h.do(h.anna(), "POST", "/v1/calls", `{"tool":"lost","arguments":{"order":"c"}}`)
	if r := h.do(h.key("ops"), "GET", "/v1/calls/"+lost.get("call"), ""); r.get("state") != "unknown" || !strings.Contains(r.body, `"compensate":"note"`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	h.effects(2)
}

func TestRule_A5_IdempotencyKeyIsTheOccurrence(t *testing.T) {
	h := newHouse(t)
	body := `{"tool":"note","arguments":{"order":"a"}}`
	first := h.want(h.do(h.anna().with(who{"Idempotency-Key": "k1"}), "POST", "/v1/calls", body), 200, "")
	same := h.want(h.do(h.anna().with(who{"Idempotency-Key": "k1"}), "POST", "/v1/calls", body), 200, "already_done")
	if same.get("call") != first.get("call") {
		t.Errorf("one key, two calls: %s and %s", first.get("call"), same.get("call"))
	}
	h.effects(1)
	other := h.want(h.do(h.anna().with(who{"Idempotency-Key": "k2"}), "POST", "/v1/calls", body), 200, "")
	if other.get("call") == first.get("call") {
		t.Error("another key gave the same call")
	}
	h.effects(2)
	// The same key for something else is a mistake of the caller.
	h.want(h.do(h.anna().with(who{"Idempotency-Key": "k1"}), "POST", "/v1/calls", `{"tool":"note","arguments":{"order":"b"}}`), 400, "invalid_arguments")
	h.effects(2)
}

func TestProposeDoesNotDispatch(t *testing.T) {
	h := newHouse(t)
	r := h.want(h.do(h.anna(), "POST", "/v1/calls", `{"tool":"note","arguments":{"order":"a"},"dispatch":false}`), 200, "")
	if r.get("state") != "dispatch_authorized" || r.get("ran") != "false" {
		t.Fatal(r.body)
	}
	h.effects(0)
	h.want(h.do(h.anna(), "POST", "/v1/calls/"+r.get("call")+"/dispatch", ""), 200, "")
	h.effects(1)
	h.want(h.do(h.anna(), "POST", "/v1/calls/"+r.get("call")+"/dispatch", ""), 200, "already_done")
	h.effects(1)
}

func TestCanceledCallNeverRuns(t *testing.T) {
	h := newHouse(t)
	r := h.want(h.do(h.anna(), "POST", "/v1/calls", `{"tool":"note","arguments":{"order":"a"},"dispatch":false}`), 200, "")
	c := h.do(h.anna(), "POST", "/v1/calls/"+r.get("call")+"/cancel", "")
	if c.status != 200 || c.get("state") != "canceled" {
		t.Fatalf("%d %s", c.status, c.body)
	}
	h.want(h.do(h.anna(), "POST", "/v1/calls/"+r.get("call")+"/dispatch", ""), 409, "canceled")
	h.effects(0)
}

func TestLimitAnswers429(t *testing.T) {
	h := newHouse(t)
	for _, order := range []string{"a", "b"} {
		h.want(h.do(h.anna(), "POST", "/v1/calls", `{"tool":"note","arguments":{"order":"`+order+`"}}`), 200, "")
	}
	body := `{"tool":"note","arguments":{"order":"c"}}`
	r := h.want(h.do(h.anna(), "POST", "/v1/calls", body), 429, "rate_limited")
	if r.header.Get("Retry-After") == "" || r.get("retry_after") == "" || r.get("call") == "" || r.get("state") != "proposed" {
		t.Errorf("limit: %v %s", r.header, r.body)
	}
	h.effects(2)
	h.offset.Add(int64(2 * time.Minute))
	h.want(h.do(h.anna(), "POST", "/v1/calls/"+r.get("call")+"/dispatch", ""), 200, "")
	h.effects(3)
}

func TestDenials(t *testing.T) {
	h := newHouse(t)
	foreign := h.want(h.do(h.anna(), "POST", "/v1/calls", `{"tool":"foreign"}`), 403, "not_available")
	absent := h.want(h.do(h.anna(), "POST", "/v1/calls", `{"tool":"nowhere"}`), 403, "not_available")
	if got := strings.NewReplacer("foreign", "nowhere", foreign.get("call"), absent.get("call")).Replace(foreign.body); got != absent.body {
		t.Errorf("a tool of others and no tool differ:\n%s\n%s", foreign.body, absent.body)
	}
	scope := h.want(h.do(h.anna(), "POST", "/v1/calls", `{"tool":"scoped"}`), 403, "missing_scope")
	if got := scope.header.Get("WWW-Authenticate"); got != `Bearer error="insufficient_scope", scope="rare"` {
		t.Errorf("WWW-Authenticate %q", got)
	}
	bad := h.want(h.do(h.anna(), "POST", "/v1/calls", `{"tool":"note","arguments":{"n":"SECRET-VALUE"}}`), 400, "invalid_arguments")
	if strings.Contains(bad.body, "SECRET-VALUE") {
		t.Errorf("a value is echoed: %s", bad.body)
	}
	for _, r := range []reply{foreign, scope} {
		if !strings.Contains(r.get("detail"), "Nothing ran.") || r.get("verdict") != "deny" {
			t.Errorf("denial: %s", r.body)
		}
	}
	h.effects(0)
}

func TestUnknownOutcomeIsReconciled(t *testing.T) {
	h := newHouse(t)
	r := h.want(h.do(h.anna(), "POST", "/v1/calls", `{"tool":"lost","arguments":{"order":"a"}}`), 202, "outcome_unknown")
	h.effects(1)
	h.want(h.do(h.anna(), "POST", "/v1/calls", `{"tool":"lost","arguments":{"order":"a"}}`), 202, "outcome_unknown")
	h.effects(1)
	path := "/v1/calls/" + r.get("call") + "/reconcile"
	body := `{"outcome":"succeeded","evidence":"entry 7 of the ledger"}`
	h.want(h.do(h.anna(), "POST", path, body), 403, "forbidden")
	h.want(h.do(h.lena(), "POST", path, body), 403, "forbidden")
	h.want(h.do(h.login("eve", "globex", "platform"), "POST", path, body), 404, "not_found")
	h.want(h.do(h.key("ops_globex"), "POST", path, body), 404, "not_found")
	h.want(h.do(h.key("ops"), "POST", path, `{"outcome":"canceled","evidence":"e"}`), 400, "invalid")
	done := h.do(h.key("ops"), "POST", path, body)
	if done.status != 200 || done.get("state") != "succeeded" || !strings.Contains(done.body, "workload/ops") || !strings.Contains(done.body, "entry 7") {
		t.Fatalf("%d %s", done.status, done.body)
	}
	h.want(h.do(h.key("ops"), "POST", path, body), 409, "conflict")
	mine := h.do(h.anna(), "GET", "/v1/calls/"+r.get("call"), "")
	if strings.Contains(mine.body, "entry 7") || strings.Contains(mine.body, `"operators"`) {
		t.Errorf("the caller sees the operators' part: %s", mine.body)
	}
	h.effects(1)
}

// A client that hangs up has not canceled; its next try gets the outcome.
func TestDisconnectDoesNotAbortWhatRuns(t *testing.T) {
	h := newHouse(t)
	body := `{"tool":"slow","arguments":{"order":"a"}}`
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "POST", h.url+"/v1/calls", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.GetBody = nil
	for name, value := range h.anna() {
		req.Header.Set(name, value)
	}
	failed := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		failed <- err
	}()
	<-h.entered
	cancel()
	if err := <-failed; err == nil {
		t.Fatal("the client did not hang up")
	}
	r := h.want(h.do(h.anna(), "POST", "/v1/calls", body), 202, "in_progress")
	close(h.gate)
	if !h.boundary.Await(context.Background(), "acme", record.CallID(r.get("call")), 10*time.Second) {
		t.Fatal("the call did not end")
	}
	h.want(h.do(h.anna(), "POST", "/v1/calls", body), 200, "already_done")
	h.effects(1)
}

func TestHostileBodies(t *testing.T) {
	h := newHouse(t)
	for i, c := range hostile {
		r := h.do(h.anna(), "POST", "/v1/calls", c.body)
		if r.status != 400 {
			t.Errorf("%s: %d %s", c.name, r.status, r.body)
			continue
		}
		h.checkProblem(r)
		if !strings.Contains(r.body, c.why) {
			t.Errorf("%s: the problem does not say %q: %s", c.name, c.why, r.body)
		}
		if strings.Contains(r.body, "9007199254740993") || strings.Contains(r.body, "globex") {
			t.Errorf("%s: a value is echoed: %s", c.name, r.body)
		}
		if got := h.count(record.EventRefused); got != i+1 {
			t.Errorf("%s: %d refusals on record, want %d", c.name, got, i+1)
		}
	}
	h.effects(0)
	if calls := h.do(h.anna(), "GET", "/v1/calls", ""); calls.get("calls") != "[]" {
		t.Errorf("a hostile body made a call: %s", calls.body)
	}
	// The neighbour that works.
	h.want(h.do(h.anna(), "POST", "/v1/calls", ` { "arguments" : { "n" : 9007199254740992 }, "tool" : "note" } `), 200, "")
	h.effects(1)
}

func TestHostileRequests(t *testing.T) {
	h := newHouse(t)
	good := `{"tool":"note","arguments":{"order":"a"}}`
	big := `{"tool":"note","arguments":{"order":"` + strings.Repeat("x", 1<<20) + `"}}`
	for _, c := range []struct {
		name, method, path, body string
		change                   func(http.Header)
		status                   int
		code                     string
	}{
		{"too large", "POST", "/v1/calls", big, nil, 413, "too_large"},
		{"form", "POST", "/v1/calls", "tool=note", set("Content-Type", "application/x-www-form-urlencoded"), 415, "unsupported_media_type"},
		{"problem as a request", "POST", "/v1/calls", good, set("Content-Type", "application/problem+json"), 415, "unsupported_media_type"},
		{"two keys", "POST", "/v1/calls", good, set("Idempotency-Key", "a", "b"), 400, "invalid"},
		{"empty key", "POST", "/v1/calls", good, set("Idempotency-Key", ""), 400, "invalid"},
		{"long key", "POST", "/v1/calls", good, set("Idempotency-Key", strings.Repeat("k", 256)), 400, "invalid"},
		{"two tokens", "POST", "/v1/calls", good, func(h http.Header) { h.Add("Authorization", "Bearer abc") }, 401, "unauthenticated"},
		{"no body", "POST", "/v1/calls", "", nil, 400, "invalid"},
		{"unknown query", "POST", "/v1/calls?tenant=globex", good, nil, 400, "invalid"},
		{"query twice", "GET", "/v1/calls?state=failed&state=unknown", "", nil, 400, "invalid"},
		{"query unreadable", "GET", "/v1/calls?state=%zz", "", nil, 400, "invalid"},
		{"unknown state", "GET", "/v1/calls?state=Succeeded", "", nil, 400, "invalid"},
		{"limit too high", "GET", "/v1/calls?limit=501", "", nil, 400, "invalid"},
		{"limit is text", "GET", "/v1/calls?limit=many", "", nil, 400, "invalid"},
		{"unknown path", "GET", "/v1/secrets", "", nil, 404, "not_found"},
		{"unclean path", "GET", "/v1//calls", "", nil, 404, "not_found"},
		{"dots", "GET", "/v1/tools/../calls", "", nil, 404, "not_found"},
		{"method", "DELETE", "/v1/calls", "", nil, 405, "method_not_allowed"},
		{"run and label", "POST", "/v1/calls", `{"tool":"note","run":"run_00000000000000000000000000","label":"x"}`, nil, 400, "invalid"},
		{"odd id", "GET", "/v1/calls/call_1%2F..%2Fx", "", nil, 404, "not_found"},
		{"control character", "POST", "/v1/calls", `{"tool":"note","label":"a\u0000b"}`, nil, 400, "invalid"},
		{"tool name in another alphabet", "POST", "/v1/calls", `{"tool":"n\u043ete"}`, nil, 403, "not_available"},
		{"prototype name", "POST", "/v1/calls", `{"tool":"__proto__"}`, nil, 403, "not_available"},
	} {
		req, err := http.NewRequest(c.method, h.url+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		for name, value := range h.anna() {
			req.Header.Set(name, value)
		}
		if c.change != nil {
			c.change(req.Header)
		}
		r := h.send(req)
		if r.status != c.status || r.get("code") != c.code {
			t.Errorf("%s: %d %q, want %d %q: %s", c.name, r.status, r.get("code"), c.status, c.code, r.body)
			continue
		}
		h.checkProblem(r)
		if c.status == 405 && r.header.Get("Allow") == "" {
			t.Errorf("%s: no Allow header", c.name)
		}
	}
	h.effects(0)
}

func set(name string, values ...string) func(http.Header) {
	return func(h http.Header) { h[name] = values }
}
