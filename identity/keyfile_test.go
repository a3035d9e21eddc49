package identity_test

import (
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

func TestParseKeys(t *testing.T) {
	hash, other := identity.HashKey("plk_a"), identity.HashKey("plk_b")
	for text, want := range map[string]string{
		"":                                     "there is no key",
		"# nothing\n\n":                        "there is no key",
		"plk_" + strings.Repeat("a", 43):       "must be a hash",
		hash + "\n" + strings.ToUpper(hash):    "must be a hash",
		hash + "\n" + hash:                     "is there twice",
		hash + " revoke=2026-01-01T00:00:00Z":  "after the hash stand",
		hash + " " + other:                     "after the hash stand",
		hash + " revoked":                      "revoked wants a time",
		hash + " revoked=":                     "revoked wants a time",
		hash + " expires=2026-01-01":           "expires wants a time",
		hash + " expires=0001-01-01T00:00:00Z": "expires wants a time",
		hash + " expires=2026-01-01T00:00:00Z expires=2027-01-01T00:00:00Z": "at most once",
		strings.Repeat("#", 70<<10):                                         "longer than",
	} {
		if keys, err := identity.ParseKeys(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "plk_") {
			t.Errorf("%.40q: %v, %v; wanted %q", text, keys, err, want)
		}
	}
	keys, err := identity.ParseKeys("# ours\n" + hash + " revoked=2026-01-01T01:00:00+01:00 created=2025-01-01T00:00:00Z\r\n\n " + other)
	if err != nil || len(keys) != 2 || keys[0].State(time.Time{}) != "revoked" || keys[1].State(time.Now()) != "valid" {
		t.Fatalf("%+v, %v", keys, err)
	}
	if want := hash + " created=2025-01-01T00:00:00Z revoked=2026-01-01T00:00:00Z\n" + other + "\n"; identity.FormatKeys(keys) != want {
		t.Errorf("written as %q", identity.FormatKeys(keys))
	}
}

// A key counts until it expires, and a revocation two seconds after it is written,
// in a server that keeps running. What cannot be read counts for nothing.
func TestKeysEndWhileTheServerRuns(t *testing.T) {
	at := newClock()
	first, second := must(identity.NewKey(rand.Reader)), must(identity.NewKey(rand.Reader))
	held := []identity.HeldKey{{Hash: identity.HashKey(first)}, {Hash: identity.HashKey(second), Expires: at.now().Add(time.Hour)}}
	text, broken := identity.FormatKeys(held), error(nil)
	c := config(t)
	c.Workloads = []identity.WorkloadKey{{Name: "ci", Tenant: "acme", Expires: at.now().Add(48 * time.Hour), Permissions: []identity.Permission{"propose"},
		Keys: func() (string, error) { return text, broken }}}
	v := verifier(t, c, at)
	kind := func(key string) record.Kind {
		t.Helper()
		caller, err := v.Caller(t.Context(), identity.Credentials{WorkloadKey: key})
		if (err == nil) != caller.Valid() {
			t.Fatalf("%v, %v", caller.Owner(), err)
		}
		if err == nil {
			return ""
		}
		return record.KindOf(err)
	}
	if kind(first) != "" || kind(second) != "" {
		t.Fatal("two valid keys do not both count")
	}
	caller, _ := v.Caller(t.Context(), identity.Credentials{WorkloadKey: second})
	if !caller.Expires().Equal(held[1].Expires) {
		t.Errorf("the caller lasts until %v", caller.Expires())
	}
	held[0].Revoked = at.now()
	text = identity.FormatKeys(held)
	at.pass(2 * time.Second)
	if kind(first) != record.Unauthenticated || kind(second) != "" {
		t.Error("a revoked key counts, or the other does not")
	}
	broken = errors.New("no such file")
	at.pass(2 * time.Second)
	if kind(second) != record.Unavailable {
		t.Errorf("with an unreadable file: %v", kind(second))
	}
	broken = nil
	at.pass(2 * time.Second)
	if kind(second) != "" {
		t.Error("a file that can be read again does not count")
	}
	at.pass(time.Hour)
	if kind(second) != record.Unauthenticated {
		t.Error("an expired key counts")
	}
	held = append(held, identity.HeldKey{Hash: identity.HashKey(first + "x")})
	text = identity.FormatKeys(held)
	if at.pass(2 * time.Second); kind(first+"x") != "" {
		t.Error("a new key does not count")
	}
	if at.pass(48 * time.Hour); kind(first+"x") != record.Unauthenticated {
		t.Error("a workload that ended is let in")
	}
}

// A key that gets into two workloads' files does not say which of them calls.
func TestOneKeyOfTwoWorkloads(t *testing.T) {
	at, key := newClock(), must(identity.NewKey(rand.Reader))
	text := identity.HashKey("plk_other")
	c := config(t)
	c.Workloads = []identity.WorkloadKey{
		{Name: "a", Tenant: "acme", KeyHash: identity.HashKey(key), Permissions: []identity.Permission{"propose"}},
		{Name: "b", Tenant: "acme", Keys: func() (string, error) { return text, nil }, Permissions: []identity.Permission{"propose", "operate"}},
	}
	v := verifier(t, c, at)
	if _, err := v.Caller(t.Context(), identity.Credentials{WorkloadKey: key}); err != nil {
		t.Fatal(err)
	}
	text = identity.HashKey(key)
	at.pass(2 * time.Second)
	if _, err := v.Caller(t.Context(), identity.Credentials{WorkloadKey: key}); record.KindOf(err) != record.Unauthenticated {
		t.Errorf("got %v", err)
	}
}

// What is read is what is written, and no text makes a key that ended count.
func FuzzKeyFile(f *testing.F) {
	hash := identity.HashKey("plk_a")
	f.Add(hash)
	f.Add(hash + " created=2025-01-01T00:00:00Z expires=2026-01-01T00:00:00.9Z revoked=2026-01-01T00:00:00+01:00\n# x\n")
	f.Add(hash + "\x00")
	f.Add("sha256:\n" + hash + " expires=9999-12-31T23:59:59-23:59")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := identity.ParseKeys(text)
		if err != nil {
			return
		}
		again, err := identity.ParseKeys(identity.FormatKeys(keys))
		if err != nil || !slices.Equal(keys, again) {
			t.Fatalf("%+v\n%+v, %v", keys, again, err)
		}
		for _, k := range keys {
			if len(k.ID()) != 12 || !k.Revoked.IsZero() && k.State(time.Time{}) != "revoked" {
				t.Fatalf("%+v", k)
			}
		}
	})
}
