package question

import (
	"bytes"
	"context"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// Changed is how a call differs from the last approved one of its tool, for the
// same principal through the same agent.
type Changed struct {
	Since dispatch.Loaded // that one
	Rows  []Row
	Left  int // differences that are not listed
	Same  int // members that are equal
}

// Unused reports whether that one was approved and has not run.
func (c *Changed) Unused() bool { return c.Since.Approval.State == record.Approved }

// Row is one argument then and now; nil where it was not there. The values are
// canonical.
type Row struct {
	Name     string
	Old, New []byte
}

// maxChanged is how many differences are listed.
const maxChanged = 30

// lookBack is how many earlier calls are looked at.
const lookBack = 100

// Reader finds earlier calls.
type Reader interface {
	Calls(context.Context, dispatch.CallQuery) ([]record.Call, error)
	Call(context.Context, record.TenantID, record.CallID) (dispatch.Loaded, error)
}

// Since compares a call with the newest earlier one that a person approved; nil if
// there is none. Its values are told to those who may see that call, and to nobody
// else.
func Since(ctx context.Context, reader Reader, sees func(dispatch.Loaded) bool, call record.Call) (*Changed, error) {
	earlier, err := reader.Calls(ctx, dispatch.CallQuery{Tenant: call.Tenant, Owner: &call.Owner, Before: call.ID, Limit: lookBack})
	if err != nil {
		return nil, err
	}
	for _, e := range earlier {
		if e.Tool.Name != call.Tool.Name || e.Approval == "" || e.ID == call.ID {
			continue
		}
		l, err := reader.Call(ctx, call.Tenant, e.ID)
		if err != nil || l.Approval == nil || l.Approval.State != record.Consumed && l.Approval.State != record.Approved {
			if err != nil && record.KindOf(err) != record.NotFound {
				return nil, err
			}
			continue
		}
		if !sees(l) {
			return nil, nil
		}
		out := Compare(e.Arguments, call.Arguments)
		out.Since = l
		return out, nil
	}
	return nil, nil
}

// Compare finds what is different between two canonical objects.
func Compare(old, now []byte) *Changed {
	out := &Changed{}
	add := func(name string, before, after []byte) {
		if bytes.Equal(before, after) && before != nil && after != nil {
			out.Same++
			return
		}
		if len(out.Rows) == maxChanged {
			out.Left++
			return
		}
		out.Rows = append(out.Rows, Row{name, before, after})
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
