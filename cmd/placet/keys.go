package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

type keysCommand struct {
	New    keysNew    `cmd:"" help:"Make a workload's first key: it is shown once, its hash is kept."`
	List   keysList   `cmd:"" help:"List the keys of a file, or of every workload of the configuration."`
	Rotate keysRotate `cmd:"" help:"Make another key; those before it end a while later."`
	Revoke keysRevoke `cmd:"" help:"Revoke keys of a file: a running server refuses them within two seconds."`
}

// keyFile names a workload's keys.
type keyFile struct {
	File string `arg:"" help:"File with the hashes, as workloads.NAME.key names it (file:PATH)."`
}

type keysNew struct {
	keyFile
	Days int `default:"90" help:"Days until the key expires; 0: never (default: 90)."`
}

// Run makes a key. What is stored is its hash; whoever loses the key makes another.
func (c keysNew) Run(_ context.Context, p *program) error {
	return c.change(func(held []identity.HeldKey, there bool) ([]identity.HeldKey, error) {
		if there {
			return nil, record.Errorf(record.Conflict, "%s is there already; make another key in it with placet keys rotate", c.File)
		}
		return c.add(p, held, c.Days)
	})
}

type keysRotate struct {
	keyFile
	Days    int           `default:"90" help:"Days until the new key expires; 0: never (default: 90)."`
	Overlap time.Duration `default:"24h" help:"How long the keys before it count on, at most (default: 24h)."`
}

// forgotten is how long a key that ended stays in its file for people to see.
const forgotten = 30 * 24 * time.Hour

// Run makes another key, so that both count until the workload has taken the new one.
func (c keysRotate) Run(_ context.Context, p *program) error {
	if c.Overlap < 0 {
		return record.Errorf(record.Invalid, "the overlap must not be negative; end a key at once with placet keys revoke")
	}
	return c.change(func(held []identity.HeldKey, there bool) ([]identity.HeldKey, error) {
		if !there {
			return nil, record.Errorf(record.NotFound, "there is no %s; make its first key with placet keys new", c.File)
		}
		now := time.Now()
		held = slices.DeleteFunc(held, func(k identity.HeldKey) bool {
			return before(k.Revoked, now.Add(-forgotten)) || before(k.Expires, now.Add(-forgotten))
		})
		for i, k := range held {
			if end := now.Add(c.Overlap); k.State(now) == "valid" && (k.Expires.IsZero() || end.Before(k.Expires)) {
				held[i].Expires = end
			}
		}
		return c.add(p, held, c.Days)
	})
}

func before(at, then time.Time) bool { return !at.IsZero() && at.Before(then) }

type keysRevoke struct {
	keyFile
	Keys []string `arg:"" optional:"" help:"IDs of the keys, as placet keys list shows them."`
	All  bool     `help:"Revoke every key of the file."`
}

func (c keysRevoke) Run(_ context.Context, p *program) error {
	if c.All == (len(c.Keys) > 0) {
		return record.Errorf(record.Invalid, "name the keys to revoke, or use --all")
	}
	var revoked []keyView
	err := c.change(func(held []identity.HeldKey, there bool) ([]identity.HeldKey, error) {
		if !there {
			return nil, record.Errorf(record.NotFound, "there is no %s", c.File)
		}
		for _, id := range c.Keys {
			if !slices.ContainsFunc(held, func(k identity.HeldKey) bool { return k.ID() == id }) {
				return nil, record.Errorf(record.NotFound, "%s holds no key %s; see placet keys list", c.File, id)
			}
		}
		now := time.Now()
		for i, k := range held {
			if (c.All || slices.Contains(c.Keys, k.ID())) && k.Revoked.IsZero() {
				held[i].Revoked = now
				revoked = append(revoked, viewKey("", held[i], now))
			}
		}
		return held, nil
	})
	if err != nil {
		return err
	}
	return list(p, revoked, "Nothing to revoke: these keys were revoked before.", keyHead, keyView.row)
}

type keysList struct {
	configFlag
	File string `arg:"" optional:"" help:"File with the hashes (default: every workload of the configuration)."`
}

// Run lists keys, valid or not. It never shows a hash: nothing is to be done with one.
func (c keysList) Run(_ context.Context, p *program) error {
	now := time.Now()
	var views []keyView
	add := func(workload, text string) error {
		held, err := identity.ParseKeys(text)
		for _, k := range held {
			views = append(views, viewKey(workload, k, now))
		}
		return err
	}
	if c.File != "" {
		text, err := os.ReadFile(c.File)
		if err != nil {
			return record.Errorf(record.NotFound, "the keys cannot be read: %w", err)
		}
		if err := add("", string(text)); err != nil {
			return record.Errorf(record.Invalid, "%s: %w", c.File, err)
		}
	} else {
		cfg, err := c.load()
		if err != nil {
			return err
		}
		for _, w := range cfg.Workloads {
			if w.Value.Key.IsZero() {
				continue
			}
			text, err := w.Value.Key.Read(p.env, os.ReadFile)
			if err == nil {
				err = add(w.Key, text)
			}
			if err != nil {
				return record.Errorf(record.Invalid, "workloads.%s.key: %w", w.Key, err)
			}
		}
	}
	return list(p, views, "No keys.", keyHead, keyView.row)
}

// keyView is a key as it is shown.
type keyView struct {
	Workload string    `json:"workload,omitempty"`
	ID       string    `json:"id"`
	State    string    `json:"state"`
	Created  time.Time `json:"created,omitzero"`
	Expires  time.Time `json:"expires,omitzero"`
	Revoked  time.Time `json:"revoked,omitzero"`
}

var keyHead = []string{"KEY", "STATE", "WORKLOAD", "CREATED", "EXPIRES"}

func viewKey(workload string, k identity.HeldKey, now time.Time) keyView {
	return keyView{workload, k.ID(), k.State(now), k.Created, k.Expires, k.Revoked}
}

func (v keyView) row() []string {
	day := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return t.UTC().Format(time.RFC3339)
	}
	return []string{v.ID, v.State, cmp.Or(v.Workload, "-"), day(v.Created), day(v.Expires)}
}

// add makes a key and prints it once. It is printed before its hash is kept: a key
// that was shown and does not count is better than one that counts and is lost.
func (c keyFile) add(p *program, held []identity.HeldKey, days int) ([]identity.HeldKey, error) {
	if days < 0 {
		return nil, record.Errorf(record.Invalid, "a key cannot expire before it is made; --days 0 is never")
	}
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		return nil, record.Because(record.Unavailable, err, "no key could be made")
	}
	now := time.Now().UTC().Truncate(time.Second)
	made := identity.HeldKey{Hash: identity.HashKey(key), Created: now}
	if days > 0 {
		made.Expires = now.AddDate(0, 0, days)
	}
	view := struct {
		Key     string    `json:"key"`
		File    string    `json:"file"`
		ID      string    `json:"id"`
		Expires time.Time `json:"expires,omitzero"`
	}{key, c.File, made.ID(), made.Expires}
	return append(held, made), p.out(view, func() { p.say("%s", key) })
}

// change rewrites the file as a whole: a server reads the old keys or the new
// ones. The new file's name is taken first, so that of two changes at the same time
// one is refused and none is lost.
func (c keyFile) change(f func(held []identity.HeldKey, there bool) ([]identity.HeldKey, error)) (err error) {
	next := c.File + ".new"
	file, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return record.Errorf(record.Conflict, "%s is there: another change is under way, or was broken off; remove it if nothing is under way", next)
	case err != nil:
		return record.Errorf(record.Invalid, "the hashes cannot be written: %w", err)
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			_ = os.Remove(next)
		}
	}()
	text, err := os.ReadFile(c.File)
	there := !errors.Is(err, fs.ErrNotExist)
	if err != nil && there {
		return record.Errorf(record.Invalid, "the hashes cannot be read: %w", err)
	}
	var held []identity.HeldKey
	if strings.TrimSpace(string(text)) != "" {
		if held, err = identity.ParseKeys(string(text)); err != nil {
			return record.Errorf(record.Invalid, "%s: %w", c.File, err)
		}
	}
	if held, err = f(held, there); err != nil {
		return err
	}
	// The hash of 256 random bits is no secret, and the server may be another user.
	_, err = file.WriteString(identity.FormatKeys(held))
	if err = errors.Join(err, file.Chmod(0o644), file.Sync()); err == nil {
		err = os.Rename(next, c.File)
	}
	if err != nil {
		return record.Errorf(record.Unavailable, "the hashes cannot be written: %w", err)
	}
	return nil
}
