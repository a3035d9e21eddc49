package console

import (
	"context"
	"time"

	"github.com/placet-dev/placet/edge/question"
	"github.com/placet-dev/placet/record"
)

// changed is how a call differs from the last approved one of its tool, as the page
// shows it.
type changed struct {
	Since  record.ApprovalID
	At     time.Time
	Unused bool // that one was approved and has not run
	Rows   []argument
	Left   int // differences that are not listed
	Same   int // members that are equal
}

// argument is one argument then and now.
type argument struct {
	Name     string
	Old, New *folded // nil: it was not there
}

func (c *Console) changedSince(ctx context.Context, v viewer, call record.Call) (*changed, error) {
	found, err := question.Since(ctx, c.o.Reader, v.sees, call)
	if err != nil || found == nil {
		return nil, err
	}
	out := &changed{Since: found.Since.Approval.ID, At: found.Since.Approval.Changed, Unused: found.Unused(), Left: found.Left, Same: found.Same}
	for _, r := range found.Rows {
		out.Rows = append(out.Rows, argument{r.Name, shownAs(r.Old), shownAs(r.New)})
	}
	return out, nil
}

func shownAs(value []byte) *folded {
	if value == nil {
		return nil
	}
	f := fold(string(value), 120, 1000)
	return &f
}
