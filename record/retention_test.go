package record_test

import (
	"testing"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// TestRule_J4_OnlyEndedCallsAreRedacted: whoever asks, nothing is taken from a call that
// may still run or of which nobody knows whether it did; and what is redacted moves no more.
func TestRule_J4_OnlyEndedCallsAreRedacted(t *testing.T) {
	for _, state := range record.States() {
		c := callIn(state)
		c.Arguments, c.Salt, c.Changed, c.Retention = []byte(`{"a":1}`), []byte("salt"), at, record.Retention{Arguments: record.RecordDigest, For: time.Hour}
		change, err := record.RedactCall(c, nil, "asked for", record.Who{System: "test"}, "otto", at)
		if !state.Terminal() {
			if record.KindOf(err) != record.Conflict {
				t.Errorf("%s: %v", state, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", state, err)
		}
		m := change.Facts().Call
		if m.After.State != state || len(m.After.Arguments)+len(m.After.Salt) != 0 || !m.After.Due.IsZero() || m.After.Changed != at || !m.Redacts {
			t.Errorf("%s: %+v", state, m.After)
		}
		for _, to := range record.States() {
			for _, by := range record.Causes() {
				if record.May(state, to, by) {
					t.Errorf("a redacted call may go from %s to %s by %s", state, to, by)
				}
			}
		}
	}
}

// TestRule_J4_NoYesForWhatIsNotThere: should a row be redacted that has not ended, as
// only somebody else than this program leaves it, no yes is taken for it, and it does not run.
func TestRule_J4_NoYesForWhatIsNotThere(t *testing.T) {
	c := callIn(record.ApprovalPending)
	q := question(c, record.Pending)
	c.Approval = q.ID
	reply := record.Reply{Person: record.Principal{Issuer: "i", Subject: "lena"}, Word: record.Yes, At: at, Binding: q.Binding}
	step := record.Step{At: at, Who: c.By()}
	if _, err := record.Answer(*q, c, reply, record.Decision{}, nil); err != nil {
		t.Fatalf("a whole one: %v", err)
	}
	approved := question(c, record.Approved)
	if _, err := record.Reserve(c, step, at.Add(time.Minute), approved, nil); err != nil {
		t.Fatalf("a whole one: %v", err)
	}
	c.Redacted = &record.Redaction{At: at, All: true}
	if _, err := record.Answer(*q, c, reply, record.Decision{}, nil); record.KindOf(err) != record.Conflict {
		t.Errorf("a yes: %v", err)
	}
	if _, err := record.Reserve(c, step, at.Add(time.Minute), approved, nil); record.KindOf(err) != record.Conflict {
		t.Errorf("a reservation: %v", err)
	}
}

// TestRule_J4_Commitments: a commitment is to one digest of one call, and without its salt nothing
// is said; bindings of calls without a salt are as they were.
func TestRule_J4_Commitments(t *testing.T) {
	c := callIn(record.Proposed)
	d := canon.Of("d")
	if !c.Commit(d).IsZero() {
		t.Error("without a salt a digest is told")
	}
	old := record.BindingOf(c, nil, at, "x")
	c.Salt = []byte("one")
	one, bound := c.Commit(d), record.BindingOf(c, nil, at, "x")
	c.Salt = []byte("two")
	if one.IsZero() || one == d || one == c.Commit(d) || one == c.Commit(canon.Of("e")) || !c.Commit(canon.Digest{}).IsZero() {
		t.Error("a commitment is not to one digest with one salt")
	}
	if bound == old || bound == record.BindingOf(c, nil, at, "x") {
		t.Error("the salt is not in the binding")
	}
	c.Salt = nil
	if record.BindingOf(c, nil, at, "x") != old {
		t.Error("a call without a salt has another binding than before")
	}
}

// TestRetentionIsTheStricter: a look-up for a call keeps no more of its values than the
// call's own entry does.
func TestRetentionIsTheStricter(t *testing.T) {
	full, redacted, digest := record.Retention{}, record.Retention{Arguments: record.RecordRedacted, For: time.Hour}, record.Retention{Arguments: record.RecordDigest, For: 2 * time.Hour}
	for _, c := range []struct{ a, b, want record.Retention }{
		{full, full, full}, {full, redacted, redacted}, {full, digest, digest},
		{redacted, digest, record.Retention{Arguments: record.RecordDigest, For: time.Hour}},
	} {
		if got := c.a.Stricter(c.b); got != c.want {
			t.Errorf("%+v and %+v: %+v", c.a, c.b, got)
		}
		if got := c.b.Stricter(c.a); got != c.want {
			t.Errorf("%+v and %+v: %+v", c.b, c.a, got)
		}
	}
}
