package mcp

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/placet-dev/placet/dispatch"
)

// questionKey names our own question among a result's inputRequests.
const questionKey = "placet_approval"

// question asks the client to open the approval's page. The state that comes
// back only says which call is meant.
func (h *Handler) question(x *request, c call, a dispatch.Answer) ([]byte, bool) {
	sealed, err := h.seal.close(state{Session: x.caller.SessionID(), Digest: callDigest(c),
		Expires: h.stateEnd(a.Approval.Expires), Call: a.Call.ID})
	if err != nil {
		h.Log.ErrorContext(x.there, "no request state", "error", err)
		return nil, false
	}
	type params struct {
		Mode    string `json:"mode"`
		Message string `json:"message"`
		URL     string `json:"url"`
		ID      string `json:"elicitationId"`
	}
	type request struct {
		Method string `json:"method"`
		Params params `json:"params"`
	}
	out, err := json.Marshal(struct {
		Type     string             `json:"resultType"`
		Requests map[string]request `json:"inputRequests"`
		State    string             `json:"requestState"`
		Meta     map[string]any     `json:"_meta"`
	}{"input_required", map[string]request{questionKey: {"elicitation/create", params{"url", a.Text(),
		strings.TrimRight(h.PublicURL, "/") + "/console/approvals/" + string(a.Approval.ID), string(a.Approval.ID)}}},
		sealed, map[string]any{metaDecision: a.Meta()}})
	return out, err == nil
}

func (h *Handler) stateEnd(other time.Time) int64 {
	end := h.Clock().Add(h.StateFor)
	if !other.IsZero() && other.Before(end) {
		end = other
	}
	return end.Unix()
}

// passQuestion passes a tool's own question on (rule F6). The boundary has
// admitted that the server may ask. What is passed on names the server; a page to
// open is never passed on, nor a kind of question that this client did not
// declare; and the tool's state is sealed, so that it comes back from this caller
// for this call only.
func (h *Handler) passQuestion(x *request, c call, a dispatch.Answer, m members) ([]byte, *refusal) {
	asked, ok := readResult(m.get("inputRequests"))
	if !ok {
		asked = nil
	}
	server := ""
	if a.Call != nil {
		server = a.Call.Tool.Server
	}
	var passed members
	needed := map[string]any{}
	for _, q := range asked {
		value, capability, ok := questionOf(q.value, server)
		switch {
		case !ok:
		case !declares(x.meta.capabilities, capability, formOf(capability)):
			needed[capability] = struct{}{}
		default:
			passed = passed.with(q.name, value)
		}
	}
	if len(passed) == 0 && len(needed) > 0 {
		f := refuse(codeMissingCapability, "the tool asks for input of a kind that this client did not declare")
		f.data = map[string]any{"requiredCapabilities": needed}
		return nil, f
	}
	if len(passed) == 0 && len(asked) > 0 {
		return h.unable(c, a, "Denied: the tool asks the user to open a page or for input of an unknown kind, which is not passed on. Nothing ran. Tell the user.")
	}
	m = m.without("_meta").with("inputRequests", passed.encode())
	if inner := m.get("requestState"); inner != nil {
		var text string
		if json.Unmarshal(inner, &text) != nil {
			return nil, &refusal{status: http.StatusOK, code: codeInternal, message: "the tool's question cannot be passed on"}
		}
		sealed, err := h.seal.close(state{Session: x.caller.SessionID(), Digest: callDigest(c), Expires: h.stateEnd(time.Time{}), Inner: &text})
		if err != nil {
			h.Log.ErrorContext(x.there, "no request state", "error", err)
			return nil, &refusal{status: http.StatusOK, code: codeInternal, message: "the tool's question cannot be passed on"}
		}
		m = m.with("requestState", quote(sealed))
	}
	return m.encode(), nil
}

// sampling is a request to the client's model. It begins with who asks, where the
// client shows it and where its model reads it: it is text from outside, and no
// word of the user's or the client's own.
func sampling(q members, server string) ([]byte, bool) {
	params, ok := readResult(q.get("params"))
	if !ok {
		return nil, false
	}
	system := ""
	if v := params.get("systemPrompt"); v != nil && string(v) != "null" && json.Unmarshal(v, &system) != nil {
		return nil, false
	}
	says := "The tool server " + server + " asks this, not the user."
	if system != "" {
		says += " It says: " + system
	}
	params = params.without("_meta").with("systemPrompt", quote(says))
	return q.with("params", params.encode()).encode(), true
}

func formOf(capability string) string {
	if capability == "elicitation" {
		return "form"
	}
	return ""
}

// questionOf reads one input request and says which capability it needs. Pages to
// open and unknown kinds are not passed on. A question to the user begins with
// who asks: the person must not take it for ours.
func questionOf(raw []byte, server string) (value []byte, capability string, ok bool) {
	q, ok := readResult(raw)
	if !ok {
		return nil, "", false
	}
	var method string
	if json.Unmarshal(q.get("method"), &method) != nil {
		return nil, "", false
	}
	switch method {
	case "sampling/createMessage":
		value, ok = sampling(q, server)
		return value, "sampling", ok
	case "roots/list":
		meta := []byte(`{"_meta":{"` + metaServer + `":` + string(quote(server)) + `}}`)
		return q.with("params", meta).encode(), "roots", true
	case "elicitation/create":
	default:
		return nil, "", false
	}
	params, ok := readResult(q.get("params"))
	if !ok {
		return nil, "", false
	}
	var mode, message string
	if v := params.get("mode"); v != nil && (json.Unmarshal(v, &mode) != nil || mode != "form") {
		return nil, "", false
	}
	if params.get("url") != nil || json.Unmarshal(params.get("message"), &message) != nil {
		return nil, "", false
	}
	params = params.without("_meta").with("message", quote("The tool server "+server+" asks: "+message))
	return q.with("params", params.encode()).encode(), "elicitation", true
}
