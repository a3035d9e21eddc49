package isolation_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// answered is what the tests read of an answer about a call.
type answered struct {
	State    string          `json:"state"`
	Call     string          `json:"call"`
	Approval string          `json:"approval"`
	Result   json.RawMessage `json:"result"`
	Lease    struct{ Secret string }
}

// propose makes a call of the owner's in a run of its own.
func (w *world) propose(tool string) *object { w.t.Helper(); return w.proposeIn("owner", tool) }

// proposeIn proposes as the owner, in a run that one of the owner's credentials opened.
func (w *world) proposeIn(opener, tool string) *object {
	w.t.Helper()
	w.made++
	o := &object{target: target{marker: fmt.Sprintf("marker-%d-%s", w.made, rand.Text())}}
	var run struct{ ID string }
	w.ok(w.callers[opener], request{method: http.MethodPost, path: "/v1/runs", body: `{"label":"` + o.marker + `"}`}, &run)
	o.run = run.ID
	var a answered
	w.ok(w.callers["owner"], request{method: http.MethodPost, path: "/v1/calls", header: map[string]string{"Idempotency-Key": "occurrence-" + fmt.Sprint(w.made)},
		body: fmt.Sprintf(`{"run":%q,"tool":%q,"arguments":{"id":%q},"purpose":%q}`, o.run, tool, o.marker, o.marker)}, &a)
	o.call, o.approval, o.secret = a.Call, a.Approval, a.Lease.Secret
	if at := strings.Index(string(a.Result), "receipt-"); at >= 0 {
		o.receipt = string(a.Result)[at : at+len("receipt-")+26]
	}
	return o
}

func (w *world) want(o *object, state string) *object {
	w.t.Helper()
	if now := w.stateOf(o); now != state {
		w.t.Fatalf("the owner's call is %s, want %s", now, state)
	}
	return o
}

func (w *world) stateOf(o *object) string {
	w.t.Helper()
	var v struct{ State string }
	w.ok(w.callers["operator"], request{method: http.MethodGet, path: "/v1/calls/" + o.call}, &v)
	return v.State
}

// done is a call that has run, with a result.
func done(w *world) *object {
	w.t.Helper()
	o := w.want(w.propose("act"), "succeeded")
	if o.receipt == "" {
		w.t.Fatal("the call has no receipt")
	}
	return o
}

// unsettled is a call whose outcome is not known.
func unsettled(w *world) *object { w.t.Helper(); return w.want(w.propose("break"), "unknown") }

// leased is a call that its owner runs itself.
func leased(w *world) *object {
	w.t.Helper()
	o := w.want(w.propose("here"), "executing")
	if o.secret == "" {
		w.t.Fatal("the call has no lease")
	}
	return o
}

// asked is a call that waits for a person.
func asked(w *world) *object {
	w.t.Helper()
	o := w.want(w.propose("file"), "approval_pending")
	var q struct{ Binding string }
	w.ok(w.callers["approver"], request{method: http.MethodGet, path: "/v1/approvals/" + o.approval}, &q)
	o.binding = q.Binding
	return o
}

// vouched is a call that waits in a run which an orchestrator opened: one that
// can be transferred.
func vouched(w *world) *object {
	w.t.Helper()
	return w.want(w.proposeIn("owner with a vouching key", "file"), "approval_pending")
}

// approved is a call that runs as soon as its owner asks again.
func approved(w *world) *object { w.t.Helper(); o := asked(w); w.approve(o); return o }

func (w *world) approve(o *object) {
	w.t.Helper()
	var q struct{ State string }
	w.ok(w.callers["approver"], request{method: http.MethodPost, path: "/v1/approvals/" + o.approval + "/approve", body: `{"binding":"` + o.binding + `"}`}, &q)
	if q.State != "approved" {
		w.t.Fatalf("the question is %s", q.State)
	}
}

// became checks the call's state afterwards.
func became(state string) func(*world, string, *object, reply) error {
	return func(w *world, _ string, o *object, _ reply) error {
		if now := w.stateOf(o); now != state {
			return fmt.Errorf("the call is %s, want %s", now, state)
		}
		return nil
	}
}

// ran checks that the call had its one effect.
func ran(w *world, _ string, o *object, _ reply) error {
	n := 0
	for _, line := range w.ledger.all() {
		if strings.Contains(line, o.marker) {
			n++
		}
	}
	if n != 1 {
		return fmt.Errorf("the ledger has %d effects of the call", n)
	}
	return became("succeeded")(w, "", o, reply{})
}

// tells checks that the answer names the object.
func tells(part func(*object) string) func(*world, string, *object, reply) error {
	return func(_ *world, _ string, o *object, a reply) error {
		if !strings.Contains(a.body, part(o)) {
			return fmt.Errorf("the answer does not name what it is about: %s", short(a.body))
		}
		return nil
	}
}

var (
	theCall     = tells(func(o *object) string { return o.call })
	theRun      = tells(func(o *object) string { return o.run })
	theApproval = tells(func(o *object) string { return o.approval })
)

// only makes a check one for those who may; others are served without it.
func only(may who, f func(*world, string, *object, reply) error) func(*world, string, *object, reply) error {
	return func(w *world, name string, o *object, a reply) error {
		if !may.has(name) {
			return nil
		}
		return f(w, name, o, a)
	}
}

// stopped is a call whose run an operator has revoked.
func stopped(w *world) *object {
	w.t.Helper()
	o := asked(w)
	var r struct{ ID string }
	w.ok(w.callers["operator"], request{method: http.MethodPost, path: "/v1/revocations", body: fmt.Sprintf(`{"target":"run:%s","reason":%q}`, o.run, o.marker)}, &r)
	o.revocation = r.ID
	return w.want(o, "revoked")
}

// theRevocation checks that the answer is about the object's revocation.
func theRevocation(_ *world, _ string, o *object, r reply) error {
	if !strings.Contains(r.body, o.revocation) || !strings.Contains(r.body, o.run) {
		return fmt.Errorf("the answer does not show the revocation: %s", r.body)
	}
	return nil
}

// isUndone checks that the revocation counts no more.
func isUndone(w *world, _ string, o *object, _ reply) error {
	var v struct{ Live bool }
	if w.ok(w.callers["operator"], request{method: http.MethodGet, path: "/v1/revocations/" + o.revocation}, &v); v.Live {
		return fmt.Errorf("the revocation is live")
	}
	return nil
}
