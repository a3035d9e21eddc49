package history_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/placet-dev/placet/history"
)

var update = flag.Bool("update", false, "write the table of codes in docs/history.md")

// The table in the docs is the one that reports are made from.
func TestDocsHaveTheCodes(t *testing.T) {
	const file, begin, end = "../docs/history.md", "<!-- begin codes -->\n", "<!-- end codes -->"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), begin)
	table, after, found := strings.Cut(rest, end)
	if !found {
		t.Fatal("docs/history.md has no place for the codes")
	}
	var want strings.Builder
	want.WriteString("| code | severity | says | could have led to |\n|---|---|---|---|\n")
	for _, c := range history.Codes() {
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", c.Code, c.Severity, c.Says, c.Could)
	}
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+want.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want.String() {
		t.Errorf("docs/history.md is not of this version; run go test ./history -update")
	}
	for _, f := range history.Formats() {
		if !strings.Contains(before, "`"+string(f)+"`") {
			t.Errorf("docs/history.md does not name the format %s", f)
		}
	}
}
