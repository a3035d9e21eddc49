package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// serve serves every call, in both eras. The result is a whole result of its method.
func (h *Handler) serve(x *request, progress func(json.RawMessage)) ([]byte, *refusal) {
	c := x.call
	if f := h.resolve(x, &c); f != nil {
		return nil, f
	}
	if x.modern && c.method == registry.MethodTool {
		if f := h.agreeOnParams(x, c); f != nil {
			h.refused(x.there, x.caller, c.name, f)
			return nil, f
		}
	}
	run, stop := h.inflight.start(x)
	defer stop()
	run, span := h.spanned(run, x)
	defer span.End()
	if c.method == registry.MethodTool && c.name == waitTool {
		return h.wait(run, x, c, progress)
	}
	if c.method == registry.MethodTool && c.name == delegateTool && h.Boundary.Delegates() {
		return h.delegate(run, x, c)
	}
	held, input, f := h.readState(x, c)
	if f != nil {
		h.refused(x.there, x.caller, c.name, f)
		return nil, f
	}
	if held != "" {
		// The client comes back from our own question. Whatever it says about
		// it, the record says what was answered.
		a, err := h.Boundary.Dispatch(run, x.caller, held, progress)
		return h.conclude(run, x, c, a, err, progress, false)
	}
	p := dispatch.Proposal{Caller: x.caller, RunLabel: x.meta.run, Tool: c.name, Method: c.method, Arguments: c.arguments, Input: input,
		Purpose: x.meta.purpose, Occurrence: x.meta.occurrence, Questions: x.questions(), Progress: progress}
	if p.Vouch, f = h.vouch(x); f != nil {
		return nil, f
	}
	a, err := h.Boundary.Do(run, p)
	return h.conclude(run, x, c, a, err, progress, true)
}

// vouch reads an orchestrator's statement if it counts; else it is ignored and
// counted (rule A12).
func (h *Handler) vouch(x *request) (*dispatch.Vouch, *refusal) {
	if x.meta.vouch == nil {
		return nil, nil
	}
	if !x.caller.Vouches() {
		h.Ignored("vouch")
		return nil, nil
	}
	return readVouch(x.meta.vouch)
}

// conclude holds where that may help, and says how it ended. ask: the client may
// be asked to open the approval's page, once.
func (h *Handler) conclude(run context.Context, x *request, c call, a dispatch.Answer, err error, progress func(json.RawMessage), ask bool) ([]byte, *refusal) {
	if err == nil {
		a, err = h.hold(run, x, a, progress)
	}
	if a.Call != nil {
		named(trace.SpanFromContext(run), x.method, a.Call.Tool.Name, a.Code)
	}
	if err != nil {
		return nil, h.failed(x, err)
	}
	switch {
	case a.Code == record.CodeMissingScope:
		f := surfaced(record.Errorf(record.Forbidden, "%s", a.Text()))
		f.header = http.Header{"Www-Authenticate": {h.OAuth.Insufficient(door, a.Scope, "")}}
		f.data = a.Meta()
		return nil, f
	case !a.Needs.None():
		return nil, missing(a.Needs)
	case c.method != registry.MethodTool:
		return h.reading(x, c, a, ask)
	case a.Result != nil:
		return h.result(x, c, a)
	case ask && h.offersPage(x, a):
		if result, ok := h.question(x, c, a); ok {
			return result, nil
		}
	}
	return withoutResult(a), nil
}

// offersPage reports whether this client can be asked to open the approval's page.
func (h *Handler) offersPage(x *request, a dispatch.Answer) bool {
	return waiting(a) && x.modern && a.Approval != nil && declares(x.meta.capabilities, "elicitation", "url") && h.PublicURL != ""
}

// failed says that the boundary could not answer. What it could not, operators read.
func (h *Handler) failed(x *request, err error) *refusal {
	switch record.KindOf(err) {
	case record.Internal, record.Unavailable:
		h.Log.ErrorContext(x.there, x.method, "caller", x.caller, "error", err)
	}
	f := surfaced(err)
	switch {
	case f.status == http.StatusUnauthorized:
		f.header = http.Header{"Www-Authenticate": {h.OAuth.Unauthenticated(door, true)}}
	case f.code == codeInvalidParams:
		f.status = http.StatusBadRequest
	default:
		f.status = http.StatusOK // JSON-RPC was understood: the error is the answer
	}
	return f
}

// readState opens what the client sent back. A state of ours names the call that
// waits; a tool's own state goes back to the tool, with the client's answers,
// as part of the arguments that are decided anew (rule F6). Anything else is
// refused: forged, expired, another caller's, or moved to another call.
func (h *Handler) readState(x *request, c call) (held record.CallID, input json.RawMessage, f *refusal) {
	if c.state == "" {
		if c.responses == nil {
			return "", nil, nil
		}
		return "", encodeInput(c.responses, nil), nil
	}
	st, ok := h.seal.open(c.state, x.caller.SessionID(), callDigest(c), h.Clock())
	switch {
	case !ok:
		return "", nil, refuse(codeInvalidParams, "requestState is not valid here; call again without it")
	case st.Call != "":
		return st.Call, nil, nil
	}
	return "", encodeInput(c.responses, st.Inner), nil
}

// encodeInput writes what goes back to a tool that asked, canonically.
func encodeInput(responses []byte, state *string) json.RawMessage {
	var out []byte
	if responses != nil {
		out = append(append(out, `"inputResponses":`...), responses...)
	}
	if state != nil {
		if out != nil {
			out = append(out, ',')
		}
		out = append(append(out, `"requestState":`...), quote(*state)...)
	}
	if out == nil {
		return nil
	}
	return append(append([]byte{'{'}, out...), '}')
}

// agreeOnParams checks mirrored arguments, for tools that this caller may know
// of: a mismatch on any other must not tell that it exists.
func (h *Handler) agreeOnParams(x *request, c call) *refusal {
	t, ok := h.Tool(c.name)
	if !ok || !strings.Contains(string(t.InputSchema()), "x-mcp-header") {
		return nil
	}
	if !slices.ContainsFunc(h.Boundary.Tools(x.there, x.caller), func(u *registry.Tool) bool { return u.Name == c.name }) {
		return nil
	}
	arguments := c.arguments
	if arguments == nil {
		arguments = json.RawMessage("{}")
	}
	return agreeOnParams(x.header, t.InputSchema(), arguments)
}

// declares reports whether this request's client declared a capability, such as
// elicitation and in it url. An elicitation without members means form.
func declares(capabilities []byte, name, member string) bool {
	v, ok := canon.Lookup(capabilities, name)
	if !ok || v[0] != '{' {
		return false
	}
	if member == "" {
		return true
	}
	if m, ok := canon.Lookup(v, member); ok {
		return m[0] == '{'
	}
	return member == "form" && string(v) == "{}"
}

// questions are what this request's client can answer. Sessions carry none.
func (x *request) questions() dispatch.Questions {
	if !x.modern {
		return dispatch.Questions{}
	}
	return dispatch.Questions{Form: declares(x.meta.capabilities, "elicitation", "form"),
		Sampling: declares(x.meta.capabilities, "sampling", ""), Roots: declares(x.meta.capabilities, "roots", "")}
}

// missing says which capability a tool needs of the client.
func missing(q dispatch.Questions) *refusal {
	needed := map[string]any{}
	for name, need := range map[string]bool{"elicitation": q.Form, "sampling": q.Sampling, "roots": q.Roots} {
		if need {
			needed[name] = struct{}{}
		}
	}
	f := refuse(codeMissingCapability, "the tool needs a capability that this client did not declare")
	f.data = map[string]any{"requiredCapabilities": needed}
	return f
}

// wait serves placet_wait {call}: its caller's return to a call (rule A14).
func (h *Handler) wait(run context.Context, x *request, c call, progress func(json.RawMessage)) ([]byte, *refusal) {
	var id record.CallID
	for name, v := range canon.Members(c.arguments) {
		text, ok := canon.Text(v)
		if name != "call" || !ok || !record.ValidID("call", text) {
			return toolText("Denied: " + waitTool + " takes one argument, call: the ID that an earlier answer named. Nothing ran."), nil
		}
		id = record.CallID(text)
	}
	if id == "" {
		return toolText("Denied: " + waitTool + " needs the argument call: the ID that an earlier answer named. Nothing ran."), nil
	}
	a, err := h.Boundary.Dispatch(run, x.caller, id, progress)
	if err != nil && record.KindOf(err) == record.NotFound {
		return toolText("Denied: you have no call with this ID. Nothing ran. Use the ID that an earlier answer named, or propose the call again."), nil
	}
	return h.conclude(run, x, c, a, err, progress, false)
}
