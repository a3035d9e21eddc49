package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/placet-dev/placet/canon"
)

// Host is what measuring a command needs of the machine. It is passed in, since
// this package starts no process and opens no file on its own.
type Host struct {
	// Run runs a package client with a text on its standard input and returns
	// what it prints. It is never given the server's command itself.
	Run  func(ctx context.Context, stdin string, argv ...string) ([]byte, error)
	Find func(program string) (string, error)     // as exec.LookPath
	Open func(path string) (io.ReadCloser, error) // as os.Open
}

// Measure returns what a command would fetch or run now, to be pinned or to be
// compared with a pin. For a package that is the integrity hash of the package
// itself as its ecosystem's own client states it; what the package depends on in
// turn is not covered. For any other command it is the bytes of the program and
// of the scripts among its arguments.
func Measure(ctx context.Context, command []string, h Host) (ServerPin, error) {
	p, fetched := PackageOf(command)
	if !fetched {
		return measureProgram(command, h)
	}
	if p.Name == "" || p.Version == "" {
		return ServerPin{}, fmt.Errorf("the command names no exact version of a package")
	}
	var integrity string
	var err error
	switch p.Ecosystem {
	case "npm":
		integrity, err = npmIntegrity(ctx, p, h)
	case "go":
		integrity, err = goIntegrity(ctx, p, h)
	default:
		integrity, err = pythonIntegrity(ctx, p, h)
	}
	if err != nil {
		return ServerPin{}, fmt.Errorf("find the integrity hash of %s %s: %w", p.Name, p.Version, err)
	}
	return ServerPin{Package: p.Name, Version: p.Version, Integrity: integrity}, nil
}

func npmIntegrity(ctx context.Context, p Package, h Host) (string, error) {
	out, err := h.Run(ctx, "", "npm", "view", "--json", p.Name+"@"+p.Version, "dist.integrity")
	if err != nil {
		return "", err
	}
	var integrity string
	if json.Unmarshal(out, &integrity) != nil || !regexp.MustCompile(`^sha(256|384|512)-[A-Za-z0-9+/=]+$`).MatchString(integrity) {
		return "", fmt.Errorf("npm states no single hash")
	}
	return integrity, nil
}

// goIntegrity asks for the module that holds the package: the package's path, or
// the longest part of it that is a module.
func goIntegrity(ctx context.Context, p Package, h Host) (string, error) {
	var last error
	for module := p.Name; strings.Contains(module, "/"); module = module[:strings.LastIndex(module, "/")] {
		out, err := h.Run(ctx, "", "go", "mod", "download", "-json", module+"@"+p.Version)
		var answer struct{ Path, Version, Sum string }
		if err == nil && json.Unmarshal(out, &answer) == nil && strings.HasPrefix(answer.Sum, "h1:") {
			return answer.Path + " " + answer.Sum, nil
		}
		last = err
	}
	return "", fmt.Errorf("no module holds it: %w", orUnknown(last))
}

func orUnknown(err error) error {
	if err == nil {
		return fmt.Errorf("go states no hash")
	}
	return err
}

// pythonIntegrity takes the hashes of all files of the version, since which of
// them is installed depends on the machine.
func pythonIntegrity(ctx context.Context, p Package, h Host) (string, error) {
	out, err := h.Run(ctx, p.Name+"=="+p.Version+"\n", "uv", "pip", "compile", "--generate-hashes", "--no-deps", "--no-header", "--quiet", "-")
	if err != nil {
		return "", err
	}
	hashes := regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindAllString(string(out), -1)
	if len(hashes) == 0 {
		return "", fmt.Errorf("uv states no hash")
	}
	slices.Sort(hashes)
	return strings.Join(slices.Compact(hashes), " "), nil
}

// scripts are the endings of arguments that are code of the server rather than
// data it works on.
var scripts = regexp.MustCompile(`\.(js|mjs|cjs|ts|mts|py|pyz|rb|pl|sh|bash|jar|wasm|lua|php)$`)

func measureProgram(command []string, h Host) (ServerPin, error) {
	if len(command) == 0 {
		return ServerPin{}, fmt.Errorf("there is no command")
	}
	program, err := h.Find(command[0])
	if err != nil {
		return ServerPin{}, fmt.Errorf("find the program: %w", err)
	}
	files := []string{program}
	for _, a := range command[1:] {
		if scripts.MatchString(a) && !strings.HasPrefix(a, "-") {
			files = append(files, filepath.Clean(a))
		}
	}
	var parts [][]byte
	for _, f := range files {
		d, err := digestFile(f, h)
		if err != nil {
			return ServerPin{}, err
		}
		if len(files) == 1 {
			return ServerPin{Executable: d}, nil
		}
		parts = append(parts, d[:])
	}
	return ServerPin{Executable: canon.Of("placet/command/1", parts...)}, nil
}

func digestFile(path string, h Host) (canon.Digest, error) {
	f, err := h.Open(path)
	if err != nil {
		return canon.Digest{}, fmt.Errorf("read a server's program: %w", err)
	}
	d, err := ExecutableDigest(f)
	if closed := f.Close(); err == nil && closed != nil {
		err = fmt.Errorf("read a server's program: %w", closed)
	}
	return d, err
}
