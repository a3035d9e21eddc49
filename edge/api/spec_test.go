package api

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the files in docs that are generated from the code")

// current compares a checked-in file with what the code says, or rewrites it.
func current(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run the test with -update", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not current; run: go test ./edge/api -update", path)
	}
}

func TestSpecificationIsCurrent(t *testing.T) {
	text, err := build(Options{Version: "1"}).specification()
	if err != nil {
		t.Fatal(err)
	}
	current(t, "../../docs/openapi.json", append(text, '\n'))
}
