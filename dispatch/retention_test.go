package dispatch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/placet-dev/placet/audit"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const keepingYAML = toolsYAML + `
  kept: {server: desk, scope: refunds, write: true, sources: [direct], targets: [order], approval: {when: asked}, effect: "Write {note}"}
  shaped: {server: desk, scope: refunds, write: true, sources: [direct], targets: [order], approval: {when: always, approvers: ["group:leads"]}, effect: "Write {note}", record_arguments: redacted}
  digested: {server: desk, scope: refunds, write: true, sources: [direct], targets: [order], approval: {when: asked}, effect: "Write {note}", record_arguments: digest}
  passing: {server: desk, scope: refunds, write: true, sources: [direct], targets: [order], approval: {when: asked}, effect: "Write {note}", retention: 1h}
`

func keeping(s *scene) { s.yaml = keepingYAML }

// passes lets time pass and waits until the clock has done what holds then.
func (s *scene) passes(d time.Duration, holds func() bool) {
	s.t.Helper()
	s.clock.pass(d)
	ctx, stop := context.WithTimeout(s.ctx, 20*time.Second)
	done := make(chan struct{})
	go func() { s.Work(ctx); close(done) }()
	for !holds() {
		if ctx.Err() != nil {
			s.t.Error("the clock did not do it")
			break
		}
	}
	stop()
	<-done
}

func (s *scene) loaded(id record.CallID) dispatch.Loaded {
	s.t.Helper()
	l, err := s.store.Call(s.ctx, "acme", id)
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

// stored is all that the store's file holds, or every row of every table.
func (s *scene) stored() string {
	s.t.Helper()
	if onPostgres != nil {
		return onPostgres.Do(s.t, s.database, `SET search_path = placet; SELECT set_config('placet.tenants', '*', false);
			SELECT string_agg(x::text, '') FROM (SELECT query_to_xml(format('SELECT * FROM placet.%I', relname), true, true, '') AS x
			FROM pg_class WHERE relnamespace = 'placet'::regnamespace AND relkind = 'r') AS all_rows`)
	}
	copied := filepath.Join(s.t.TempDir(), "all.db")
	conn, err := sqlite.OpenConn(s.path, sqlite.OpenReadWrite)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := sqlitex.ExecuteTransient(conn, "VACUUM INTO '"+copied+"'", nil); err != nil {
		s.t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		s.t.Fatal(err)
	}
	text, err := os.ReadFile(copied)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// TestRule_J4_RedactedCalls: what a tool's retention does not keep is in no row and no
// event once the call has ended, and the log that was sealed before still verifies; what
// is to be kept is. Each call ran once, and an equal one is still answered from its record.
func TestRule_J4_RedactedCalls(t *testing.T) {
	s := newScene(t, keeping)
	key, err := audit.OpenKey(filepath.Join(t.TempDir(), "key"), "log.test", nil)
	if err != nil {
		t.Fatal(err)
	}
	log := s.store.Store.(audit.Log)
	sealer, err := audit.NewSealer(t.Context(), audit.Options{Log: log, Apply: s.store.Store.Apply, Key: key, Clock: s.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	marker := func(tool string) string { return "MARKER-" + strings.ToUpper(tool) }
	arguments := func(tool string) string { return fmt.Sprintf(`{"note":%q,"order":"ord-%s"}`, marker(tool), tool) }
	tools := []string{"kept", "shaped", "digested", "passing"}
	calls := map[string]record.CallID{}
	whole := map[string]record.Call{}
	for _, tool := range tools {
		a := s.do(anna, tool, arguments(tool), func(p *dispatch.Proposal) { p.Purpose = "for " + marker(tool) })
		calls[tool] = a.Call.ID
		if tool == "shaped" {
			s.wants(a, record.RequiresApproval, record.CodeAlwaysAsks, record.ApprovalPending)
			s.reply(a, "lena", record.Yes, "leads")
			if a, err = s.Dispatch(s.ctx, s.caller(anna), a.Call.ID, nil); err != nil {
				t.Fatal(err)
			}
		}
		s.wants(a, record.Allow, record.CodeNone, record.Succeeded)
		c := s.loaded(a.Call.ID).Call
		whole[tool] = c
		if len(c.Salt) != record.SaltBytes || string(c.Arguments) != arguments(tool) || tool == "shaped" && !strings.Contains(c.EffectText, marker(tool)) {
			t.Fatalf("%s: a call that has just ended is whole: %+v", tool, c)
		}
	}
	s.ran(4)
	if err := sealer.Step(s.ctx); err != nil {
		t.Fatal(err)
	}
	before, err := log.Head(s.ctx)
	if err != nil {
		t.Fatal(err)
	}

	s.passes(2*time.Minute, func() bool {
		return s.loaded(calls["shaped"]).Call.Redacted != nil && s.loaded(calls["digested"]).Call.Redacted != nil
	})
	if c := s.loaded(calls["passing"]).Call; c.Redacted != nil || string(c.Arguments) != arguments("passing") {
		t.Fatalf("within its retention a call is whole: %+v", c)
	}
	shaped := s.loaded(calls["shaped"]).Call
	if string(shaped.Arguments) != `{"note":"(redacted)","order":"ord-shaped"}` || len(shaped.Targets) != 1 ||
		!slices.Equal(shaped.Redacted.What, []string{"arguments.note", "effect", "purpose", "salt"}) || shaped.Redacted.Why != "record_arguments: redacted" {
		t.Fatalf("redacted: %s %+v", shaped.Arguments, shaped.Redacted)
	}
	digested := s.loaded(calls["digested"]).Call
	if len(digested.Arguments)+len(digested.Targets)+len(digested.EffectText)+len(digested.Purpose)+len(digested.Salt) != 0 ||
		digested.Digest != whole["digested"].Digest || len(digested.Outcome.Result) == 0 || digested.State != record.Succeeded {
		t.Fatalf("digest: %+v", digested)
	}

	// An equal call is found by what stays; another one runs, once.
	s.wants(s.do(anna, "digested", arguments("digested")), record.Allow, record.CodeAlreadyDone, record.Succeeded)
	s.ran(4)
	s.wants(s.do(anna, "digested", `{"note":"another","order":"ord-digested"}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(5)

	s.passes(2*time.Hour, func() bool { r := s.loaded(calls["passing"]).Call.Redacted; return r != nil })
	passing := s.loaded(calls["passing"]).Call
	if len(passing.Arguments)+len(passing.Targets)+len(passing.Salt)+len(passing.Outcome.Result) != 0 || !passing.Redacted.All || !slices.Contains(passing.Redacted.What, "result") {
		t.Fatalf("after its retention: %+v %+v", passing, passing.Redacted)
	}

	// Nothing that an event says lets anybody try what the arguments were.
	events, err := s.store.Events(s.ctx, dispatch.EventQuery{All: true, Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		for tool, c := range whole {
			if body := string(e.Body); strings.Contains(body, marker(tool)) || strings.Contains(body, c.Digest.String()) || strings.Contains(body, c.Effect.String()) {
				t.Errorf("event %d, %s, tells of the arguments of %s: %s", e.Seq, e.Kind, tool, body)
			}
		}
		if e.Kind == record.EventProposed && e.Call == calls["digested"] {
			var body record.Body
			c := whole["digested"] // whoever has arguments and salt can show that they are those
			if json.Unmarshal(e.Body, &body) != nil || body.Arguments != c.Commit(record.ArgumentDigest([]byte(arguments("digested")), nil)) || body.Arguments.IsZero() {
				t.Errorf("the commitment is not to the arguments: %s", e.Body)
			}
		}
	}
	if got := s.events(calls["digested"]); got[len(got)-2] != record.EventCallRedacted {
		t.Errorf("the redaction is no event: %v", got)
	}

	// What was sealed before verifies with what was sealed after.
	if err := sealer.Step(s.ctx); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := (audit.Export{}).WriteTo(s.ctx, &out, log, key.Public()); err != nil {
		t.Fatal(err)
	}
	if _, err := audit.Verify(bytes.NewReader(out.Bytes()), key.Verifiers(), []string{before.Note}); err != nil {
		t.Errorf("the log does not verify: %v", err)
	}
	of := slices.DeleteFunc(slices.Clone(events), func(e record.Event) bool { return e.Call != calls["digested"] })
	receipt, err := audit.Receipts(s.ctx, log, key.Public(), of)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(receipt)
	if err != nil {
		t.Fatal(err)
	}
	if proved, _, err := audit.VerifyReceipt(text, key.Verifiers()); err != nil || len(proved) != len(of) {
		t.Errorf("the receipt of a redacted call: %d of %d, %v", len(proved), len(of), err)
	}
	all := s.stored()
	for _, tool := range tools {
		if want := tool == "kept"; strings.Contains(all, marker(tool)) != want {
			t.Errorf("the store holds the marker of %s: %t", tool, !want)
		}
		if strings.Contains(out.String(), marker(tool)) {
			t.Errorf("the export holds the marker of %s", tool)
		}
	}
}

// TestRule_J4_RedactedByAnOperator: an operator of the tenant redacts what has ended, once;
// nobody redacts what may still run.
func TestRule_J4_RedactedByAnOperator(t *testing.T) {
	s := newScene(t, keeping)
	a := s.wants(s.do(anna, "kept", `{"note":"MARKER","order":"o"}`), record.Allow, record.CodeNone, record.Succeeded)
	waits := s.do(anna, "shaped", `{"note":"MARKER-2","order":"o"}`)
	if _, err := s.RedactCall(s.ctx, s.operator(), "acme", waits.Call.ID, "asked for"); record.KindOf(err) != record.Conflict {
		t.Fatalf("a call that waits: %v", err)
	}
	if _, err := s.RedactCall(s.ctx, s.operator(), "globex", a.Call.ID, "asked for"); record.KindOf(err) != record.NotFound {
		t.Fatalf("another tenant: %v", err)
	}
	if _, err := s.RedactCall(s.ctx, s.operator(), "acme", a.Call.ID, ""); record.KindOf(err) != record.Invalid {
		t.Fatalf("without a reason: %v", err)
	}
	c, err := s.RedactCall(s.ctx, s.operator(), "acme", a.Call.ID, "asked for")
	if err != nil || c.Redacted == nil || c.Redacted.Why != "asked for" || !slices.Contains(c.Redacted.What, "arguments") {
		t.Fatalf("%v %+v", err, c)
	}
	if _, err := s.RedactCall(s.ctx, s.operator(), "acme", a.Call.ID, "again"); record.KindOf(err) != record.Conflict {
		t.Fatalf("twice: %v", err)
	}
	if all := s.stored(); !strings.Contains(all, "MARKER-2") || strings.Contains(strings.ReplaceAll(all, "MARKER-2", ""), "MARKER") {
		t.Fatal("it is not the one call that was redacted")
	}
	s.reply(waits, "lena", record.Yes, "leads")
	if _, err := s.Dispatch(s.ctx, s.caller(anna), waits.Call.ID, nil); err != nil {
		t.Fatal(err)
	}
	s.ran(2)
}
