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
	Unused bool   // that one was approved and has not run
	What   folded // that one's effect in words
	Until  time.Time
	Yes    []given
	Rows   []argument
	Beside []difference // what else is different, where that one can still run
	Left   int          // differences that are not listed
	Same   int          // members that are equal

	Redacted bool // that one is not whole any more: nothing is compared
}

// argument is one argument then and now.
type argument struct {
	Name     string
	Old, New *folded // nil: it was not there
}

func (c *Console) changedSince(ctx context.Context, v viewer, call record.Call, now record.Approval, decided record.Body) (*changed, error) {
	found, err := question.Since(ctx, c.o.Reader, v.sees, call)
	if err != nil || found == nil {
		return nil, err
	}
	l := found.Since
	out := &changed{Since: l.Approval.ID, At: l.Approval.Changed, Unused: found.Unused() && c.o.Clock().Before(l.Approval.Expires), Left: found.Left, Same: found.Same, Redacted: found.Redacted()}
	for _, r := range found.Rows {
		out.Rows = append(out.Rows, argument{r.Name, shownAs(r.Old), shownAs(r.New)})
	}
	out.What, _ = effectOf(l.Call)
	if out.Unused {
		out.Until = l.Approval.Expires
		for _, r := range l.Approval.Answers {
			out.Yes = append(out.Yes, givenOf(r, v))
		}
		then, err := c.storyOf(ctx, l)
		if err != nil {
			return nil, err
		}
		a, b := side{*l.Approval, l.Call, then.asked[l.Approval.ID]}, side{now, call, decided}
		a.call.Arguments = b.call.Arguments // they have a table of their own
		out.Beside = differences(a, b)
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
