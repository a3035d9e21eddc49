package placet

import (
	"context"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/failpoint"
	"github.com/placet-dev/placet/record"
)

// failing is a store before which a process can die: before a change that tells of
// something, or when it is durable and nobody knows.
type failing struct{ dispatch.Store }

func (f failing) Apply(ctx context.Context, c record.Change) error {
	events := c.Facts().Events
	for _, e := range events {
		failpoint.At("before " + string(e.Kind))
	}
	if err := f.Store.Apply(ctx, c); err != nil {
		return err
	}
	for _, e := range events {
		failpoint.At("after " + string(e.Kind))
	}
	return nil
}
