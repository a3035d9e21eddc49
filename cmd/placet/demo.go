package main

import (
	"context"

	"github.com/placet-dev/placet/demo"
)

type demoCommand struct {
	Interactive bool `help:"Decide c and e yourself, at the console."`
}

// Run plays the demo; its exit code says whether the ledger was verified.
func (c demoCommand) Run(ctx context.Context, p *program) error {
	code := demo.Run(ctx, demo.Options{JSON: p.json, Interactive: c.Interactive, Stdout: p.stdout, Stderr: p.stderr})
	return ended(code)
}

// demoChild is one of the demo's processes.
type demoChild struct {
	Args []string `arg:"" optional:"" passthrough:""`
}

func (c demoChild) Run(ctx context.Context, p *program) error {
	return ended(demo.Child(ctx, c.Args, p.stdin, p.stdout, p.stderr))
}

// ended passes an exit code on; what was wrong is said already.
func ended(code int) error {
	if code == exitOK {
		return nil
	}
	return &verdict{code: code, quiet: true}
}
