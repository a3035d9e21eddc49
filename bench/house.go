package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/placet-dev/placet"
	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/local"
	toolmcp "github.com/placet-dev/placet/tool/mcp"
)

const (
	tenant   = "acme"
	toolName = "db.query" // one that brief 3's policy allows
	scope    = "orders:read"
)

// Limits are on and counted, as they are by default, but too wide to be met.
const configText = `version: 1
environment: production
listen: %q
store: "sqlite:state.db"
registry: [tools.yaml]
policy:
  timeout: 5s
  layers:
    - {name: brief, files: %q}
runs: {calls_per_run: 1000000000, proposals_open: 1000000, proposals_open_turn: 1000000, proposals_open_principal: 1000000}
approvals: {wait: 1ms, default: {approvers: ["group:leads"]}}
telemetry: {log: error}
`

const registryHead = `version: 1
defaults: {per_minute: 1000000000, concurrent: 1000000, timeout: 20s}
`

const registryServer = registryHead + `servers: {up: {url: %q, stateless: true}}
tools:
  db.query: {server: up, scope: "orders:read", read: true}
  stripe.refund: {server: up, scope: "orders:read", write: true, financial: true, sources: [direct], approval: {when: always, approvers: ["group:leads"]}}
`

const inputSchema = `{"type":"object","properties":{"table":{"type":"string"},"customer":{"type":"string"},"amount":{"type":"number"}},"required":["table","customer"],"additionalProperties":false}`

// configure writes a configuration into a new folder. Without an upstream the
// registry has no server, and tools are the program's own.
func (b *bench) configure(ctx context.Context, name, listen, upstream string) (string, error) {
	dir := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Join(dir, ".placet"), 0o700); err != nil {
		return "", err
	}
	tools := registryHead + "servers: {}\ntools: {}\n"
	if upstream != "" {
		tools = fmt.Sprintf(registryServer, upstream)
	}
	policy := filepath.Join(b.root, "policy", "rego", "testdata", "brief.rego")
	for name, text := range map[string]string{"placet.yaml": fmt.Sprintf(configText, listen, policy), "tools.yaml": tools} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	issuer, err := identity.NewLocal(placet.LocalIssuer, rand.Reader, time.Now)
	if err != nil {
		return "", err
	}
	if err := issuer.Save(issuerFile(dir)); err != nil {
		return "", err
	}
	if upstream == "" {
		return dir, nil
	}
	return dir, pin(ctx, filepath.Join(dir, "tools.yaml"))
}

func loadIssuer(dir string) (*identity.Local, error) {
	return identity.LoadLocal(issuerFile(dir), rand.Reader, time.Now)
}

func issuerFile(dir string) string { return filepath.Join(dir, ".placet", "dev-issuer.json") }

// pin locks what the server offers.
func pin(ctx context.Context, file string) error {
	snapshot, err := registry.Load([]string{file}, registry.Options{Environment: "production"})
	if err != nil {
		return err
	}
	servers := toolmcp.New(toolmcp.Options{Version: "bench"})
	defer servers.Close()
	lock := registry.NewLock()
	for server := range snapshot.Servers() {
		offers, err := servers.ListOffers(ctx, server)
		if err != nil {
			return err
		}
		for _, offer := range offers {
			pin, err := registry.PinOf(offer)
			if err != nil {
				return err
			}
			lock.Tools[offer.Name] = registry.LockedTool{Server: server.Name, Pin: pin}
		}
	}
	text, err := lock.Write()
	if err != nil {
		return err
	}
	return os.WriteFile(registry.LockPath(file), text, fs.FileMode(0o600))
}

// open opens Placet in this process as an embedding program does.
func open(ctx context.Context, dir string, handler local.Handler) (*placet.Placet, *identity.Local, error) {
	c, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		return nil, nil, err
	}
	issuer, err := loadIssuer(dir)
	if err != nil {
		return nil, nil, err
	}
	o := placet.Options{Config: c, Local: issuer, Tenants: []string{tenant}, Version: "bench"}
	if handler != nil {
		o.Tools = []placet.Tool{{Name: toolName, Description: "Lists orders.", InputSchema: json.RawMessage(inputSchema), Handler: handler,
			Entry: registry.Entry{Scope: scope, Read: true, PerMinute: limit(1e9), Concurrent: limit(1e6)}}}
	}
	p, err := placet.Open(ctx, o)
	return p, issuer, err
}

func limit(n int) *int { return &n }

// token is a caller's: each has a principal of its own.
func token(issuer *identity.Local, audience string, caller int) (string, error) {
	return issuer.Sign(identity.TokenSpec{Audience: audience, Subject: fmt.Sprintf("user-%03d", caller), Tenant: tenant,
		Agent: "bench", Scopes: []string{scope}})
}

// callers are verified identities.
func callers(ctx context.Context, p *placet.Placet, issuer *identity.Local, dir string, n int) ([]identity.Caller, error) {
	c, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		return nil, err
	}
	out := make([]identity.Caller, n)
	for i := range out {
		bearer, err := token(issuer, c.Audience(), i)
		if err != nil {
			return nil, err
		}
		if out[i], err = p.Verifier().Caller(ctx, identity.Credentials{Bearer: bearer}); err != nil {
			return nil, err
		}
	}
	return out, nil
}
