package credential

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// keyFile is the form in which keys are kept.
type keyFile struct {
	Version int       `json:"version"`
	Keys    []keptKey `json:"keys"`
}

type keptKey struct {
	Seed []byte    `json:"seed"`
	From time.Time `json:"from"`
}

// keyFileBytes and maxKeys bound what is read: there are three keys at most.
const (
	keyFileBytes = 16 << 10
	maxKeys      = 8
)

// readKeys reads what saveKeys wrote. A file that others can read is refused: who
// has a key can make tokens.
func readKeys(path string) (keys []key, found bool, err error) {
	text, found, err := readOwn(path)
	if err != nil {
		return nil, false, fmt.Errorf("read the keys of dispatch tokens: %w", err)
	}
	if !found {
		return nil, false, nil
	}
	keys, ok := parseKeys(text)
	if !ok {
		return nil, false, record.Errorf(record.Invalid, "%s is not a file of dispatch token keys; remove it, and a new key is made", path)
	}
	return keys, true, nil
}

// readOwn reads a file that nobody but its owner may read.
func readOwn(path string) (text []byte, found bool, err error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, false, record.Errorf(record.Invalid, "the key file %s can be read by others; set its mode to 0600, or remove it for a new key if somebody may have read it", path)
	}
	text, err = io.ReadAll(io.LimitReader(f, keyFileBytes+1))
	return text, err == nil, err
}

func parseKeys(text []byte) ([]key, bool) {
	var kept keyFile
	text, err := canon.Canonical(text, canon.Limits{Bytes: keyFileBytes})
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil || kept.Version != 1 || len(kept.Keys) == 0 || len(kept.Keys) > maxKeys {
		return nil, false
	}
	var out []key
	for i, k := range kept.Keys {
		if len(k.Seed) != ed25519.SeedSize || i > 0 && !k.From.After(kept.Keys[i-1].From) {
			return nil, false
		}
		out = append(out, key{ed25519.NewKeyFromSeed(k.Seed), k.From})
	}
	return out, true
}

// saveKeys replaces the file whole. On return it is on the disk; on an error the
// file before stays.
func saveKeys(path string, keys []key) error {
	kept := keyFile{Version: 1}
	for _, k := range keys {
		kept.Keys = append(kept.Keys, keptKey{k.private.Seed(), k.from})
	}
	text, err := json.Marshal(kept)
	if err == nil {
		err = saveOwn(path, text)
	}
	if err != nil {
		return fmt.Errorf("save the keys of dispatch tokens: %w", err)
	}
	return nil
}

// saveOwn replaces a file that nobody but its owner may read.
func saveOwn(path string, text []byte) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // what matters is the error that is returned
		}
	}()
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	return syncFolder(dir)
}

// syncFolder makes the new name durable.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// sealFile is the form in which the key of delegations is kept.
type sealFile struct {
	Version int    `json:"version"`
	Key     []byte `json:"key"`
}

func readSealKey(path string) (key []byte, found bool, err error) {
	text, found, err := readOwn(path)
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("read the key of delegations: %w", err)
	case !found:
		return nil, false, nil
	}
	var kept sealFile
	text, err = canon.Canonical(text, canon.Limits{Bytes: keyFileBytes})
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil || kept.Version != 1 || len(kept.Key) != sealBytes {
		return nil, false, record.Errorf(record.Invalid, "%s is not a key of delegations; remove it, and a new key is made: open delegations then end", path)
	}
	return kept.Key, true, nil
}

func saveSealKey(path string, key []byte) error {
	text, err := json.Marshal(sealFile{Version: 1, Key: key})
	if err == nil {
		err = saveOwn(path, text)
	}
	if err != nil {
		return fmt.Errorf("save the key of delegations: %w", err)
	}
	return nil
}
