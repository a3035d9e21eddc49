package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

type keysCommand struct {
	New keysNew `cmd:"" help:"Make a workload's key: it is shown once, its hash is kept."`
}

type keysNew struct {
	File string `arg:"" help:"File for the hash, as workloads.NAME.key names it (file:PATH)."`
}

// Run makes a key. What is stored is its hash; whoever loses the key makes another.
func (c keysNew) Run(_ context.Context, p *program) error {
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		return record.Because(record.Unavailable, err, "no key could be made")
	}
	f, err := os.OpenFile(c.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return record.Errorf(record.Conflict, "%s is there already; a key in use is replaced by removing its file first", c.File)
	case err != nil:
		return record.Errorf(record.Invalid, "the hash cannot be written: %w", err)
	}
	_, err = f.WriteString(identity.HashKey(key) + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return record.Errorf(record.Unavailable, "the hash cannot be written: %w", err)
	}
	view := struct {
		Key  string `json:"key"`
		File string `json:"file"`
	}{key, c.File}
	return p.out(view, func() { p.say("%s", key) })
}
