package passkey

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// file is the form in which the key is kept, with what was removed.
type file struct {
	Version int            `json:"version"`
	Seed    []byte         `json:"seed"`
	Removed []canon.Digest `json:"removed"`
}

// fileBytes bounds what is read: some ten thousand removals.
const fileBytes = 1 << 20

// readFile refuses a file that others can read.
func readFile(path string) (kept file, found bool, err error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return file{}, false, nil
	case err != nil:
		return file{}, false, fmt.Errorf("read the key of passkeys: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return file{}, false, fmt.Errorf("read the key of passkeys: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return file{}, false, record.Errorf(record.Invalid, "the key file %s can be read by others; set its mode to 0600, or remove it if somebody may have read it: everybody then adds their passkeys anew", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, fileBytes+1))
	if err == nil {
		text, err = canon.Canonical(text, canon.Limits{Bytes: fileBytes})
	}
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil || kept.Version != 1 || len(kept.Seed) != ed25519.SeedSize {
		return file{}, false, record.Errorf(record.Invalid, "%s is not a key of passkeys; restore it, or remove it: everybody then adds their passkeys anew", path)
	}
	return kept, true, nil
}

// saveFile replaces the file whole. On return it is on the disk; on an error the
// file before stays.
func saveFile(path string, kept file) (err error) {
	kept.Version = 1
	text, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("save the key of passkeys: %w", err)
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("save the key of passkeys: %w", err)
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("save the key of passkeys: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return syncFolder(dir)
}

// syncFolder makes the new name durable.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
