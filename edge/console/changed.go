package console

import (
	"bytes"
	"context"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// changed is how a call differs from the last approved one of its tool, for the
// same principal through the same agent.
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
}

// argument is one argument then and now.
type argument struct {
	Name     string
	Old, New *folded // nil: it was not there
}

// maxChanged is how many differences a page lists.
const maxChanged = 30

// changedSince compares with the newest earlier call that people approved. Its
// values are shown to those who may see that call, and to nobody else.
func (c *Console) changedSince(ctx context.Context, v viewer, call record.Call, now record.Approval, decided record.Body) (*changed, error) {
	l, err := c.o.Reader.Approved(ctx, dispatch.ApprovedQuery{Owner: call.Owner, Tool: call.Tool.Name, Before: call.ID})
	if err != nil || l == nil || !v.sees(*l) {
		return nil, err
	}
	out := compare(l.Call.Arguments, call.Arguments)
	out.Since, out.At, out.Unused = l.Approval.ID, l.Approval.Changed, l.Approval.State == record.Approved && c.o.Clock().Before(l.Approval.Expires)
	out.What, _ = effectOf(l.Call)
	if out.Unused {
		out.Until = l.Approval.Expires
		for _, r := range l.Approval.Answers {
			out.Yes = append(out.Yes, givenOf(r, v))
		}
		then, err := c.storyOf(ctx, *l)
		if err != nil {
			return nil, err
		}
		a, b := side{*l.Approval, l.Call, then.asked[l.Approval.ID]}, side{now, call, decided}
		a.call.Arguments = b.call.Arguments // they have a table of their own
		out.Beside = differences(a, b)
	}
	return out, nil
}

// compare finds what is different between two canonical objects.
func compare(old, now []byte) *changed {
	out := &changed{}
	add := func(name string, before, after []byte) {
		if bytes.Equal(before, after) && before != nil && after != nil {
			out.Same++
			return
		}
		if len(out.Rows) == maxChanged {
			out.Left++
			return
		}
		out.Rows = append(out.Rows, argument{name, shownAs(before), shownAs(after)})
	}
	before := map[string][]byte{}
	for name, value := range canon.Members(old) {
		before[name] = value
	}
	for name, value := range canon.Members(now) {
		add(name, before[name], value)
		delete(before, name)
	}
	for name, value := range canon.Members(old) {
		if _, gone := before[name]; gone {
			add(name, value, nil)
		}
	}
	return out
}

func shownAs(value []byte) *folded {
	if value == nil {
		return nil
	}
	f := fold(string(value), 120, 1000)
	return &f
}
