package authzen_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/policy/authzen"
	"github.com/placet-dev/placet/policy/authzen/pdptest"
	"github.com/placet-dev/placet/record"
)

func newClient(t *testing.T, url string, change func(*authzen.Options)) *authzen.Client {
	t.Helper()
	o := authzen.Options{URL: url, Batch: true, Semantic: authzen.ExecuteAll, Timeout: authzen.MostTimeout, HTTP: &http.Client{}, Random: rand.Reader, Clock: time.Now}
	if change != nil {
		change(&o)
	}
	c, err := authzen.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func user(id string) authzen.Entity { return authzen.Entity{Type: "user", ID: id} }

func thing(kind, id, property string, value any) authzen.Entity {
	e := authzen.Entity{Type: kind, ID: id}
	if property != "" {
		e.Properties = map[string]any{property: value}
	}
	return e
}

// reads asks whether alice may read records.
func reads(ids ...string) authzen.Question {
	q := authzen.Question{Subject: user("alice"), Action: authzen.Action{Name: "read"}, Context: map[string]any{"time": "2026-01-02T03:04:05Z"}}
	for _, id := range ids {
		q.Resources = append(q.Resources, thing("record", id, "", nil))
	}
	return q
}

// TestCertificationDecisions: the eight rules of the certification scenario, and
// its batches as far as they differ in their resources, come through the client
// unchanged, also where the decision point stops at its first no.
func TestCertificationDecisions(t *testing.T) {
	p := pdptest.New(t, pdptest.Certification)
	admin := user("bob")
	admin.Properties = map[string]any{"role": "admin"}
	remove := func(soft bool) authzen.Action {
		return authzen.Action{Name: "delete", Properties: map[string]any{"soft": soft}}
	}
	read, write := authzen.Action{Name: "read"}, authzen.Action{Name: "write"}
	one, active, old := thing("record", "record-1", "", nil), thing("record", "record-1", "status", "active"), thing("record", "record-2", "status", "archived")
	for name, change := range map[string]func(*authzen.Options){
		"batch": nil, "single": func(o *authzen.Options) { o.Batch = false }, "discovered": func(o *authzen.Options) { o.Discover = true },
		"first no": func(o *authzen.Options) { o.Semantic = authzen.DenyOnFirstDeny },
	} {
		c := newClient(t, p.URL, change)
		for _, q := range []struct {
			subject authzen.Entity
			action  authzen.Action
			on      []authzen.Entity
			allowed bool
			denied  int
		}{
			{user("alice"), read, []authzen.Entity{one}, true, 0},
			{user("alice"), write, []authzen.Entity{one}, true, 0},
			{user("bob"), read, []authzen.Entity{one}, true, 0},
			{user("bob"), write, []authzen.Entity{one}, false, 0},
			{user("alice"), write, []authzen.Entity{old}, false, 0},
			{admin, write, []authzen.Entity{old}, true, 0},
			{user("alice"), remove(true), []authzen.Entity{one}, true, 0},
			{user("alice"), remove(false), []authzen.Entity{one}, false, 0},
			{user("alice"), write, []authzen.Entity{active, old}, false, 1},
			{user("alice"), write, []authzen.Entity{old, active, one}, false, 0},
			{user("alice"), write, []authzen.Entity{active, one}, true, 0},
		} {
			d, err := c.Ask(t.Context(), authzen.Question{Subject: q.subject, Action: q.action, Resources: q.on})
			if err != nil || d.Allowed != q.allowed || d.Denied != q.denied {
				t.Errorf("%s: %s %s %v: %+v %v", name, q.subject.ID, q.action.Name, q.on, d, err)
			}
		}
	}
}

// TestTodoDecisions: the forty decisions of the working group's first
// interoperability scenario, written from its published list, one by one and, for
// each user, as one question about two lists.
func TestTodoDecisions(t *testing.T) {
	p := pdptest.New(t, pdptest.Todo)
	c := newClient(t, p.URL, nil)
	count := 0
	for id, want := range map[string]string{
		"rick@the-citadel.com":  "YYYYYYYY",
		"morty@the-citadel.com": "YYYYNYNY",
		"summer@the-smiths.com": "YYYYNYNY",
		"beth@the-smiths.com":   "YYYNNNNN",
		"jerry@the-smiths.com":  "YYYNNNNN",
	} {
		other := "rick@the-citadel.com"
		if id == other {
			other = "morty@the-citadel.com"
		}
		theirs, own := thing("todo", "7240d0db", "ownerID", other), thing("todo", "7240d0db", "ownerID", id)
		for i, q := range []struct {
			action string
			on     authzen.Entity
		}{
			{"can_read_user", user("beth@the-smiths.com")}, {"can_read_user", user(id)}, {"can_read_todos", thing("todo", "todo-1", "", nil)},
			{"can_create_todo", thing("todo", "todo-1", "", nil)}, {"can_update_todo", theirs}, {"can_update_todo", own}, {"can_delete_todo", theirs}, {"can_delete_todo", own},
		} {
			count++
			d, err := c.Ask(t.Context(), authzen.Question{Subject: user(id), Action: authzen.Action{Name: q.action}, Resources: []authzen.Entity{q.on}})
			if err != nil || d.Allowed != (want[i] == 'Y') {
				t.Errorf("%s %s %s: %+v %v", id, q.action, q.on.ID, d, err)
			}
		}
		d, err := c.Ask(t.Context(), authzen.Question{Subject: user(id), Action: authzen.Action{Name: "can_delete_todo"}, Resources: []authzen.Entity{own, theirs}})
		if err != nil || d.Allowed != (want[7] == 'Y' && want[6] == 'Y') {
			t.Errorf("%s both: %+v %v", id, d, err)
		}
	}
	if count != 40 {
		t.Fatalf("%d decisions", count)
	}
}

// TestNotDecided: whatever is no decision of this decision point to this question is
// an error, and the same question is answered once the fault is over.
func TestNotDecided(t *testing.T) {
	yes := `{"decision":true}`
	many := func(items ...string) string { return `{"evaluations":[` + strings.Join(items, ",") + `]}` }
	raw := func(status int, kind, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			fmt.Fprint(w, text)
		}
	}
	for name, c := range map[string]struct {
		several bool
		fault   http.HandlerFunc
	}{
		"error of the server": {false, raw(500, "application/json", yes)},
		"unauthenticated":     {false, raw(401, "application/json", yes)},
		"created":             {false, raw(201, "application/json", yes)},
		"another type":        {false, raw(200, "text/plain", yes)},
		"no type":             {false, raw(200, "", yes)},
		"redirect": {false, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusMovedPermanently)
		}},
		"redirect that keeps post": {false, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/access/v1/evaluation", http.StatusPermanentRedirect)
		}},
		"connection cut": {false, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		"cut within": {false, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			pdptest.Answer(yes)(w, r)
		}},
		"empty":                    {false, pdptest.Answer("")},
		"null":                     {false, pdptest.Answer("null")},
		"true alone":               {false, pdptest.Answer("true")},
		"list":                     {false, pdptest.Answer("[" + yes + "]")},
		"no decision":              {false, pdptest.Answer(`{"allowed":true}`)},
		"decision is text":         {false, pdptest.Answer(`{"decision":"true"}`)},
		"decision is a number":     {false, pdptest.Answer(`{"decision":1}`)},
		"decision is null":         {false, pdptest.Answer(`{"decision":null}`)},
		"decision in another case": {false, pdptest.Answer(`{"Decision":true}`)},
		"two spellings":            {false, pdptest.Answer(`{"decision":true,"DECISION":false}`)},
		"twice":                    {false, pdptest.Answer(`{"decision":false,"decision":true}`)},
		"two values":               {false, pdptest.Answer(yes + yes)},
		"context is text":          {false, pdptest.Answer(`{"decision":true,"context":"x"}`)},
		"huge":                     {false, pdptest.Answer(`{"decision":true,"pad":"` + strings.Repeat("x", 300<<10) + `"}`)},
		"deep":                     {false, pdptest.Answer(`{"decision":true,"pad":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`)},
		"yes with an error":        {false, pdptest.Answer(`{"decision":true,"context":{"error":{"status":404}}}`)},
		"it failed itself":         {false, pdptest.Answer(`{"decision":false,"context":{"error":{"status":503}}}`)},
		"obligation":               {false, pdptest.Answer(`{"decision":true,"context":{"obligations":[{"type":"step-up","id":"1","acr_value":"x"}]}}`)},
		"obligation beside":        {false, pdptest.Answer(`{"decision":true,"obligations":[{"id":"log"}]}`)},
		"obligation as object":     {false, pdptest.Answer(`{"decision":true,"context":{"obligations":{"type":"notification"}}}`)},
		"obligation in other case": {false, pdptest.Answer(`{"decision":true,"context":{"Obligations":["log"]}}`)},
		"obligation alone":         {false, pdptest.Answer(`{"decision":true,"context":{"obligation":"log"}}`)},
		"another request's answer": {false, func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("X-Request-ID", "another")
			pdptest.Answer(yes)(w, r)
		}},
		"two request IDs": {false, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Add("X-Request-Id", "another")
			w.Header().Add("X-Request-Id", r.Header.Get("X-Request-ID"))
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, yes)
		}},

		"one answer to two":       {true, pdptest.Answer(yes)},
		"one missing":             {true, pdptest.Answer(many(yes))},
		"one missing behind a no": {true, pdptest.Answer(many(`{"decision":false}`))},
		"one too many":            {true, pdptest.Answer(many(yes, yes, yes))},
		"none":                    {true, pdptest.Answer(many())},
		"evaluations is null":     {true, pdptest.Answer(`{"evaluations":null,"decision":true}`)},
		"evaluations in case":     {true, pdptest.Answer(`{"Evaluations":[{"decision":true},{"decision":true}]}`)},
		"one without decision":    {true, pdptest.Answer(many(yes, `{}`))},
		"one is true alone":       {true, pdptest.Answer(many(yes, `true`))},
		"one is text":             {true, pdptest.Answer(many(yes, `{"decision":"true"}`))},
		"obligation in one":       {true, pdptest.Answer(many(yes, `{"decision":true,"context":{"obligations":[{"type":"custom","id":"1"}]}}`))},
		"obligation for all":      {true, pdptest.Answer(`{"evaluations":[{"decision":true},{"decision":true}],"context":{"obligations":["log"]}}`)},
		"no batch":                {true, http.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pdptest.New(t, pdptest.Certification)
			client := newClient(t, p.URL, nil)
			q := reads("record-1")
			if c.several {
				q = reads("record-1", "record-1")
			}
			p.Fault(c.fault)
			d, err := client.Ask(t.Context(), q)
			if err == nil || d.Allowed || record.KindOf(err) != record.Unavailable {
				t.Errorf("answered %+v, %v", d, err)
			}
			p.Fault(nil)
			if d, err := client.Ask(t.Context(), q); err != nil || !d.Allowed {
				t.Errorf("afterwards %+v, %v", d, err)
			}
		})
	}
}

// TestDenyOnFirstDeny: an answer that ends early ends with a no.
func TestDenyOnFirstDeny(t *testing.T) {
	p := pdptest.New(t, pdptest.Certification)
	c := newClient(t, p.URL, func(o *authzen.Options) { o.Semantic = authzen.DenyOnFirstDeny })
	for text, want := range map[string]string{
		`[{"decision":true},{"decision":true},{"decision":true}]`:                    "allowed",
		`[{"decision":true},{"decision":false}]`:                                     "denied 1",
		`[{"decision":true},{"decision":false},{"decision":true}]`:                   "denied 1",
		`[{"decision":true},{"decision":true}]`:                                      "error",
		`[{"decision":false},{"decision":true}]`:                                     "error",
		`[{"decision":true},{"decision":true},{"decision":true},{"decision":false}]`: "error",
		`[]`: "error",
	} {
		p.Fault(pdptest.Answer(`{"evaluations":` + text + `}`))
		d, err := c.Ask(t.Context(), reads("record-1", "record-1", "record-1"))
		got := "allowed"
		switch {
		case err != nil:
			got = "error"
		case !d.Allowed:
			got = fmt.Sprint("denied ", d.Denied)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestSlow: a decision point that does not answer in time has not decided, also
// when it sends headers first, and when several requests share the time.
func TestSlow(t *testing.T) {
	p := pdptest.New(t, pdptest.Certification)
	c := newClient(t, p.URL, func(o *authzen.Options) { o.Timeout, o.Batch = 30*time.Millisecond, false })
	for name, fault := range map[string]http.HandlerFunc{
		"silent": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"headers only": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		p.Fault(fault)
		d, err := c.Ask(t.Context(), reads("record-1", "record-1"))
		if err == nil || d.Allowed || !strings.Contains(err.Error(), "no answer within 30ms") {
			t.Errorf("%s: %+v %v", name, d, err)
		}
	}
}

// TestRedirectsAreNotFollowed: whoever a decision point would send us on to decides
// nothing, and gets neither question nor credential.
func TestRedirectsAreNotFollowed(t *testing.T) {
	p := pdptest.New(t, pdptest.Certification)
	other := pdptest.New(t, func(pdptest.Request) pdptest.Response { return pdptest.Decide(true) })
	c := newClient(t, p.URL, func(o *authzen.Options) { o.Token = "secret-1" })
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		p.Fault(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+r.URL.Path, status) })
		if d, err := c.Ask(t.Context(), reads("record-1")); err == nil || d.Allowed {
			t.Errorf("%d: %+v", status, d)
		}
	}
	if n := len(other.Headers()); n != 0 {
		t.Errorf("%d requests were sent on", n)
	}
}

// TestNothingIsKept: a no right after a yes is a no. Access that was withdrawn is gone.
func TestNothingIsKept(t *testing.T) {
	allowed := true
	p := pdptest.New(t, func(pdptest.Request) pdptest.Response { return pdptest.Decide(allowed) })
	c := newClient(t, p.URL, nil)
	for _, allowed = range []bool{true, false, true} {
		if d, err := c.Ask(t.Context(), reads("record-1")); err != nil || d.Allowed != allowed {
			t.Errorf("%v: %+v %v", allowed, d, err)
		}
	}
	if n := len(p.Asked()); n != 3 {
		t.Errorf("asked %d times", n)
	}
}

// TestRequest: what is sent is what the specification wants.
func TestRequest(t *testing.T) {
	p := pdptest.New(t, pdptest.Certification)
	c := newClient(t, p.URL, func(o *authzen.Options) { o.Token = "secret-1" })
	for range 2 {
		if d, err := c.Ask(t.Context(), reads("record-1", "record-1")); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	heads, asked := p.Headers(), p.Asked()
	if len(heads) != 2 || len(asked) != 4 {
		t.Fatalf("%d requests, %d evaluations", len(heads), len(asked))
	}
	for _, h := range heads {
		if h.Get("Authorization") != "Bearer secret-1" || h.Get("Content-Type") != "application/json" || len(h.Get("X-Request-ID")) != 32 || h.Values("Idempotency-Key") != nil {
			t.Errorf("headers %v", h)
		}
	}
	if heads[0].Get("X-Request-ID") == heads[1].Get("X-Request-ID") {
		t.Error("two requests have one ID")
	}
	one := asked[3]
	if one.Subject.Type != "user" || one.Subject.ID != "alice" || one.Action.Name != "read" || one.Resource.Type != "record" || one.Context["time"] != "2026-01-02T03:04:05Z" {
		t.Errorf("asked %+v", one)
	}
	for what, q := range map[string]authzen.Question{
		"no resource":   reads(),
		"too many":      reads(strings.Split(strings.Repeat("r ", 100)+"r", " ")...),
		"an empty ID":   reads("record-1", ""),
		"empty subject": {Action: authzen.Action{Name: "read"}, Resources: []authzen.Entity{user("x")}},
	} {
		if d, err := c.Ask(t.Context(), q); err == nil || d.Allowed {
			t.Errorf("%s: %+v %v", what, d, err)
		}
	}
	if len(p.Headers()) != 2 {
		t.Error("a question that cannot be asked was sent")
	}
}

// TestTokenStaysHere: errors, which operators read, do not show the credential.
func TestTokenStaysHere(t *testing.T) {
	p := pdptest.New(t, pdptest.Certification)
	c := newClient(t, p.URL, func(o *authzen.Options) { o.Token = "secret-1" })
	p.Fault(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, r.Header.Get("Authorization"), http.StatusUnauthorized)
	})
	if _, err := c.Ask(t.Context(), reads("record-1")); err == nil || strings.Contains(err.Error(), "secret-1") {
		t.Errorf("%v", err)
	}
	bad := newClient(t, p.URL, func(o *authzen.Options) { o.Token = "secret-1\nx" })
	if _, err := bad.Ask(t.Context(), reads("record-1")); err == nil || strings.Contains(err.Error(), "secret-1") {
		t.Errorf("%v", err)
	}
}

// TestReasons: what a decision point says of a no is read by language, bounded, printable.
func TestReasons(t *testing.T) {
	p := pdptest.New(t, pdptest.Certification)
	c := newClient(t, p.URL, nil)
	for text, want := range map[string]authzen.Decision{
		`{}`: {},
		`{"id":"p7","reason_admin":{"en":"policy 7"},"reason_user":{"de":"nein","en-403":"not yours"}}`: {ID: "p7", Admin: "policy 7", User: "not yours"},
		`{"reason_user":{"fr":"non"},"reason":"why"}`:                                                   {User: "non", Admin: "why"},
		`{"reason_user":"plain\u001b[31m\u202e"}`:                                                       {User: "plain [31m"},
		`{"reason_user":{"en":{"x":1}},"reason_admin":[1],"id":7}`:                                      {},
		`{"error":{"status":404,"message":"no such record"}}`:                                           {Admin: "no such record"},
		`{"error":true}`: {Admin: "the decision point reports an error for this evaluation"},
		`{"obligations":[{"type":"notification","id":"1","to":"ops"}]}`: {Admin: `(with an obligation that is not carried out: "notification")`},
		`{"obligations":[]}`: {},
	} {
		p.Fault(pdptest.Answer(`{"decision":false,"context":` + text + `}`))
		if d, err := c.Ask(t.Context(), reads("record-1")); err != nil || d != want {
			t.Errorf("%s: %+v %v", text, d, err)
		}
	}
	p.Fault(pdptest.Answer(`{"decision":false,"context":{"reason_user":"` + strings.Repeat("x", 5000) + `"}}`))
	if d, err := c.Ask(t.Context(), reads("record-1")); err != nil || len(d.User) > 1010 {
		t.Errorf("%d bytes, %v", len(d.User), err)
	}
	p.Fault(pdptest.Answer(`{"decision":true,"context":{"obligations":[],"advice":[{"id":"x"}],"reason_user":{"en":"fine"}},"future":{"a":1}}`))
	if d, err := c.Ask(t.Context(), reads("record-1")); err != nil || d != (authzen.Decision{Allowed: true}) {
		t.Errorf("%+v %v", d, err)
	}
}

// TestDiscovery: metadata of another decision point, or that leads to another host,
// is not used; without metadata nothing is asked.
func TestDiscovery(t *testing.T) {
	p := pdptest.New(t, pdptest.Certification)
	other := pdptest.New(t, func(pdptest.Request) pdptest.Response { return pdptest.Decide(true) })
	meta := func(change map[string]any) map[string]any {
		m := map[string]any{"policy_decision_point": p.URL, "access_evaluation_endpoint": p.URL + "/access/v1/evaluation"}
		for k, v := range change {
			m[k] = v
		}
		return m
	}
	for name, m := range map[string]map[string]any{
		"another decision point":   meta(map[string]any{"policy_decision_point": other.URL}),
		"a slash more":             meta(map[string]any{"policy_decision_point": p.URL + "/"}),
		"no name":                  {"access_evaluation_endpoint": p.URL + "/access/v1/evaluation"},
		"no endpoint":              {"policy_decision_point": p.URL},
		"endpoint of another host": meta(map[string]any{"access_evaluation_endpoint": other.URL + "/access/v1/evaluation"}),
		"batch of another host":    meta(map[string]any{"access_evaluations_endpoint": other.URL + "/access/v1/evaluations"}),
		"endpoint is no URL":       meta(map[string]any{"access_evaluation_endpoint": "evaluation"}),
		"endpoint is a number":     meta(map[string]any{"access_evaluation_endpoint": 7}),
		"plain HTTP elsewhere":     meta(map[string]any{"access_evaluation_endpoint": "http://pdp.example.com/x"}),
		"credential in it":         meta(map[string]any{"access_evaluation_endpoint": strings.Replace(p.URL, "//", "//a:b@", 1) + "/x"}),
	} {
		p.Metadata = m
		c := newClient(t, p.URL, func(o *authzen.Options) { o.Discover, o.Token = true, "secret-1" })
		if d, err := c.Ask(t.Context(), reads("record-1")); err == nil || d.Allowed || c.Check(t.Context()) == nil {
			t.Errorf("%s: %+v %v", name, d, err)
		}
	}
	if n := len(p.Asked()) + len(other.Headers()); n != 0 {
		t.Errorf("%d questions were asked", n)
	}
	p.Metadata = meta(map[string]any{"signed_metadata": "x", "search_subject_endpoint": other.URL})
	now := time.Unix(1_700_000_000, 0)
	c := newClient(t, p.URL, func(o *authzen.Options) { o.Discover, o.Clock = true, func() time.Time { return now } })
	if err := c.Check(t.Context()); err != nil {
		t.Error(err)
	}
	before := len(p.Headers())
	for range 2 { // without a batch endpoint: one by one; the metadata is read once
		if d, err := c.Ask(t.Context(), reads("record-1", "record-1")); err != nil || !d.Allowed {
			t.Errorf("%+v %v", d, err)
		}
	}
	if n := len(p.Headers()) - before; n != 5 {
		t.Errorf("%d requests", n)
	}
	now = now.Add(11 * time.Minute)
	p.Metadata = meta(map[string]any{"policy_decision_point": other.URL})
	if d, err := c.Ask(t.Context(), reads("record-1")); err == nil {
		t.Errorf("old metadata is used: %+v", d)
	}
}

// TestDiscoveryPath: the well-known path stands between host and path (section 9.2).
func TestDiscoveryPath(t *testing.T) {
	p := pdptest.New(t, pdptest.Certification)
	p.Metadata = map[string]any{"policy_decision_point": p.URL + "/tenant1", "access_evaluation_endpoint": p.URL + "/access/v1/evaluation"}
	var path string
	p.Fault(func(w http.ResponseWriter, r *http.Request) { path = r.URL.Path; http.NotFound(w, r) })
	c := newClient(t, p.URL+"/tenant1", func(o *authzen.Options) { o.Discover = true })
	if err := c.Check(t.Context()); err == nil || path != "/.well-known/authzen-configuration/tenant1" {
		t.Errorf("%v, %s", err, path)
	}
	p.Fault(nil)
	if d, err := c.Ask(t.Context(), reads("record-1")); err != nil || !d.Allowed {
		t.Errorf("%+v %v", d, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, change := range map[string]func(*authzen.Options){
		"plain HTTP":    func(o *authzen.Options) { o.URL = "http://pdp.example.com" },
		"no URL":        func(o *authzen.Options) { o.URL = "" },
		"credential":    func(o *authzen.Options) { o.URL = "https://a:b@pdp.example.com" },
		"query":         func(o *authzen.Options) { o.URL = "https://pdp.example.com?x=1" },
		"fragment":      func(o *authzen.Options) { o.URL = "https://pdp.example.com#x" },
		"no time":       func(o *authzen.Options) { o.Timeout = 0 },
		"too much time": func(o *authzen.Options) { o.Timeout = 6 * time.Second },
		"any yes":       func(o *authzen.Options) { o.Semantic = "permit_on_first_permit" },
		"no client":     func(o *authzen.Options) { o.HTTP = nil },
		"no randomness": func(o *authzen.Options) { o.Random = nil },
		"no clock":      func(o *authzen.Options) { o.Clock = nil },
	} {
		o := authzen.Options{URL: "https://pdp.example.com", Semantic: authzen.ExecuteAll, Timeout: time.Second, HTTP: &http.Client{}, Random: rand.Reader, Clock: time.Now}
		if _, err := authzen.New(o); err != nil {
			t.Fatal(err)
		}
		if change(&o); true {
			if _, err := authzen.New(o); err == nil {
				t.Errorf("%s: was accepted", name)
			}
		}
	}
}
