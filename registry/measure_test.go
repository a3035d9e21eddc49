package registry

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// The clients' answers are in the form that each of them prints.
func fakeHost(asked *[]string) Host {
	return Host{
		Run: func(_ context.Context, stdin string, argv ...string) ([]byte, error) {
			line := strings.Join(argv, " ") + " < " + strings.TrimSpace(stdin)
			*asked = append(*asked, line)
			switch {
			case strings.HasPrefix(line, "npm view --json @mcp/files@1.2.3"):
				return []byte("\"sha512-abc==\"\n"), nil
			case strings.HasPrefix(line, "npm view --json two@1.0.0"):
				return []byte(`["sha512-a","sha512-b"]`), nil
			case strings.HasPrefix(line, "go mod download -json example.com/mcp@v1.2.3"):
				return []byte(`{"Path":"example.com/mcp","Version":"v1.2.3","Sum":"h1:abc="}`), nil
			case strings.HasSuffix(line, "< mcp-git==2.0.1"):
				return []byte("mcp-git==2.0.1 \\\n    --hash=sha256:" + strings.Repeat("b", 64) + " \\\n    --hash=sha256:" + strings.Repeat("a", 64) + "\n"), nil
			}
			return nil, errors.New("not found")
		},
		Find: func(p string) (string, error) { return "/usr/bin/" + p, nil },
		Open: func(p string) (io.ReadCloser, error) {
			if strings.HasPrefix(p, "/usr/bin/") || strings.HasPrefix(p, "/opt/") {
				return io.NopCloser(strings.NewReader("bytes of " + p)), nil
			}
			return nil, errors.New("no such file")
		},
	}
}

func TestMeasure(t *testing.T) {
	var asked []string
	h := fakeHost(&asked)
	measure := func(command string) (ServerPin, error) { return Measure(t.Context(), strings.Fields(command), h) }
	for command, want := range map[string]ServerPin{
		"npx -y @mcp/files@1.2.3 /srv":      {Package: "@mcp/files", Version: "1.2.3", Integrity: "sha512-abc=="},
		"go run example.com/mcp/cmd@v1.2.3": {Package: "example.com/mcp/cmd", Version: "v1.2.3", Integrity: "example.com/mcp h1:abc="},
		"uvx mcp-git==2.0.1":                {Package: "mcp-git", Version: "2.0.1", Integrity: "sha256:" + strings.Repeat("a", 64) + " sha256:" + strings.Repeat("b", 64)},
	} {
		if got, err := measure(command); err != nil || got != want {
			t.Errorf("%s: %+v, %v", command, got, err)
		}
	}
	for _, command := range []string{"npx gone@1.0.0", "npx two@1.0.0", "npx a@latest", "uvx none==1.0", "go run example.com/x@v9.9.9", ""} {
		if got, err := measure(command); err == nil {
			t.Errorf("%s: %+v", command, got)
		}
	}
	for _, a := range asked {
		if strings.Contains(a, "/srv") {
			t.Errorf("the server's own arguments reach a client: %s", a)
		}
	}
}

// A script that an interpreter runs is part of what is pinned; data is not.
func TestMeasureProgram(t *testing.T) {
	var asked []string
	h := fakeHost(&asked)
	digest := func(command string) string {
		p, err := Measure(t.Context(), strings.Fields(command), h)
		if err != nil {
			t.Fatal(err)
		}
		return p.Executable.String()
	}
	if digest("node /opt/a.js") == digest("node /opt/b.js") || digest("node /opt/a.js") == digest("node") {
		t.Error("another script, same pin")
	}
	if digest("ledger /var/state.db") != digest("ledger") {
		t.Error("data is pinned")
	}
	if _, err := Measure(t.Context(), []string{"node", "/gone.js"}, h); err == nil {
		t.Error("a missing script is pinned")
	}
	if len(asked) != 0 {
		t.Errorf("a program was run: %v", asked)
	}
}
