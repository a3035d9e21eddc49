package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/placet-dev/placet/registry"
)

// Limit is how long one measurement may take.
const Limit = 30 * time.Second

// Command measures a command on this machine.
func Command(ctx context.Context, command []string) (registry.ServerPin, error) {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	return registry.Measure(ctx, command, machine(os.Environ()))
}

func machine(environ []string) registry.Host {
	env := clientEnvironment(environ)
	return registry.Host{
		Run: func(ctx context.Context, stdin string, argv ...string) ([]byte, error) {
			return ask(ctx, env, stdin, argv)
		},
		Find: exec.LookPath,
		Open: func(path string) (io.ReadCloser, error) { return os.Open(path) },
	}
}

// most is what a client may print.
const most = 8 << 20

// ask runs a package client.
func ask(ctx context.Context, env []string, stdin string, argv []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Stdin = env, strings.NewReader(stdin)
	cmd.WaitDelay = 2 * time.Second
	out, said := &bounded{max: most}, &bounded{max: 4 << 10, cut: true}
	cmd.Stdout, cmd.Stderr = out, said
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s gave no answer in time", argv[0])
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("%s is not installed here", argv[0])
	case err != nil:
		return nil, fmt.Errorf("%s failed (%w)%s", argv[0], err, firstLine(said.Bytes()))
	}
	return out.Bytes(), nil
}

// firstLine is what a client said first of all, for the operator.
func firstLine(said []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(strings.ToValidUTF8(string(said), "?")), "\n")
	if line == "" {
		return ""
	}
	return ": " + line[:min(len(line), 200)]
}

// bounded keeps what fits. More is an error, or is cut.
type bounded struct {
	bytes.Buffer
	max int
	cut bool
}

func (b *bounded) Write(p []byte) (int, error) {
	room := b.max - b.Len()
	if len(p) <= room {
		return b.Buffer.Write(p)
	}
	if !b.cut {
		return 0, errors.New("the client prints too much")
	}
	b.Buffer.Write(p[:room])
	return len(p), nil
}

// clientEnvironment keeps what package clients need. They have no business with
// the secrets that a configuration refers to.
func clientEnvironment(environ []string) []string {
	var out []string
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if wanted(strings.ToUpper(name)) {
			out = append(out, e)
		}
	}
	return out
}

func wanted(name string) bool {
	switch name {
	case "PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "PATHEXT", "COMSPEC",
		"USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
		"NODE_EXTRA_CA_CERTS", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOINSECURE", "GOAUTH",
		"GOFLAGS", "GOENV", "GOROOT", "GOPATH", "GOMODCACHE", "GOCACHE", "GOTOOLCHAIN", "SSL_CERT_FILE", "SSL_CERT_DIR":
		return true
	}
	for _, prefix := range []string{"NPM_CONFIG_", "UV_", "XDG_", "LC_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
