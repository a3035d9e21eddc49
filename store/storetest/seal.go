package storetest

import (
	"bytes"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/placet-dev/placet/audit"
	"github.com/placet-dev/placet/record"
)

// sealing: while events are recorded, sealers of several replicas give each of them one
// leaf. What they leave is one chain, and every event has a receipt.
func sealing(t *testing.T, b *bench) {
	key, err := audit.OpenKey(filepath.Join(t.TempDir(), "key"), "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	sealer := func() *audit.Sealer {
		s, err := audit.NewSealer(b.ctx, audit.Options{Log: b.Store, Apply: b.Apply, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if head, err := b.Head(b.ctx); err != nil || head.Size != 0 {
		t.Fatalf("a new log is sealed: %+v %v", head, err)
	}
	acme, globex := b.openRun(t, owner("acme"), false), b.openRun(t, owner("globex"), false)
	var writing, sealers sync.WaitGroup
	for _, run := range []record.Run{acme, globex} {
		writing.Go(func() {
			for range 150 {
				if err := b.Apply(b.ctx, record.Raise(record.Alert{Rule: record.AlertRefusals, Subject: "x", Text: "x"}, run.Tenant, run.ID, "", b.at)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	for range 3 {
		s := sealer()
		sealers.Go(func() {
			for {
				_, err := s.Seal(b.ctx)
				var refused *record.Refusal
				if err != nil && !errors.As(err, &refused) {
					t.Error(err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	writing.Wait()
	close(done)
	sealers.Wait()
	for n := 1; n > 0; {
		if n, err = sealer().Seal(b.ctx); err != nil {
			t.Fatal(err)
		}
	}

	events, err := b.Logged(b.ctx, 0, 1<<62, 1000)
	if err != nil {
		t.Fatal(err)
	}
	head, err := b.Head(b.ctx)
	if err != nil || head.Size != int64(len(events)) || head.Seq != events[len(events)-1].Seq {
		t.Fatalf("sealed are %d up to %d, recorded %d: %v", head.Size, head.Seq, len(events), err)
	}
	tenant := record.TenantID("acme")
	for _, x := range []audit.Export{{}, {Tenant: &tenant}} {
		var out bytes.Buffer
		if err := x.WriteTo(b.ctx, &out, b.Store, key.Public()); err != nil {
			t.Fatal(err)
		}
		got, err := audit.Verify(&out, key.Verifiers(), []string{head.Note})
		if err != nil || got.Size != head.Size || int64(got.Events+got.Hidden) != head.Size {
			t.Fatalf("the export does not verify: %+v %v", got, err)
		}
		if x.Tenant != nil && got.Hidden != 151 || x.Tenant == nil && got.Hidden != 0 {
			t.Fatalf("hidden are %d", got.Hidden)
		}
	}
	receipt, err := audit.Receipts(b.ctx, b.Store, key.Public(), events)
	if err != nil || len(receipt.Entries) != len(events) {
		t.Fatal(err)
	}
	// Whoever is late gets the conflict, and no trace of it stays.
	late, err := record.Seal(record.Checkpoint{}, record.Checkpoint{Size: 1, Seq: 1, Salt: []byte{1}, Note: "another"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var refused *record.Refusal
	if err := b.Apply(b.ctx, late); !errors.As(err, &refused) || refused.Kind != record.RefusedConflict {
		t.Fatalf("a second first checkpoint: %v", err)
	}
	if now, err := b.Head(b.ctx); err != nil || now.Note != head.Note {
		t.Fatalf("the head moved: %v", err)
	}
}
