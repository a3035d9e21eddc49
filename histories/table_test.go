package histories_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// row is one way in which runtimes failed, and what is legitimate next to it.
type row struct {
	section, id string // of the collection
	kind        string // what went wrong there

	play func(s *scene)
	ran  []string // what the tools' ledger holds of it

	neighbour func(s *scene)
	runs      string // the one effect that it adds

	only string // the door that it needs; empty: every door
}

// collection is every row of the sections on approvals. Each is in the table, or
// in leftOut with a reason.
var collection = map[string]string{
	"3.2": "A1 A3 A5 A7 A9 A11 A13 A15", "3.3": "D2 D4 D6 D8 D10 D12 D14", "3.4": "F2 F4 F6 F8 F10", "3.5": "X1 X3 X5 X7", "3.6": "L1 L3 L5 L7 L9 L11",
}

var leftOut = map[string]string{
	"L9": "an approval that is lost when nested agents of equal names go through JSON: no state of a run leaves this server, and an answer names its question by ID",
}

var table = []row{
	{section: "3.2", id: "A1", kind: "the resume brings other arguments than those that were approved",
		play: func(s *scene) {
			c := s.call("send", "to a")
			s.answers(c, "approve", map[string]any{"arguments": s.args("to b")}) // an answer that carries arguments is none
			s.backWith(c, map[string]any{"arguments": s.args("to b")})
			s.state(c, "approval_pending")
			s.keep(c)
		},
		neighbour: func(s *scene) { s.yes(s.kept); s.back(s.kept) }, runs: "send to a"},
	{section: "3.2", id: "A3", kind: "a decision is found by the tool's name",
		play: func(s *scene) {
			c := s.call("edit", "a.txt")
			s.yes(c)
			s.state(s.call("edit", "/etc/shadow"), "approval_pending")
			s.keep(c)
		},
		neighbour: func(s *scene) { s.back(s.kept) }, runs: "edit a.txt"},
	{section: "3.2", id: "A5", kind: "answers to questions that are open at once collapse or swap",
		play: func(s *scene) {
			a, b := s.call("send", "a"), s.call("send", "b")
			s.no(b)
			s.yes(a)
			s.back(b)
			s.state(b, "denied")
			s.keep(a)
		},
		neighbour: func(s *scene) { s.back(s.kept) }, runs: "send a"},
	{section: "3.2", id: "A7", kind: "what was rejected stays executable on another path",
		play: func(s *scene) {
			c := s.call("send", "no")
			s.no(c)
			s.back(c)
			s.call("send", "no")
			s.callWith("send", "no", s.labelled("again"))
			s.state(c, "denied")
		},
		neighbour: func(s *scene) { c := s.call("send", "yes"); s.yes(c); s.back(c) }, runs: "send yes"},
	{section: "3.2", id: "A9", kind: "a validator fills in or coerces arguments after they were shown",
		play: func(s *scene) {
			s.raw("typed", `{"n":"5","row":`+quote(s.row)+`}`) // not coerced to a number
			s.raw("typed", `{"n":5.5,"row":`+quote(s.row)+`}`)
			s.keep(s.raw("typed", `{"row":`+quote(s.row)+`,"n":5}`)) // a default is not filled in
		},
		neighbour: func(s *scene) { s.yes(s.kept); s.back(s.kept) }, runs: `typed {"n":5,"row":ROW}`},
	{section: "3.2", id: "A11", kind: "an approval for one server's tool counts for another's",
		play: func(s *scene) {
			c := s.call("east_delete", "x")
			s.yes(c)
			s.state(s.call("west_delete", "x"), "approval_pending")
			s.keep(c)
		},
		neighbour: func(s *scene) { s.back(s.kept) }, runs: "east_delete x"},
	{section: "3.2", id: "A13", kind: "answers are matched to calls by position",
		play: func(s *scene) {
			a, b := s.call("send", "a"), s.call("send", "b")
			s.answers(a, "approve", map[string]any{"binding": s.question(b).Binding}) // the other's
			s.answers(b, "reject", map[string]any{"binding": s.question(a).Binding})
			s.back(a)
			s.back(b)
			s.no(a) // in the other order than they were asked
			s.keep(b)
		},
		neighbour: func(s *scene) { s.yes(s.kept); s.back(s.kept) }, runs: "send b"},
	{section: "3.2", id: "A15", kind: "whoever answers widens the grant",
		play: func(s *scene) {
			c := s.call("send", "a.tmp")
			for _, wide := range []map[string]any{{"pattern": "*"}, {"always": true}, {"tool": "send"}, {"expires": "never"}} {
				s.answers(c, "approve", wide)
			}
			s.back(c)
			s.state(c, "approval_pending")
			s.keep(c)
		},
		neighbour: func(s *scene) {
			s.yes(s.kept)
			s.back(s.kept)
			s.state(s.call("send", "b.tmp"), "approval_pending")
			s.state(s.call("send", "*"), "approval_pending")
		}, runs: "send a.tmp"},

	{section: "3.3", id: "D2", kind: "an approved state runs each time it is handed in",
		play: func(s *scene) { s.keep(s.call("send", "once")) },
		neighbour: func(s *scene) {
			s.yes(s.kept)
			for range 3 {
				s.back(s.kept)
				s.call("send", "once")
			}
			s.state(s.kept, "succeeded")
		}, runs: "send once"},
	{section: "3.3", id: "D4", kind: "repeated and conflicting answers",
		play: func(s *scene) {
			c := s.call("send", "no, then yes")
			s.no(c)
			s.yes(c)
			s.back(c)
			s.state(c, "denied")
		},
		neighbour: func(s *scene) {
			c := s.call("send", "yes, yes, no")
			s.yes(c)
			s.yes(c)
			s.no(c)
			s.back(c)
			s.back(c)
		}, runs: "send yes, yes, no"},
	{section: "3.3", id: "D6", kind: "a stored history with the approval in it runs it again",
		play: func(s *scene) { s.keep(s.call("send", "x")) },
		neighbour: func(s *scene) {
			s.yes(s.kept)
			s.back(s.kept)
			s.backWith(s.kept, s.history())
			s.callWith("send", "x", s.history())
			s.yes(s.kept) // the raw answer, sent again
			s.back(s.kept)
		}, runs: "send x"},
	{section: "3.3", id: "D8", kind: "two questions for one call",
		play: func(s *scene) {
			a, b := s.call("send", "x"), s.call("send", "x")
			if a != b || a.Call == "" {
				s.t.Errorf("one call, asked for twice, has %v and %v", a, b)
			}
			s.keep(a)
		},
		neighbour: func(s *scene) { s.yes(s.kept); s.yes(s.kept); s.back(s.kept); s.back(s.kept) }, runs: "send x"},
	{section: "3.3", id: "D10", kind: "canceled while it runs, and run again on resume",
		play: func(s *scene) { s.keep(s.call("slow", "x")) },
		neighbour: func(s *scene) {
			s.yes(s.kept)
			ctx, gone := context.WithCancel(s.t.Context())
			returned := make(chan struct{})
			go func() { defer close(returned); s.door.back(ctx, "anna", s.kept.Call, nil) }()
			<-s.w.entered
			s.cancel(s.kept)
			gone() // the client goes, too
			<-returned
			s.back(s.kept)
			s.call("slow", "x")
			s.until(s.kept, "unknown")
			s.w.release <- struct{}{}
			s.back(s.kept)
			s.call("slow", "x")
		}, runs: "slow x"},
	{section: "3.3", id: "D12", kind: "the state that a client holds for a question works more than once, and for more", only: "mcp 2026-07-28",
		play: func(s *scene) {
			held := s.w.raw("anna", "send", s.args("x"), "")
			if held == "" {
				s.t.Fatal("the client was given no state")
			}
			s.yes(s.newest())
			s.w.raw("anna", "send", s.args("y"), s.resumed(held))
			s.w.raw("anna", "edit", s.args("x"), s.resumed(held))
			s.w.raw("anna", "send", s.args("x"), s.resumed(held[:len(held)-4]+"AAAA"))
			s.held = held
		},
		neighbour: func(s *scene) {
			for range 3 {
				s.w.raw("anna", "send", s.args("x"), s.resumed(s.held))
			}
		}, runs: "send x"},
	{section: "3.3", id: "D14", kind: "the provider emits a call twice",
		play: func(s *scene) {},
		neighbour: func(s *scene) {
			done := make(chan struct{})
			for range 4 {
				go func() { s.door.call(s.t.Context(), "anna", "note", s.args("x"), nil); done <- struct{}{} }()
			}
			for range 4 {
				<-done
			}
			s.call("note", "x")
		}, runs: "note x"},

	{section: "3.4", id: "F2", kind: "an unclear answer counts as yes",
		play: func(s *scene) {
			c := s.call("send", "x")
			for _, unclear := range []map[string]any{{"binding": ""}, {"binding": "yes"}, {"binding": nil}, {"text": "ok, whatever"}, {"approved": true}} {
				s.answers(c, "approve", unclear)
			}
			s.answers(c, "answer", nil) // a word that is none
			s.backWith(c, map[string]any{"approved": true, "decision": "approved"})
			s.state(c, "approval_pending")
			s.keep(c)
		},
		neighbour: func(s *scene) { s.yes(s.kept); s.back(s.kept) }, runs: "send x"},
	{section: "3.4", id: "F4", kind: "a gate that answers with something else than a verdict",
		play: func(s *scene) {
			for _, said := range []string{"true", "one", "a promise", "nothing"} {
				s.call("said", said)
			}
		},
		neighbour: func(s *scene) { s.call("said", "allow") }, runs: "said allow"},
	{section: "3.4", id: "F6", kind: "a pause is taken for an error, and passed over",
		play: func(s *scene) {
			c := s.call("said", "requires-approval")
			s.back(c)
			s.state(c, "approval_pending")
			s.keep(c)
		},
		neighbour: func(s *scene) { s.yes(s.kept); s.back(s.kept) }, runs: "said requires-approval"},
	{section: "3.4", id: "F8", kind: "names that the language knows find a rule that nobody wrote",
		play: func(s *scene) {
			for _, name := range []string{"toString", "hasownproperty", "__proto__", "prototype", "valueof"} {
				s.call(name, "x")
			}
			s.state(s.call("constructor", "x"), "approval_pending")
			s.keep(s.call("constructor", "x"))
		},
		neighbour: func(s *scene) { s.yes(s.kept); s.back(s.kept) }, runs: "constructor x"},
	{section: "3.4", id: "F10", kind: "an error of the gate is swallowed",
		play:      func(s *scene) { s.call("said", "throw"); s.call("said", "throw") },
		neighbour: func(s *scene) { s.call("said", "allow") }, runs: "said allow"},

	{section: "3.5", id: "X1", kind: "a resume finds another user's call",
		play: func(s *scene) {
			c := s.call("send", "x")
			s.yes(c)
			s.door.back(s.t.Context(), "mallory", c.Call, nil)
			s.door.back(s.t.Context(), "mallory", c.Call, s.history())
			s.state(c, "approval_pending")
			s.keep(c)
		},
		neighbour: func(s *scene) { s.back(s.kept) }, runs: "send x"},
	{section: "3.5", id: "X3", kind: "another user's run or session takes a call in",
		play: func(s *scene) {
			c := s.callWith("send", "x", s.labelled("ours"))
			s.yes(c)
			theirs := s.door.call(s.t.Context(), "mallory", "send", s.args("x"), s.labelled("ours"))
			if theirs.Call == c.Call {
				s.t.Error("mallory has anna's call")
			}
			s.keep(c)
		},
		neighbour: func(s *scene) { s.back(s.kept); s.state(s.kept, "succeeded") }, runs: "send x"},
	{section: "3.5", id: "X5", kind: "who asks confirms its own question",
		play: func(s *scene) {
			c := s.call("send", "x")
			body := fmt.Sprintf(`{"binding":%q}`, s.question(c).Binding)
			for _, token := range []string{s.w.token("anna", false), s.w.token("anna", true), s.w.token("lena", false)} {
				if status, _, err := s.w.send(s.t.Context(), token, http.MethodPost, "/v1/approvals/"+c.Approval+"/approve", body); err != nil || status < 400 {
					s.t.Errorf("%d %v", status, err)
				}
			}
			s.back(c)
			s.state(c, "approval_pending")
			s.keep(c)
		},
		neighbour: func(s *scene) { s.yes(s.kept); s.back(s.kept) }, runs: "send x"},
	{section: "3.5", id: "X7", kind: "one client's state continues in another's hands", only: "mcp 2026-07-28",
		play: func(s *scene) {
			s.held = s.w.raw("anna", "send", s.args("x"), "")
			s.yes(s.newest())
			s.w.raw("mallory", "send", s.args("x"), s.resumed(s.held))
		},
		neighbour: func(s *scene) { s.w.raw("anna", "send", s.args("x"), s.resumed(s.held)) }, runs: "send x"},

	{section: "3.6", id: "L1", kind: "consumed and run, and then the run fails",
		play: func(s *scene) { s.keep(s.call("breaks", "x")) },
		neighbour: func(s *scene) {
			s.yes(s.kept)
			s.back(s.kept)
			s.yes(s.kept)
			s.back(s.kept)
			s.call("breaks", "x")
			s.state(s.kept, "unknown")
		}, runs: "breaks x"},
	{section: "3.6", id: "L3", kind: "only the first of several that were approved runs",
		play: func(s *scene) {
			a, b := s.call("send", "a"), s.call("send", "b")
			s.yes(a)
			s.yes(b)
			s.back(a)
			s.keep(b)
		}, ran: []string{"send a"},
		neighbour: func(s *scene) { s.back(s.kept) }, runs: "send b"},
	{section: "3.6", id: "L5", kind: "a no beside it drops what was approved",
		play: func(s *scene) {
			a, b := s.call("send", "a"), s.call("send", "b")
			s.yes(a)
			s.no(b)
			s.back(b)
			s.keep(a)
		},
		neighbour: func(s *scene) { s.back(s.kept); s.state(s.kept, "succeeded") }, runs: "send a"},
	{section: "3.6", id: "L7", kind: "questions are lost with the process",
		play: func(s *scene) { s.keep(s.call("send", "x")); s.w.restart() },
		neighbour: func(s *scene) {
			s.yes(s.kept)
			s.w.restart()
			s.back(s.kept)
			s.w.restart()
			s.back(s.kept)
		}, runs: "send x"},
	{section: "3.6", id: "L11", kind: "an answer has no place to go: nobody is there to run it",
		play: func(s *scene) {
			c := s.call("send", "x")
			s.yes(c)
			s.state(c, "approval_pending") // nothing runs while its agent is away
			s.keep(c)
		},
		neighbour: func(s *scene) { s.call("send", "x") }, runs: "send x"},
}

// TestHistories plays every row at every door.
func TestHistories(t *testing.T) {
	complete(t)
	w := newWorld(t, time.Millisecond)
	all := doors(w)
	for _, r := range table {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if r.only != "" && r.only != name {
				continue
			}
			t.Run(r.id+" "+name, func(t *testing.T) {
				s := &scene{t: t, w: w, door: all[name], row: r.id + " at " + name}
				w.t = t
				r.play(s)
				s.holds("the sequence", r.ran)
				r.neighbour(s)
				s.holds("the sequence and its neighbour", append(slices.Clone(r.ran), strings.ReplaceAll(r.runs, "ROW", quote(s.row))))
			})
		}
	}
}

// complete fails if a row of the collection is neither here nor left out.
func complete(t *testing.T) {
	t.Helper()
	for section, ids := range collection {
		for id := range strings.FieldsSeq(ids) {
			n := 0
			for _, r := range table {
				if r.id == id && r.section == section {
					n++
				}
			}
			if _, out := leftOut[id]; n == 0 && !out || n > 0 && out || n > 1 {
				t.Errorf("%s %s is played %d times; left out: %v", section, id, n, out)
			}
		}
	}
}
