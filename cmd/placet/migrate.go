package main

import (
	"context"
	"os"

	placet "github.com/placet-dev/placet"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/yamlfile"
)

type migrateCommand struct {
	configFlag
	Owner string `required:"" help:"Reference to the connection string of the schema's owner: env:NAME or file:PATH."`
}

// Run makes the schema of a PostgreSQL store, as its owner, for the role that the
// server has.
func (c migrateCommand) Run(ctx context.Context, p *program) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	o := p.options(cfg)
	ref, err := yamlfile.NewSecretRef(c.Owner)
	if err != nil {
		return record.Errorf(record.Invalid, "--owner %w", err)
	}
	owner, err := ref.Read(p.env, os.ReadFile)
	if err != nil {
		return record.Errorf(record.Invalid, "--owner: %w", err)
	}
	if err := placet.Migrate(ctx, o, owner); err != nil {
		return err
	}
	p.say("the schema is ready")
	return nil
}
