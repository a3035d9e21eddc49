package main

import (
	"context"

	placet "github.com/placet-dev/placet"
	"github.com/placet-dev/placet/record"
)

type recoverCommand struct {
	configFlag
	Reason string `required:"" help:"Why, for the record."`
	Plan   bool   `help:"Only say what it would do."`
	Yes    bool   `help:"Do it without asking."`
}

// Run opens a new epoch of the store. The server must be stopped where the store is a file.
func (c recoverCommand) Run(ctx context.Context, p *program) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	plan, err := placet.Recover(ctx, p.options(cfg), c.Reason, true)
	if err != nil {
		return err
	}
	if c.Plan {
		return p.out(plan, func() { p.recovery("would open", plan) })
	}
	if !c.Yes {
		p.recovery("will open", plan)
		if !p.terminal() || !p.confirm("Open the new epoch?") {
			return record.Errorf(record.Invalid, "nothing was done; say yes, or give --yes")
		}
	}
	done, err := placet.Recover(ctx, p.options(cfg), c.Reason, false)
	if err != nil {
		return err
	}
	return p.out(done, func() { p.recovery("opened", done) })
}

func (p *program) recovery(verb string, r placet.Recovered) {
	p.say("%s epoch %d", verb, r.Epoch)
	if r.Lost != "" {
		p.say("what is known to be missing: %s", safe(r.Lost))
	}
	p.say("%d calls that may have been sent are unknown: settle each with placet calls reconcile", r.Unknown)
	p.say("%d calls that waited are canceled, with their questions and answers", r.Canceled)
	for _, line := range r.Confirm {
		p.say("confirm: %s", safe(line))
	}
}
