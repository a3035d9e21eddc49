package main

import (
	"context"

	placet "github.com/placet-dev/placet"
)

type backupCommand struct {
	configFlag
	To string `required:"" type:"path" help:"File to make. One that is there is not touched."`
}

type restoreCommand struct {
	configFlag
	From string `required:"" type:"path" help:"The backup."`
}

// copyView is what a backup holds.
type copyView struct {
	File   string `json:"file"`
	Schema int    `json:"schema"`
	Calls  int64  `json:"calls"`
	Events int64  `json:"events"`
	Aside  string `json:"aside,omitempty"` // where the store that gave way is kept
}

func (v copyView) say(p *program) {
	p.say("%s is whole: schema %d, %d calls, %d events", v.File, v.Schema, v.Calls, v.Events)
}

// Run copies a SQLite store, also while a server uses it, and verifies the copy.
func (c backupCommand) Run(ctx context.Context, p *program) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	got, err := placet.Backup(ctx, p.options(cfg), c.To)
	if err != nil {
		return err
	}
	v := copyView{File: c.To, Schema: got.Schema, Calls: got.Calls, Events: got.Events}
	return p.out(v, func() { v.say(p) })
}

// Run puts a backup in the place of the store.
func (c restoreCommand) Run(ctx context.Context, p *program) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	got, aside, err := placet.Restore(ctx, p.options(cfg), c.From)
	if err != nil {
		return err
	}
	v := copyView{File: cfg.StorePath(), Schema: got.Schema, Calls: got.Calls, Events: got.Events, Aside: aside}
	return p.out(v, func() {
		v.say(p)
		p.say("the store that was there is kept as %s", aside)
		p.say("what happened after the backup is unknown to this store: see docs/operations.md before agents come back")
	})
}
