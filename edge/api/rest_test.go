package api

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

func TestTurnsNeedVouch(t *testing.T) {
	h := newHouse(t)
	vouching := h.anna().with(h.key("app"))
	run := h.do(vouching, "POST", "/v1/runs", `{"label":"chat"}`)
	if run.status != 201 || run.get("vouched") != "true" {
		t.Fatalf("%d %s", run.status, run.body)
	}
	path := "/v1/runs/" + run.get("id")
	h.want(h.do(h.anna(), "POST", path+"/turns", `{}`), 403, "forbidden")
	vouched := func(turn, position string) string {
		return `{"tool":"note","run":"` + run.get("id") + `","arguments":{"order":"` + position + `"},"dispatch":false,"vouch":{"turn":` + turn + `,"response":"resp_1","position":` + position + `}}`
	}
	first := h.want(h.do(vouching, "POST", "/v1/calls", vouched("1", "0")), 200, "")
	kept := h.want(h.do(vouching, "POST", "/v1/calls", vouched("1", "1")), 200, "")
	if shown := h.do(vouching, "GET", "/v1/calls/"+first.get("call"), ""); shown.get("source") != "vouched" || shown.get("route") != "model" {
		t.Errorf("source: %s", shown.body)
	}
	// The same statement without the key is only a message.
	ignored := h.do(h.anna(), "POST", "/v1/calls", vouched("1", "2"))
	if shown := h.do(h.anna(), "GET", "/v1/calls/"+ignored.get("call"), ""); shown.get("source") != "direct" {
		t.Errorf("a vouch without its credential counts: %s", shown.body)
	}
	turn := h.do(vouching, "POST", path+"/turns", `{"keep":["`+kept.get("call")+`"]}`)
	if turn.status != 200 || turn.get("turn") != "2" {
		t.Fatalf("%d %s", turn.status, turn.body)
	}
	h.want(h.do(vouching, "POST", "/v1/calls/"+first.get("call")+"/dispatch", ""), 409, "canceled")
	h.effects(0)
	h.want(h.do(vouching, "POST", "/v1/calls/"+kept.get("call")+"/dispatch", ""), 200, "")
	h.effects(1)
	h.want(h.do(vouching, "POST", "/v1/calls", vouched("1", "3")), 409, "canceled")
	end := h.do(vouching, "POST", path+"/end", `{"why":"done"}`)
	if end.status != 200 || end.get("state") != "terminated" {
		t.Fatalf("%d %s", end.status, end.body)
	}
	h.want(h.do(vouching, "POST", "/v1/calls", vouched("2", "4")), 409, "conflict")
	h.effects(1)
}

func TestToolsAndCallsAgree(t *testing.T) {
	h := newHouse(t)
	r := h.do(h.anna(), "GET", "/v1/tools", "")
	var listed struct {
		Tools []ToolView `json:"tools"`
	}
	if err := json.Unmarshal([]byte(r.body), &listed); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range listed.Tools {
		names = append(names, tool.Name)
		if tool.Title != "Title of "+tool.Name || !strings.Contains(string(tool.InputSchema), "properties") {
			t.Errorf("tool: %+v", tool)
		}
	}
	if got := strings.Join(names, " "); got != "look lost note purge refund slow" {
		t.Errorf("tools: %s", got)
	}
}

func TestExplainChangesNothing(t *testing.T) {
	h := newHouse(t)
	before := len(h.events(""))
	for body, want := range map[string]string{
		`{"tool":"note"}`: "allow", askingBody: "requires-approval", `{"tool":"foreign"}`: "deny",
		`{"tool":"note","arguments":{"n":"x"}}`: "deny", `{"tool":"nowhere"}`: "deny",
	} {
		r := h.do(h.anna(), "POST", "/v1/explain", body)
		if r.status != 200 || r.get("verdict") != want || r.get("text") == "" {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
		if strings.Contains(r.body, "SECRET") || strings.Contains(r.body, `"rule"`) || strings.Contains(r.body, `"private"`) {
			t.Errorf("%s: operators' text: %s", body, r.body)
		}
	}
	if after := len(h.events("")); after != before {
		t.Errorf("explain wrote %d events", after-before)
	}
	if r := h.do(h.anna(), "GET", "/v1/calls", ""); r.get("calls") != "[]" {
		t.Errorf("explain made a call: %s", r.body)
	}
	h.effects(0)
}

func TestExplainNamesTheEarlierCall(t *testing.T) {
	h := newHouse(t)
	body := `{"tool":"note","arguments":{"order":"a"}}`
	done := h.want(h.do(h.anna(), "POST", "/v1/calls", body), 200, "")
	if r := h.do(h.anna(), "POST", "/v1/explain", body); r.status != 200 || r.get("repeat") != done.get("call") {
		t.Errorf("%d %s", r.status, r.body)
	}
	open := h.want(h.do(h.anna(), "POST", "/v1/calls", askingBody), 202, "above_limit")
	if r := h.do(h.anna(), "POST", "/v1/explain", askingBody); r.status != 200 || r.get("existing") != open.get("call") {
		t.Errorf("%d %s", r.status, r.body)
	}
	h.effects(1)
}

func TestReloadAndOverrides(t *testing.T) {
	by, order := "", ReloadOrder{}
	fail := errors.New("tools.yaml:3: SECRET-DETAIL")
	var result error
	h := newHouse(t, func(o *Options) {
		o.Reload = func(_ context.Context, who string, what ReloadOrder) (Reloaded, error) {
			by, order = who, what
			return Reloaded{Generation: 2, Changed: true, Plan: []string{"added: x"}}, result
		}
	})
	r := h.do(h.key("ops"), "POST", "/v1/reload", "")
	if r.status != 200 || r.get("generation") != "2" || by != "workload/ops" {
		t.Errorf("%d %s by %q", r.status, r.body, by)
	}
	if order != (ReloadOrder{}) {
		t.Errorf("ordered %+v", order)
	}
	h.do(h.key("ops"), "POST", "/v1/reload?plan=true", "")
	if !order.Plan {
		t.Errorf("a plan was ordered as %+v", order)
	}
	h.do(h.key("ops"), "POST", "/v1/reload?version=sha256:1", "")
	if order.Plan || order.Version != "sha256:1" {
		t.Errorf("a planned version was ordered as %+v", order)
	}
	result = fail
	if r := h.want(h.do(h.key("ops"), "POST", "/v1/reload", ""), 500, "internal"); strings.Contains(r.body, "SECRET") {
		t.Errorf("an unclassified error is told: %s", r.body)
	}
	result = record.Because(record.Invalid, fail, "tools.yaml is not valid; run placet check")
	if r := h.want(h.do(h.key("ops"), "POST", "/v1/reload", ""), 400, "invalid"); !strings.Contains(r.get("detail"), "placet check") {
		t.Errorf("detail: %s", r.body)
	}
	o := h.do(h.login("sec", "acme", "security"), "GET", "/v1/overrides", "")
	if o.status != 200 || !strings.Contains(o.body, "sources") {
		t.Errorf("%d %s", o.status, o.body)
	}
	h.want(newHouse(t).do(h.key("ops"), "POST", "/v1/reload", ""), 401, "unauthenticated") // another server's key
	plain := newHouse(t)
	plain.want(plain.do(plain.key("ops"), "POST", "/v1/reload", ""), 501, "unsupported")
}

// What is asked of versions reaches who keeps them as it was asked, and nothing does
// that names no version or two.
func TestVersions(t *testing.T) {
	var orders []ReloadOrder
	var compared []CompareOrder
	h := newHouse(t, func(o *Options) {
		o.Reload = func(_ context.Context, _ string, order ReloadOrder) (Reloaded, error) {
			orders = append(orders, order)
			return Reloaded{Generation: 7, Version: "sha256:b", Changed: true, Voids: 2}, nil
		}
		o.Versions = Versions{Standing: func() (int64, error) { return 1, record.Errorf(record.Unavailable, "the tool note differs") },
			Compare: func(_ context.Context, o identity.Operator, order CompareOrder) (dispatch.Comparison, error) {
				compared = append(compared, order)
				return dispatch.Comparison{Calls: 1, Changed: []dispatch.Change{{Tool: "note", From: record.Allow, To: record.Deny, Count: 1}}}, nil
			}}
	})
	for _, body := range []string{`{}`, `{"generation":1,"version":"sha256:a"}`, `{"files":{"a":"b"},"generation":1}`, `{"generation":-1}`, `{"plan":true}`} {
		if r := h.do(h.key("ops"), "POST", "/v1/versions/activate", body); r.status != 400 && r.status != 422 {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
	if len(orders) != 0 {
		t.Fatalf("%+v", orders)
	}
	r := h.do(h.key("ops"), "POST", "/v1/versions/activate", `{"generation":3,"planned":"sha256:b","after":6}`)
	if r.status != 200 || r.get("voids") != "2" || r.get("plan") != "[]" || len(orders) != 1 || orders[0].Plan || orders[0].Version != "sha256:b" || orders[0].After != 6 || orders[0].Of.Generation != 3 {
		t.Errorf("%d %s %+v", r.status, r.body, orders)
	}
	r = h.do(h.key("ops"), "POST", "/v1/versions/compare", `{"to":{"files":{"a":"b"}}}`)
	if r.status != 200 || len(compared) != 1 || compared[0].Limit != 2000 || compared[0].To.Files["a"] != "b" || h.now().Sub(compared[0].Since).Round(time.Hour) != 24*time.Hour || !strings.Contains(r.body, `"unknown":[]`) {
		t.Errorf("%d %s %+v", r.status, r.body, compared)
	}
	r = h.do(h.login("sec", "acme", "security"), "GET", "/v1/versions", "")
	if r.status != 200 || !strings.Contains(r.get("here"), "the tool note differs") || !strings.Contains(r.get("versions"), `"version":"one"`) || !strings.Contains(r.get("versions"), `"stored":false`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	plain := newHouse(t)
	plain.want(plain.do(plain.key("ops"), "GET", "/v1/versions", ""), 501, "unsupported")
	plain.want(plain.do(plain.key("ops"), "POST", "/v1/versions/compare", `{"to":{"generation":1}}`), 501, "unsupported")
}

func TestHealth(t *testing.T) {
	var state error
	h := newHouse(t, func(o *Options) { o.Ready = func(context.Context) error { return state } })
	for _, path := range []string{"/healthz", "/readyz"} {
		if r := h.do(nil, "GET", path, ""); r.status != 200 || r.get("status") != "ok" {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	state = errors.New("generation SECRET is not loaded")
	if r := h.want(h.do(nil, "GET", "/readyz", ""), 503, "unavailable"); strings.Contains(r.body, "SECRET") {
		t.Errorf("readyz tells: %s", r.body)
	}
	if r := h.do(nil, "GET", "/healthz", ""); r.status != 200 {
		t.Errorf("healthz: %d", r.status)
	}
}

func TestSpecificationIsServed(t *testing.T) {
	h := newHouse(t)
	r := h.do(nil, "GET", "/v1/openapi.json", "")
	if r.status != 200 || r.get("openapi") != "3.1.0" || strings.Contains(r.body, "ErrorModel") {
		t.Fatalf("%d %.200s", r.status, r.body)
	}
	// Every operation that the tests of identity walk is in it, and no other.
	var spec struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal([]byte(r.body), &spec); err != nil {
		t.Fatal(err)
	}
	o := things{run: "{id}", call: "{id}", approval: "{id}", transcript: "{id}", share: "{id}", event: "{id}", schedule: "{id}", revocation: "{id}"}
	known := map[string]bool{}
	for _, op := range o.operations() {
		path, _, _ := strings.Cut(op.path, "?")
		known[op.method+" "+path] = true
	}
	for path, methods := range spec.Paths {
		for method := range methods {
			if name := strings.ToUpper(method) + " " + path; !known[name] {
				t.Errorf("no test of identity for %s", name)
			}
			delete(known, strings.ToUpper(method)+" "+path)
		}
	}
	for name := range known {
		t.Errorf("%s is not described", name)
	}
}

// A panic below does not leave this package, and what it said does not reach the caller.
func TestPanicIsContained(t *testing.T) {
	h := newHouse(t, func(o *Options) { o.Boundary = broken{o.Boundary} })
	r := h.want(h.do(h.anna(), "GET", "/v1/tools", ""), 500, "internal")
	if strings.Contains(r.body, "SECRET") || strings.Contains(r.body, "goroutine") {
		t.Errorf("a panic is told: %s", r.body)
	}
	h.effects(0)
}

// broken panics where a defect would.
type broken struct{ Boundary }

func (broken) Tools(context.Context, identity.Caller) []*registry.Tool { panic("SECRET") }
