package placet_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/placet-dev/placet"

// house says which of this module's packages each may import: arrows point down
// (design, section 5). "" is the root package. A package that is not here fails
// the test: say what it is for, and what it may know.
var house = map[string][]string{
	"canon":    {},
	"mcphttp":  {"canon"}, // what MCP clients read and write over HTTP
	"record":   {"canon"},
	"history":  {"canon", "record"}, // transcripts as data; pure
	"audit":    {"canon", "record"}, // the sealed log: checkpoints, proofs, verification
	"yamlfile": {},
	"verify":   {}, // what a tool server links: go-jose and the standard library

	"version": {"canon", "record"}, // what decides, as files

	"credential":            {"canon", "record"},
	"credential/issuertest": {}, // tests only

	"passkey":             {"canon", "record"}, // what people sign answers with
	"passkey/passkeytest": {},                  // a device, for tests

	"identity":            {"canon", "record"},
	"identity/idptest":    {}, // a real provider, for tests
	"ingress":             {"identity", "record"},
	"trust":               {"record"}, // roots of authorities: files and the SPIFFE Workload API
	"guard":               {"canon", "record"},
	"label":               {"canon", "record"}, // what a lineage has read; where values come from
	"registry":            {"canon", "guard", "label", "record", "yamlfile"},
	"policy":              {"canon", "record"},
	"config":              {"yamlfile"},
	"issuer":              {"identity", "record", "yamlfile"},
	"connect":             {"mcphttp", "record"}, // a client: knows nothing of what serves
	"connect/connecttest": {},

	"dispatch": {"canon", "guard", "history", "identity", "label", "policy", "record", "registry"},

	"policy/rego":    {"canon", "policy", "record"},
	"policy/authzen": {"canon", "policy", "record"},

	"store/postgres/pgtest": {}, // a real server, for tests

	"policy/authzen/pdptest": {"canon"}, // a decision point for tests

	"store/sqlite":    {"canon", "dispatch", "record"},
	"store/postgres":  {"canon", "dispatch", "record"},
	"store/storetest": {"audit", "canon", "dispatch", "record"},
	"tool/file":       {"dispatch", "guard", "record", "registry", "tool/local"},
	"tool/http":       {"canon", "dispatch", "guard", "mcphttp", "record", "registry", "tool/local", "yamlfile"},
	"tool/standin":    {"dispatch"},
	"tool/lease":      {"dispatch", "record", "registry", "tool/local"},
	"tool/local":      {"dispatch", "record", "registry"},
	"tool/measure":    {"record", "registry"},
	"tool/query":      {"canon", "dispatch", "guard", "record", "registry", "tool/local", "yamlfile"},
	"tool/mcp":        {"canon", "dispatch", "guard", "mcphttp", "record", "registry"},
	"edge/mcp":        {"canon", "dispatch", "edge/oauth", "identity", "record", "registry"},
	"edge/console":    {"canon", "dispatch", "edge/question", "identity", "record", "registry"},
	"edge/api":        {"audit", "canon", "dispatch", "edge/feed", "edge/oauth", "edge/question", "history", "identity", "passkey", "policy", "record", "registry"},
	"edge/oauth":      {"canon"},
	"edge/feed":       {"dispatch", "record"},          // what moves, read once for all who wait
	"edge/question":   {"canon", "dispatch", "record"}, // what a person reads of a question, on every surface
	"edge/front":      {},

	"edge/llm":         {"canon", "dispatch", "edge/oauth", "history", "identity", "label", "record"}, // passes on to model providers
	"edge/llm/llmtest": {},                                                                            // a provider, for tests

	"alert":   {"canon", "dispatch", "record"},   // fixed rules over the log
	"metrics": {"dispatch", "history", "record"}, // what the log says, as numbers
	"notify":  {"canon", "dispatch", "record"},   // tells people elsewhere; a door outwards
}

// top are the packages that wire: they may import everything but each other's tops.
var top = []string{"", "cmd/placet", "demo", "deploy", "bench", "bench/agentdojo", "bench/scale", "chaos", "conformance", "docs", "histories", "integration", "isolation"}

// TestHouse reads every import of every file that is not a test.
func TestHouse(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || path != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() && path != ".":
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				return fs.SkipDir // a module of its own
			}
			return nil
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if dir == "." {
			dir = ""
		}
		if slices.ContainsFunc(top, func(p string) bool { return dir == p || p != "" && strings.HasPrefix(dir, p+"/") }) {
			return nil
		}
		allowed, known := house[dir]
		if !known {
			t.Errorf("%s: the house has no room %q; add it to house_test.go with what it may import", path, dir)
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		seen++
		for _, imp := range file.Imports {
			name, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			rel, ours := strings.CutPrefix(name, module)
			rel = strings.TrimPrefix(rel, "/")
			if ours && rel != dir && !slices.Contains(allowed, rel) {
				t.Errorf("%s imports %s; %s may import %v", path, name, dir, allowed)
			}
			if dir == "record" && !ours && strings.Contains(name, ".") {
				t.Errorf("%s imports %s; record imports canon and the standard library only", path, name)
			}
			if dir == "mcphttp" && !ours && strings.Contains(name, ".") {
				t.Errorf("%s imports %s; mcphttp imports canon and the standard library only", path, name)
			}
			if dir == "history" && !ours && strings.Contains(name, ".") && !strings.HasPrefix(name, "github.com/go-json-experiment/json") {
				t.Errorf("%s imports %s; history imports canon, record, go-json-experiment/json and the standard library only", path, name)
			}
			if dir == "verify" && !ours && strings.Contains(name, ".") && name != "github.com/go-jose/go-jose/v4" {
				t.Errorf("%s imports %s; verify imports go-jose and the standard library only", path, name)
			}
			if dir == "dispatch" && strings.Contains(name, "open-policy-agent") {
				t.Errorf("%s imports %s; the boundary links no evaluator", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 100 {
		t.Fatalf("only %d files were read: the test looks in the wrong place", seen)
	}
}

// TestOnlyToolsRedeem: a ticket is redeemed by implementations of tools and by
// nothing else, and minted in one place of the boundary.
func TestOnlyToolsRedeem(t *testing.T) {
	var mints []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.Contains(string(text), ".Redeem()") && !strings.HasPrefix(path, "tool/") && !strings.HasPrefix(path, "bench/") {
			t.Errorf("%s redeems a ticket", path)
		}
		if strings.HasPrefix(path, "dispatch/") {
			for range strings.Count(string(text), "mint(") - strings.Count(string(text), "func mint(") {
				mints = append(mints, path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(mints, []string{"dispatch/reserve.go"}) {
		t.Fatalf("tickets are minted in %v, want dispatch/reserve.go alone", mints)
	}
}
