package identity

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/placet-dev/placet/record"
)

// keysLife is how long a workload's keys count as they were read: how long a key
// that was revoked can still be used.
const keysLife = 2 * time.Second

const (
	maxHeldKeys = 64
	maxKeyFile  = 64 << 10
)

// HeldKey is one line of a workload's key file: the hash of a key, and when it
// counts. The key itself is with the workload alone.
type HeldKey struct {
	Hash    string // as HashKey gives it
	Created time.Time
	Expires time.Time // zero: it does not expire
	Revoked time.Time // zero: it is not revoked
}

// ID names a key without giving it away: the first digits of its hash.
func (k HeldKey) ID() string { return strings.TrimPrefix(k.Hash, "sha256:")[:12] }

// State is valid, expired or revoked. A revocation counts from when it is read,
// whatever time it states.
func (k HeldKey) State(now time.Time) string {
	switch {
	case !k.Revoked.IsZero():
		return "revoked"
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		return "expired"
	}
	return "valid"
}

// ParseKeys reads a key file: a line for each key, which is its hash and then
// created=, expires= and revoked= with a time each, as far as there is one. Lines
// that are empty or start with # say nothing. Anything else is refused: a word
// misspelt must not make a key count for longer.
func ParseKeys(text string) ([]HeldKey, error) {
	if len(text) > maxKeyFile {
		return nil, record.Errorf(record.Invalid, "the keys are longer than %d bytes", maxKeyFile)
	}
	var keys []HeldKey
	seen := map[string]bool{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, problem := parseHeldKey(line)
		switch {
		case problem != "":
			return nil, record.Errorf(record.Invalid, "line %d: %s", n, problem)
		case seen[key.ID()]:
			return nil, record.Errorf(record.Invalid, "line %d: key %s is there twice", n, key.ID())
		case len(keys) == maxHeldKeys:
			return nil, record.Errorf(record.Invalid, "there are more than %d keys; remove lines of those that ended", maxHeldKeys)
		}
		seen[key.ID()] = true
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, record.Errorf(record.Invalid, "there is no key; make one with placet keys new")
	}
	return keys, nil
}

func parseHeldKey(line string) (HeldKey, string) {
	words := strings.Fields(line)
	digits, ok := strings.CutPrefix(words[0], "sha256:")
	if b, err := hex.DecodeString(digits); !ok || err != nil || len(b) != sha256.Size {
		return HeldKey{}, "a key must be a hash, sha256: and 64 hexadecimal digits, and not the key itself"
	}
	key := HeldKey{Hash: "sha256:" + strings.ToLower(digits)}
	fields := map[string]*time.Time{"created": &key.Created, "expires": &key.Expires, "revoked": &key.Revoked}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		field := fields[name]
		if field == nil || !field.IsZero() {
			return HeldKey{}, "after the hash stand created=, expires= and revoked=, each at most once"
		}
		at, err := time.Parse(time.RFC3339, value)
		if err != nil || at.Unix() <= 0 {
			return HeldKey{}, name + " wants a time such as 2027-01-31T12:00:00Z"
		}
		*field = at.UTC().Truncate(time.Second)
	}
	return key, ""
}

// FormatKeys writes a key file; ParseKeys reads back what it wrote.
func FormatKeys(keys []HeldKey) string {
	var b strings.Builder
	for _, k := range keys {
		b.WriteString(k.Hash)
		for _, f := range []struct {
			name string
			at   time.Time
		}{{"created", k.Created}, {"expires", k.Expires}, {"revoked", k.Revoked}} {
			if !f.at.IsZero() {
				b.WriteString(" " + f.name + "=" + f.at.UTC().Format(time.RFC3339))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// keyfile is a workload's keys, read again when what was read is too old to count.
// What cannot be read or understood counts for nothing until it can again.
type keyfile struct {
	name string
	read func() (string, error)
	log  *slog.Logger

	mu   sync.Mutex
	at   time.Time
	keys []HeldKey
	err  error
}

func (f *keyfile) current(now time.Time) ([]HeldKey, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if age := now.Sub(f.at); !f.at.IsZero() && age >= 0 && age < keysLife {
		return f.keys, f.err
	}
	text, err := f.read()
	if err == nil {
		f.keys, err = ParseKeys(text)
	}
	if f.at, f.err = now, err; err != nil {
		f.keys = nil
		f.log.Error("the keys of a workload cannot be read; none of them counts", "workload", f.name, "error", err)
	}
	return f.keys, f.err
}

// key finds whose key it is. All hashes are compared, in constant time each.
func (v *Verifier) key(key string) (*Workload, error) {
	now, hash := v.clock(), []byte(HashKey(key))
	var found *Workload
	var held HeldKey
	var unread, several bool
	for _, p := range v.programs {
		if p.keys == nil {
			continue
		}
		keys, err := p.keys.current(now)
		unread = unread || err != nil
		for _, k := range keys {
			if subtle.ConstantTimeCompare(hash, []byte(k.Hash)) == 1 {
				several = found != nil
				found, held = &p.workload, k
			}
		}
	}
	switch {
	case !strings.HasPrefix(key, keyPrefix) || found == nil && !unread:
		return nil, refuse(checkWorkload, record.Unauthenticated, "the workload key is not known here; create one, and put its hash under workloads")
	case found == nil:
		return nil, refuse(checkWorkload, record.Unavailable, "the keys of a workload cannot be read now, so this key cannot be checked; its operator finds the reason in the log")
	case several:
		return nil, refuse(checkWorkload, record.Unauthenticated, "the workload key is in the key files of two workloads; give each its own")
	case held.State(now) != "valid":
		return nil, refuse(checkWorkload, record.Unauthenticated, "the workload key %s of %s is %s; make another with placet keys rotate", held.ID(), found.name, held.State(now))
	}
	return found.until(held.Expires, now)
}

// until is the workload as long as a credential of it counts. A workload whose
// own end has come is refused, whatever it holds.
func (w *Workload) until(end, now time.Time) (*Workload, error) {
	if !w.expires.IsZero() && !now.Before(w.expires) {
		return nil, refuse(checkWorkload, record.Unauthenticated, "workload %s ended (workloads.%s.expires); an operator must say how long it goes on", w.name, w.name)
	}
	out := *w
	out.expires = earlier(w.expires, end)
	return &out, nil
}

// earlier is the earlier of two times, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
