package dispatch

import (
	"context"

	"github.com/placet-dev/placet/record"
)

// Found records what a door found in a history that it passed on: codes and places,
// never content.
func (b *Boundary) Found(ctx context.Context, run record.Run, what string) error {
	event := record.Event{At: b.clock(), Tenant: run.Tenant, Kind: record.EventHistory, Run: run.ID, Who: run.Owner.By()}
	return b.apply(ctx, record.Note(event, record.Body{Detail: what}))
}
