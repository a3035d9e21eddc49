package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// transcripts: an imported history is kept whole, moves under its version only, and
// is its tenant's and owner's alone; a share ends once; neither makes or moves a call,
// an approval or a run.
func transcripts(t *testing.T, b *bench) {
	run := b.openRun(t, owner("acme"), false)
	call, question := b.held(t, run, `{"amount":1}`, 1)
	import1 := func(o record.Owner, label string) record.Transcript {
		t.Helper()
		b.at = b.at.Add(time.Second)
		tr := record.Transcript{Owner: o, ID: record.TranscriptID(id(t, "trn", b.at)), Label: label, Format: "openai-chat", Digest: canon.Of("t", []byte(label)), Size: 7, Messages: 2,
			Imported: b.at, Items: []record.TranscriptItem{{Kind: "user", Text: "pay", Digest: canon.Of("i", []byte("pay"))}, {Item: 1, Message: 1, Kind: record.ItemCall, Tool: "pay", Label: "c1", Text: "{}"},
				{Item: 2, Message: 1, Kind: record.ItemResult, Label: "c1", Text: "secret", Cut: true}}}
		change := record.Import(tr, o.By())
		b.apply(t, change, nil)
		return change.Facts().Transcript.After
	}
	get := func(tenant record.TenantID, want record.Transcript) {
		t.Helper()
		got, err := b.Transcript(b.ctx, tenant, want.ID)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%v %s", err, diff)
		}
	}
	first := import1(owner("acme"), "first")
	get("acme", first)
	other := owner("acme")
	other.Agent = "rover"
	second := import1(other, "second")
	import1(owner("globex"), "third")
	if _, err := b.Transcript(b.ctx, "globex", first.ID); record.KindOf(err) != record.NotFound {
		t.Fatalf("another tenant's: %v", err)
	}
	mine := owner("acme")
	for _, q := range []struct {
		query dispatch.TranscriptQuery
		want  []record.TranscriptID
	}{
		{dispatch.TranscriptQuery{Tenant: "acme"}, []record.TranscriptID{second.ID, first.ID}},
		{dispatch.TranscriptQuery{Tenant: "acme", Limit: 1}, []record.TranscriptID{second.ID}},
		{dispatch.TranscriptQuery{Tenant: "acme", Before: second.ID}, []record.TranscriptID{first.ID}},
		{dispatch.TranscriptQuery{Tenant: "acme", Owner: &mine}, []record.TranscriptID{first.ID}},
	} {
		page, err := b.ListTranscripts(b.ctx, q.query)
		var got []record.TranscriptID
		for _, p := range page {
			got = append(got, p.ID)
			if p.Items != nil {
				t.Fatal("a list holds items")
			}
		}
		if diff := cmp.Diff(q.want, got); err != nil || diff != "" {
			t.Fatalf("%+v: %v %s", q.query, err, diff)
		}
	}

	redacted, err := record.Redact(first, []int{2}, mine.By(), b.at)
	b.apply(t, redacted, err)
	after := redacted.Facts().Transcript.After
	get("acme", after)
	if i := after.Items[2]; i.Text != "" || !i.Redacted || i.Digest != first.Items[2].Digest || first.Items[2].Text == "" {
		t.Fatalf("after redaction: %+v", i)
	}
	conflicts(t, b.Apply(b.ctx, redacted)) // the version has moved
	compacted, err := record.Compact(after, 0, 2, "paid", mine.By(), b.at)
	b.apply(t, compacted, err)
	get("acme", compacted.Facts().Transcript.After)
	conflicts(t, b.Apply(b.ctx, record.DeleteTranscript(after, mine.By(), b.at)))
	b.apply(t, record.DeleteTranscript(compacted.Facts().Transcript.After, mine.By(), b.at), nil)
	if _, err := b.Transcript(b.ctx, "acme", first.ID); record.KindOf(err) != record.NotFound {
		t.Fatalf("a deleted one: %v", err)
	}

	share := record.Share{ID: record.ShareID(id(t, "shr", b.at)), By: mine, To: record.Principal{Issuer: "https://idp", Subject: "bert"}, Run: run.ID, Given: b.at, Until: b.at.Add(time.Hour)}
	b.apply(t, record.Give(share, mine.By()), nil)
	got, err := b.Share(b.ctx, "acme", share.ID)
	if diff := cmp.Diff(share, got); err != nil || diff != "" {
		t.Fatalf("%v %s", err, diff)
	}
	if _, err := b.Share(b.ctx, "globex", share.ID); record.KindOf(err) != record.NotFound {
		t.Fatalf("another tenant's share: %v", err)
	}
	for _, q := range []dispatch.ShareQuery{{Tenant: "acme", By: &mine}, {Tenant: "acme", To: &share.To}, {Tenant: "acme", By: &other, To: &share.To}} {
		if page, err := b.ListShares(b.ctx, q); err != nil || len(page) != 1 || page[0].ID != share.ID {
			t.Fatalf("shares: %+v %v", page, err)
		}
	}
	if page, err := b.ListShares(b.ctx, dispatch.ShareQuery{Tenant: "acme", By: &other, To: &mine.Principal}); err != nil || len(page) != 0 {
		t.Fatalf("shares of somebody else: %+v %v", page, err)
	}
	conflicts(t, b.Apply(b.ctx, record.Give(share, mine.By())))
	end := record.TakeBack(share, mine.By(), b.at.Add(time.Minute))
	b.apply(t, end, nil)
	conflicts(t, b.Apply(b.ctx, end))

	// No record of a call was touched by any of it.
	l, err := b.Call(b.ctx, "acme", call.ID)
	if err != nil || l.Call.Version != call.Version || l.Call.State != call.State || l.Approval.State != question.State || l.Run.Version != run.Version {
		t.Fatalf("the call moved: %+v %v", l, err)
	}
	calls, err := b.Calls(b.ctx, dispatch.CallQuery{Tenant: "acme"})
	runs, rerr := b.Runs(b.ctx, dispatch.RunQuery{Tenant: "acme"})
	if err != nil || rerr != nil || len(calls) != 1 || len(runs) != 1 {
		t.Fatalf("%d calls, %d runs; %v %v", len(calls), len(runs), err, rerr)
	}

	// A run that replays another says so.
	replay := run
	replay.ID, replay.Replays, replay.Label = record.RunID(id(t, "run", b.at)), run.ID, "replay"
	b.apply(t, record.OpenRun(replay, mine.By()), nil)
	if r, err := b.Run(b.ctx, "acme", replay.ID); err != nil || r.Replays != run.ID {
		t.Fatalf("the replay: %+v %v", r, err)
	}
}

func conflicts(t *testing.T, err error) {
	t.Helper()
	if refused(err) != record.RefusedConflict {
		t.Fatalf("%v, want a conflict", err)
	}
}
