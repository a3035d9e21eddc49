package issuer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/placet-dev/placet/issuer"
	"github.com/placet-dev/placet/record"
)

func TestParse(t *testing.T) {
	d, err := issuer.Parse("users.yaml", []byte(users))
	if err != nil || len(d.Users) != 2 || !slices.Equal(d.Tenants(), []string{"dev", "other"}) {
		t.Fatalf("%+v, %v", d, err)
	}
	d, err = issuer.Parse("users.yaml", []byte("version: 1\nusers: {anna: {}}\n"))
	if err != nil || len(d.Clients) != 2 || d.Users[0].Value.Tenant != "dev" {
		t.Fatalf("the smallest file: %+v, %v", d, err)
	}
	for want, text := range map[string]string{
		"needs the key users": "version: 1",
		"lists nobody":        "version: 1\nusers: {}",
		"reads version 1":     "version: 2\nusers: {anna: {}}",
		"is not a key here":   "version: 1\nusers: {anna: {admin: true}}",
		"a subject is":        "version: 1\nusers: {\"an na\": {}}",
		"is a user too":       "version: 1\nusers: {anna: {}}\nclients: {anna: {}}",
		"a client ID is":      "version: 1\nusers: {anna: {}}\nclients: {placet: {secret: a}}",
		"not placet, placet-console, placet-terminal or client": "version: 1\nusers: {anna: {}}\nclients: {client_1: {}}",
		"this machine only":     "version: 1\nusers: {anna: {}}\nclients: {c: {redirects: http://elsewhere.example/cb}}",
		"without a fragment":    "version: 1\nusers: {anna: {}}\nclients: {c: {redirects: 'http://127.0.0.1/cb#x'}}",
		"schemes of native":     "version: 1\nusers: {anna: {}}\nclients: {c: {redirects: 'javascript:alert(1)'}}",
		"is needed by a client": "version: 1\nusers: {anna: {}}\nclients: {c: {exchanges: true}}",
		"a person's tool alone": "version: 1\nusers: {anna: {}}\nclients: {c: {secret: a, exchanges: true, approves: true, redirects: http://127.0.0.1/cb}}",
		"an interactive login":  "version: 1\nusers: {anna: {}}\nclients: {c: {approves: true}}",
		"absolute URI":          "version: 1\nusers: {anna: {}}\nresources: [{audience: desk}]",
		"twice":                 "version: 1\nusers: {anna: {}}\nresources: [{audience: 'urn:a'}, {audience: 'urn:a'}]",
		"a scope is":            "version: 1\nusers: {anna: {scopes: ['a b']}}",
		"OpenID Connect's own":  "version: 1\nusers: {anna: {scopes: [openid]}}",
		"control characters":    "version: 1\nusers: {anna: {name: \"a\\u202eb\"}}",
	} {
		if _, err := issuer.Parse("users.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// The cast is what the file in the documents would say.
func TestCast(t *testing.T) {
	d := issuer.Cast()
	fail := func(key, message string) { t.Errorf("%s: %s", key, message) }
	d.Check(fail)
	for _, u := range d.Users {
		u.Value.Check(fail)
	}
	for _, c := range d.Clients {
		c.Value.Check(fail)
	}
	if !slices.Equal(d.Tenants(), []string{"dev"}) {
		t.Errorf("tenants %v", d.Tenants())
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.yaml")
	f := issuer.File(path)
	if _, err := f.Directory(t.Context()); record.KindOf(err) != record.Unavailable {
		t.Errorf("no file: %v", err)
	}
	for n, text := range []string{"version: 1\nusers: {anna: {}}\n", "version: 1\nusers: {lena: {}}\n"} { // of one size
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if d, err := f.Directory(t.Context()); err != nil || d.Users[0].Key != []string{"anna", "lena"}[n] {
			t.Errorf("%d: %v", n, err)
		}
	}
	if err := os.WriteFile(path, []byte("# "+strings.Repeat("x", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Directory(t.Context()); err == nil {
		t.Error("a file of more than a megabyte was read")
	}
}

// Whatever a file says, it is read or refused, and what is read can be shown.
func FuzzParse(f *testing.F) {
	f.Add(users)
	f.Add("version: 1\nusers: {anna: {}}\nclients: {c: {redirects: ['http://[::1]:0/%2f']}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := issuer.Parse("users.yaml", []byte(text))
		if err != nil {
			return
		}
		for _, c := range d.Clients {
			if (c.Value.Exchanges || c.Value.ActsAlone || c.Value.Introspects) && (c.Value.Secret == "" || c.Value.Approves) {
				t.Errorf("a client that may too much: %+v", c)
			}
			for _, r := range c.Value.Redirects {
				if strings.HasPrefix(r, "http://") && !strings.HasPrefix(r, "http://127.") && !strings.HasPrefix(r, "http://localhost") && !strings.HasPrefix(r, "http://[") {
					t.Errorf("codes travel to %s", r)
				}
			}
		}
		_ = fmt.Sprint(d.Tenants())
	})
}
