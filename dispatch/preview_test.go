package dispatch_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const previewedTools = `
version: 1
servers:
  desk: {url: "http://127.0.0.1:1/mcp"}
defaults: {per_minute: 0, concurrent: 0}
tools:
  show: {server: desk, scope: read, read: true, per_minute: 2}
  wipe:
    server: desk
    scope: refunds
    destructive: true
    financial: true
    sources: [direct, vouched, witnessed]
    targets: [order]
    same_effect: [order]
    dry_run: {argument: note, value: preview}
    approval: {when: always, approvers: ["group:leads"]}
  scrub:
    server: desk
    scope: refunds
    destructive: true
    sources: [direct, vouched, witnessed]
    dry_run: {argument: note, value: preview}
    approval: {when: always, approvers: ["group:leads"]}
  drop:
    server: desk
    scope: refunds
    destructive: true
    sources: [direct, vouched, witnessed]
    dry_run: {tool: show, arguments: {order: note}}
    approval: {when: always, approvers: ["group:leads"]}
`

// dryRuns answers previews as a server does that changes nothing for them: no row of
// its ledger is written.
func (s *scene) dryRuns(seen *atomic.Int64, result string) {
	s.desk.on(func(_ context.Context, w dispatch.Work) (dispatch.Reached, bool) {
		note, _ := canon.Lookup(w.Arguments, "note")
		if w.Tool.Name != "show" && string(note) != `"preview"` {
			return dispatch.Reached{}, false
		}
		seen.Add(1)
		return dispatch.Reached{Sent: true, Result: json.RawMessage(result), IsError: strings.Contains(result, `"isError":true`)}, true
	})
}

// Rule C5: a dry run is a support call, made once when the question is opened, as the
// principal; what it showed is what the yes is for (rule D1), and the call runs once.
func TestRule_C5_ADryRunIsShownWithTheQuestion(t *testing.T) {
	const shown = `{"content":[{"type":"text","text":"3 rows would go"},{"type":"text","text":"<b>1 stays</b>"}]}`
	for _, c := range []struct{ tool, arguments, preview string }{
		{"wipe", `{"order":"ord_1"}`, `{"note":"preview","order":"ord_1"}`},
		{"drop", `{"note":"ord_1"}`, `{"order":"ord_1"}`},
	} {
		s := newScene(t, func(s *scene) { s.yaml = previewedTools })
		var seen atomic.Int64
		s.dryRuns(&seen, shown)
		a := s.wants(s.do(anna, c.tool, c.arguments), record.RequiresApproval, record.CodeAlwaysAsks, record.ApprovalPending)
		s.ran(0)
		l, err := s.store.Call(s.ctx, "acme", a.Call.ID)
		if err != nil {
			t.Fatal(err)
		}
		p := l.Approval.Preview
		if p == nil || p.Text != "3 rows would go\n<b>1 stays</b>" || p.Code != record.CodeNone || l.Approval.Rule.Preview != p.Digest() {
			t.Fatalf("%s: the preview is %+v", c.tool, p)
		}
		made, err := s.store.Call(s.ctx, "acme", p.Call)
		if err != nil || made.Call.Supports != a.Call.ID || made.Call.Route != record.RouteSupport || made.Call.Owner != a.Call.Owner ||
			string(made.Call.Arguments) != c.preview || !made.Call.Tool.ReadOnly || made.Call.Outcome.Result != nil {
			t.Fatalf("%s: the support call is %+v, %v", c.tool, made.Call, err)
		}
		s.do(anna, c.tool, c.arguments) // the same question, and no other dry run
		s.reply(a, "lena", record.Yes, "leads")
		again, err := s.Dispatch(s.ctx, s.caller(anna), a.Call.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.wants(again, record.Allow, record.CodeNone, record.Succeeded)
		s.ran(1)
		if seen.Load() != 1 {
			t.Errorf("%s: %d dry runs", c.tool, seen.Load())
		}
	}
}

// A dry run that ran is no effect: the call that it was made for, and an equal one
// that a model proposes itself, are not answered from its record.
func TestADryRunAnswersNoCall(t *testing.T) {
	s := newScene(t, func(s *scene) { s.yaml = previewedTools })
	var seen atomic.Int64
	s.dryRuns(&seen, `{"content":[{"type":"text","text":"would go"}]}`)
	s.wants(s.do(anna, "scrub", `{"order":"ord_1"}`), record.RequiresApproval, record.CodeAlwaysAsks, record.ApprovalPending)
	for range 2 {
		a := s.wants(s.do(anna, "scrub", `{"order":"ord_1","note":"preview"}`), record.RequiresApproval, record.CodeAlwaysAsks, record.ApprovalPending)
		if _, err := s.Cancel(s.ctx, s.caller(anna), a.Call.ID); err != nil {
			t.Fatal(err)
		}
	}
	s.ran(0)
}

// Where the preview cannot be made the question stays, says so, and can be answered.
func TestAQuestionStaysWithoutItsDryRun(t *testing.T) {
	s := newScene(t, func(s *scene) { s.yaml = previewedTools })
	var seen atomic.Int64
	s.dryRuns(&seen, `{"content":[{"type":"text","text":"no such table"}],"isError":true}`)
	want := func(a dispatch.Answer, code record.Code) {
		t.Helper()
		l, err := s.store.Call(s.ctx, "acme", a.Call.ID)
		if err != nil {
			t.Fatal(err)
		}
		if p := l.Approval.Preview; p == nil || p.Text != "" || p.Code != code || l.Approval.Rule.Preview != p.Digest() {
			t.Errorf("the preview is %+v, want %q", p, code)
		}
	}
	a := s.wants(s.do(anna, "drop", `{"note":"ord_1"}`), record.RequiresApproval, record.CodeAlwaysAsks, record.ApprovalPending)
	want(a, record.CodeFailed)
	s.reply(a, "lena", record.Yes, "leads")
	again, err := s.Dispatch(s.ctx, s.caller(anna), a.Call.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.wants(again, record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
	want(s.do(anna, "drop", `{"note":"ord_2"}`), record.CodeFailed)
	want(s.do(anna, "drop", `{"note":"ord_3"}`), record.CodeRateLimited) // limits of its own
	blind := who{"acme", "bert", "bot", []string{"refunds"}, false}
	want(s.do(blind, "drop", `{"note":"ord_1"}`), record.CodeMissingScope) // the principal's own authority
	if seen.Load() != 2 {
		t.Errorf("%d dry runs", seen.Load())
	}
}

// What a dry run showed is part of what a yes is for: a preview that was changed in
// the store makes it another question.
func TestRule_D1_TheYesIsForThePreview(t *testing.T) {
	long := strings.Repeat("ä", 10_000)
	s := newScene(t, func(s *scene) { s.yaml = previewedTools })
	var seen atomic.Int64
	s.dryRuns(&seen, `{"structuredContent":{"rows":"`+long+`"},"content":[]}`)
	a := s.do(anna, "wipe", `{"order":"ord_1"}`)
	l, err := s.store.Call(s.ctx, "acme", a.Call.ID)
	if err != nil {
		t.Fatal(err)
	}
	p := l.Approval.Preview
	if p.Left == 0 || len(p.Text) > 8<<10 || !strings.HasPrefix(p.Text, `{"rows":"ä`) || len(p.Text)+p.Left != len(`{"rows":""}`)+2*10_000 {
		t.Errorf("kept %d and left %d", len(p.Text), p.Left)
	}
	other := *p
	other.Text += "."
	rule := l.Approval.Rule
	rule.Preview = other.Digest()
	if record.BindingOf(l.Call, &rule, l.Approval.Expires, l.Call.Decision.DecidedBy) == l.Approval.Binding {
		t.Error("another preview has the same binding")
	}
	if record.BindingOf(l.Call, &l.Approval.Rule, l.Approval.Expires, l.Call.Decision.DecidedBy) != l.Approval.Binding {
		t.Error("the binding is not of the question")
	}
}
