package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	placet "github.com/placet-dev/placet"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/yamlfile"
)

// draft is one registry file with its lock, while they are being written anew.
type draft struct {
	file, lockFile string
	text, lockText []byte // as they were read
	lock           *registry.Lock
}

// draftOf finds the registry file that names a server, and its lock.
func (b *bench) draftOf(s *registry.Server) (*draft, error) {
	for _, file := range b.cfg.Registry {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var f registry.File
		if ps := yamlfile.Decode(filepath.Base(file), text, &f); len(ps) > 0 {
			return nil, ps
		}
		if !slices.ContainsFunc(f.Servers, func(e yamlfile.Entry[registry.ServerEntry]) bool { return e.Key == s.Name }) {
			continue
		}
		d := &draft{file: file, lockFile: registry.LockPath(file), text: text}
		if d.lockText, err = os.ReadFile(d.lockFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		var ps yamlfile.Problems
		if d.lock, ps = registry.ReadLock(filepath.Base(d.lockFile), d.lockText); len(ps) > 0 {
			return nil, ps
		}
		return d, nil
	}
	return nil, record.Errorf(record.Conflict, "no registry file names server %q any longer", s.Name)
}

// save writes lock and file, once it is known that they load. The lock comes
// first: an entry without its pin is quarantined, a pin without its entry is nothing.
func (p *program) save(ctx context.Context, b *bench, d *draft, text []byte) error {
	lock, err := d.lock.Write()
	if err != nil {
		return err
	}
	o := p.options(b.cfg)
	o.ReadFile = func(path string) ([]byte, error) {
		switch path {
		case d.file:
			return text, nil
		case d.lockFile:
			return lock, nil
		}
		return os.ReadFile(path)
	}
	if err := p.loads(ctx, o); err != nil {
		return fmt.Errorf("nothing was written, since the result would not load: %w", err)
	}
	if err := replace(d.lockFile, d.lockText, lock); err != nil {
		return err
	}
	return replace(d.file, d.text, text)
}

// loads checks options as a start would.
func (p *program) loads(ctx context.Context, o placet.Options) error {
	o.Log = nil
	if err := devIdentity(&o, []string{"dev"}); err != nil {
		return err
	}
	_, err := placet.Check(ctx, o)
	return err
}

// replace writes a file in the place of what was read from it, whole or not at
// all. Somebody's change meanwhile is not written over.
func replace(path string, was, text []byte) error {
	if bytes.Equal(was, text) {
		return nil
	}
	mode := fs.FileMode(0o644)
	switch now, err := os.ReadFile(path); {
	case errors.Is(err, fs.ErrNotExist) && len(was) == 0:
	case err != nil:
		return err
	case !bytes.Equal(now, was):
		return record.Errorf(record.Conflict, "%s has changed meanwhile; nothing was written to it, run the command again", path)
	default:
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already when all went well
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}
