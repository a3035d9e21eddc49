package dispatch

import (
	"context"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// Shown is a question as a person saw it.
type Shown struct {
	ID      record.ApprovalID
	Binding canon.Digest
}

// maxBatch bounds how many questions one answer rejects.
const maxBatch = 500

// RejectRun says no to questions of one run, each as it was shown (rule D6), and
// ends the run, so that nothing else of it runs either. Questions that moved on
// meanwhile are left as they are. There is no such answer for a yes: each call is
// approved by itself. It returns how many were rejected; unless one was, the run
// goes on, since nothing shows that this person has a say in it.
func (b *Boundary) RejectRun(ctx context.Context, p identity.Person, run record.RunID, shown []Shown, note string) (int, error) {
	if len(shown) == 0 || len(shown) > maxBatch {
		return 0, record.Errorf(record.Invalid, "name between one and %d questions of the run", maxBatch)
	}
	for _, s := range shown { // all of them, before any is answered
		l, err := b.Question(ctx, p, s.ID)
		if err != nil {
			return 0, err
		}
		if l.Call.Run != run {
			return 0, record.Errorf(record.Invalid, "the questions are not all of that run")
		}
		if err := mayReply(*l.Approval, p, record.No, note, nil); err != nil {
			return 0, err
		}
	}
	rejected := 0
	for _, s := range shown {
		_, err := b.Reply(ctx, p, s.ID, s.Binding, record.No, note)
		switch {
		case err == nil:
			rejected++
		case record.KindOf(err) != record.Conflict:
			return rejected, err
		}
	}
	if rejected == 0 {
		return 0, record.Errorf(record.Conflict, "none of these questions waits any more as it was shown; read them again")
	}
	who := p.Principal()
	_, err := b.endRun(ctx, func() (record.Run, error) { return b.store.Run(ctx, p.Tenant(), run) },
		"an approver rejected its calls and ended it", record.Who{Principal: &who})
	return rejected, err
}
