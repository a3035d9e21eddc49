package histories_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"
)

// scene is one row at one door: anna's agent asks, lena answers.
type scene struct {
	t    *testing.T
	w    *world
	door door
	row  string

	kept answer // what the neighbour goes on with
	held string // a state that a client was given
}

func quote(s string) string { return strconv.Quote(s) }

func (s *scene) args(what string) string {
	return fmt.Sprintf(`{"row":%q,"what":%q}`, s.row, what)
}

func (s *scene) call(tool, what string) answer { return s.callWith(tool, what, nil) }

func (s *scene) callWith(tool, what string, extra map[string]any) answer {
	return s.door.call(s.t.Context(), "anna", tool, s.args(what), extra)
}

// raw calls with arguments as they stand.
func (s *scene) raw(tool, arguments string) answer {
	return s.door.call(s.t.Context(), "anna", tool, arguments, nil)
}

func (s *scene) keep(a answer) { s.kept = a }

func (s *scene) back(a answer) { s.backWith(a, nil) }

func (s *scene) backWith(a answer, extra map[string]any) {
	s.door.back(s.t.Context(), "anna", a.Call, extra)
}

// labelled names a run, as each door does.
func (s *scene) labelled(run string) map[string]any {
	switch s.door.(type) {
	case *api, *resuming:
		return map[string]any{"label": run}
	}
	return map[string]any{"dev.placet/run": run}
}

// history ends in the kept call, with an approval for it.
func (s *scene) history() map[string]any {
	return map[string]any{"messages": []any{
		map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{"id": s.kept.Call, "type": "function", "function": map[string]any{"name": "send", "arguments": s.args("x")}}}},
		map[string]any{"role": "tool", "content": []any{map[string]any{"type": "tool-approval-response", "approvalId": s.kept.Approval, "approved": true}}},
	}}
}

// resumed are the members of a retry that hands a state in, with a client's own
// word that the user agreed.
func (s *scene) resumed(state string) string {
	return `,"requestState":` + quote(state) + `,"inputResponses":{"placet_approval":{"action":"accept"}}`
}

// asked is a question as its approver reads it.
type asked struct {
	ID      string
	State   string
	Binding string
	Call    struct {
		ID        string
		Arguments json.RawMessage
	}
}

func (s *scene) question(a answer) (q asked) {
	s.t.Helper()
	s.get("/v1/approvals/"+a.Approval, &q)
	return q
}

// newest is the latest question of this row.
func (s *scene) newest() answer {
	s.t.Helper()
	var out struct{ Approvals []asked }
	s.get("/v1/approvals?limit=500&state=pending", &out)
	for _, q := range slices.Backward(out.Approvals) {
		var args struct{ Row string }
		if json.Unmarshal(q.Call.Arguments, &args) == nil && args.Row == s.row {
			return answer{q.Call.ID, q.ID}
		}
	}
	s.t.Fatal("nobody is asked")
	return answer{}
}

// get reads as lena, who may read everything.
func (s *scene) get(path string, out any) {
	s.t.Helper()
	status, text, err := s.w.send(s.t.Context(), s.w.token("lena", true), http.MethodGet, path, "")
	if err == nil && status == http.StatusOK {
		err = json.Unmarshal(text, out)
	}
	if err != nil || status != http.StatusOK {
		s.t.Fatalf("%s: %d %s %v", path, status, text, err)
	}
}

// yes and no answer what the question shows. Whether they are taken, the record
// and the ledger say.
func (s *scene) yes(a answer) { s.t.Helper(); s.answers(a, "approve", nil) }
func (s *scene) no(a answer)  { s.t.Helper(); s.answers(a, "reject", nil) }

// answers sends an answer of lena's with members beside or in place of its own.
func (s *scene) answers(a answer, word string, members map[string]any) {
	s.t.Helper()
	body := map[string]any{"binding": s.question(a).Binding}
	maps.Copy(body, members)
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	status, got, err := s.w.send(s.t.Context(), s.w.token("lena", true), http.MethodPost, "/v1/approvals/"+a.Approval+"/"+word, string(text))
	if err != nil {
		s.t.Fatal(err)
	}
	if members != nil && status < 400 {
		s.t.Errorf("an answer with %v was taken: %d %s", members, status, got)
	}
}

func (s *scene) cancel(a answer) {
	if _, _, err := s.w.send(s.t.Context(), s.w.token("anna", false), http.MethodPost, "/v1/calls/"+a.Call+"/cancel", ""); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) stateOf(a answer) string {
	s.t.Helper()
	var c struct{ State string }
	s.get("/v1/calls/"+a.Call, &c)
	return c.State
}

// state checks what is recorded of a call.
func (s *scene) state(a answer, want string) {
	s.t.Helper()
	if got := s.stateOf(a); got != want {
		s.t.Errorf("the call is %s, want %s", got, want)
	}
}

// until waits for what is recorded of a call.
func (s *scene) until(a answer, want string) {
	s.t.Helper()
	s.sees("the call is "+want, func() bool { return s.stateOf(a) == want })
}

// sees waits for something.
func (s *scene) sees(what string, there func() bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !there() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatalf("it was never seen that %s", what)
		}
	}
}

// holds compares with the tools' ledger.
func (s *scene) holds(after string, want []string) {
	s.t.Helper()
	if got := s.w.ledger(s.row); !slices.Equal(got, want) {
		s.t.Errorf("after %s the ledger holds %q, want %q", after, got, want)
	}
}
