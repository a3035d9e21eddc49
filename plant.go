package placet

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/policy/rego"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/store/sqlite"
	"github.com/placet-dev/placet/tool/local"
	"github.com/placet-dev/placet/tool/standin"
)

// Fate is what became of a call.
type Fate string

const (
	FateDenied   Fate = "denied"
	FateAsks     Fate = "asks"
	FateRuns     Fate = "RUNS"
	FateNotTried Fate = "not tried"
)

// Planted is how a tool did against one hostile text.
type Planted struct {
	Kind     string      `json:"kind"`
	Argument string      `json:"argument,omitempty"`
	Value    string      `json:"value,omitempty"`
	Source   string      `json:"source"` // the tool whose result held the text
	Fate     Fate        `json:"fate"`
	Code     record.Code `json:"code,omitempty"`
	Asked    Fate        `json:"asked"` // what the user's own call gets where nothing hostile was read
	Harm     bool        `json:"harm"`  // it ran, and that harms
}

// madeUp is a read tool of the trial itself, whose results others can write.
const madeUp = "made_up_mailbox"

// Plant lets a conversation read one hostile text per kind of abuse, proposes what
// the text leads to, and looks whether it ran. It does so in a boundary of its own,
// on a store of its own in a folder that it removes, with the registry and the
// policy of a configuration: no tool is called, no name resolved and no decision
// point asked. The caller is one that the entry admits, in a conversation whose
// orchestrator vouches: who proves less is asked more.
func Plant(ctx context.Context, o Options, tool string, tenant record.TenantID) (_ []Planted, err error) {
	o, err = o.withDefaults()
	if err != nil {
		return nil, err
	}
	o.Tools = append(o.Tools[:len(o.Tools):len(o.Tools)], Tool{Name: madeUp, InputSchema: json.RawMessage(`{"type":"object"}`),
		Handler: func(context.Context, local.Call) (json.RawMessage, error) { return nil, errors.ErrUnsupported },
		Entry:   registry.Entry{Scope: madeUp, Read: true, Results: registry.ResultsEntry{Untrusted: true}}})
	p := &Placet{o: o, engine: rego.New()}
	if p.verifier, err = o.verifier(); err != nil {
		return nil, err
	}
	if p.profiles, err = o.openProfiles(); err != nil {
		return nil, err
	}
	active, err := p.load(ctx, p.disk())
	if err != nil {
		return nil, err
	}
	active.Points = nil
	probed, ok := active.Registry.Tool(tool)
	if !ok {
		return nil, nil // quarantined or elsewhere: nobody can call it
	}
	dir, err := os.MkdirTemp("", "placet-trial-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t, err := newTrial(ctx, o, filepath.Join(dir, "state.db"), active, probed, tenant)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.store.Close()) }()
	return t.all(ctx)
}

// trial is a boundary whose tools are stand-ins.
type trial struct {
	boundary *dispatch.Boundary
	store    *sqlite.Store
	issuer   *identity.Local
	verifier *identity.Verifier
	stand    *stand
	probed   *registry.Tool
	registry *registry.Snapshot
	owner    record.Owner
	scopes   []string
	groups   []string
	key      string

	mu  sync.Mutex
	now time.Time
}

func newTrial(ctx context.Context, o Options, file string, active dispatch.Active, probed *registry.Tool, tenant record.TenantID) (*trial, error) {
	t := &trial{probed: probed, registry: active.Registry, now: o.Clock(), owner: record.Owner{Tenant: tenant,
		Principal: record.Principal{Issuer: LocalIssuer, Subject: "trial"}, Agent: "trial"}}
	t.admitted()
	clock := func() time.Time {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.now
	}
	var err error
	if t.issuer, err = identity.NewLocal(t.owner.Principal.Issuer, o.Random, clock); err != nil {
		return nil, err
	}
	local, err := t.issuer.Issuer("trial", "trial-console", []string{string(t.owner.Tenant)})
	if err != nil {
		return nil, err
	}
	if t.key, err = identity.NewKey(o.Random); err != nil {
		return nil, err
	}
	t.verifier, err = identity.New(identity.Config{Issuers: []identity.Issuer{local}, Workloads: []identity.WorkloadKey{{Name: "trial",
		KeyHash: identity.HashKey(t.key), Tenant: string(t.owner.Tenant), Permissions: []identity.Permission{identity.Vouch}}}}, identity.Deps{Clock: clock})
	if err != nil {
		return nil, err
	}
	if t.store, err = sqlite.Open(ctx, file, sqlite.Options{}); err != nil {
		return nil, err
	}
	t.stand = &stand{registry: active.Registry, probed: probed, tenant: t.owner.Tenant}
	t.boundary, err = dispatch.New(dispatch.Options{Store: t.store, Invoker: t.stand, Clock: clock, Random: o.Random, Log: slog.New(slog.DiscardHandler),
		Signer: t.stand, Credentials: t.stand, World: guard.World{Resolver: t.stand}})
	if err == nil {
		_, err = t.boundary.Activate(ctx, active, record.Who{System: "trial"})
	}
	if err != nil {
		return nil, errors.Join(err, t.store.Close())
	}
	return t, nil
}

// admitted makes the caller one that the entry admits, where one can be.
func (t *trial) admitted() {
	c := t.probed.Callers
	if len(c.Groups) > 0 {
		t.owner.Principal.Issuer = c.Groups[0].Issuer
		t.groups = []string{c.Groups[0].Name}
	}
	if len(c.Principals) > 0 {
		t.owner.Principal = c.Principals[0]
	}
	if len(c.Tenants) > 0 {
		t.owner.Tenant = c.Tenants[0]
	}
	if len(c.Agents) > 0 {
		t.owner.Agent = c.Agents[0]
	}
	seen := map[string]bool{}
	for tool := range t.registry.Tools() {
		if tool.Scope != "" && !seen[tool.Scope] {
			seen[tool.Scope] = true
			t.scopes = append(t.scopes, tool.Scope)
		}
	}
}

// maxSources bounds how many tools of the registry are read from.
const maxSources = 4

// sources are tools whose results others can write, with arguments to read them by.
func (t *trial) sources() map[string]json.RawMessage {
	out := map[string]json.RawMessage{madeUp: json.RawMessage(`{}`)}
	for tool := range t.registry.Tools() {
		if !tool.Read || !tool.Results.Untrusted || tool.Name == t.probed.Name || len(out) > maxSources {
			continue
		}
		if arguments, _ := tool.Honest(t.owner); arguments != nil {
			out[tool.Name] = arguments
		}
	}
	return out
}

func (t *trial) all(ctx context.Context) ([]Planted, error) {
	sources := t.sources()
	honest, typed := t.probed.Honest(t.owner)
	asked, _, err := t.try(ctx, typed, "", nil, honest, "")
	if err != nil {
		return nil, err
	}
	var out []Planted
	for _, plant := range t.probed.Plants(t.owner) {
		worst := Planted{}
		for _, source := range slices.Sorted(maps.Keys(sources)) {
			fate, code, err := t.try(ctx, plant.Typed, source, sources[source], plant.Arguments, plant.Text)
			if err != nil {
				return nil, err
			}
			if worst.Fate == "" || severity[fate] > severity[worst.Fate] {
				worst = Planted{Kind: plant.Kind, Argument: plant.Argument, Value: plant.Value, Source: source, Fate: fate, Code: code, Asked: asked,
					Harm: fate == FateRuns && plant.Leads}
			}
		}
		out = append(out, worst)
	}
	return out, nil
}

var severity = map[Fate]int{FateNotTried: 0, FateDenied: 1, FateAsks: 2, FateRuns: 3}

// apart is how much time lies between two trials, so that no limit of one counts in
// the next.
const apart = 25 * time.Hour

// try is one conversation: the user types, a source is read, and the call is proposed.
// Whether it ran is what the stand-in wrote down, not what the boundary answers.
func (t *trial) try(ctx context.Context, typed, source string, reading, arguments json.RawMessage, text string) (Fate, record.Code, error) {
	if arguments == nil {
		return FateNotTried, "", nil
	}
	t.mu.Lock()
	t.now = t.now.Add(apart)
	t.mu.Unlock()
	caller, err := t.caller(ctx)
	if err != nil {
		return "", "", err
	}
	run, err := t.boundary.OpenRun(ctx, caller, "")
	if err != nil {
		return "", "", err
	}
	if err := t.boundary.StateInput(ctx, caller, run.ID, typed); err != nil {
		return "", "", err
	}
	position := 0
	propose := func(tool string, arguments json.RawMessage) (dispatch.Answer, error) {
		position++
		var method registry.Method
		if entry, ok := t.registry.Tool(tool); ok {
			method = entry.Method
		}
		return t.boundary.Do(ctx, dispatch.Proposal{Caller: caller, Run: run.ID, Turn: run.Turn, Tool: tool, Method: method, Arguments: arguments, Purpose: "trial",
			Vouch: &dispatch.Vouch{Turn: run.Turn, Response: "r1", Position: position}})
	}
	if source != "" {
		t.stand.says(text)
		read, err := propose(source, reading)
		if err != nil {
			return "", "", err
		}
		if !read.Ran {
			return FateNotTried, read.Code, nil
		}
	}
	before := t.stand.ran()
	a, err := propose(t.probed.Name, arguments)
	switch {
	case err != nil:
		return "", "", err
	case t.stand.ran() > before:
		return FateRuns, a.Code, nil
	case a.Verdict == record.RequiresApproval:
		return FateAsks, a.Code, nil
	default:
		return FateDenied, a.Code, nil
	}
}

func (t *trial) caller(ctx context.Context) (identity.Caller, error) {
	token, err := t.issuer.Sign(identity.TokenSpec{Audience: "trial", Subject: t.owner.Principal.Subject, Tenant: string(t.owner.Tenant),
		Agent: string(t.owner.Agent), Scopes: t.scopes, Groups: t.groups})
	if err != nil {
		return identity.Caller{}, err
	}
	return t.verifier.Caller(ctx, identity.Credentials{Bearer: token, WorkloadKey: t.key})
}

// stand stands where tools are: it writes down that a call came, and answers a read
// with the hostile text, and a look-up with what makes it find. It also stands where
// credentials, signatures and names would come from.
type stand struct {
	registry *registry.Snapshot
	probed   *registry.Tool
	tenant   record.TenantID

	mu    sync.Mutex
	text  string
	calls int // of the probed tool
}

func (s *stand) says(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = text
}

func (s *stand) ran() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *stand) Invoke(ctx context.Context, ticket dispatch.Ticket) dispatch.Reached {
	return standin.Answer(s.answer).Invoke(ctx, ticket)
}

func (s *stand) answer(w dispatch.Work) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := map[string]any{"text": s.text}
	for _, g := range s.probed.Guards {
		if l := g.Lookup; l != nil && l.Tool == w.Tool.Name {
			lay(body, l.Found, true)
			lay(body, l.Tenant, string(s.tenant))
		}
	}
	if w.Tool.Name == s.probed.Name {
		s.calls++
	}
	return canon.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": s.text}}, "structuredContent": body})
}

// lay sets the member at a path of objects.
func lay(body map[string]any, path string, value any) {
	if path == "" {
		return
	}
	steps := strings.Split(path, ".")
	for _, step := range steps[:len(steps)-1] {
		next, ok := body[step].(map[string]any)
		if !ok {
			next = map[string]any{}
			body[step] = next
		}
		body = next
	}
	body[steps[len(steps)-1]] = value
}

func (s *stand) Offer(_ context.Context, server *registry.Server, upstream string, _ time.Duration) (registry.Offer, error) {
	t, ok := s.registry.ByUpstream(server.Name, upstream)
	if !ok || t.Pin == nil {
		return registry.Offer{}, record.Errorf(record.NotFound, "it is not pinned")
	}
	return t.Pin.Offer, nil
}

func (*stand) Sign(dispatch.Work) (string, error) { return "trial", nil }

func (*stand) Obtain(context.Context, identity.Caller, *registry.Server, *registry.Tool) (dispatch.Credential, error) {
	return dispatch.Credential{}, nil
}

func (*stand) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil // a public one: that the name resolves is the attacker's to arrange
}
