package mcp

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// An answer is what a request came to.
type answer struct {
	sent   bool // false: proof that no byte of the request left
	result json.RawMessage
	fault  *fault // a JSON-RPC error
	status int    // the HTTP status where it is not 2xx, else 0
	lost   bool   // the server does not know our session any more
	err    error  // why there is neither result nor fault
}

func (a answer) failure() error {
	switch {
	case a.err != nil:
		return a.err
	case a.fault != nil:
		return a.fault
	}
	return nil
}

var (
	errDeadline  = errors.New("the deadline passed before the call was sent")
	errNoResult  = errors.New("the result is not an object")
	errAsks      = errors.New("the server asks back, which its registry entry does not allow")
	errTask      = errors.New("the server answered with a task, which nobody asked for and which is not followed")
	errNotModern = errors.New("answers to a server's questions need a server of revision 2026-07-28")
	errClosed    = errors.New("the connection to the server is closed")
)

// reached says what an answer to a call means (rule E1).
func (a answer) reached(method string, s *registry.Server) dispatch.Reached {
	out := dispatch.Reached{Sent: a.sent}
	switch {
	case a.status != 0:
		out.Refused = dispatch.RefusedStatus(a.status) || a.fault != nil && refusedCode(a.fault.code)
		out.Err = a.failure()
	case a.fault != nil:
		out.Refused = refusedCode(a.fault.code)
		out.Err = a.fault
	case a.err != nil:
		out.Err = a.err
	default:
		a.readResult(&out, s)
	}
	if a.fault != nil && s.InputRequired && (s.Sampling || !a.fault.needs.Sampling) {
		out.Needs = a.fault.needs
	}
	if out.Err != nil {
		out.Err = fmt.Errorf("%s: %w", method, out.Err)
	}
	return out
}

func (a answer) readResult(out *dispatch.Reached, s *registry.Server) {
	asks, task, content, model := false, false, false, false
	err := eachMember(a.result, func(name string, value []byte) error {
		switch name {
		case "isError":
			out.IsError = string(value) == "true"
		case "resultType":
			asks, task = string(value) == `"input_required"`, string(value) == `"task"`
		case "task":
			task = task || kind(value) == '{'
		case "content":
			content = true
		case "inputRequests":
			model = asksModel(value)
		}
		return nil
	})
	switch {
	case err != nil:
		out.IsError, out.Err = false, errNoResult
	case task && !content:
		// It has begun, and how it ends is not ours to learn: the effect is not known.
		out.IsError, out.Err = false, errTask
	case asks && (!s.InputRequired || model && !s.Sampling):
		// It asks before it runs: nothing happened.
		out.IsError, out.Refused, out.Err = false, true, errAsks
	default:
		out.Asks, out.Result = asks, a.result
	}
}

// asksModel reports whether one of a server's questions is for the client's model.
func asksModel(requests []byte) bool {
	yes := false
	_ = eachMember(requests, func(_ string, question []byte) error {
		return member(question, "method", func(v []byte) error {
			name, err := unquote(v)
			yes = yes || name == "sampling/createMessage"
			return err
		})
	})
	return yes
}

// refusedCode lists the JSON-RPC errors of a refusal before execution: unknown
// method or tool, invalid parameters, and the three of revision 2026-07-28 about
// headers, capabilities and version.
func refusedCode(code int64) bool {
	return code == -32601 || code == -32602 || code <= -32020 && code >= -32022
}

// unavailable is the error of an answer that is not about the call.
func unavailable(server string, err error) error {
	return record.Because(record.Unavailable, err, "server %s cannot be asked now", server)
}
