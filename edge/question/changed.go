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

// Redacted reports whether that one is not whole any more, so that nothing is compared.
func (c *Changed) Redacted() bool { return c.Since.Call.Redacted != nil }

// Row is one argument then and now; nil where it was not there. The values are
// canonical.
type Row struct {
	Name     string
	Old, New []byte
}

// maxChanged is how many differences are listed.
const maxChanged = 30

// Reader finds earlier calls.
type Reader interface {
	Approved(context.Context, dispatch.ApprovedQuery) (*dispatch.Loaded, error)
}

// Since compares a call with the newest earlier one that a person approved; nil if
// there is none. Its values are told to those who may see that call, and to nobody
// else.
func Since(ctx context.Context, reader Reader, sees func(dispatch.Loaded) bool, call record.Call) (*Changed, error) {
	l, err := reader.Approved(ctx, dispatch.ApprovedQuery{Owner: call.Owner, Tool: call.Tool.Name, Before: call.ID})
	if err != nil || l == nil || !sees(*l) {
		return nil, err
	}
	out := &Changed{}
	if l.Call.Redacted == nil {
		out = Compare(l.Call.Arguments, call.Arguments)
	}
	out.Since = *l
	return out, nil
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
