package main

import (
	"context"
	"os"
	"strings"

	placet "github.com/placet-dev/placet"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/yamlfile"
)

type migrateCommand struct {
	configFlag
	Owner string `required:"" help:"Reference to the connection string of the schema's owner: env:NAME or file:PATH."`
	From  string `placeholder:"sqlite:FILE" help:"Move the records of this file, which no server uses, into the empty database."`
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
	if c.From != "" {
		return c.move(ctx, p, o, owner)
	}
	if err := placet.Migrate(ctx, o, owner); err != nil {
		return err
	}
	p.say("the schema is ready")
	return nil
}

// movedTable is what became of a table.
type movedTable struct {
	Table  string `json:"table"`
	Rows   int64  `json:"rows"`
	Digest string `json:"digest,omitempty"`
}

// move says for each table what came, and that it is the same on both sides.
func (c migrateCommand) move(ctx context.Context, p *program, o placet.Options, owner string) error {
	path, ok := strings.CutPrefix(c.From, "sqlite:")
	if !ok || path == "" {
		return record.Errorf(record.Invalid, "--from wants sqlite:FILE")
	}
	moved, err := placet.Move(ctx, o, owner, path)
	for _, m := range moved {
		view := movedTable{Table: m.Table, Rows: m.Rows}
		if m.Rows > 0 {
			view.Digest = m.Digest.String()
		}
		if err := p.out(view, func() { p.say("%8d rows of %s", m.Rows, m.Table) }); err != nil {
			return err
		}
	}
	if err == nil {
		p.say("moved and compared; %s is now %s.moved. Start the server on the database", path, path)
	}
	return err
}
