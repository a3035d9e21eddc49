package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/placet-dev/placet"
	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

const exchangeCallers = 8

const exchangeConfig = `version: 1
environment: production
listen: 127.0.0.1:1
store: "sqlite:state.db"
registry: [tools.yaml]
issuers: [{issuer: %q, algorithms: [EdDSA], tenant: acme, keys: keys.json}]
credentials: {kept: {type: token_exchange, issuer: %q, client_id: placet, client_secret: "env:SECRET", audience: [up]}}
runs: {calls_per_run: 1000000000, proposals_open: 1000000, proposals_open_turn: 1000000, proposals_open_principal: 1000000}
telemetry: {log: error}
`

const exchangeTools = registryHead + `servers: {plain: {url: %q, stateless: true}, kept: {url: %q, stateless: true, credential: kept}}
tools:
  plain.query: {server: plain, tool: db.query, scope: "orders:read", read: true}
  kept.query: {server: kept, tool: db.query, scope: "orders:read", read: true}
`

// exchanged compares whole calls to one server, with a credential exchanged for each
// caller and kept, and without any.
func (b *bench) exchanged(ctx context.Context) (err error) {
	l, err := listen()
	if err != nil {
		return err
	}
	upstream, err := b.start(roleUpstream, "", l)
	defer func() { err = errors.Join(err, upstream.stop()) }()
	if err != nil {
		return err
	}
	issuer, err := newTokenIssuer()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, issuer.server.Close()) }()
	dir, err := b.exchangeFiles(ctx, issuer, "http://"+upstream.address+"/mcp")
	if err != nil {
		return err
	}
	c, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		return err
	}
	p, err := placet.Open(ctx, placet.Options{Config: c, Version: "bench", LookupEnv: func(string) (string, bool) { return "secret", true }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	who := make([]identity.Caller, exchangeCallers)
	for i := range who {
		if who[i], err = issuer.caller(ctx, p, c.Audience(), i); err != nil {
			return err
		}
	}
	sideOf := func(tool string) *side {
		return &side{name: tool, call: func(ctx context.Context, caller int) error {
			a, err := p.Do(ctx, dispatch.Proposal{Caller: who[caller], Tool: tool, Arguments: json.RawMessage(`{"table":"orders","customer":"c-1001"}`)})
			if err == nil && a.State() != record.Succeeded {
				err = fmt.Errorf("the call is %s: %s %v", a.State(), a.Code, a.Decision.Reasons)
			}
			return err
		}}
	}
	plain, kept := sideOf("plain.query"), sideOf("kept.query")
	rounds, each := b.rounds()
	if err := race(ctx, exchangeCallers, rounds, each, plain, kept); err != nil {
		return err
	}
	b.ratio("exchanged_vs_plain", over(plain, kept), target{most: 1.1})
	b.say("  calls/s at %d callers, median of %d rounds: with a kept token %.0f (%s), without %.0f (%s) (reported, not asserted)",
		exchangeCallers, rounds, median(kept.rate), kept.spread(), median(plain.rate), plain.spread())
	// One exchange for each caller, and one token of our own for the list of tools.
	if n := issuer.issued.Load(); n != exchangeCallers+1 {
		return fmt.Errorf("the issuer was asked for %d tokens, for %d callers and one listing", n, exchangeCallers)
	}
	ran, err := count(ctx, upstream.address)
	if err == nil && ran != plain.made+kept.made {
		err = fmt.Errorf("%d calls were answered and the tool ran %d times", plain.made+kept.made, ran)
	}
	return err
}

func (b *bench) exchangeFiles(ctx context.Context, i *tokenIssuer, upstream string) (string, error) {
	dir := filepath.Join(b.dir, "exchanged")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: "k", Algorithm: "EdDSA", Use: "sig"}}})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "tools.yaml")
	for name, text := range map[string]string{
		"placet.yaml": fmt.Sprintf(exchangeConfig, i.url, i.url), "keys.json": string(keys), "tools.yaml": fmt.Sprintf(registryServer, upstream),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	if err := pin(ctx, file); err != nil {
		return "", err
	}
	// The two entries are one tool of one server: its pin is both's.
	text, err := os.ReadFile(registry.LockPath(file))
	if err != nil {
		return "", err
	}
	lock, problems := registry.ReadLock("tools.lock", text)
	if len(problems) > 0 {
		return "", problems
	}
	both := registry.NewLock()
	for _, name := range []string{"plain", "kept"} {
		both.Tools[name+".query"] = registry.LockedTool{Server: name, Pin: lock.Tools[toolName].Pin}
	}
	if text, err = both.Write(); err != nil {
		return "", err
	}
	return dir, errors.Join(os.WriteFile(registry.LockPath(file), text, 0o600), os.WriteFile(file, fmt.Appendf(nil, exchangeTools, upstream, upstream), 0o600))
}

// tokenIssuer signs callers' tokens and answers exchanges at once.
type tokenIssuer struct {
	url    string
	key    ed25519.PrivateKey
	server *http.Server
	issued atomic.Int64
}

func newTokenIssuer() (*tokenIssuer, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	l, err := listen()
	if err != nil {
		return nil, err
	}
	i := &tokenIssuer{url: "http://" + l.Addr().String(), key: key}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"token_endpoint":%q}`, i.url, i.url+"/token")
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"access_token":"%s.%d","token_type":"Bearer","expires_in":3600,"issued_token_type":"urn:ietf:params:oauth:token-type:access_token"}`,
			rand.Text(), i.issued.Add(1))
	})
	i.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = i.server.Serve(l) }() // ends with Close
	return i, nil
}

func (i *tokenIssuer) caller(ctx context.Context, p *placet.Placet, audience string, n int) (identity.Caller, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: i.key, KeyID: "k"}}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		return identity.Caller{}, err
	}
	now := time.Now()
	text, err := json.Marshal(map[string]any{"iss": i.url, "sub": fmt.Sprintf("user-%03d", n), "aud": audience, "client_id": "bench", "scope": scope,
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "sid": fmt.Sprint(n)})
	if err != nil {
		return identity.Caller{}, err
	}
	signed, err := signer.Sign(text)
	if err != nil {
		return identity.Caller{}, err
	}
	bearer, err := signed.CompactSerialize()
	if err != nil {
		return identity.Caller{}, err
	}
	return p.Verifier().Caller(ctx, identity.Credentials{Bearer: bearer})
}
