package isolation_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestPromise_P7_EveryMethod: MCP, both eras, method by method.
func TestPromise_P7_EveryMethod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rows := slices.Concat(modernRows(), sessionRows())
	var tested []string
	for _, r := range rows {
		tested = append(tested, r.operation())
	}
	match(t, "method", methods(t), tested)
	check(t, w, slices.Concat(rows, unservedRows()))
}

var methodName = regexp.MustCompile(`^(ping|initialize|(tools|prompts|resources|server|subscriptions|logging|notifications|completion|tasks|roots)/[a-zA-Z/]+)$`)

// methods are those that the door's own source names where it routes.
func methods(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, name := range []string{"../edge/mcp/handler.go", "../edge/mcp/sdk.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			if text, err := strconv.Unquote(lit.Value); err == nil && methodName.MatchString(text) && !slices.Contains(found, text) {
				found = append(found, text)
			}
			return true
		})
	}
	return found
}

const modernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"url":{}}}`

// modern asks in the newest revision. params and meta are members without the braces.
func modern(method, params string, meta ...string) func(*world, credentials, target) reply {
	if params != "" {
		params += ","
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `"_meta":{` + strings.Join(append(meta, modernMeta), ",") + `}}}`
	header := []string{body, "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	var names struct{ Name, URI string }
	if json.Unmarshal([]byte("{"+strings.TrimSuffix(params, ",")+"}"), &names) == nil && names.Name+names.URI != "" {
		header = append(header, "Mcp-Name", names.Name+names.URI)
	}
	return to(post, "/mcp", header...)
}

func modernRows() []row {
	two := who{"owner", "owner with a vouching key"}
	poor := who{"owner without scopes"}
	return []row{
		{name: "tools/list", door: proposing, object: asked, ask: modern("tools/list", ""), own: proposers, done: scoped},
		{name: "tools/call of a tool", door: proposing, object: asked, ask: modern("tools/call", `"name":"act","arguments":{"id":"modern"}`), own: scopeful, lacks: poor, unlike: true},
		{name: "tools/call in a run of the same name", door: proposing, object: asked, own: scopeful, lacks: poor, unlike: true,
			ask: modern("tools/call", `"name":"act","arguments":{"id":"labelled"}`, `"dev.placet/run":"{run}"`)},
		{name: "tools/call of placet_delegate", door: proposing, object: asked, own: proposers, unlike: true,
			ask: modern("tools/call", `"name":"placet_delegate","arguments":{"tools":["act"],"calls":1,"minutes":1}`)},
		{name: "tools/call of placet_delegate in a run of the same name", door: proposing, object: asked, may: two, own: proposers.but(two...), unlike: true, done: belowTheirOwn,
			ask: modern("tools/call", `"name":"placet_delegate","arguments":{"tools":["act"],"calls":1,"minutes":1}`, `"dev.placet/run":"{run}"`)},
		{name: "tools/call of placet_wait", door: proposing, object: approved, ask: modern("tools/call", `"name":"placet_wait","arguments":{"call":"{call}"}`),
			may: two, lacks: poor, decides: true, absent: http.StatusOK, done: ran},
		{name: "tools/call of placet_wait on what has run", door: proposing, object: done, ask: modern("tools/call", `"name":"placet_wait","arguments":{"call":"{call}"}`),
			may: two, lacks: poor, absent: http.StatusOK, done: receipt},
		{name: "tools/call with another's state", door: proposing, object: stated, ask: modern("tools/call", `"name":"file","arguments":{"id":"{marker}"},"requestState":"{state}"`),
			may: two, lacks: poor, decides: true, absent: http.StatusBadRequest, done: ran},
		{name: "server/discover", door: proposing, object: asked, ask: modern("server/discover", ""), own: proposers},
		{name: "prompts/list", door: proposing, object: asked, ask: modern("prompts/list", ""), own: proposers},
		{name: "prompts/get", door: proposing, object: asked, ask: modern("prompts/get", `"name":"{call}"`), absent: http.StatusBadRequest},
		{name: "resources/list", door: proposing, object: asked, ask: modern("resources/list", ""), own: proposers},
		{name: "resources/templates/list", door: proposing, object: asked, ask: modern("resources/templates/list", ""), own: proposers},
		{name: "resources/read", door: proposing, object: asked, ask: modern("resources/read", `"uri":"placet://calls/{call}"`), absent: http.StatusBadRequest},
		{name: "prompts/get of a prompt", door: proposing, object: asked, ask: modern("prompts/get", `"name":"brief","arguments":{"id":"modern"}`), own: scopeful, lacks: poor, unlike: true},
		{name: "resources/read of a note", door: proposing, object: asked, ask: modern("resources/read", `"uri":"desk://notes/modern"`), own: scopeful, lacks: poor, unlike: true},
		{name: "resources/read with another's state", door: proposing, object: statedBy("resources/read", `"uri":"desk://files/{marker}"`),
			ask: modern("resources/read", `"uri":"desk://files/{marker}","requestState":"{state}"`), may: two, lacks: poor, decides: true, absent: http.StatusBadRequest, done: ran},
		{name: "tools/call of placet_wait on a held read", door: proposing, object: statedBy("resources/read", `"uri":"desk://files/{marker}"`),
			ask: modern("tools/call", `"name":"placet_wait","arguments":{"call":"{call}"}`), may: two, lacks: poor, decides: true, absent: http.StatusOK, done: ran},
		{name: "completion/complete", door: proposing, object: asked, absent: http.StatusBadRequest,
			ask: modern("completion/complete", `"ref":{"type":"ref/prompt","name":"{call}"},"argument":{"name":"id","value":"{run}"}`)},
		{name: "completion/complete of a prompt", door: proposing, object: asked, own: scopeful, lacks: poor, unlike: true,
			ask: modern("completion/complete", `"ref":{"type":"ref/prompt","name":"brief"},"argument":{"name":"id","value":"m"}`)},
		{name: "subscriptions/listen", door: proposing, object: asked, ask: listening, own: proposers},
	}
}

// belowTheirOwn: a run is opened below the owner's for the owner alone; for the others
// its ID is a label of a run of theirs.
func belowTheirOwn(w *world, name string, o *object, a reply) error {
	_, opened, ok := strings.Cut(a.body, "Opened ")
	opened, _, _ = strings.Cut(opened, " ")
	if ok != scopeful.has(name) {
		return fmt.Errorf("opened: %t", ok)
	}
	var run struct{ Children []string }
	w.ok(w.callers["operator"], request{method: http.MethodGet, path: "/v1/runs/" + o.run}, &run)
	if below := slices.Contains(run.Children, opened); below != (ok && mine.has(name)) {
		return fmt.Errorf("it lies below the owner's run: %t", below)
	}
	return nil
}

// listening reads the first event of a stream, which says what is listened to.
func listening(w *world, c credentials, t target) reply {
	body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,` +
		`"resourceSubscriptions":["placet://calls/{call}"]},"_meta":{` + modernMeta + `}}}`
	return w.send(c, request{method: post, path: "/mcp", body: t.fill(body), stream: true, header: map[string]string{
		"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}})
}

// unservedRows are methods that the door does not serve, with another's IDs in
// every place: to everybody the same nothing.
func unservedRows() []row {
	var rows []row
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel", "tasks/list", "resources/subscribe", "resources/unsubscribe", "roots/list", "placet/anything"} {
		rows = append(rows,
			row{name: method, door: proposing, object: asked, ask: modern(method, `"taskId":"{call}","call":"{call}","run":"{run}"`)})
	}
	return rows
}

// stated is a call whose owner's client holds a sealed state for it. It was
// approved since.
func stated(w *world) *object {
	w.t.Helper()
	return statedBy("tools/call", `"name":"file","arguments":{"id":"{marker}"}`)(w)
}

// statedBy is stated for what is asked by another method.
func statedBy(method, params string) func(*world) *object {
	return func(w *world) *object { w.t.Helper(); return w.stated(modern(method, params)) }
}

func (w *world) stated(ask func(*world, credentials, target) reply) *object {
	w.t.Helper()
	w.made++
	o := &object{target: target{marker: fmt.Sprintf("stated-%d", w.made)}}
	a := ask(w, w.callers["owner"], o.target)
	var m struct {
		Result struct {
			RequestState string
			Requests     map[string]struct{ Params struct{ URL string } } `json:"inputRequests"`
		}
	}
	if err := json.Unmarshal([]byte(a.body), &m); err != nil || m.Result.RequestState == "" {
		w.t.Fatalf("no state came: %v %s", err, a.body)
	}
	o.state = m.Result.RequestState
	url := m.Result.Requests["placet_approval"].Params.URL
	w.adopt(o, url[strings.LastIndexByte(url, '/')+1:])
	w.approve(o)
	return o
}

// adopt fills in an object from its question.
func (w *world) adopt(o *object, approval string) {
	w.t.Helper()
	var q struct {
		Binding string
		Call    struct{ ID, Run string }
	}
	w.ok(w.callers["approver"], request{method: get, path: "/v1/approvals/" + approval}, &q)
	o.approval, o.binding, o.call, o.run = approval, q.Binding, q.Call.ID, q.Call.Run
}

const version = "2025-11-25"

var sessionHeader = []string{"Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", version, "Mcp-Session-Id", "{session}"}

// within asks in a session of an older revision.
func within(method, params string) func(*world, credentials, target) reply {
	id := `"id":7,`
	if strings.HasPrefix(method, "notifications/") {
		id = ""
	}
	return to(post, "/mcp", append([]string{`{"jsonrpc":"2.0",` + id + `"method":"` + method + `","params":{` + params + `}}`}, sessionHeader...)...)
}

const opening = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// open initializes a session and returns the answer.
func open(w *world, c credentials, _ target) reply {
	return w.send(c, request{method: post, path: "/mcp", body: opening, header: map[string]string{"Accept": "application/json, text/event-stream"}})
}

// opened gives the owner a session beside the object, not initialized yet.
func opened(of func(*world) *object) func(*world) *object {
	return func(w *world) *object {
		w.t.Helper()
		o := of(w)
		a := open(w, w.callers["owner"], target{})
		if o.session = a.header.Get("Mcp-Session-Id"); o.session == "" {
			w.t.Fatalf("no session: %d %s", a.status, a.body)
		}
		return o
	}
}

// session gives the owner a session beside the object.
func session(of func(*world) *object) func(*world) *object {
	return func(w *world) *object {
		w.t.Helper()
		o := opened(of)(w)
		within("notifications/initialized", "")(w, w.callers["owner"], o.target)
		return o
	}
}

// alive is whether the owner's session still answers its owner.
func alive(w *world, o *object) string {
	return fmt.Sprint(within("ping", "")(w, w.callers["owner"], o.target).status)
}

func sessionRows() []row {
	two := who{"owner", "owner with a vouching key"}
	poor := who{"owner without scopes"}
	rows := []row{
		{name: "initialize", own: proposers, unlike: true, ask: open},
		{name: "ping in a session", may: mine, ask: within("ping", "")},
		{name: "tools/list in a session", may: mine, ask: within("tools/list", ""), done: scoped},
		{name: "tools/call in a session", may: two, lacks: poor, ask: within("tools/call", `"name":"act","arguments":{"id":"{marker} in a session"}`)},
		{name: "tools/call of placet_wait in a session", object: session(approved), may: two, lacks: poor, decides: true, done: ran,
			ask: within("tools/call", `"name":"placet_wait","arguments":{"call":"{call}"}`)},
		{name: "logging/setLevel in a session", may: mine, ask: within("logging/setLevel", `"level":"debug"`)},
		{name: "prompts/list in a session", may: mine, ask: within("prompts/list", "")},
		{name: "prompts/get in a session", may: mine, ask: within("prompts/get", `"name":"x"`)},
		{name: "prompts/get of a prompt in a session", may: two, lacks: poor, ask: within("prompts/get", `"name":"brief","arguments":{"id":"s"}`)},
		{name: "resources/read of a note in a session", may: two, lacks: poor, ask: within("resources/read", `"uri":"desk://notes/s"`)},
		{name: "completion/complete in a session", may: two, lacks: poor, ask: within("completion/complete", `"ref":{"type":"ref/prompt","name":"brief"},"argument":{"name":"id","value":"m"}`)},
		{name: "resources/list in a session", may: mine, ask: within("resources/list", "")},
		{name: "resources/read in a session", may: mine, ask: within("resources/read", `"uri":"x://x"`)},
		{name: "resources/templates/list in a session", may: mine, ask: within("resources/templates/list", "")},
		{name: "server/discover in a session", may: mine, ask: within("server/discover", "")},
		{name: "subscriptions/listen in a session", may: mine, ask: within("subscriptions/listen", "")},
		{name: "notifications/initialized in a session", object: opened(asked), may: mine, ask: within("notifications/initialized", "")},
		{name: "notifications/cancelled in a session", object: held, may: mine, ask: within("notifications/cancelled", `"requestId":77`), done: becomes("canceled")},
		{name: "notifications/cancelled in one's own session", object: held, own: proposers, ask: cancelElsewhere},
		{name: "tools/call of placet_wait in one's own session", object: session(approved), own: proposers.but(mine...), ask: waitElsewhere, columns: everybody.but(mine...)},
	}
	for n := range rows {
		rows[n].door, rows[n].also = proposing, alive
		if rows[n].object == nil {
			rows[n].object = session(asked)
		}
	}
	return append(rows, endRows()...)
}

// endRows are what GET and DELETE do with a session.
func endRows() []row {
	return []row{
		{name: "ping after the stream of a session", door: proposing, object: session(asked), also: alive, ask: to(get, "/mcp", append([]string{""}, sessionHeader...)...),
			columns: everybody.but(mine...)},
		{name: "ping after the end of a session", door: proposing, object: session(asked), also: alive, may: mine, ask: to(http.MethodDelete, "/mcp", append([]string{""}, sessionHeader...)...),
			done: func(w *world, _ string, o *object, _ reply) error {
				if now := alive(w, o); now != "404" {
					return fmt.Errorf("the session still answers: %s", now)
				}
				return nil
			}},
	}
}

// elsewhere opens a session of the caller's own and asks in it.
func elsewhere(w *world, c credentials, t target, ask func(*world, credentials, target) reply) reply {
	opened := open(w, c, t)
	if opened.status != http.StatusOK {
		return opened
	}
	t.session = opened.header.Get("Mcp-Session-Id")
	a := ask(w, c, t)
	a.body = strings.ReplaceAll(a.body, t.session, "OWN")
	a.header = a.header.Clone()
	a.header.Del("Mcp-Session-Id")
	return a
}

func cancelElsewhere(w *world, c credentials, t target) reply {
	return elsewhere(w, c, t, within("notifications/cancelled", `"requestId":77`))
}

func waitElsewhere(w *world, c credentials, t target) reply {
	return elsewhere(w, c, t, within("tools/call", `"name":"placet_wait","arguments":{"call":"{call}"}`))
}

// held is a call whose owner's request, with the ID 77, is still held.
func held(w *world) *object {
	w.t.Helper()
	w.made++
	o := session(func(*world) *object { return &object{target: target{marker: fmt.Sprintf("held-%d-", w.made)}} })(w)
	body := o.fill(`{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"file","arguments":{"id":"{marker}"}}}`)
	owner, url := w.callers["owner"], w.url
	go func() { // ends when the call is canceled, or the wait is over
		r, err := http.NewRequest(post, url+"/mcp", bytes.NewReader([]byte(body)))
		if err != nil {
			return
		}
		for name, value := range map[string]string{"Authorization": "Bearer " + owner.bearer, "Content-Type": "application/json",
			"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": version, "Mcp-Session-Id": o.session} {
			r.Header.Set(name, value)
		}
		if res, err := http.DefaultClient.Do(r); err == nil {
			_ = res.Body.Close()
		}
	}()
	until(w, "a question for "+o.marker, func() bool {
		var page struct {
			Approvals []struct {
				ID   string
				Call struct{ Arguments struct{ ID string } }
			}
		}
		w.ok(w.callers["approver"], request{method: get, path: "/v1/approvals?state=pending&limit=500"}, &page)
		for _, q := range page.Approvals {
			if q.Call.Arguments.ID == o.marker {
				w.adopt(o, q.ID)
				return true
			}
		}
		return false
	})
	return o
}

// until asks again and again.
func until(w *world, what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(end) {
			w.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// becomes waits for a state that the answer does not wait for.
func becomes(state string) func(*world, string, *object, reply) error {
	return func(w *world, _ string, o *object, _ reply) error {
		until(w, "the call to become "+state, func() bool { return w.stateOf(o) == state })
		return nil
	}
}
