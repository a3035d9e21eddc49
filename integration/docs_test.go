package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDocsShowTheCode: what docs/clients.md shows is what the clients are run with, and
// the versions that it names are those of the lock files.
func TestDocsShowTheCode(t *testing.T) {
	text, err := os.ReadFile("../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := func(want string) {
		if !strings.Contains(string(text), want) {
			t.Errorf("docs/clients.md does not show:\n%s", want)
		}
	}
	for _, file := range []string{"clients/aisdk.js", "clients/openai.js", "clients/langgraph.js", "claude/claude.js"} {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		shown("```js\n" + string(code) + "```\n")
	}
	for _, folder := range []string{"clients", "claude"} {
		text, err := os.ReadFile(folder + "/package.json")
		if err != nil {
			t.Fatal(err)
		}
		var names struct{ Dependencies map[string]string }
		if err := json.Unmarshal(text, &names); err != nil {
			t.Fatal(err)
		}
		for name, version := range names.Dependencies {
			if name != "zod" && name != "@modelcontextprotocol/sdk" { // of our own tools
				shown(fmt.Sprintf("| `%s` | %s |\n", name, version))
			}
		}
	}
}

// TestLockFilesNameNoHost: packages come from wherever npm is told to fetch them.
func TestLockFilesNameNoHost(t *testing.T) {
	for _, folder := range []string{"clients", "clients/newest", "claude", "claude/newest"} {
		text, err := os.ReadFile(folder + "/package-lock.json")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), `"resolved"`) {
			t.Errorf("%s/package-lock.json says where packages come from; make integration-newest writes one that does not", folder)
		}
	}
}
