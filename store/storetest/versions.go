package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// versions: an activation and its files are one change; what a digest stands for never
// changes; nothing is written where the activation is refused.
func versions(t *testing.T, b *bench) {
	who := record.Who{Workload: "ops"}
	part := record.Part{Name: "tool x", Digest: canon.Of("test", []byte("x"))}
	made := func(digest, content string) *record.Version {
		v := record.NewVersion(digest, []byte(content), []record.Part{part}, record.Needs(), who, b.at)
		return &v
	}
	if list, err := b.Activations(b.ctx, 0, 10); err != nil || len(list) != 0 {
		t.Fatalf("a new store has %d activations (%v)", len(list), err)
	}
	if _, err := b.Version(b.ctx, "sha256:a"); record.KindOf(err) != record.NotFound {
		t.Fatalf("a version that was never active: %v", err)
	}
	first := record.Activation{To: 1, Digest: "sha256:a", Who: who, At: b.at, Files: record.FilesOwn, Plan: []string{"added tool x"}}
	change, err := record.Activate(first, made("sha256:a", `{"tools.yaml":"one"}`), nil)
	b.apply(t, change, err)
	got, err := b.Version(b.ctx, "sha256:a")
	if want := *made("sha256:a", `{"tools.yaml":"one"}`); err != nil || cmp.Diff(want, got) != "" {
		t.Fatalf("the version came back as %v\n%s", err, cmp.Diff(want, got))
	}
	if err := got.Sound(); err != nil {
		t.Fatal(err)
	}

	// An activation that is refused stores nothing.
	change, err = record.Activate(record.Activation{From: 5, To: 6, Digest: "sha256:b", Who: who, At: b.at}, made("sha256:b", `{}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Apply(b.ctx, change); refused(err) != record.RefusedConflict {
		t.Fatalf("an activation of another premise: %v", err)
	}
	if _, err := b.Version(b.ctx, "sha256:b"); record.KindOf(err) != record.NotFound {
		t.Fatalf("a refused activation left its version: %v", err)
	}

	// An old program activates without files; the first to bring them is believed, and
	// nobody after.
	change, err = record.Activate(record.Activation{From: 1, To: 2, Digest: "sha256:c", Who: who, At: b.at.Add(time.Minute)}, nil, nil)
	b.apply(t, change, err)
	for _, content := range []string{`{"tools.yaml":"two"}`, `{"tools.yaml":"other"}`} {
		change, err = record.KeepVersion(*made("sha256:c", content))
		b.apply(t, change, err)
	}
	if got, err = b.Version(b.ctx, "sha256:c"); err != nil || string(got.Content) != `{"tools.yaml":"two"}` {
		t.Fatalf("the files of a version changed: %s (%v)", got.Content, err)
	}

	// Going back names a version that is there.
	change, err = record.Activate(record.Activation{From: 2, To: 3, Digest: "sha256:a", Who: who, At: b.at.Add(time.Hour), Files: record.FilesStored}, made("sha256:a", `{"tools.yaml":"one"}`), nil)
	b.apply(t, change, err)
	list, err := b.Activations(b.ctx, 0, 2)
	if err != nil || len(list) != 2 || list[0].To != 3 || list[0].Files != record.FilesStored || list[1].To != 2 || !list[1].Sum.IsZero() {
		t.Fatalf("activations: %+v (%v)", list, err)
	}
	list, err = b.Activations(b.ctx, list[1].To, 10)
	first.Sum = record.ContentSum([]byte(`{"tools.yaml":"one"}`))
	if err != nil || len(list) != 1 || cmp.Diff(first, list[0]) != "" {
		t.Fatalf("the first activation: %v %s", err, cmp.Diff([]record.Activation{first}, list))
	}
	if g, d, err := b.Generation(b.ctx); g != 3 || d != "sha256:a" || err != nil {
		t.Fatalf("active: %d %s %v", g, d, err)
	}
}

// unconsumed: approved questions of every tenant, and no others.
func unconsumed(t *testing.T, b *bench) {
	var want []record.ApprovalID
	for _, tenant := range []string{"acme", "bolt"} {
		r := b.openRun(t, owner(tenant), false)
		b.held(t, r, `{"amount":1}`, 1) // it waits: not among them
		c, q := b.held(t, r, `{"amount":2}`, 1)
		change, err := record.Answer(q, c, b.reply("carla", q, record.Yes), record.Decision{}, nil)
		b.apply(t, change, err)
		want = append(want, q.ID)
	}
	var got []record.ApprovalID
	for after := record.ApprovalID(""); ; {
		page, err := b.Unconsumed(b.ctx, after, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		after = page[0].Approval.ID
		if page[0].Approval.State != record.Approved || page[0].Call.ID != page[0].Approval.Call {
			t.Fatalf("%+v", page[0])
		}
		got = append(got, after)
	}
	if len(got) != 2 || got[0] != want[0] && got[0] != want[1] {
		t.Fatalf("unconsumed: %v, want %v", got, want)
	}
}
