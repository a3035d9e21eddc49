package config

import (
	"net/url"
	"path/filepath"
	"strings"

	"github.com/placet-dev/placet/yamlfile"
)

func (c *Config) checkStore(fail func(key, message string)) {
	scheme, rest, _ := strings.Cut(c.Store, ":")
	switch {
	case scheme == "sqlite" && rest != "" && !strings.HasPrefix(rest, "//") && !strings.ContainsAny(rest, "?\x00"):
		if c.Keys != "" {
			fail("keys", "goes with PostgreSQL; beside a SQLite file its keys have their place")
		}
		if !c.Secret.IsZero() {
			fail("secret", "goes with PostgreSQL: one server has a SQLite file for itself, and shares its keys with none")
		}
	case scheme == "sqlite":
		fail("store", "wants sqlite:PATH, a path without // at its start or a question mark")
	case scheme == "env" || scheme == "file":
		if _, err := yamlfile.NewSecretRef(c.Store); err != nil {
			fail("store", "wants env:NAME or file:PATH that holds a connection string of PostgreSQL")
		}
	case scheme == "postgres" || scheme == "postgresql":
		u, err := url.Parse(c.Store)
		if err != nil {
			fail("store", "is no connection string of PostgreSQL, such as postgres://user@host/database")
			return
		}
		if _, secret := u.User.Password(); secret || u.Query().Has("password") {
			fail("store", "holds a password; keep the connection string elsewhere and name it, env:NAME or file:PATH")
		}
	default:
		fail("store", "wants sqlite:PATH, or env:NAME, file:PATH or postgres://… for PostgreSQL")
	}
}

// resolveStore finds where the store, or what this server keeps beside it, is.
func (c *Config) resolveStore() {
	if path, sqlite := strings.CutPrefix(c.Store, "sqlite:"); sqlite {
		c.storePath = c.path(path)
		return
	}
	c.storePath = filepath.Join(c.path(c.Keys), "placet")
}

// Database is the connection string of the store, where it is PostgreSQL.
func (c *Config) Database(getenv func(string) (string, bool), readFile func(string) ([]byte, error)) (dsn string, is bool, err error) {
	switch scheme, _, _ := strings.Cut(c.Store, ":"); scheme {
	case "postgres", "postgresql":
		return c.Store, true, nil
	case "env", "file":
		ref, err := yamlfile.NewSecretRef(c.Store)
		if err != nil {
			return "", true, err
		}
		dsn, err = ref.In(c.folder).Read(getenv, readFile)
		return dsn, true, err
	}
	return "", false, nil
}
