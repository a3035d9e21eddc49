package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets stories start this program, and a real MCP server, as processes
// of their own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"placet": func() { os.Exit(start()) },
		"desk":   func() { os.Exit(desk()) },
	})
}

// Each story is a file of commands in testdata, played in a folder of its own.
func TestStories(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata", RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Values[serversOf{}] = map[string]*running{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"server": serverStep, "grab": grab, "swap": swap, "exits": wantExit, "settles": settles, "lines": lines, "hostile": hostile, "certificate": certificate, "signin": signIn,
		},
	})
}

// desk is an MCP server over stdio, of the Go SDK. Its folder holds what it says
// of read_ticket, and its ledger: one line for each effect.
func desk() int {
	folder := os.Args[len(os.Args)-1]
	said, err := os.ReadFile(filepath.Join(folder, "says"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`)
	answer := func(line string) mcp.ToolHandler {
		return func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			f, err := os.OpenFile(filepath.Join(folder, "ledger"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			if _, err := fmt.Fprintf(f, "%s %s\n", line, r.Params.Arguments); err != nil {
				return nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: line + " done"}}}, nil
		}
	}
	s.AddTool(&mcp.Tool{Name: "read_ticket", Description: strings.TrimSpace(string(said)), InputSchema: schema,
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)}}, answer("read"))
	s.AddTool(&mcp.Tool{Name: "closeTicket", Description: "Closes a ticket.", InputSchema: schema,
		Annotations: &mcp.ToolAnnotations{OpenWorldHint: new(bool)}}, answer("close"))
	if words, err := os.ReadFile(filepath.Join(folder, "prompts")); err == nil { // a desk that also has a prompt and resources
		s.AddPrompt(&mcp.Prompt{Name: "sum-up", Description: strings.TrimSpace(string(words)), Arguments: []*mcp.PromptArgument{{Name: "ticket", Required: true}}}, nil)
		s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "desk://files/{path}", Name: "Files"}, nil)
		s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "desk://all/{+path}", Name: "All files"}, nil)
	}
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil && err != io.EOF {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// running is one server of a story.
type running struct {
	cmd    *exec.Cmd
	done   chan error
	output *output
}

// output collects what a server prints.
type output struct {
	mu   sync.Mutex
	text strings.Builder
	seen int // up to where a step has looked
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// find looks for a match after what earlier steps found.
func (o *output) find(re *regexp.Regexp) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	rest := o.text.String()[o.seen:]
	at := re.FindStringSubmatchIndex(rest)
	if at == nil {
		return nil
	}
	m := re.FindStringSubmatch(rest)
	o.seen += at[1]
	return m
}

func (o *output) all() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

const patience = 30 * time.Second

// until waits for a line that matches.
func (r *running) until(ts *testscript.TestScript, pattern string) []string {
	re := regexp.MustCompile("(?m)" + pattern)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if m := r.output.find(re); m != nil {
			return m
		}
		select {
		case err := <-r.done:
			r.done <- err
			if m := r.output.find(re); m != nil {
				return m
			}
			ts.Fatalf("the server ended (%v) before it printed %s:\n%s", err, pattern, r.output.all())
		case <-time.After(5 * time.Millisecond):
		}
	}
	ts.Fatalf("the server never printed %s:\n%s", pattern, r.output.all())
	return nil
}

// serversOf is the key of a story's servers, by name.
type serversOf struct{}

// serverStep starts, watches and ends servers:
//
//	server start NAME ARGUMENTS…   starts placet, waits until it listens, sets $URL
//	server run NAME ARGUMENTS…     starts placet with the story's home, and goes on
//	server until NAME PATTERN      waits until it prints a match
//	server hangup NAME             sends SIGHUP
//	server stop NAME [CODE]        sends SIGTERM, and wants this exit code
//	server ends NAME CODE          wants it to end by itself with this exit code
//
// With $BLOCKS set, no file of the server may grow beyond that many blocks.
func serverStep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("server: wrong use")
	}
	servers, name := ts.Value(serversOf{}).(map[string]*running), args[1]
	if args[0] == "start" {
		r := launch(ts, args[2:])
		servers[name] = r
		ts.Defer(func() { _ = r.cmd.Process.Kill() })
		ts.Setenv("URL", r.until(ts, `^listening on (\S+)$`)[1])
		return
	}
	if args[0] == "run" {
		r := launch(ts, args[2:])
		servers[name] = r
		ts.Defer(func() { _ = r.cmd.Process.Kill() })
		return
	}
	r := servers[name]
	if r == nil {
		ts.Fatalf("no server %s", name)
	}
	switch args[0] {
	case "until":
		r.until(ts, args[2])
	case "hangup":
		ts.Check(r.cmd.Process.Signal(syscall.SIGHUP))
	case "stop", "ends":
		if args[0] == "stop" {
			ts.Check(r.cmd.Process.Signal(syscall.SIGTERM))
		}
		want := 0
		if len(args) > 2 {
			want, _ = strconv.Atoi(args[2])
		}
		select {
		case <-r.done:
			if got := r.cmd.ProcessState.ExitCode(); got != want {
				ts.Fatalf("the server ended with %d, not %d:\n%s", got, want, r.output.all())
			}
		case <-time.After(patience):
			ts.Fatalf("the server does not end:\n%s", r.output.all())
		}
	default:
		ts.Fatalf("server: no step %s", args[0])
	}
}

func launch(ts *testscript.TestScript, args []string) *running {
	program := ""
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if p := filepath.Join(dir, "placet"); program == "" && executable(p) {
			program = p
		}
	}
	if blocks := ts.Getenv("BLOCKS"); blocks != "" {
		args = append([]string{"-c", `ulimit -f "$0"; exec "$@"`, blocks, program}, args...)
		program = "/bin/sh"
	}
	r := &running{cmd: exec.Command(program, args...), done: make(chan error, 1), output: &output{}}
	r.cmd.Dir = ts.MkAbs(".")
	r.cmd.Env = []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME"), "TMPDIR=" + ts.Getenv("TMPDIR")}
	r.cmd.Stdout, r.cmd.Stderr = r.output, r.output
	ts.Check(r.cmd.Start())
	go func() { r.done <- r.cmd.Wait() }()
	return r
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

// grab takes $NAME from what the last command printed: the match of a pattern, or
// its first group.
func grab(ts *testscript.TestScript, neg bool, args []string) {
	text := ts.ReadFile("stdout")
	m := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(text)
	if neg || m == nil {
		ts.Fatalf("no %s in:\n%s", args[1], text)
	}
	ts.Setenv(args[0], strings.TrimSpace(m[len(m)-1]))
}

// swap puts one text in the place of another in a file.
func swap(ts *testscript.TestScript, neg bool, args []string) {
	path := ts.MkAbs(args[0])
	text := ts.ReadFile(path)
	if neg || !strings.Contains(text, args[1]) {
		ts.Fatalf("no %q in %s", args[1], path)
	}
	ts.Check(os.WriteFile(path, []byte(strings.Replace(text, args[1], args[2], 1)), 0o644))
}

// wantExit runs placet and wants an exit code: exits CODE ARGUMENTS…
func wantExit(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec("placet", args[1:]...); err != nil {
		e, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = e.ExitCode()
	}
	if got != want {
		ts.Fatalf("placet %s ended with %d, not %d:\n%s%s", strings.Join(args[1:], " "), got, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// settles runs placet until it ends with an exit code: settles CODE ARGUMENTS…
func settles(ts *testscript.TestScript, _ bool, args []string) {
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err := ts.Exec("placet", args[1:]...)
		got, e := 0, (*exec.ExitError)(nil)
		if errors.As(err, &e) {
			got = e.ExitCode()
		} else if err != nil {
			ts.Fatalf("%v", err)
		}
		if strconv.Itoa(got) == args[0] {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("placet %s still ends with %d, not %s", strings.Join(args[1:], " "), got, args[0])
		}
	}
}

// lines wants a file of so many lines; one that does not exist has none.
func lines(ts *testscript.TestScript, _ bool, args []string) {
	text, err := os.ReadFile(ts.MkAbs(args[0]))
	if err != nil && !os.IsNotExist(err) {
		ts.Check(err)
	}
	if got := strings.Count(string(text), "\n"); strconv.Itoa(got) != args[1] {
		ts.Fatalf("%s has %d lines, not %s:\n%s", args[0], got, args[1], text)
	}
}

// hostile writes a file whose text acts on a terminal: hostile FILE
func hostile(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte("Reads a \x1b[31mticket\u202e.\n"), 0o644))
}

// certificate writes a certificate for this machine and its key: certificate CERT KEY
func certificate(ts *testscript.TestScript, _ bool, args []string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	ts.Check(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	for i, block := range []*pem.Block{{Type: "CERTIFICATE", Bytes: der}, {Type: "PRIVATE KEY", Bytes: private}} {
		ts.Check(os.WriteFile(ts.MkAbs(args[i]), pem.EncodeToMemory(block), 0o600))
	}
}
