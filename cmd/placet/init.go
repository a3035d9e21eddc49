package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/policy/rego"
	"github.com/placet-dev/placet/record"
)

// starterLayer is where init puts a policy layer to start from. The starter
// placet.yaml names this folder in a comment.
const starterLayer = "policy/organisation"

type initCommand struct {
	Folder string `arg:"" optional:"" default:"." help:"Folder to write to."`
}

// written is a file that a command wrote.
type written struct {
	File string `json:"file"`
}

func (c initCommand) Run(p *program) error {
	files, err := config.Sample()
	if err != nil {
		return err
	}
	layer, err := rego.Template()
	if err != nil {
		return err
	}
	for name, text := range layer {
		files[filepath.Join(filepath.FromSlash(starterLayer), filepath.FromSlash(name))] = text
	}
	if err := writeNew(c.Folder, files); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(c.Folder, name)
		if err := p.out(written{path}, func() { p.say("wrote %s", path) }); err != nil {
			return err
		}
	}
	p.say("\nNext:\n  placet dev                    run it here, with an issuer of its own\n  placet dev token --user anna  a token for trying it out\n  placet tools add SERVER       admit a server's tools, once tools.yaml names it")
	return nil
}

// writeNew writes files that do not exist yet, all or none: when one is there
// already, nothing is written.
func writeNew(folder string, files map[string][]byte) error {
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		path := filepath.Join(folder, name)
		if _, err := os.Lstat(path); err == nil {
			return record.Errorf(record.Conflict, "%s is there already; nothing was written. Name another folder, or remove it", path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("look for %s: %w", path, err)
		}
	}
	for _, name := range names {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make the folder of %s: %w", path, err)
		}
		if err := writeOnce(path, files[name]); err != nil {
			return err
		}
	}
	return nil
}

// writeOnce creates a file; somebody who made it meanwhile is not written over.
func writeOnce(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(text)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
