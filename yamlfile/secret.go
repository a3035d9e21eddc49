package yamlfile

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
)

// SecretRef names where a secret is kept: env:NAME or file:PATH. It never holds
// the secret, and its printed forms do not even show the reference, so that a
// secret pasted in the wrong place does not come out in a log.
type SecretRef struct {
	scheme string // "env" or "file"; "" when nothing was given
	name   string
}

// NewSecretRef reads env:NAME or file:PATH. Its error never repeats the text,
// which may be the secret itself.
func NewSecretRef(text string) (SecretRef, error) {
	scheme, name, _ := strings.Cut(text, ":")
	switch {
	case scheme == "env" && regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(name):
	case scheme == "file" && name != "" && !strings.ContainsAny(name, "\x00\n"):
	default:
		return SecretRef{}, fmt.Errorf("wants a reference to a secret, env:NAME or file:PATH, never the secret itself")
	}
	return SecretRef{scheme, name}, nil
}

// File is the path of the file that holds it; "" for a secret that stands elsewhere.
func (r SecretRef) File() string {
	if r.scheme != "file" {
		return ""
	}
	return r.name
}

// IsZero reports whether no reference was given.
func (r SecretRef) IsZero() bool { return r.scheme == "" }

// UnmarshalText makes SecretRef a scalar of a configuration file.
func (r *SecretRef) UnmarshalText(text []byte) error {
	ref, err := NewSecretRef(string(text))
	*r = ref
	return err
}

// In returns r with a relative path resolved against a folder.
func (r SecretRef) In(folder string) SecretRef {
	if r.scheme == "file" && !filepath.IsAbs(r.name) {
		r.name = filepath.Join(folder, r.name)
	}
	return r
}

// Read fetches the secret. One line end at the end of a file is not part of it.
// An empty secret is an error: it would authenticate nobody, or everybody.
func (r SecretRef) Read(getenv func(string) (string, bool), readFile func(string) ([]byte, error)) (string, error) {
	var secret string
	switch r.scheme {
	case "env":
		v, ok := getenv(r.name)
		if !ok {
			return "", fmt.Errorf("the environment variable %s is not set", r.name)
		}
		secret = v
	case "file":
		b, err := readFile(r.name)
		if err != nil {
			return "", fmt.Errorf("read a secret: %w", err)
		}
		secret = strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	default:
		return "", fmt.Errorf("no reference to a secret is given")
	}
	if secret == "" {
		return "", fmt.Errorf("the secret that a reference (%s) names is empty", r.scheme)
	}
	return secret, nil
}

const redacted = "(a secret, redacted)"

// String, GoString, MarshalText and LogValue all say no more than that a secret is meant.
func (r SecretRef) String() string               { return redacted }
func (r SecretRef) GoString() string             { return redacted }
func (r SecretRef) MarshalText() ([]byte, error) { return []byte(redacted), nil }
func (r SecretRef) LogValue() slog.Value         { return slog.StringValue(redacted) }
