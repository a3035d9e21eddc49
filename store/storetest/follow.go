package storetest

import (
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// follow: what is read by those who follow the log of every tenant. Questions
// that ended are not among those that wait; a tenant's alerts are its own.
func follow(t *testing.T, b *bench) {
	if seq, at, err := b.Last(b.ctx, time.Time{}); seq != 0 || !at.IsZero() || err != nil {
		t.Fatalf("the last event of an empty log: %d %s %v", seq, at, err)
	}
	acme, globex := b.openRun(t, owner("acme"), false), b.openRun(t, owner("globex"), false)
	_, first := b.held(t, acme, `{"amount":1}`, 1)
	b.at = b.at.Add(time.Second)
	answered, second := b.held(t, acme, `{"amount":2}`, 1)
	b.at = b.at.Add(time.Second)
	_, third := b.held(t, globex, `{"amount":3}`, 1)
	no, err := record.Answer(second, answered, b.reply("lena", second, record.No), b.decision(record.Deny), nil)
	b.apply(t, no, err)

	var waiting []record.ApprovalID
	for after := record.ApprovalID(""); ; {
		page, err := b.Pending(b.ctx, after, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		after = page[0].Approval.ID
		waiting = append(waiting, after)
		if page[0].Call.Approval != after || page[0].Call.EffectText == "" || page[0].Run.Tenant != page[0].Call.Tenant {
			t.Fatalf("a question without its call: %+v", page[0])
		}
	}
	if len(waiting) != 2 || waiting[0] != first.ID || waiting[1] != third.ID {
		t.Fatalf("waiting are %v, want %s and %s", waiting, first.ID, third.ID)
	}

	seq, at, err := b.Last(b.ctx, time.Time{})
	if err != nil || !at.Equal(b.at) {
		t.Fatalf("the last event: %d %s %v", seq, at, err)
	}
	early, at, err := b.Last(b.ctx, b.at.Add(-time.Second))
	if err != nil || early <= 0 || early >= seq || !at.Before(b.at.Add(-time.Second)) {
		t.Fatalf("the last event a second before: %d of %d, %s, %v", early, seq, at, err)
	}

	for _, r := range []record.Run{acme, globex, acme} {
		a := record.Alert{Rule: record.AlertRefusals, Subject: string(r.Tenant), Text: "x", Count: 5, Events: []int64{1, 2}}
		b.apply(t, record.Raise(a, r.Tenant, r.ID, "", b.at), nil)
	}
	page, err := b.Alerts(b.ctx, dispatch.AlertQuery{Tenant: "acme", Limit: 1})
	if err != nil || len(page) != 1 || page[0].Kind != record.EventAlert || page[0].Tenant != "acme" || page[0].Seq <= seq {
		t.Fatalf("the newest alert: %+v %v", page, err)
	}
	next, err := b.Alerts(b.ctx, dispatch.AlertQuery{Tenant: "acme", Before: page[0].Seq})
	if err != nil || len(next) != 1 || next[0].Seq >= page[0].Seq || next[0].Run != acme.ID {
		t.Fatalf("the alert before it: %+v %v", next, err)
	}
	if none, err := b.Alerts(b.ctx, dispatch.AlertQuery{Tenant: "other"}); err != nil || len(none) != 0 {
		t.Fatalf("another tenant's alerts: %+v %v", none, err)
	}
}
