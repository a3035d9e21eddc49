package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/placet-dev/placet/record"
)

// npmServers installs the two published servers into the user's cache, once, and
// returns the commands that run them.
func npmServers(t *testing.T) (filesystem, everything []string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: the npm servers are not started")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed, so the npm servers are not tested")
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is not installed, so the npm servers are not tested")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(cache, "placet-test", "npm-servers-1")
	modules := filepath.Join(dir, "node_modules", "@modelcontextprotocol")
	mains := []string{filepath.Join(modules, "server-filesystem", "dist", "index.js"), filepath.Join(modules, "server-everything", "dist", "index.js")}
	for _, m := range mains {
		if _, err := os.Stat(m); err == nil {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		install := exec.CommandContext(ctx, npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir,
			"@modelcontextprotocol/server-filesystem@2026.8.31", "@modelcontextprotocol/server-everything@2026.8.31")
		if out, err := install.CombinedOutput(); err != nil {
			t.Skipf("the npm servers cannot be fetched: %v\n%s", err, out)
		}
	}
	return []string{node, mains[0]}, []string{node, mains[1]}
}

func yamlList(items []string) string {
	text, _ := json.Marshal(items)
	return string(text)
}

// Two published servers over stdio, with a real client through the door.
func TestPublishedServersOverStdio(t *testing.T) {
	filesystem, everything := npmServers(t)
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "note.txt"), []byte("hello from the file"), 0o600); err != nil {
		t.Fatal(err)
	}
	registry := "version: 1\nservers:\n" +
		"  files: {command: " + yamlList(append(filesystem, root)) + "}\n" +
		"  every: {command: " + yamlList(append(everything, "stdio")) + "}\n" +
		"defaults: {timeout: 20s}\ntools:\n" +
		"  read_file: {server: files, tool: read_text_file, scope: use, read: true}\n" +
		"  write_file: {server: files, scope: use, write: true, sources: [direct], approval: {when: asked}}\n" +
		"  echo: {server: every, scope: use, read: true}\n" +
		"  sum: {server: every, tool: get-sum, scope: use, read: true}\n"
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			w := newWorldOver(t, nil, func(*ledger) http.Handler { return http.NotFoundHandler() }, registry)
			s := w.client(version, nil)
			ctx := context.Background()
			call := func(name string, arguments map[string]any) *sdk.CallToolResult {
				t.Helper()
				r, err := s.CallTool(ctx, &sdk.CallToolParams{Name: name, Arguments: arguments})
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				return r
			}
			text := func(r *sdk.CallToolResult) string {
				var out []string
				for _, c := range r.Content {
					if c, ok := c.(*sdk.TextContent); ok {
						out = append(out, c.Text)
					}
				}
				return strings.Join(out, "\n")
			}
			list, err := s.ListTools(ctx, nil)
			if err != nil || len(list.Tools) != 6 {
				t.Fatalf("%d tools, %v", len(list.Tools), err)
			}
			if r := call("read_file", map[string]any{"path": filepath.Join(root, "note.txt")}); r.IsError || !strings.Contains(text(r), "hello from the file") {
				t.Fatalf("%+v %s", r, text(r))
			}
			file := filepath.Join(root, "new-"+version+".txt")
			if r := call("write_file", map[string]any{"path": file, "content": "written"}); r.IsError {
				t.Fatalf("%s", text(r))
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != "written" {
				t.Fatalf("%q, %v", got, err)
			}
			if r := call("read_file", map[string]any{"path": "/etc/hostname"}); !r.IsError {
				t.Fatalf("%s", text(r)) // the server's own root check
			}
			// What the registry does not admit does not exist, though the server has it.
			if r := call("move_file", map[string]any{"source": file, "destination": file + ".moved"}); !r.IsError {
				t.Fatalf("%s", text(r))
			}
			if _, err := os.Stat(file); err != nil {
				t.Fatal(err)
			}
			if r := call("echo", map[string]any{"message": "hi"}); r.IsError || !strings.Contains(text(r), "hi") {
				t.Fatalf("%s", text(r))
			}
			if r := call("sum", map[string]any{"a": 2, "b": 3}); r.IsError || !strings.Contains(text(r), "5") {
				t.Fatalf("%s", text(r))
			}
		})
	}
}

// Resources, prompts and completions of a published server, with a real client.
func TestPublishedResourcesAndPrompts(t *testing.T) {
	_, everything := npmServers(t)
	registry := "version: 1\nservers:\n  every: {command: " + yamlList(append(everything, "stdio")) + "}\n" + `defaults: {timeout: 20s}
tools:
  features: {server: every, resource: "demo://resource/static/document/features.md", scope: use, read: true}
  text: {server: every, resource: "demo://resource/dynamic/text/{resourceId}", scope: use, read: true, guards: {resourceId: {type: identifier, pattern: "[0-9]{1,3}"}}}
  texts: {server: every, completes: text, scope: use, read: true, guards: {value: {type: text, max_length: 3}}}
  weather: {server: every, prompt: args-prompt, scope: use, read: true}
  team: {server: every, prompt: completable-prompt, scope: use, read: true}
  people: {server: every, completes: team, scope: use, read: true}
`
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			w := newWorldOver(t, nil, func(*ledger) http.Handler { return http.NotFoundHandler() }, registry)
			s, ctx := w.client(version, nil), context.Background()
			resources, err := s.ListResources(ctx, nil)
			if err != nil || len(resources.Resources) != 1 || resources.Resources[0].Name != "features" {
				t.Fatalf("%+v, %v", resources, err)
			}
			templates, err := s.ListResourceTemplates(ctx, nil)
			if err != nil || len(templates.ResourceTemplates) != 1 {
				t.Fatalf("%+v, %v", templates, err)
			}
			prompts, err := s.ListPrompts(ctx, nil)
			if err != nil || len(prompts.Prompts) != 2 || len(prompts.Prompts[1].Arguments) != 2 {
				t.Fatalf("%+v, %v", prompts, err)
			}
			for uri, ok := range map[string]bool{resources.Resources[0].URI: true, "demo://resource/dynamic/text/7": true,
				"demo://resource/static/document/startup.md": false, "demo://resource/dynamic/blob/7": false, "demo://resource/dynamic/text/x": false} {
				r, err := s.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
				if (err == nil) != ok || ok && (len(r.Contents) != 1 || r.Contents[0].Text == "" || r.Contents[0].URI != uri) {
					t.Errorf("%s: %+v, %v", uri, r, err)
				}
			}
			p, err := s.GetPrompt(ctx, &sdk.GetPromptParams{Name: "weather", Arguments: map[string]string{"city": "Oslo"}})
			if err != nil || len(p.Messages) != 1 || !strings.Contains(p.Messages[0].Content.(*sdk.TextContent).Text, "Oslo") {
				t.Fatalf("%+v, %v", p, err)
			}
			if _, err := s.GetPrompt(ctx, &sdk.GetPromptParams{Name: "simple-prompt"}); err == nil {
				t.Error("a prompt that nobody admitted was given")
			}
			for ref, want := range map[*sdk.CompleteReference]string{{Type: "ref/prompt", Name: "team"}: "Bob", {Type: "ref/resource", URI: "demo://resource/dynamic/text/{resourceId}"}: "12"} {
				params := &sdk.CompleteParams{Ref: ref, Argument: sdk.CompleteParamsArgument{Name: "resourceId", Value: "12"}}
				if ref.Name != "" {
					params.Argument = sdk.CompleteParamsArgument{Name: "name", Value: "B"}
					params.Context = &sdk.CompleteContext{Arguments: map[string]string{"department": "Engineering"}}
				}
				if c, err := s.Complete(ctx, params); err != nil || len(c.Completion.Values) != 1 || c.Completion.Values[0] != want {
					t.Errorf("%+v: %+v, %v", ref, c, err)
				}
			}
			if n := len(w.calls(record.Succeeded)); n != 5 {
				t.Errorf("%d calls are on record", n)
			}
		})
	}
}
