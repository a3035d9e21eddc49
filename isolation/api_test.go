package isolation_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestPromise_P7_EveryOperation: the HTTP API, operation by operation.
func TestPromise_P7_EveryOperation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rows := operations()
	w.covers(rows)
	check(t, w, append(rows, pages()...))
}

// pages are what stands beside the API and looks at no credential of it. To
// everybody they say the same: the console's ask for a sign-in, whatever token or
// key comes along, and what a session sees is tested in edge/console.
func pages() []row {
	var rows []row
	for _, path := range []string{"/console", "/console/approvals/{approval}", "/console/approvals/{approval}/arguments", "/console/calls", "/console/calls/{call}",
		"/console/calls/{call}/arguments", "/console/runs/{run}", "/console/tools", "/console/limits", "/console/passkeys", "/console/agents", "/console/alerts",
		"/console/later", "/console/later?list=dead", "/console/later?list=schedules", "/console/schedules/" + aSchedule + "/arguments", "/console/revocations", "/console/revocations?ended=yes", "/console/revocations/{revocation}", "/healthz", "/readyz", "/v1/openapi.json"} {
		ask := func(w *world, c credentials, t target) reply {
			a := to(get, path)(w, c, t)
			for _, id := range []string{t.approval, t.call, t.run, t.revocation} {
				if id != "" {
					a.body = strings.ReplaceAll(a.body, id, "ASKED") // a page may repeat what its address says
				}
			}
			return a
		}
		of := asked
		if strings.Contains(path, "{revocation}") {
			of = stopped
		}
		rows = append(rows, row{name: "page " + path, object: of, ask: ask, own: everybody})
	}
	return rows
}

// covers fails for an operation of the server's own document that has no row, and
// for a row of an operation that is gone.
func (w *world) covers(rows []row) {
	w.t.Helper()
	var document struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	w.ok(credentials{}, request{method: http.MethodGet, path: "/v1/openapi.json"}, &document)
	var served, tested []string
	for _, path := range document.Paths {
		for _, op := range path {
			served = append(served, op.OperationID)
		}
	}
	for _, r := range rows {
		tested = append(tested, r.operation())
	}
	match(w.t, "operation", served, tested)
}

// match compares what there is with what has rows.
func match(t testing.TB, kind string, there, tested []string) {
	t.Helper()
	if len(there) == 0 {
		t.Fatalf("no %s was found: the test looks in the wrong place", kind)
	}
	for _, name := range there {
		if !slices.Contains(tested, name) {
			t.Errorf("the %s %q has no row: say who may, in the table", kind, name)
		}
	}
	for _, name := range tested {
		if !slices.Contains(there, name) {
			t.Errorf("the %s %q has a row and is not there", kind, name)
		}
	}
}

// to makes an ask of one HTTP request. Braces in path and body name the target's parts.
func to(method, path string, body ...string) func(*world, credentials, target) reply {
	return func(w *world, c credentials, t target) reply {
		q := request{method: method, path: t.fill(path), stream: strings.Contains(path, "/stream") || path == "/v1/approvals/events"}
		if len(body) > 0 {
			q.body = t.fill(body[0])
		}
		for i := 1; i+1 < len(body); i += 2 {
			if q.header == nil {
				q.header = map[string]string{}
			}
			q.header[body[i]] = t.fill(body[i+1])
		}
		return w.send(c, q)
	}
}

func (t target) fill(s string) string {
	return strings.NewReplacer("{call}", t.call, "{run}", t.run, "{approval}", t.approval, "{binding}", t.binding,
		"{marker}", t.marker, "{session}", t.session, "{transcript}", t.transcript, "{share}", t.share, "{state}", t.state, "{secret}", t.secret, "{revocation}", t.revocation).Replace(s)
}

const get, post = http.MethodGet, http.MethodPost

// operations is the table: who may.
func operations() []row {
	return slices.Concat(runRows(), callRows(), proposalRows(), approvalRows(), eventRows(), otherRows(), historyRows(), laterRows())
}

// scopeful are proposers whose own call of a tool runs.
var scopeful = proposers.but("owner without scopes")

// seers may look at what is the owner's.
var seers = the(mine, readers)

func runRows() []row {
	vouching := who{"owner with a vouching key"}
	return []row{
		{name: "open-run", door: proposing, object: asked, ask: to(post, "/v1/runs", `{"label":"mine"}`), own: proposers, unlike: true},
		{name: "list-runs", door: door{viewing.unknown, the(viewing.forbidden, persons)}, object: asked, ask: to(get, "/v1/runs?limit=500"),
			may: seers, own: the(proposers, strangers).but(mine...), done: only(seers, theRun), unlike: true},
		{name: "show-run", door: viewing, object: asked, ask: to(get, "/v1/runs/{run}"), may: seers, done: theRun},
		{name: "start-turn", door: proposing, object: asked, ask: to(post, "/v1/runs/{run}/turns", `{}`),
			may: vouching, lacks: mine.but(vouching...), done: became("canceled")},
		{name: "start-turn keeping another's call", door: proposing, object: asked, ask: keeping, own: who{}, absent: http.StatusBadRequest,
			lacks: proposers.but("owner with a vouching key", "other principal with a vouching key")},
		{name: "end-run", door: proposing, object: asked, ask: to(post, "/v1/runs/{run}/end", `{}`), may: mine, done: became("canceled")},
		{name: "open-child", door: proposing, object: asked, may: who{"owner", "owner with a vouching key"}, lacks: who{"owner without scopes"},
			ask: to(post, "/v1/runs/{run}/children", `{"agent":"rover","tools":["act"],"calls":1,"until":"2999-01-01T00:00:00Z"}`), done: theRun},
		{name: "open-child below another agent's", door: proposing, object: below, may: who{"other agent"},
			ask: to(post, "/v1/runs/{run}/children", `{"tools":["act"],"calls":1,"until":"2998-01-01T00:00:00Z"}`), done: theRun},
		{name: "show-run of a child run", door: viewing, object: below, ask: to(get, "/v1/runs/{run}"), may: the(seers, who{"other agent"}), done: theRun},
		{name: "end-run of a child run", door: proposing, object: below, ask: to(post, "/v1/runs/{run}/end", `{}`), may: the(mine, who{"other agent"}), done: became("canceled")},
		{name: "transfer-run", door: proposing, object: vouched, may: mine, done: became("canceled"),
			ask: to(post, "/v1/runs/{run}/transfer", `{"issuer":"urn:placet:dev","subject":"carla","agent":"bot"}`)},
		{name: "transfer-run of an unvouched lineage", door: proposing, object: asked, lacks: mine,
			ask: to(post, "/v1/runs/{run}/transfer", `{"issuer":"urn:placet:dev","subject":"carla","agent":"bot"}`)},
		{name: "delegate-run", door: proposing, object: asked, lacks: mine, // the development issuer knows none of these people
			ask: to(post, "/v1/runs/{run}/delegation", `{"until":"2999-01-01T00:00:00Z"}`)},
		{name: "withdraw-delegation", door: proposing, object: asked, lacks: mine, ask: to(http.MethodDelete, "/v1/runs/{run}/delegation")},
	}
}

// keeping starts a turn of a run of the caller's own, and names a call of another run.
func keeping(w *world, c credentials, t target) reply {
	opened := to(post, "/v1/runs", `{}`)(w, c, t)
	_, id, ok := strings.Cut(opened.body, `"id":"`)
	if !ok {
		return to(post, "/v1/runs/{run}/turns", `{"keep":["{call}"]}`)(w, c, t)
	}
	id, _, _ = strings.Cut(id, `"`)
	a := to(post, "/v1/runs/"+id+"/turns", `{"keep":["{call}"]}`)(w, c, t)
	a.body = strings.ReplaceAll(a.body, id, "OWN")
	return a
}

func callRows() []row {
	listing := door{viewing.unknown, the(viewing.forbidden, persons)}
	elses := the(proposers, strangers).but(mine...)
	return []row{
		{name: "list-calls", door: listing, object: done, ask: to(get, "/v1/calls?limit=500"), may: seers, own: elses, done: only(seers, theCall), unlike: true},
		{name: "list-calls of a run", door: listing, object: done, ask: to(get, "/v1/calls?run={run}"), may: seers, own: elses, done: only(seers, theCall)},
		{name: "show-call", door: viewing, object: asked, ask: to(get, "/v1/calls/{call}"), may: the(seers, who{"approver"}), done: theCall},
		{name: "show-call with a result", door: viewing, object: done, ask: to(get, "/v1/calls/{call}"), may: seers, done: receipt},
		{name: "dispatch", door: proposing, object: approved, ask: to(post, "/v1/calls/{call}/dispatch"),
			may: who{"owner", "owner with a vouching key"}, lacks: who{"owner without scopes"}, decides: true, done: ran},
		{name: "dispatch waiting", door: proposing, object: asked, ask: to(post, "/v1/calls/{call}/dispatch?wait=1"),
			may: who{"owner", "owner with a vouching key"}, lacks: who{"owner without scopes"}, decides: true, done: became("approval_pending")},
		{name: "dispatch of what has run", door: proposing, object: done, ask: to(post, "/v1/calls/{call}/dispatch"),
			may: who{"owner", "owner with a vouching key"}, lacks: who{"owner without scopes"}, done: receipt},
		{name: "cancel", door: proposing, object: asked, ask: to(post, "/v1/calls/{call}/cancel"), may: mine, done: became("canceled")},
		{name: "cancel of what has run", door: proposing, object: done, ask: to(post, "/v1/calls/{call}/cancel"), may: mine, done: receipt},
		{name: "dispatch of what is leased", door: proposing, object: leased, ask: to(post, "/v1/calls/{call}/dispatch"),
			may: who{"owner", "owner with a vouching key"}, lacks: who{"owner without scopes"}, done: keepsSecret},
		{name: "show-call that is leased", door: viewing, object: leased, ask: to(get, "/v1/calls/{call}"), may: seers, done: keepsSecret},
		{name: "heartbeat", door: proposing, object: leased, ask: to(post, "/v1/calls/{call}/heartbeat", `{"attempt":1,"secret":"{secret}"}`),
			may: mine, done: keepsSecret},
		{name: "heartbeat without the lease", door: proposing, object: leased, ask: to(post, "/v1/calls/{call}/heartbeat", `{"attempt":1,"secret":"{call}"}`), lacks: mine},
		{name: "report", door: proposing, object: leased, ask: to(post, "/v1/calls/{call}/report", `{"attempt":1,"secret":"{secret}","outcome":"succeeded","result":"{marker}"}`),
			may: mine, done: became("succeeded")},
		{name: "report without the lease", door: proposing, object: leased, ask: to(post, "/v1/calls/{call}/report", `{"attempt":1,"secret":"{call}","outcome":"succeeded"}`), lacks: mine},
		{name: "reconcile", door: operating, object: unsettled, ask: to(post, "/v1/calls/{call}/reconcile", `{"outcome":"succeeded","evidence":"the desk's book"}`),
			may: who{"operator"}, done: became("succeeded")},
		{name: "look", door: operating, object: unsettled, ask: to(post, "/v1/calls/{call}/look"), may: who{"operator"}, done: became("unknown")},
		{name: "redact-call", door: operating, object: done, ask: to(post, "/v1/calls/{call}/redact", `{"reason":"asked for"}`), may: who{"operator"}, done: became("succeeded")},
		{name: "lift", door: operating, object: asked, ask: to(post, "/v1/runs/{run}/lift", `{"reason":"looked at"}`), lacks: who{"operator"}},
		{name: "void-answers", door: operating, object: approved, ask: to(post, "/v1/approvals/void", `{"issuer":"urn:placet:dev","subject":"lena","reason":"left"}`),
			may: who{"operator"}, own: who{"operator of the other tenant"}, done: isVoid, unlike: true},
	}
}

// keepsSecret: what shows who holds a lease was told once, and the call runs on.
func keepsSecret(w *world, name string, o *object, a reply) error {
	if strings.Contains(a.all(), o.secret) {
		return fmt.Errorf("the lease's secret is told again: %s", short(a.body))
	}
	return became("executing")(w, name, o, a)
}

// receipt: the owner reads what its call returned, while it may call the tool.
func receipt(_ *world, name string, o *object, a reply) error {
	told := strings.Contains(a.body, o.receipt)
	if want := name == "owner" || name == "owner with a vouching key"; told != want {
		return fmt.Errorf("told the result: %t, want %t", told, want)
	}
	return nil
}

func proposalRows() []row {
	two := who{"owner", "owner with a vouching key"}
	nothing := who{"owner without scopes"}
	// What was done for a person is not done again for them, through whatever agent
	// they ask (rule A7): the record that answers is the principal's.
	agents := the(two, who{"other agent"})
	return []row{
		{name: "propose", door: proposing, object: asked, ask: to(post, "/v1/calls", `{"tool":"act","arguments":{"id":"n"}}`),
			own: scopeful, lacks: nothing, unlike: true},
		{name: "propose in another agent's child run", door: proposing, object: below, may: who{"other agent"}, done: effect,
			ask: to(post, "/v1/calls", `{"run":"{run}","tool":"act","arguments":{"id":"{marker}"}}`)},
		{name: "propose in a run", door: proposing, object: asked, ask: to(post, "/v1/calls", `{"run":"{run}","tool":"act","arguments":{"id":"{marker}"}}`),
			may: two, lacks: who{"owner without scopes"}, done: effect},
		{name: "propose an edit", door: proposing, object: asked, ask: edit,
			may: two, lacks: who{"owner without scopes"}},
		{name: "propose the same", door: proposing, object: done, ask: same, own: scopeful.but(agents...), lacks: nothing, may: agents, done: sameReceipt, unlike: true},
		{name: "explain", door: proposing, object: asked, ask: to(post, "/v1/explain", `{"tool":"act","arguments":{"id":"n"}}`), own: proposers},
		{name: "explain in a run", door: proposing, object: asked, ask: to(post, "/v1/explain", `{"run":"{run}","tool":"act","arguments":{"id":"n"}}`), may: mine},
		{name: "list-tools", door: proposing, object: asked, ask: to(get, "/v1/tools"), own: proposers, done: scoped},
	}
}

// edit proposes other arguments in place of a call's.
func edit(w *world, c credentials, t target) reply {
	w.made++
	return to(post, "/v1/calls", fmt.Sprintf(`{"edits":"{call}","tool":"file","arguments":{"id":"edited %d"}}`, w.made))(w, c, t)
}

// same proposes exactly what the owner proposed: tool, arguments, label and
// occurrence. Its answer must come from the caller's own records.
func same(w *world, c credentials, t target) reply {
	a := to(post, "/v1/calls", `{"label":"{marker}","tool":"act","arguments":{"id":"{marker}"}}`)(w, c, t)
	a.body = strings.ReplaceAll(a.body, t.marker, "MARKER")
	return a
}

func sameReceipt(_ *world, name string, o *object, a reply) error {
	told := strings.Contains(a.body, o.receipt)
	if want := mine.has(name) || name == "other agent"; told != want {
		return fmt.Errorf("answered with the owner's result: %t, want %t: %s", told, want, short(a.body))
	}
	return nil
}

func effect(w *world, _ string, o *object, _ reply) error {
	if !slices.Contains(w.ledger.all(), `act {"id":"`+o.marker+`"}`) {
		return fmt.Errorf("the call had no effect")
	}
	return nil
}

// scoped: list and call agree; without the scope there are no tools.
func scoped(_ *world, name string, _ *object, a reply) error {
	if listed := strings.Contains(a.body, `"act"`); listed != scopeful.has(name) {
		return fmt.Errorf("tools are listed: %t", listed)
	}
	return nil
}

func approvalRows() []row {
	may := the(seers, who{"approver"})
	answer := `{"binding":"{binding}"}`
	return []row{
		{name: "list-approvals", door: viewing, object: asked, ask: to(get, "/v1/approvals?limit=500"), may: may,
			own: the(proposers, persons, strangers).but(may...), done: only(may, theApproval), unlike: true},
		{name: "stream-approvals", door: viewing, object: asked, ask: to(get, "/v1/approvals/events"), may: may,
			own: the(proposers, persons, strangers).but(may...), done: only(may, theApproval), unlike: true, together: true},
		{name: "show-approval", door: viewing, object: asked, ask: to(get, "/v1/approvals/{approval}"), may: may, done: theApproval},
		// This question wants no passkey, so that there is nothing to prove.
		{name: "approval-evidence", door: viewing, object: asked, ask: to(get, "/v1/approvals/{approval}/evidence"), lacks: the(readers, who{"approver"})},
		{name: "approve", door: answering, object: asked, ask: to(post, "/v1/approvals/{approval}/approve", answer), may: who{"approver"}, done: isApproved},
		{name: "reject", door: answering, object: asked, ask: to(post, "/v1/approvals/{approval}/reject", answer), may: who{"approver"}, done: became("denied")},
	}
}

// isVoid: the operator's is asked anew. That the other tenant's command moved nothing
// is seen by the matrix.
func isVoid(w *world, name string, o *object, _ reply) error {
	if name != "operator" {
		return nil
	}
	var q struct{ State string }
	w.ok(w.callers["operator"], request{method: get, path: "/v1/approvals/" + o.approval}, &q)
	if q.State != "void" || w.stateOf(o) != "approval_pending" {
		return fmt.Errorf("the question is %s, and the call %s", q.State, w.stateOf(o))
	}
	return nil
}

func isApproved(w *world, _ string, o *object, _ reply) error {
	var q struct{ State string }
	if w.ok(w.callers["operator"], request{method: get, path: "/v1/approvals/" + o.approval}, &q); q.State != "approved" {
		return fmt.Errorf("the question is %s", q.State)
	}
	return effects(nil, slices.DeleteFunc(w.ledger.all(), func(l string) bool { return !strings.Contains(l, o.marker) }))
}

func eventRows() []row {
	var rows []row
	for _, op := range []struct{ name, path string }{{"list-events", "/v1/events"}, {"stream-events", "/v1/events/stream"}} {
		all := the(readers, strangers)
		rows = append(rows,
			row{name: op.name, door: door{viewing.unknown, the(viewing.forbidden, proposers, persons)}, object: asked,
				ask: to(get, op.path+"?limit=500&after=0"), own: strangers, may: readers, unlike: true},
			row{name: op.name + " of a call", door: viewing, object: asked, ask: to(get, op.path+"?call={call}"),
				may: the(seers, who{"approver"}), own: strangers, done: only(the(seers, who{"approver"}), theCall)},
			row{name: op.name + " of a run", door: door{viewing.unknown, the(viewing.forbidden, persons)}, object: asked, ask: to(get, op.path+"?run={run}"),
				may: seers, own: all.but(readers...), done: only(seers, theRun)},
		)
		for n := range rows {
			rows[n].together = true
		}
	}
	return rows
}

func otherRows() []row {
	return []row{
		// Registry and policy are the server's, not a tenant's: who operates in any
		// tenant reads them again, and can bring in nothing but the operator's files.
		{name: "reload", door: operating, object: asked, ask: to(post, "/v1/reload"),
			own: who{"operator", "operator of the other tenant"}, unlike: true},
		// Versions are the server's too. What was activated before can be gone back to; files
		// that are sent are refused unless the server's own configuration accepts them.
		{name: "list-versions", door: reading, object: asked, ask: to(get, "/v1/versions"), own: the(readers, strangers), unlike: true},
		{name: "activate-version", door: operating, object: asked, ask: to(post, "/v1/versions/activate", `{"generation":1,"plan":true}`),
			own: who{"operator", "operator of the other tenant"}, unlike: true},
		{name: "compare-versions", door: operating, object: done, ask: to(post, "/v1/versions/compare", `{"to":{"generation":1}}`),
			may: who{"operator"}, own: who{"operator of the other tenant"}, unlike: true},
		{name: "list-observed", door: reading, object: done, ask: to(get, "/v1/observed"), may: readers, own: strangers, unlike: true},
		{name: "list-limits", door: door{viewing.unknown, the(viewing.forbidden, persons)}, object: asked, ask: to(get, "/v1/limits?limit=500"),
			may: readers, own: the(proposers, strangers), unlike: true}, // readers see which runs have calls that wait
		{name: "list-limits of a run", door: door{viewing.unknown, the(viewing.forbidden, persons, readers, strangers)}, object: asked,
			ask: to(get, "/v1/limits?run={run}"), may: mine},
		// An operator removes passkeys of their own tenant; here nobody has any.
		{name: "revoke-passkeys", door: operating, object: asked, ask: to(post, "/v1/passkeys/revoke", `{"issuer":"urn:placet:dev","subject":"lena"}`),
			own: who{"operator", "operator of the other tenant"}, unlike: true},
		{name: "show-checkpoint", door: reading, object: provable, ask: to(get, "/v1/audit/checkpoint"), own: the(readers, strangers), unlike: true, together: true},
		{name: "export-audit", door: reading, object: provable, ask: to(get, "/v1/audit/export"), may: readers, own: strangers, done: only(readers, theCall), unlike: true, together: true},
		{name: "call-receipt", door: reading, object: provable, ask: to(get, "/v1/calls/{call}/receipt"), may: readers, done: theCall, together: true},
		{name: "event-receipt", door: reading, object: provable, ask: firstEvent, may: readers, done: theCall, together: true},
		{name: "list-held", door: reading, object: asked, ask: to(get, "/v1/held"), may: readers, own: strangers, unlike: true},
		{name: "revoke", door: operating, object: asked, ask: to(post, "/v1/revocations", `{"target":"run:{run}","reason":"looked at"}`),
			may: who{"operator"}, done: became("revoked")},
		{name: "revoke everywhere", door: operating, object: asked, ask: to(post, "/v1/revocations", `{"target":"tool:file","reason":"looked at","everywhere":true}`),
			lacks: who{"operator", "operator of the other tenant"}, unlike: true},
		{name: "revoke in another tenant", door: operating, object: asked, ask: to(post, "/v1/revocations", `{"target":"all","reason":"looked at","tenant":"elsewhere"}`),
			lacks: who{"operator", "operator of the other tenant"}, unlike: true},
		{name: "list-revocations", door: reading, object: stopped, ask: to(get, "/v1/revocations?ended=true&limit=500"), may: readers, own: strangers,
			done: only(readers, theRevocation), unlike: true},
		{name: "show-revocation", door: reading, object: stopped, ask: to(get, "/v1/revocations/{revocation}"), may: readers, done: theRevocation},
		{name: "undo-revocation", door: operating, object: stopped, ask: to(post, "/v1/revocations/{revocation}/undo", `{"reason":"over"}`), may: who{"operator"}, done: isUndone},
		{name: "list-alerts", door: reading, object: asked, ask: to(get, "/v1/alerts"), may: readers, own: strangers, unlike: true},
		{name: "show-me", door: viewing, object: asked, ask: to(get, "/v1/me"), own: the(proposers, persons, readers, strangers), unlike: true},
		{name: "list-overrides", door: reading, object: asked, ask: to(get, "/v1/overrides"), own: the(readers, strangers)},
	}
}
