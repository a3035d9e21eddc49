package yamlfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestSecretRef(t *testing.T) {
	env := func(name string) (string, bool) { return "from-env", name == "SECRET" }
	file := func(path string) ([]byte, error) {
		switch path {
		case "/etc/secret":
			return []byte("from-file\r\n"), nil
		case "/etc/empty":
			return []byte("\n"), nil
		}
		return nil, errors.New("no such file")
	}
	for _, c := range []struct{ ref, want, fault string }{
		{"env:SECRET", "from-env", ""},
		{"file:/etc/secret", "from-file", ""},
		{"env:OTHER", "", "the environment variable OTHER is not set"},
		{"file:/etc/empty", "", "is empty"},
		{"file:/etc/none", "", "no such file"},
	} {
		ref, err := NewSecretRef(c.ref)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ref.Read(env, file)
		if got != c.want || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %q, %v", c.ref, got, err)
		}
	}
	if _, err := (SecretRef{}).Read(env, file); err == nil {
		t.Error("no reference gave a secret")
	}
}

// What was pasted in place of a reference may be the secret: it never comes out.
func TestSecretNeverShows(t *testing.T) {
	for _, pasted := range []string{"hunter2", "sk-live-hunter2", "hunter2:env", "env:hunter2!", "file:", "ENV:hunter2", "env:"} {
		_, err := NewSecretRef(pasted)
		if err == nil {
			t.Errorf("%q was accepted", pasted)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error shows what was pasted: %v", err)
		}
	}
	ref, err := NewSecretRef("file:/etc/hunter2")
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(map[string]any{"ref": ref, "at": &ref})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "ref", ref)
	for _, shown := range []string{ref.String(), fmt.Sprintf("%v %+v %#v %s", ref, ref, ref, ref), string(encoded), log.String()} {
		if strings.Contains(shown, "hunter2") {
			t.Errorf("shows %q", shown)
		}
	}
}

func TestClosest(t *testing.T) {
	keys := []string{"per_minute", "per_run", "concurrent", "timeout", "read", "sink"}
	for word, want := range map[string]string{
		"per_min": "per_minute", "perminute": "per_minute", "Timeout": "timeout", "tiemout": "timeout",
		"reed": "read", "concurrency": "concurrent", "x": "", "": "", "banana": "", strings.Repeat("a", 1000): "",
	} {
		if got := Closest(word, keys); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}
