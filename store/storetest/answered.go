package storetest

import (
	"testing"

	"github.com/placet-dev/placet/record"
)

// answered: open questions that a login said yes to, page by page, and nothing else.
// One that is asked anew in the place of another holds none of its answers.
func answered(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), false)
	var want []record.ApprovalID
	say := func(n, person string, word record.Word, quorum int) (record.Call, record.Approval) {
		c, q := b.held(t, r, n, quorum)
		change, err := record.Answer(q, c, b.reply(person, q, word), b.decision(record.Allow), nil)
		b.apply(t, change, err)
		l := b.load(t, "acme", c.ID)
		return l.Call, *l.Approval
	}
	_, pending := say(`{"n":1}`, "lena", record.Yes, 2)
	c, approved := say(`{"n":2}`, "lena", record.Yes, 1)
	say(`{"n":3}`, "lena", record.No, 1)
	say(`{"n":4}`, "max", record.Yes, 1)
	want = append(want, pending.ID, approved.ID)

	lena := record.Principal{Issuer: "https://idp", Subject: "lena"}
	all := func() (out []record.ApprovalID) {
		t.Helper()
		for last := (record.ApprovalID("")); ; {
			page, err := b.Answered(b.ctx, "acme", lena, last, 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				return out
			}
			last = page[0]
			out = append(out, last)
		}
	}
	got := all()
	if len(got) != 2 || got[0] == got[1] || got[0] != min(want[0], want[1]) {
		t.Fatalf("answered are %v, want %v", got, want)
	}
	if elsewhere, err := b.Answered(b.ctx, "globex", lena, "", 10); err != nil || len(elsewhere) != 0 {
		t.Fatalf("another tenant sees %v, %v", elsewhere, err)
	}
	next := approved
	next.ID, next.Answers, next.Asked, next.Expires = record.ApprovalID(id(t, "apr", b.at)), nil, b.at, b.at.Add(next.Rule.Expires)
	change, err := record.Reask(c, approved, next, "left", record.Step{At: b.at, Who: record.Who{Workload: "ops"}})
	b.apply(t, change, err)
	l := b.load(t, "acme", c.ID)
	if l.Approval.ID != next.ID || l.Approval.State != record.Pending || len(l.Approval.Answers) != 0 || l.Approval.Binding == approved.Binding ||
		l.Call.State != record.ApprovalPending || l.Call.Binding != l.Approval.Binding {
		t.Fatalf("asked anew: %+v of a call %s", l.Approval, l.Call.State)
	}
	if got := all(); len(got) != 1 || got[0] != pending.ID {
		t.Fatalf("answered are %v, want %s", got, pending.ID)
	}
	if err := b.Apply(b.ctx, change); refused(err) != record.RefusedConflict {
		t.Fatalf("asked anew twice: %v", err)
	}
}
