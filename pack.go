package placet

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/version"
	"github.com/placet-dev/placet/yamlfile"
)

// Pack reads the files that a configuration names and that decide, to be sent to a
// server. It decides nothing about them, and reads no secret.
func Pack(c *config.Config) (version.Files, error) {
	from := version.Disk(c.Folder(), os.ReadFile)
	for _, path := range c.Registry {
		text, err := from.ReadFile(path)
		if err != nil {
			return nil, record.Errorf(record.Invalid, "%s: %w", path, err)
		}
		if _, err := from.ReadFile(registry.LockPath(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, record.Errorf(record.Invalid, "%s: %w", registry.LockPath(path), err)
		}
		var f registry.File
		if err := yamlfile.Decode(path, text, &f).Err(); err != nil {
			return nil, record.Errorf(record.Invalid, "%w", err)
		}
		for _, t := range f.Tools {
			if t.Value.Schema == "" {
				continue
			}
			if _, err := from.ReadFile(at(filepath.Dir(path), t.Value.Schema)); err != nil {
				return nil, record.Errorf(record.Invalid, "%s: tools.%s: %w", path, t.Key, err)
			}
		}
		for _, s := range f.Servers {
			if err := packServer(from, filepath.Dir(path), s.Value); err != nil {
				return nil, record.Errorf(record.Invalid, "%s: servers.%s: %w", path, s.Key, err)
			}
		}
	}
	for _, l := range c.Policy.Layers {
		for _, path := range l.Files {
			if _, err := from.ReadTree(path, policyFiles); err != nil {
				return nil, err
			}
		}
	}
	_, err := version.Encode(from.Seen())
	return from.Seen(), err
}

func packServer(from *version.Reader, folder string, s registry.ServerEntry) error {
	var err error
	if s.Operations != "" {
		_, err = from.ReadFile(at(folder, s.Operations))
	}
	if s.Queries != "" && err == nil {
		_, err = from.ReadTree(at(folder, s.Queries), sqlFiles)
	}
	return err
}

// at is a path as a registry file in a folder means it.
func at(folder, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}
