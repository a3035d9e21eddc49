package api

import (
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// things are one of each object, of anna's in acme.
type things struct {
	run, call, approval, binding, transcript, share, event, schedule, revocation string
}

func (h *house) things() things {
	h.t.Helper()
	r := h.want(h.do(h.anna(), "POST", "/v1/calls", askingBody), 202, "above_limit")
	o := things{run: r.get("run"), call: r.get("call"), approval: r.get("approval"), event: "1"}
	a := h.do(h.lena(), "GET", "/v1/approvals/"+o.approval, "")
	if o.binding = a.get("binding"); a.status != 200 || o.binding == "" {
		h.t.Fatalf("%d %s", a.status, a.body)
	}
	o.transcript = h.want(h.do(h.anna(), "POST", "/v1/transcripts", talk), 201, "").get("id")
	o.share = h.want(h.do(h.anna(), "POST", "/v1/shares", `{"transcript":"`+o.transcript+`","issuer":"urn:test","subject":"bert","until":"`+h.soon()+`"}`), 201, "").get("id")
	o.schedule = h.scheduled(record.RunID(o.run))
	o.revocation = h.want(h.do(h.login("root", "acme", "platform"), "POST", "/v1/revocations", `{"target":"agent:retired","reason":"r"}`), 200, "").get("id")
	return o
}

// scheduled puts a schedule of anna's into the record: here nobody speaks for who is
// away, so that none can be made.
func (h *house) scheduled(run record.RunID) string {
	h.t.Helper()
	r, err := h.store.Run(h.t.Context(), "acme", run)
	if err != nil {
		h.t.Fatal(err)
	}
	at := h.now().UTC().Truncate(time.Second)
	s := record.Schedule{Owner: r.Owner, ID: record.ScheduleID("sch_" + strings.Repeat("1", 26)), Tool: "note", Arguments: []byte("{}"), Cron: "0 9 * * *", Next: at.Add(48 * time.Hour)}
	r.ID, r.Label, r.Opened, r.Active = record.RunID("run_"+strings.Repeat("1", 26)), s.RunLabel(), at, at
	s.Run = r.ID
	if err := h.store.Apply(h.t.Context(), record.NewSchedule(s, r, at)); err != nil {
		h.t.Fatal(err)
	}
	return string(s.ID)
}

// talk is a transcript of a text.
const talk = `[{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"note","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"done"}]`

func (h *house) soon() string { return h.now().Add(time.Hour).UTC().Format(time.RFC3339) }

// operations are all of them, but those that need no token.
type operation struct {
	method, path, body string
	for_               string // callers, persons, operators, readers or viewers
	owned              bool   // of an object: somebody else's is not found
}

func (o things) operations() []operation {
	return []operation{
		{"POST", "/v1/runs", `{"label":"x"}`, "callers", false},
		{"GET", "/v1/runs", "", "viewers", false},
		{"GET", "/v1/runs/" + o.run, "", "viewers", true},
		{"POST", "/v1/runs/" + o.run + "/turns", `{}`, "callers", true},
		{"POST", "/v1/runs/" + o.run + "/children", `{"tools":["note"],"calls":1,"until":"2999-01-01T00:00:00Z"}`, "callers", true},
		{"POST", "/v1/runs/" + o.run + "/end", `{}`, "callers", true},
		{"POST", "/v1/runs/" + o.run + "/lift", `{"reason":"r"}`, "operators", true},
		{"POST", "/v1/runs/" + o.run + "/transfer", `{"issuer":"urn:test","subject":"bert","agent":"bot"}`, "callers", true},
		{"POST", "/v1/runs/" + o.run + "/delegation", `{"until":"2999-01-01T00:00:00Z"}`, "callers", true},
		{"DELETE", "/v1/runs/" + o.run + "/delegation", "", "callers", true},
		{"POST", "/v1/runs/" + o.run + "/resume", "", "callers", true},
		{"POST", "/v1/runs/" + o.run + "/resume", talk, "callers", true},
		{"POST", "/v1/history/check", talk, "callers", false},
		{"POST", "/v1/history/check?run=" + o.run, talk, "callers", true},
		{"POST", "/v1/history/repair?to=openai-chat", talk, "callers", false},
		{"POST", "/v1/history/repair?to=openai-chat&run=" + o.run, talk, "callers", true},
		{"POST", "/v1/transcripts", talk, "callers", false},
		{"GET", "/v1/transcripts", "", "viewers", false},
		{"GET", "/v1/transcripts/" + o.transcript, "", "viewers", true},
		{"POST", "/v1/transcripts/" + o.transcript + "/redact", `{"items":[0]}`, "callers", true},
		{"POST", "/v1/transcripts/" + o.transcript + "/compact", `{"first":0,"last":2}`, "callers", true},
		{"DELETE", "/v1/transcripts/" + o.transcript, "", "callers", true},
		{"POST", "/v1/shares", `{"run":"` + o.run + `","issuer":"urn:test","subject":"bert","until":"` + tomorrow() + `"}`, "callers", true},
		{"POST", "/v1/shares", `{"transcript":"` + o.transcript + `","issuer":"urn:test","subject":"bert","until":"` + tomorrow() + `"}`, "callers", true},
		{"GET", "/v1/shares", "", "viewers", false},
		{"GET", "/v1/shares/" + o.share, "", "viewers", true},
		{"DELETE", "/v1/shares/" + o.share, "", "callers", true},
		{"POST", "/v1/runs/" + o.run + "/replay", "", "operators", true},
		{"POST", "/v1/schedules", `{"tool":"note","cron":"0 9 * * *"}`, "callers", false},
		{"GET", "/v1/schedules", "", "viewers", false},
		{"GET", "/v1/schedules/" + o.schedule, "", "viewers", true},
		{"POST", "/v1/schedules/" + o.schedule + "/pause", "", "callers", true},
		{"POST", "/v1/schedules/" + o.schedule + "/resume", "", "callers", true},
		{"DELETE", "/v1/schedules/" + o.schedule, "", "callers", true},
		{"GET", "/v1/limits", "", "viewers", false},
		{"POST", "/v1/calls", `{"tool":"note","run":"` + o.run + `"}`, "callers", true},
		{"POST", "/v1/calls", `{"tool":"note"}`, "callers", false},
		{"GET", "/v1/calls", "", "viewers", false},
		{"GET", "/v1/calls/" + o.call, "", "viewers", true},
		{"POST", "/v1/calls/" + o.call + "/dispatch", "", "callers", true},
		{"POST", "/v1/calls/" + o.call + "/dispatch?wait=1", "", "callers", true},
		{"POST", "/v1/calls/" + o.call + "/cancel", "", "callers", true},
		{"POST", "/v1/calls/" + o.call + "/heartbeat", `{"attempt":1,"secret":"s"}`, "callers", true},
		{"POST", "/v1/calls/" + o.call + "/report", `{"attempt":1,"secret":"s","outcome":"not_started"}`, "callers", true},
		{"POST", "/v1/calls/" + o.call + "/reconcile", `{"outcome":"failed","evidence":"e"}`, "operators", true},
		{"POST", "/v1/calls/" + o.call + "/look", "", "operators", true},
		{"POST", "/v1/calls/" + o.call + "/redact", `{"reason":"r"}`, "operators", true},
		{"GET", "/v1/approvals", "", "viewers", false},
		{"GET", "/v1/approvals/" + o.approval, "", "viewers", true},
		{"POST", "/v1/approvals/" + o.approval + "/approve", `{"binding":"` + o.binding + `"}`, "persons", true},
		{"POST", "/v1/approvals/" + o.approval + "/reject", `{"binding":"` + o.binding + `"}`, "persons", true},
		{"POST", "/v1/approvals/void", `{"issuer":"urn:test","subject":"nobody","reason":"r"}`, "operators", false},
		{"GET", "/v1/approvals/" + o.approval + "/evidence", "", "viewers", true},
		{"GET", "/v1/events?call=" + o.call, "", "viewers", true},
		{"GET", "/v1/events?run=" + o.run, "", "viewers", true},
		{"GET", "/v1/events/stream?call=" + o.call, "", "viewers", true},
		{"GET", "/v1/approvals/events", "", "viewers", false},
		{"GET", "/v1/me", "", "viewers", false},
		{"GET", "/v1/tools", "", "callers", false},
		{"POST", "/v1/explain", `{"tool":"note"}`, "callers", false},
		{"POST", "/v1/reload", "", "operators", false},
		{"POST", "/v1/passkeys/revoke", `{"issuer":"urn:test","subject":"anna"}`, "operators", false},
		{"GET", "/v1/overrides", "", "readers", false},
		{"GET", "/v1/versions", "", "readers", false},
		{"POST", "/v1/versions/activate", `{"generation":1}`, "operators", false},
		{"POST", "/v1/versions/compare", `{"to":{"generation":1}}`, "operators", false},
		{"GET", "/v1/observed", "", "readers", false},
		{"GET", "/v1/alerts", "", "readers", false},
		{"GET", "/v1/held", "", "readers", false},
		{"POST", "/v1/revocations", `{"target":"run:` + o.run + `","reason":"r"}`, "operators", true},
		{"GET", "/v1/revocations", "", "readers", false},
		{"GET", "/v1/revocations/" + o.revocation, "", "readers", true},
		{"POST", "/v1/revocations/" + o.revocation + "/undo", `{"reason":"r"}`, "operators", true},
		{"GET", "/v1/audit/checkpoint", "", "readers", false},
		{"GET", "/v1/audit/export", "", "readers", false},
		{"GET", "/v1/events/" + o.event + "/receipt", "", "readers", false},
		{"GET", "/v1/calls/" + o.call + "/receipt", "", "readers", true},
	}
}

func tomorrow() string { return time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339) }

func TestEveryOperationAsksWho(t *testing.T) {
	h := newHouse(t)
	o := h.things()
	before := len(h.events(""))
	expired := h.token(identity.TokenSpec{Audience: proposing, Subject: "anna", Tenant: "acme", Agent: "bot", TTL: time.Second})
	h.offset.Add(int64(time.Minute))
	for _, op := range o.operations() {
		for name, w := range map[string]who{
			"no token":       {},
			"no scheme":      {"Authorization": strings.TrimPrefix(h.anna()["Authorization"], "Bearer ")},
			"not a token":    {"Authorization": "Bearer abc.def.ghi"},
			"expired":        expired,
			"other audience": h.token(identity.TokenSpec{Audience: "https://elsewhere.test/mcp", Subject: "anna", Tenant: "acme", Agent: "bot"}),
			"other tenant":   {"Authorization": "Bearer " + h.unlisted(), "X-Tenant": "acme", "X-Forwarded-User": "anna"},
			"unknown key":    {"Placet-Workload": "plk_unknown"},
		} {
			r := h.do(w, op.method, op.path, op.body)
			if r.status != 401 && !(name == "other tenant" && r.status == 403) {
				t.Errorf("%s %s, %s: %d %s", op.method, op.path, name, r.status, r.body)
				continue
			}
			if r.status == 401 && !strings.HasPrefix(r.header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s %s, %s: no challenge", op.method, op.path, name)
			}
			h.checkProblem(r)
		}
	}
	if after := len(h.events("")); after != before {
		t.Errorf("requests of nobody wrote %d events", after-before)
	}
	h.effects(0)
}

// unlisted is a well-made token of a tenant that the issuer does not speak for.
func (h *house) unlisted() string {
	return strings.TrimPrefix(h.agent("anna", "initech")["Authorization"], "Bearer ")
}

func TestEveryOperationKnowsItsKindOfCaller(t *testing.T) {
	h := newHouse(t)
	o := h.things()
	for _, op := range o.operations() {
		var wrong map[string]who
		switch op.for_ {
		case "callers":
			wrong = map[string]who{"a person": h.lena(), "an operator": h.login("root", "acme", "platform"), "an operating key": h.key("ops"), "a key that only vouches": h.key("app")}
		case "persons":
			wrong = map[string]who{"a caller": h.anna(), "a caller in the group": h.token(identity.TokenSpec{Audience: proposing, Subject: "lena", Tenant: "acme", Agent: "bot", Groups: []string{"leads"}}),
				"an operating key": h.key("ops"), "a proposing key": h.key("robot"), "a person with a key": h.lena().with(h.key("app")), "a caller with a key": h.anna().with(h.key("app"))}
		case "operators":
			wrong = map[string]who{"a caller": h.anna(), "a caller in the group": h.token(identity.TokenSpec{Audience: proposing, Subject: "root", Tenant: "acme", Agent: "bot", Groups: []string{"platform"}}),
				"an approver": h.lena(), "a reader": h.login("sec", "acme", "security"), "a vouching key": h.key("app"), "an operator's token with a key": h.login("root", "acme", "platform").with(h.key("app"))}
		case "readers":
			wrong = map[string]who{"a caller": h.anna(), "an approver": h.lena(), "a vouching key": h.key("app")}
		}
		for name, w := range wrong {
			r := h.do(w, op.method, op.path, op.body)
			if r.status != 403 && r.status != 401 {
				t.Errorf("%s %s as %s: %d %s", op.method, op.path, name, r.status, r.body)
				continue
			}
			h.checkProblem(r)
		}
	}
	h.effects(0)
	if a := h.do(h.lena(), "GET", "/v1/approvals/"+o.approval, ""); a.get("state") != "pending" {
		t.Errorf("somebody who may not moved the question: %s", a.body)
	}
}

// Rule I3: another's object answers byte for byte like one that is not there.
func TestRule_I3_OthersObjectsAreNotThere(t *testing.T) {
	h := newHouse(t)
	o := h.things()
	none := things{run: "run_" + strings.Repeat("0", 26), call: "call_" + strings.Repeat("0", 26), approval: "apr_" + strings.Repeat("0", 26), binding: o.binding,
		transcript: "trn_" + strings.Repeat("0", 26), share: "shr_" + strings.Repeat("0", 26), schedule: "sch_" + strings.Repeat("0", 26),
		revocation: "rev_" + strings.Repeat("0", 26)}
	theirs, nobodys := o.operations(), none.operations()
	strangers := map[string]map[string]who{
		"callers": {"another principal": h.agent("mallory", "acme"), "another tenant": h.agent("anna", "globex"),
			"another agent": h.token(identity.TokenSpec{Audience: proposing, Subject: "anna", Tenant: "acme", Agent: "bot2", Scopes: []string{"work"}})},
		"persons":   {"another tenant": h.login("lena", "globex", "leads"), "another group": h.login("carl", "acme", "sales")},
		"operators": {"another tenant": h.login("root", "globex", "platform"), "another tenant's key": h.key("ops_globex")},
	}
	strangers["viewers"] = strangers["callers"]
	strangers["readers"] = map[string]who{"another tenant's reader": h.login("sec", "globex", "security"), "another tenant's key": h.key("ops_globex")}
	for i, op := range theirs {
		if !op.owned {
			continue
		}
		for name, w := range strangers[op.for_] {
			got, want := h.do(w, op.method, op.path, op.body), h.do(w, nobodys[i].method, nobodys[i].path, nobodys[i].body)
			if got.status != 404 || got.status != want.status || got.body != want.body {
				t.Errorf("%s %s as %s:\n%d %s\nbut one that is not there:\n%d %s", op.method, op.path, name, got.status, got.body, want.status, want.body)
			}
			got.header.Del("Date")
			want.header.Del("Date")
			for h := range got.header {
				if got.header.Get(h) != want.header.Get(h) {
					t.Errorf("%s %s as %s: header %s differs", op.method, op.path, name, h)
				}
			}
		}
	}
	// Readers of another tenant, and approvers of none of it.
	for name, w := range map[string]who{"a reader elsewhere": h.login("sec", "globex", "security"), "an approver of others": h.login("carl", "acme", "sales")} {
		for _, path := range []string{"/v1/calls/" + o.call, "/v1/approvals/" + o.approval, "/v1/runs/" + o.run} {
			if r := h.do(w, "GET", path, ""); r.status != 404 {
				t.Errorf("%s sees %s: %d %s", name, path, r.status, r.body)
			}
		}
		if r := h.do(w, "GET", "/v1/approvals", ""); r.get("approvals") != "[]" {
			t.Errorf("%s lists %s", name, r.body)
		}
	}
	for _, path := range []string{"/v1/calls", "/v1/runs", "/v1/approvals"} {
		if r := h.do(h.agent("mallory", "acme"), "GET", path, ""); r.status != 200 || strings.Contains(r.body, o.call) || strings.Contains(r.body, o.run) {
			t.Errorf("mallory lists anna's: %s", r.body)
		}
		if r := h.do(h.anna(), "GET", path, ""); r.status != 200 || !strings.Contains(r.body, o.run) {
			t.Errorf("anna does not list her own at %s: %s", path, r.body)
		}
	}
	h.effects(0)
}

// Rule D4, with the event.
func TestRule_D4_ProposersCannotAnswer(t *testing.T) {
	h := newHouse(t)
	o := h.things()
	body := `{"binding":"` + o.binding + `"}`
	before := h.count(record.EventRefused)
	h.want(h.do(h.anna(), "POST", "/v1/approvals/"+o.approval+"/approve", body), 403, "forbidden")
	if got := h.count(record.EventRefused); got != before+1 {
		t.Errorf("%d refusals on record, want %d", got, before+1)
	}
	h.want(h.do(h.key("ops"), "POST", "/v1/approvals/"+o.approval+"/approve", body), 403, "forbidden")
	h.want(h.do(h.anna(), "POST", "/v1/calls/"+o.call+"/dispatch", ""), 202, "above_limit")
	h.effects(0)
	h.do(h.lena(), "POST", "/v1/approvals/"+o.approval+"/approve", body)
	h.want(h.do(h.anna(), "POST", "/v1/calls/"+o.call+"/dispatch", ""), 200, "")
	h.effects(1)
}
