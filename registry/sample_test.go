package registry

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/placet-dev/placet/yamlfile"
)

var update = flag.Bool("update", false, "write generated files anew")

// current compares a generated file with what is checked in.
func current(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not current; run: go test ./registry -update", path)
	}
}

func TestSchemaIsCurrent(t *testing.T) {
	want, err := JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	current(t, "tools.schema.json", want)
	if _, err := compile(want, false); err != nil {
		t.Error(err)
	}
	var f File
	if ps := yamlfile.Decode("x", []byte("version: 1"), &f); len(ps) > 0 {
		t.Error(ps)
	}
}
