package registry

import (
	"crypto/sha256"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/placet-dev/placet/canon"
)

// ServerPin is what tools.lock holds of a server.
type ServerPin struct {
	Package    string       // for npx, uvx and go run: the package the command names
	Version    string       //
	Integrity  string       // what the package's own ecosystem calls its hash
	Executable canon.Digest // for any other command: the program's bytes
	TLSKey     string       // for URLs, if wanted: sha256/… of the server's public key
}

// Package is what a command such as npx fetches and runs.
type Package struct {
	Ecosystem string // npm, pypi or go
	Name      string
	Version   string // "" when the command names none, or one that moves
}

// PackageOf reads the package out of a command that fetches what it runs. ok is
// false for any other command, which is then pinned by its bytes.
func PackageOf(command []string) (p Package, ok bool) {
	if len(command) == 0 {
		return Package{}, false
	}
	args := command[1:]
	switch program := strings.TrimSuffix(path.Base(command[0]), ".exe"); program {
	case "npx", "bunx":
		return npmPackage(args), true
	case "npm", "pnpm", "yarn", "bun":
		if len(args) > 0 && slices.Contains([]string{"exec", "x", "dlx"}, args[0]) {
			return npmPackage(args[1:]), true
		}
	case "uvx", "pipx":
		if program == "pipx" && len(args) > 0 && args[0] == "run" {
			args = args[1:]
		}
		return pythonPackage(args), true
	case "uv":
		if len(args) > 1 && args[0] == "tool" && args[1] == "run" {
			return pythonPackage(args[2:]), true
		}
	case "go":
		if len(args) > 0 && args[0] == "run" {
			return goPackage(args[1:])
		}
	}
	return Package{}, false
}

// named returns the value of one of the flags, or else the first word that is no flag.
func named(args []string, flags ...string) string {
	for i := 0; i < len(args); i++ {
		for _, f := range flags {
			if args[i] == f && i+1 < len(args) {
				return args[i+1]
			}
			if v, ok := strings.CutPrefix(args[i], f+"="); ok {
				return v
			}
		}
		if !strings.HasPrefix(args[i], "-") {
			return args[i]
		}
	}
	return ""
}

func npmPackage(args []string) Package {
	spec := named(args, "--package", "-p")
	name, version := spec, ""
	if i := strings.LastIndex(spec, "@"); i > 0 {
		name, version = spec[:i], spec[i+1:]
	}
	return Package{"npm", name, exact(version)}
}

func pythonPackage(args []string) Package {
	spec := named(args, "--from", "--spec")
	name, version, found := strings.Cut(spec, "==")
	if !found {
		name, version, _ = strings.Cut(spec, "@")
	}
	name, _, _ = strings.Cut(name, "[")
	return Package{"pypi", name, exact(version)}
}

// goPackage reads go run. Without a version it runs what lies in a folder, which
// has no hash of its own: ok is true and the version empty, so it is refused.
func goPackage(args []string) (Package, bool) {
	name, version, _ := strings.Cut(named(args), "@")
	return Package{"go", name, exact(version)}, true
}

// exact keeps a version that always means the same.
func exact(version string) string {
	if regexp.MustCompile(`^v?[0-9]+(\.[0-9]+)+([-+.A-Za-z0-9]*)$`).MatchString(version) {
		return version
	}
	return ""
}

// ExecutableDigest digests a program's bytes, for the pin of a plain command.
func ExecutableDigest(program io.Reader) (canon.Digest, error) {
	h := sha256.New()
	if _, err := io.Copy(h, program); err != nil {
		return canon.Digest{}, fmt.Errorf("read a server's program: %w", err)
	}
	return canon.Digest(h.Sum(nil)), nil
}

// Check compares a pin with what was measured before a start. Empty fields of
// the pin are not compared, but a pin that holds nothing for a command is none.
func (p *ServerPin) Check(measured ServerPin) error {
	switch {
	case p == nil:
		return fmt.Errorf("is not in tools.lock; review it with: placet tools add")
	case p.Package != measured.Package || p.Version != measured.Version:
		return fmt.Errorf("is pinned as %s %s and is %s %s", p.Package, p.Version, measured.Package, measured.Version)
	case p.Integrity != measured.Integrity:
		return fmt.Errorf("has another integrity hash than the one pinned for %s %s", p.Package, p.Version)
	case p.Executable != measured.Executable:
		return fmt.Errorf("is another program than the one pinned")
	case p.TLSKey != "" && p.TLSKey != measured.TLSKey:
		return fmt.Errorf("has another TLS key than the one pinned")
	}
	return nil
}
