package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/placet-dev/placet/record"
)

func readCLI(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDocsNameEveryCommand(t *testing.T) {
	text := readCLI(t)
	parser, err := kong.New(&commands{}, kong.Name("placet"), kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	var walk func(path string, n *kong.Node)
	walk = func(path string, n *kong.Node) {
		if n.Hidden {
			return
		}
		if n.Type == kong.CommandNode {
			path += " " + n.Name
		}
		if len(n.Children) == 0 {
			found++
			if !strings.Contains(text, "`"+path) {
				t.Errorf("docs/cli.md does not name %q", path)
			}
		}
		for _, c := range n.Children {
			walk(path, c)
		}
	}
	walk("placet", parser.Model.Node)
	if found < 30 {
		t.Errorf("only %d commands were looked for", found)
	}
}

// The table in the docs is the one in the help.
func TestDocsHaveTheExitCodes(t *testing.T) {
	_, table, _ := strings.Cut(readCLI(t), "<!-- begin exits -->\n")
	table, _, _ = strings.Cut(table, "<!-- end exits -->")
	var want strings.Builder
	want.WriteString("| code | meaning |\n|---|---|\n")
	for _, r := range exits() {
		fmt.Fprintf(&want, "| %d | %s |\n", r.code, r.meaning)
	}
	if table != want.String() {
		t.Errorf("docs/cli.md has\n%s\nand the program\n%s", table, want.String())
	}
}

// Every kind of error has a line, no two meanings share a code, and a denial's is
// nobody else's.
func TestExitCodesAreOneTable(t *testing.T) {
	var codes []int
	for _, r := range exits() {
		if slices.Contains(codes, r.code) {
			t.Errorf("exit code %d has two lines", r.code)
		}
		codes = append(codes, r.code)
	}
	for _, k := range record.Kinds() {
		code := record.SurfaceOf(k).Exit
		if !slices.Contains(codes, code) {
			t.Errorf("the exit code %d of %s has no line", code, k)
		}
		if code == exitOK || code == exitNo || code == exitWaiting {
			t.Errorf("%s has the exit code %d of something else", k, code)
		}
	}
}
