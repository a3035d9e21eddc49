package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// retention: an ended call is due when something of it is to go; whoever is first takes
// it, with what approvers were shown, and the rest of the row, its answers and every
// other call stay as they are.
func retention(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), false)
	ended := func(arguments string, keep record.Retention) record.Call {
		t.Helper()
		c := b.call(t, r, arguments)
		c.Input, c.Purpose, c.Retention = []byte(`{"answer":"secret"}`), "secret", keep
		shown := &record.Preview{Tool: "preview", Text: "secret"}
		q := b.question(t, &c, 1)
		q.Rule.Preview, q.Preview = shown.Digest(), shown
		q.Binding = record.BindingOf(c, &q.Rule, q.Expires, "sha256:x")
		step := b.step(r, record.RequiresApproval)
		step.Decision.Rule = &q.Rule
		change, err := record.Hold(c, step, q, nil)
		b.apply(t, change, err)
		l := b.load(t, "acme", c.ID)
		if l.Call.Binding != record.BindingOf(l.Call, &l.Approval.Rule, l.Approval.Expires, "sha256:x") {
			t.Fatal("what is read has another binding than what was asked")
		}
		change, err = record.Answer(*l.Approval, l.Call, b.reply("lena", q, record.Yes), b.decision(record.Allow), nil)
		b.apply(t, change, err)
		l = b.load(t, "acme", c.ID)
		change, err = record.Reserve(l.Call, b.step(r, record.Allow), b.at.Add(time.Minute), l.Approval, nil)
		b.apply(t, change, err)
		out := record.Outcome{Sent: true, Result: []byte(`"secret"`), Digest: canon.Of("r"), Detail: "d"}
		change, err = record.Settle(change.Facts().Call.After, record.Succeeded, out, record.Step{At: b.at, Who: r.By()}, record.ByBoundary)
		b.apply(t, change, err)
		return b.load(t, "acme", c.ID).Call
	}
	full := ended(`{"note":"whole","order":"ord_1"}`, record.Retention{})
	short := ended(`{"note":"secret","order":"ord_1"}`, record.Retention{Arguments: record.RecordRedacted, For: time.Hour})
	if !full.Due.IsZero() {
		t.Fatalf("nothing of it is to go, and it is due at %s", full.Due)
	}
	if due, next, err := b.Due(b.ctx, b.at, 10); err != nil || len(due) != 0 || !next.Equal(b.at.Add(time.Minute)) {
		t.Fatalf("at its end: %d due, next %s, %v", len(due), next, err)
	}
	if _, err := record.Outlived(short, nil, b.at.Add(time.Second)); record.KindOf(err) != record.Conflict {
		t.Fatalf("before its time: %v", err)
	}
	take := func(at time.Time) record.Call {
		t.Helper()
		due, _, err := b.Due(b.ctx, at, 10)
		if err != nil || len(due) != 1 || due[0].Call.ID != short.ID {
			t.Fatalf("%d due at %s, %v", len(due), at, err)
		}
		errs := together(8, func(int) error {
			change, err := record.Outlived(due[0].Call, due[0].Approval, at)
			if err != nil {
				return err
			}
			return b.Apply(b.ctx, change)
		})
		if n := count(errs, isNil); n != 1 || count(errs, func(err error) bool { return refused(err) == record.RefusedConflict }) != 7 {
			t.Fatalf("%d of 8 took it: %v", n, errs)
		}
		l := b.load(t, "acme", short.ID)
		if l.Approval.Preview != nil || l.Approval.Rule.Preview.IsZero() || len(l.Approval.Answers) != 1 || l.Approval.Binding != l.Call.Binding {
			t.Fatalf("its question: %+v", l.Approval)
		}
		return l.Call
	}
	first := take(b.at.Add(time.Minute))
	want := short
	want.Version++
	want.Arguments, want.Input, want.Purpose, want.EffectText, want.Salt = []byte(`{"note":"(redacted)","order":"ord_1"}`), nil, "", "", nil
	want.Due = b.at.Add(time.Hour)
	want.Redacted = &record.Redaction{At: b.at.Add(time.Minute), By: "clock", Why: "record_arguments: redacted",
		What: []string{"arguments.note", "input", "effect", "purpose", "preview", "salt"}}
	if d := cmp.Diff(want, first, cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("(-want +got)\n%s", d)
	}
	second := take(b.at.Add(time.Hour))
	if len(second.Arguments)+len(second.Targets)+len(second.Outcome.Result) != 0 || !second.Due.IsZero() || !second.Redacted.All || second.Outcome.Digest != short.Outcome.Digest ||
		!slices.Equal(second.Redacted.What, []string{"arguments", "targets", "result", "arguments.note", "input", "effect", "purpose", "preview", "salt"}) {
		t.Fatalf("after its retention: %+v %+v", second, second.Redacted)
	}
	if due, _, err := b.Due(b.ctx, b.at.Add(24*time.Hour), 10); err != nil || len(due) != 0 {
		t.Fatalf("nothing is left to go: %d due, %v", len(due), err)
	}
	l := b.load(t, "acme", full.ID)
	if d := cmp.Diff(full, l.Call, cmpopts.EquateEmpty()); d != "" || l.Approval.Preview == nil || l.Approval.Preview.Text != "secret" {
		t.Fatalf("another call was touched: %s %+v", d, l.Approval.Preview)
	}
	var redactions int
	for _, e := range b.events(t, "acme") {
		if strings.Contains(string(e.Body), "secret") || strings.Contains(string(e.Body), short.Digest.String()) {
			t.Errorf("event %s tells of the arguments: %s", e.Kind, e.Body)
		}
		if e.Kind == record.EventCallRedacted {
			redactions++
		}
	}
	if redactions != 2 {
		t.Errorf("%d events of redactions, want 2", redactions)
	}
}
