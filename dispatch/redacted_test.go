package dispatch_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/placet-dev/placet/dispatch"
	tell "github.com/placet-dev/placet/history"
	"github.com/placet-dev/placet/record"
	store "github.com/placet-dev/placet/store/sqlite"
)

// redact takes a call's content as an operator.
func (s *scene) redact(a dispatch.Answer) record.Call {
	s.t.Helper()
	c, err := s.RedactCall(s.ctx, s.operator(), "acme", a.Call.ID, "asked for")
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// TestRule_A7_RepeatsOfARedactedCall: what a call did is not done again because its
// content is gone. The answer says that the result is not kept; in every run of its owner.
func TestRule_A7_RepeatsOfARedactedCall(t *testing.T) {
	s := newScene(t, keeping)
	a := s.wants(s.do(anna, "kept", `{"note":"MARKER","order":"o"}`), record.Allow, record.CodeNone, record.Succeeded)
	if len(a.Result) == 0 {
		t.Fatal("the tool answered nothing")
	}
	s.redact(a)
	for _, run := range []string{"", "another"} {
		again := s.wants(s.do(anna, "kept", `{"note":"MARKER","order":"o"}`, func(p *dispatch.Proposal) { p.RunLabel = run }), record.Allow, record.CodeAlreadyDone, record.Succeeded)
		if text := again.Text(); again.Result != nil || !strings.Contains(text, "its result is not kept any more") {
			t.Fatalf("it is answered with %s: %q", again.Result, text)
		}
	}
	back, err := s.Dispatch(s.ctx, s.caller(anna), a.Call.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.wants(back, record.Allow, record.CodeAlreadyDone, record.Succeeded)
	s.ran(1)
	s.wants(s.do(anna, "kept", `{"note":"MARKER 2","order":"o"}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(2)
}

// TestRule_A7_AResultStaysWhileItMayAnswer: what is configured for all calls is never shorter
// than the time in which a tool's equal calls are answered with the result.
func TestRule_A7_AResultStaysWhileItMayAnswer(t *testing.T) {
	s := newScene(t, func(s *scene) {
		s.yaml = strings.Replace(keepingYAML, `targets: [order], approval: {when: asked}`, `targets: [order], repeat: {within: 1h}, approval: {when: asked}`, 1)
		s.limits.Retention = record.Retention{For: time.Minute}
	})
	long := s.wants(s.do(anna, "kept", `{"note":"one","order":"o"}`), record.Allow, record.CodeNone, record.Succeeded)
	reads := s.do(anna, "look", `{"order":"o"}`)
	s.passes(30*time.Minute, func() bool { return s.loaded(reads.Call.ID).Call.Redacted != nil })
	again := s.wants(s.do(anna, "kept", `{"note":"one","order":"o"}`), record.Allow, record.CodeAlreadyDone, record.Succeeded)
	if len(again.Result) == 0 || s.loaded(long.Call.ID).Call.Redacted != nil {
		t.Fatalf("within its time it is answered with %q", again.Result)
	}
	s.passes(time.Hour, func() bool { return s.loaded(long.Call.ID).Call.Redacted != nil })
	s.ran(2) // with the read
}

// TestRule_A9_ARejectionStaysWithoutItsWords: nor is what a person rejected asked again.
func TestRule_A9_ARejectionStaysWithoutItsWords(t *testing.T) {
	s := newScene(t, keeping)
	const refused = `{"note":"MARKER","order":"o"}`
	a := s.do(anna, "shaped", refused)
	s.reply(a, "lena", record.No, "leads")
	s.passes(2*time.Minute, func() bool { return s.loaded(a.Call.ID).Call.Redacted != nil })
	s.wants(s.do(anna, "shaped", refused), record.Deny, record.CodeRejected, record.Denied)
	s.ran(0)
	other := s.do(anna, "shaped", `{"note":"another","order":"o2"}`)
	s.reply(other, "lena", record.Yes, "leads")
	if _, err := s.Dispatch(s.ctx, s.caller(anna), other.Call.ID, nil); err != nil {
		t.Fatal(err)
	}
	s.ran(1)
}

// TestRule_J4_UnknownCallsStayWhole: while nobody knows whether a call took effect it keeps
// what it is looked up with, however long; once that is known, its content goes.
func TestRule_J4_UnknownCallsStayWhole(t *testing.T) {
	b := newBank(t, func(s *scene) {
		s.limits.Retention = record.Retention{Arguments: record.RecordDigest, For: time.Hour}
	})
	s := b.s
	a := b.unknown("stated", "answer")
	if _, err := s.RedactCall(s.ctx, s.operator(), "acme", a.Call.ID, "asked for"); record.KindOf(err) != record.Conflict {
		t.Fatalf("by an operator: %v", err)
	}
	other := s.wants(s.do(anna, "pay", `{"amount":10,"order":"o2"}`), record.Allow, record.CodeNone, record.Succeeded)
	s.passes(2*time.Hour, func() bool { r := s.loaded(other.Call.ID).Call.Redacted; return r != nil && r.All })
	if c := s.loaded(a.Call.ID).Call; c.Redacted != nil || string(c.Arguments) != `{"amount":10,"order":"o1"}` || len(c.Salt) == 0 {
		t.Fatalf("an unknown call is not whole: %+v", c)
	}
	b.says(func(string) string { return `{"state":"done"}` })
	s.wants(b.returns(a), record.Allow, record.CodeAlreadyDone, record.Succeeded)
	look := b.looks()
	if len(look) != 1 || !strings.Contains(string(look[0].Arguments), `"order":"o1"`) {
		t.Fatalf("asked %+v", look)
	}
	if keep := s.loaded(look[0].Call).Call.Retention; keep != s.limits.Retention {
		t.Errorf("the look-up keeps %+v", keep)
	}
	s.passes(2*time.Hour, func() bool {
		return s.loaded(a.Call.ID).Call.Redacted != nil && s.loaded(look[0].Call).Call.Redacted != nil
	})
	for _, id := range []record.CallID{a.Call.ID, look[0].Call} {
		if c := s.loaded(id).Call; len(c.Arguments)+len(c.Targets)+len(c.Salt) != 0 {
			t.Errorf("%s: %s", id, c.Arguments)
		}
	}
	s.ran(2)
}

// TestRule_J4_NoArgumentsNoEffect: a yes was given, and somebody took the arguments out of
// the row behind the server's back. The call does not run; the one beside it does, once.
func TestRule_J4_NoArgumentsNoEffect(t *testing.T) {
	for name, change := range map[string]string{
		"no arguments":   `UPDATE calls SET arguments = '' WHERE id = ?`,
		"without values": `UPDATE calls SET arguments = '{"note":"(redacted)","order":"o"}' WHERE id = ?`,
		"no salt":        `UPDATE calls SET salt = x'' WHERE id = ?`,
		"marked":         `UPDATE calls SET details = json_set(details, '$.redacted', json('{"at":"2026-12-01T00:00:00Z","by":"x","why":"x","what":[],"all":true}')) WHERE id = ?`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, keeping)
			a, beside := s.do(anna, "shaped", `{"note":"one","order":"o"}`), s.do(anna, "shaped", `{"note":"two","order":"o2"}`)
			s.reply(a, "lena", record.Yes, "leads")
			s.reply(beside, "lena", record.Yes, "leads")
			s.sql(change, a.Call.ID)
			if got, err := s.Dispatch(s.ctx, s.caller(anna), a.Call.ID, nil); err == nil && got.Ran {
				t.Errorf("it ran: %+v", got)
			}
			s.ran(0)
			if _, err := s.Dispatch(s.ctx, s.caller(anna), beside.Call.ID, nil); err != nil {
				t.Fatal(err)
			}
			s.ran(1)
		})
	}
}

// sql changes the scene's file behind the boundary's back.
func (s *scene) sql(statement string, id record.CallID) {
	s.t.Helper()
	conn, err := sqlite.OpenConn(s.path, sqlite.OpenReadWrite|sqlite.OpenWAL)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetBusyTimeout(10 * time.Second)
	if err := sqlitex.ExecuteTransient(conn, statement, &sqlitex.ExecOptions{Args: []any{string(id)}}); err != nil || conn.Changes() != 1 {
		s.t.Fatalf("%s: %d rows, %v", statement, conn.Changes(), err)
	}
}

// TestComparedWithoutArguments: two versions are compared by the calls whose arguments are
// kept; the others are counted apart, not guessed.
func TestComparedWithoutArguments(t *testing.T) {
	yaml := strings.ReplaceAll(keepingYAML, "record_arguments: digest", "record_arguments: redacted")
	s := newScene(t, func(s *scene) { s.yaml = yaml })
	for _, note := range []string{"one", "two", "three"} {
		s.wants(s.do(anna, "kept", fmt.Sprintf(`{"note":%q,"order":"o"}`, note)), record.Allow, record.CodeNone, record.Succeeded)
	}
	shaped := s.do(anna, "digested", `{"note":"four","order":"o"}`)
	gone := s.wants(s.do(anna, "kept", `{"note":"five","order":"o"}`), record.Allow, record.CodeNone, record.Succeeded)
	s.redact(gone)
	s.passes(2*time.Minute, func() bool { return s.loaded(shaped.Call.ID).Call.Redacted != nil })
	from := *s.Current()
	s.yaml = strings.ReplaceAll(yaml, "targets: [order], approval: {when: asked}", `targets: [order], approval: {when: always, approvers: ["group:leads"]}`)
	s.activate()
	got, err := dispatch.Compare(s.ctx, s.store, "acme", time.Time{}, 100, from, *s.Current())
	if err != nil {
		t.Fatal(err)
	}
	if got.Calls != 5 || len(got.Changed) != 1 || got.Changed[0].Count != 3 || len(got.Unknown) != 1 || got.Unknown[0].Count != 2 || got.Unknown[0].Why != "its arguments are not kept" {
		t.Fatalf("%+v", got)
	}
	s.ran(5)
}

// TestHistoriesOfARedactedCall: a history that tells of a redacted call is still compared with
// it, and edited arguments are still found. A result that nothing can confirm any more
// is its client's word.
func TestHistoriesOfARedactedCall(t *testing.T) {
	s := newScene(t, keeping)
	a := s.wants(s.do(anna, "kept", `{"note":"MARKER","order":"o"}`), record.Allow, record.CodeNone, record.Succeeded)
	compared := func(arguments string) (classes []tell.Class, codes []string) {
		t.Helper()
		text := fmt.Sprintf(`{"messages":[{"role":"user","content":"go"},{"role":"assistant","tool_calls":[{"id":%q,"type":"function","function":{"name":"kept","arguments":%q}}]},
			{"role":"tool","tool_call_id":%q,"content":"effect 1"}]}`, a.Call.ID, arguments, a.Call.ID)
		read, err := tell.Read([]byte(text), tell.Chat, tell.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := tell.Classify(s.ctx, read, s.Records(s.loaded(a.Call.ID).Run))
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range c.Judgements[1:] {
			classes = append(classes, j.Class)
		}
		for _, f := range c.Findings {
			codes = append(codes, f.Code)
		}
		return classes, codes
	}
	for _, c := range []struct {
		arguments string
		result    tell.Class
	}{{`{"note":"MARKER","order":"o"}`, tell.ClassReturned}, {`{"note":"MARKER","order":"o"}`, tell.ClassClient}} {
		if classes, codes := compared(c.arguments); !slices.Equal(classes, []tell.Class{tell.ClassRecord, c.result}) || len(codes) != 0 {
			t.Errorf("as it was: %v %v", classes, codes)
		}
		if classes, codes := compared(`{"note":"EDITED","order":"o"}`); slices.Contains(classes, tell.ClassRecord) || !slices.Equal(codes, []string{tell.CodeEditedArguments}) {
			t.Errorf("edited: %v %v", classes, codes)
		}
		if c.result == tell.ClassReturned {
			s.redact(a)
		}
	}
	s.ran(1)
}

// TestRule_J4_WhatIsLeftInTheFile: once the server has stopped, the write-ahead log is gone,
// freed pages of the file are overwritten, and a backup holds no byte of what was redacted.
// What is kept is in it.
func TestRule_J4_WhatIsLeftInTheFile(t *testing.T) {
	if onPostgres != nil {
		t.Skip("of the file")
	}
	s := newScene(t, keeping)
	var calls []record.CallID
	for i := range 80 { // of many sizes, so that rows move between pages
		long := strings.Repeat("x", i*7919%4000)
		calls = append(calls, s.do(anna, "digested", fmt.Sprintf(`{"note":"MARKER-%d-%s","order":"o"}`, i, long)).Call.ID)
		s.do(anna, "kept", fmt.Sprintf(`{"note":"STAYS-%d-%s","order":"o"}`, i, long))
	}
	calls = append(calls, s.do(anna, "digested", `{"note":"`+strings.Repeat("PAGES-", 20_000)+`","order":"o"}`).Call.ID)
	count := func(path, what string) int {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), what)
	}
	if wal := s.path + "-wal"; count(s.path, "PAGES-")+count(wal, "PAGES-") < 20_000 || count(s.path, "MARKER-")+count(wal, "MARKER-") < 80 {
		t.Fatal("the file does not hold what it is looked for")
	}
	s.passes(2*time.Minute, func() bool {
		return !slices.ContainsFunc(calls, func(id record.CallID) bool { return s.loaded(id).Call.Redacted == nil })
	})
	if err := s.store.Store.(io.Closer).Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.path + "-wal"); !os.IsNotExist(err) {
		t.Errorf("the write-ahead log is still there: %v", err)
	}
	if n := count(s.path, "PAGES-"); n > 1000 {
		t.Errorf("of 20000 pieces on pages that were freed %d are left", n)
	}
	copied := filepath.Join(t.TempDir(), "copy.db")
	if _, err := store.Backup(s.ctx, s.path, copied); err != nil {
		t.Fatal(err)
	}
	if n := count(copied, "MARKER-") + count(copied, "PAGES-"); n != 0 {
		t.Errorf("%d pieces of redacted arguments are in a backup", n)
	}
	if n := count(copied, "STAYS-"); n < 80 {
		t.Errorf("%d of 80 that are kept are in a backup", n)
	}
}
