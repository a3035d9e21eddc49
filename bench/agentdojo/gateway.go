package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/placet-dev/placet"
	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	toolmcp "github.com/placet-dev/placet/tool/mcp"
)

const configText = `version: 1
environment: production
listen: %q
store: "sqlite:state.db"
registry: [tools.yaml]
policy: {timeout: 5s, layers: []}
workloads: {orchestrator: {key: file:orchestrator.hash, permissions: [vouch]}}
runs: {calls_per_run: 100000, calls_per_turn: 100000, proposals_open: 100000, proposals_open_turn: 100000, proposals_open_principal: 100000}
approvals: {wait: 1ms, default: {approvers: ["group:leads"]}}
telemetry: {log: error}
`

const tenant = "acme"

// gateway is Placet before the tool server, as placet serve runs it.
type gateway struct {
	tools  *toolServer
	placet *placet.Placet
	issuer *identity.Local
	http   *http.Server
	url    string
	client *http.Client

	audience string
	key      string // of the orchestrator that vouches
	scopes   []string
	people   int
}

// open writes a configuration into dir and starts everything on it.
func open(ctx context.Context, dir, registryFile string, optIns []string, tools *toolServer) (_ *gateway, err error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &gateway{tools: tools, url: "http://" + l.Addr().String(), client: &http.Client{Timeout: time.Minute}}
	if g.key, err = identity.NewKey(rand.Reader); err != nil {
		return nil, err
	}
	text, err := pointed(registryFile, tools.url(), optIns)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "tools.yaml")
	for name, body := range map[string]string{"placet.yaml": fmt.Sprintf(configText, l.Addr()), "tools.yaml": text, "orchestrator.hash": identity.HashKey(g.key)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			return nil, err
		}
	}
	if g.scopes, err = pin(ctx, file); err != nil {
		return nil, err
	}
	c, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		return nil, err
	}
	g.audience = c.Audience()
	if g.issuer, err = identity.NewLocal(placet.LocalIssuer, rand.Reader, time.Now); err != nil {
		return nil, err
	}
	if g.placet, err = placet.Open(ctx, placet.Options{Config: c, Local: g.issuer, Tenants: []string{tenant}, Version: "bench"}); err != nil {
		return nil, err
	}
	g.http = &http.Server{Handler: g.placet.Handler()}
	go func() { _ = g.http.Serve(l) }()
	return g, nil
}

func (g *gateway) close() error { return errors.Join(g.http.Close(), g.placet.Close()) }

// pointed is the registry with every server at one address, and with opt-ins on
// every tool that has targets. Nothing else of it is touched.
func pointed(file, url string, optIns []string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var doc yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(text, &doc, yaml.UseOrderedMap()); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	for i, section := range doc {
		if tools, ok := section.Value.(yaml.MapSlice); ok && section.Key == "tools" {
			for j := range tools {
				if entry, ok := tools[j].Value.(yaml.MapSlice); ok {
					tools[j].Value = opted(entry, optIns)
				}
			}
		}
		if section.Key != "servers" {
			continue
		}
		servers, ok := section.Value.(yaml.MapSlice)
		if !ok {
			return "", fmt.Errorf("%s: servers is no mapping", file)
		}
		for j := range servers {
			servers[j].Value = yaml.MapSlice{{Key: "url", Value: url}, {Key: "stateless", Value: true}}
		}
		doc[i].Value = servers
	}
	out, err := yaml.MarshalWithOptions(doc, yaml.UseSingleQuote(false))
	return string(out), err
}

// opted is an entry with the opt-ins: given, or directory=TOOL for every target.
func opted(entry yaml.MapSlice, optIns []string) yaml.MapSlice {
	var targets []string
	for _, m := range entry {
		if t, ok := m.Value.(yaml.MapSlice); ok && m.Key == "targets" {
			for _, target := range t {
				targets = append(targets, fmt.Sprint(target.Key))
			}
		}
	}
	if len(targets) == 0 {
		return entry
	}
	for _, o := range optIns {
		name, tool, _ := strings.Cut(o, "=")
		switch name {
		case "given":
			entry = append(entry, yaml.MapItem{Key: "given", Value: "any"})
		case "directory":
			directory := yaml.MapSlice{}
			for _, t := range targets {
				if !strings.Contains(t, ".") {
					directory = append(directory, yaml.MapItem{Key: t, Value: yaml.MapSlice{{Key: "lookup", Value: strings.Split(tool, "+")}}})
				}
			}
			entry = append(entry, yaml.MapItem{Key: "directory", Value: directory})
		}
	}
	return entry
}

// pin locks what the server offers, and returns the scopes that the entries ask for.
func pin(ctx context.Context, file string) ([]string, error) {
	snapshot, err := registry.Load([]string{file}, registry.Options{Environment: "production",
		Group: func(ref string) (g record.Group, err error) { g.Name = ref; return g, nil }})
	if err != nil {
		return nil, err
	}
	servers := toolmcp.New(toolmcp.Options{Version: "bench"})
	defer servers.Close()
	lock := registry.NewLock()
	var scopes []string
	offers := map[string]registry.Offer{}
	for server := range snapshot.Servers() {
		list, err := servers.ListOffers(ctx, server)
		if err != nil {
			return nil, err
		}
		for _, o := range list {
			offers[o.Name] = o
		}
	}
	for _, q := range snapshot.Quarantined() {
		o, ok := offers[q.Tool.Upstream]
		if !ok {
			return nil, fmt.Errorf("%s names %s, which the suite does not have", file, q.Tool.Upstream)
		}
		p, err := registry.PinOf(o)
		if err != nil {
			return nil, err
		}
		lock.Tools[q.Tool.Name] = registry.LockedTool{Server: q.Tool.Server, Pin: p}
		if s := q.Tool.Scope; s != "" && !slices.Contains(scopes, s) {
			scopes = append(scopes, s)
		}
	}
	text, err := lock.Write()
	if err != nil {
		return nil, err
	}
	return scopes, os.WriteFile(registry.LockPath(file), text, 0o600)
}

// session is one user's conversation: a run of its own, vouched for by the
// orchestrator.
type session struct {
	g      *gateway
	bearer string
	run    string
	turn   int
	prompt string // what the user typed in this turn; "" where it is not vouched for
	calls  int
}

func (g *gateway) begin(ctx context.Context, prompt string) (*session, error) {
	g.people++
	bearer, err := g.issuer.Sign(identity.TokenSpec{Audience: g.audience, Subject: fmt.Sprintf("user-%06d", g.people), Tenant: tenant,
		Agent: "agentdojo", Scopes: g.scopes, TTL: time.Hour})
	if err != nil {
		return nil, err
	}
	s := &session{g: g, bearer: bearer, turn: 1, prompt: prompt}
	var run struct {
		ID string `json:"id"`
	}
	if err := s.post(ctx, "/v1/runs", s.typed(), &run); err != nil {
		return nil, err
	}
	s.run = run.ID
	return s, nil
}

// freshTurn starts the next turn, in which the user asks for the same again.
func (s *session) freshTurn(ctx context.Context) error {
	s.turn++
	return s.post(ctx, "/v1/runs/"+s.run+"/turns", s.typed(), nil)
}

// typed is what the orchestrator states of the user's words when a turn begins. It
// states the same again with every call, which changes nothing.
func (s *session) typed() map[string]any {
	if s.prompt == "" {
		return map[string]any{}
	}
	return map[string]any{"user_input": s.prompt}
}

func (s *session) post(ctx context.Context, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	status, answer, err := s.send(ctx, path, text, nil)
	if err != nil {
		return err
	}
	if status/100 != 2 {
		return fmt.Errorf("POST %s: HTTP %d: %.300s", path, status, answer)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

func (s *session) send(ctx context.Context, path string, body []byte, header http.Header) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.g.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Authorization": {"Bearer " + s.bearer}, "Placet-Workload": {s.g.key}}
	for name, values := range header {
		r.Header[name] = values
	}
	resp, err := s.g.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, text, err
}

// verdict is how a call ended.
type verdict struct {
	ran     bool   // by the tool server's own log
	held    bool   // a person is asked
	denied  bool   //
	code    string // why
	message string
}

// play makes one call over MCP, as the orchestrator's model would, and looks into
// the tool server's log.
func (s *session) play(ctx context.Context, c call, result string) (verdict, error) {
	s.calls++
	vouch := map[string]any{"turn": s.turn, "response": fmt.Sprintf("resp-%d", s.calls), "position": 0}
	if s.prompt != "" {
		vouch["user_input"] = s.prompt
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": s.calls, "method": "tools/call", "params": map[string]any{
		"_meta": map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": map[string]any{},
			"io.modelcontextprotocol/clientInfo": map[string]any{"name": "agentdojo", "version": "1"},
			"dev.placet/run":                     s.run, "dev.placet/vouch": vouch},
		"name": c.Tool, "arguments": c.Arguments}})
	if err != nil {
		return verdict{}, err
	}
	before := s.g.tools.answer(result)
	status, text, err := s.send(ctx, "/mcp", body, http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {c.Tool}})
	if err != nil {
		return verdict{}, err
	}
	var answer struct {
		Result struct {
			Content []struct{ Text string } `json:"content"`
			Meta    struct {
				Decision struct{ Verdict, State, Code string } `json:"dev.placet/decision"`
			} `json:"_meta"`
		} `json:"result"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return verdict{}, fmt.Errorf("%s: HTTP %d: %.300s", c.Tool, status, text)
	}
	v := verdict{code: answer.Result.Meta.Decision.Code}
	if len(answer.Result.Content) > 0 {
		v.message = answer.Result.Content[0].Text
	}
	if answer.Error != nil {
		v.message, v.denied = string(answer.Error), true
	}
	v.held = answer.Result.Meta.Decision.Verdict == "requires-approval"
	v.denied = v.denied || answer.Result.Meta.Decision.Verdict == "deny"
	v.ran = len(s.g.tools.since(before)) > 0
	if !v.ran && !v.held && !v.denied {
		return v, fmt.Errorf("%s neither ran nor was stopped: HTTP %d: %.400s", c.Tool, status, text)
	}
	return v, nil
}
