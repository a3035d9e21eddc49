package dispatch

import (
	"context"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// StartFresh ends, for the person who is signed in, what one agent did for them without
// vouch: its live runs end, what waits is canceled and its questions void, and its next
// run begins a lineage in which nobody's rejection and no cap of the old one counts
// (rule B1). Only the person can: an agent's credential makes no identity.Person.
func (b *Boundary) StartFresh(ctx context.Context, p identity.Person, agent record.AgentID) error {
	if !p.Valid() {
		return record.Errorf(record.Unauthenticated, "starting fresh needs a verified login for the answering audience")
	}
	o := record.Owner{Tenant: p.Tenant(), Principal: p.Principal(), Agent: agent}
	for range maxConflicts {
		standing, err := b.Standing(ctx, p)
		if err != nil {
			return err
		}
		epoch, known := int64(0), false
		for _, s := range standing {
			if s.Agent == agent {
				epoch, known = s.Epoch, true
			}
		}
		if !known {
			return record.Errorf(record.NotFound, "no agent of that name has acted for you")
		}
		live, err := b.store.LiveRuns(ctx, o)
		if err != nil {
			return err
		}
		if err = b.apply(ctx, record.StartFresh(o, epoch, b.clock())); err == nil {
			for _, run := range live {
				b.stopRunning(ctx, run)
				b.withdraw(ctx, run.Delegation)
			}
			return nil
		}
		if refusal(err) == nil {
			return err
		}
	}
	return record.Errorf(record.Conflict, "it was started fresh at the same time; look again")
}

// Standing lists the agents that acted for a person without vouch.
func (b *Boundary) Standing(ctx context.Context, p identity.Person) ([]record.Standing, error) {
	if !p.Valid() {
		return nil, record.Errorf(record.Unauthenticated, "this needs a verified login for the answering audience")
	}
	return b.store.Standing(ctx, p.Tenant(), p.Principal())
}
