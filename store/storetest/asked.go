package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// asked: a person finds exactly the questions that their groups may answer, newest
// first and page by page, and nobody finds another tenant's.
func asked(t *testing.T, b *bench) {
	anna := b.openRun(t, owner("acme"), false)
	other := owner("acme")
	other.Principal.Subject, other.Agent = "bert", "mailer"
	bert := b.openRun(t, other, false)
	foreign := b.openRun(t, owner("globex"), false)
	leads := []record.Group{{Issuer: "https://idp", Name: "leads"}}
	var all []record.ApprovalID
	for n := range 7 {
		for _, r := range []record.Run{anna, bert, foreign} {
			if _, q := b.held(t, r, fmt.Sprintf(`{"amount":%d}`, n), 1+n%2); r.Tenant == "acme" {
				all = append(all, q.ID)
			}
		}
	}
	slices.Sort(all)
	slices.Reverse(all)
	find := func(q dispatch.AskedQuery) (ids []record.ApprovalID) {
		t.Helper()
		q.Tenant, q.States = "acme", []record.ApprovalState{record.Pending, record.Approved}
		for {
			page, err := b.Asked(b.ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range page.Found {
				if l.Approval == nil || l.Call.ID != l.Approval.Call || l.Run.ID != l.Call.Run || l.Call.Tenant != "acme" {
					t.Fatalf("not whole: %+v", l)
				}
				ids = append(ids, l.Approval.ID)
			}
			if q.After = page.Next; q.After == "" {
				return ids
			}
		}
	}
	person := record.Principal{Issuer: "https://idp", Subject: "lena"}
	for limit := range 16 {
		if got := find(dispatch.AskedQuery{Person: person, Groups: leads, Limit: limit + 1}); !slices.Equal(got, all) {
			t.Fatalf("by pages of %d: %v, want %v", limit+1, got, all)
		}
	}
	if got := find(dispatch.AskedQuery{Person: person, Groups: []record.Group{{Issuer: "https://other", Name: "leads"}}}); len(got) != 0 {
		t.Fatalf("another issuer's group finds %v", got)
	}
	if got := find(dispatch.AskedQuery{Person: anna.Principal, Groups: leads}); len(got) != 7 {
		t.Fatalf("who may not answer for herself finds %d, want the 7 of others", len(got))
	}
	for name, q := range map[string]dispatch.AskedQuery{"for": {For: "BERT"}, "agent": {Agent: "mailer"}, "tool and for": {Tool: "Refund", For: "bert"}, "run": {Run: bert.ID}} {
		q.Person, q.Groups, q.Limit = person, leads, 3
		if got := find(q); len(got) != 7 {
			t.Errorf("%s finds %d, want 7", name, len(got))
		}
	}
	if got := find(dispatch.AskedQuery{Person: person, Groups: leads, Tool: "refun"}); len(got) != 0 {
		t.Errorf("a part of a name finds %v", got)
	}
	approved(t, b, anna)
}

// approved: the newest call of a tool that people approved for its owner.
func approved(t *testing.T, b *bench, r record.Run) {
	latest := func(before record.CallID) *dispatch.Loaded {
		t.Helper()
		l, err := b.Approved(b.ctx, dispatch.ApprovedQuery{Owner: r.Owner, Tool: "refund", Before: before})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	if l := latest(""); l != nil {
		t.Fatalf("nobody approved %s", l.Call.ID)
	}
	var calls []record.Call
	for n := range 2 {
		c, q := b.held(t, r, fmt.Sprintf(`{"amount":10%d}`, n), 1)
		yes, err := record.Answer(q, c, b.reply("lena", q, record.Yes), b.decision(record.Allow), nil)
		b.apply(t, yes, err)
		calls = append(calls, c)
		b.at = b.at.Add(1000_000)
	}
	if l := latest(""); l == nil || l.Call.ID != calls[1].ID || len(l.Approval.Answers) != 1 {
		t.Fatalf("the newest is %+v", l)
	}
	if l := latest(calls[1].ID); l == nil || l.Call.ID != calls[0].ID {
		t.Fatalf("before it: %+v", l)
	}
	unused, err := b.Unused(b.ctx, r.Tenant, r.Lineage, "refund", b.at)
	if err != nil || unused == nil || unused.ID != calls[1].ID {
		t.Fatalf("unused is %+v: %v", unused, err)
	}
}
