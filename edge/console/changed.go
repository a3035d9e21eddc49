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

// maxChanged is how many differences a page lists.
const maxChanged = 30

// lookBack is how many earlier calls are looked at.
const lookBack = 100

// changedSince compares with the newest earlier call that a person approved. Its
// values are shown to those who may see that call, and to nobody else.
func (c *Console) changedSince(ctx context.Context, v viewer, call record.Call) (*changed, error) {
	earlier, err := c.o.Reader.Calls(ctx, dispatch.CallQuery{Tenant: call.Tenant, Owner: &call.Owner, Before: call.ID, Limit: lookBack})
	if err != nil {
		return nil, err
	}
	for _, e := range earlier {
		if e.Tool.Name != call.Tool.Name || e.Approval == "" || e.ID == call.ID {
			continue
		}
		l, err := c.o.Reader.Call(ctx, call.Tenant, e.ID)
		if err != nil || l.Approval == nil || l.Approval.State != record.Consumed && l.Approval.State != record.Approved {
			if err != nil && record.KindOf(err) != record.NotFound {
				return nil, err
			}
			continue
		}
		if !v.sees(l) {
			return nil, nil
		}
		out := compare(e.Arguments, call.Arguments)
		out.Since, out.At, out.Unused = l.Approval.ID, l.Approval.Changed, l.Approval.State == record.Approved
		return out, nil
	}
	return nil, nil
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
