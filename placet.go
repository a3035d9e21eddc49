// Package placet wires the parts into a dispatch boundary: for cmd/placet, and
// for programs that embed it.
//
// [Open] reads what a configuration names, opens the store and activates the
// registry and policy. The result answers over HTTP ([Placet.Handler]) and as a Go
// API ([Placet.Do]), both through the one dispatch.Boundary. A [Tool] is a Go
// function that becomes a tool like any other: listed, decided, recorded.
//
// It may import everything but cmd. Nothing imports it but cmd, bench and
// embedding programs.
package placet

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/placet-dev/placet/alert"
	"github.com/placet-dev/placet/audit"
	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/credential"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/edge/front"
	edgemcp "github.com/placet-dev/placet/edge/mcp"
	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/ingress"
	"github.com/placet-dev/placet/issuer"
	"github.com/placet-dev/placet/metrics"
	"github.com/placet-dev/placet/notify"
	"github.com/placet-dev/placet/passkey"
	"github.com/placet-dev/placet/policy/rego"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/lease"
	toolmcp "github.com/placet-dev/placet/tool/mcp"
)

// Options is what a Placet is opened with. Only Config is required.
type Options struct {
	Config  *config.Config
	Tools   []Tool          // tools of the embedding program
	Local   *identity.Local // the development issuer; refused beside configured issuers
	Tenants []string        // those the development issuer may name; default "dev"
	Users   issuer.Users    // who may sign in at the development issuer, which is then served; nil: it is not

	Log       *slog.Logger                      // nil: no log
	Clock     func() time.Time                  // nil: time.Now
	Random    io.Reader                         // nil: crypto/rand
	HTTP      *http.Client                      // for key sets; nil: a plain one
	LookupEnv func(name string) (string, bool)  // nil: os.LookupEnv
	ReadFile  func(path string) ([]byte, error) // nil: os.ReadFile
	Resolver  guard.Resolver                    // of names in arguments; nil: net.DefaultResolver
	Version   string                            // of this program, as peers are told

	testOnlyStore func(dispatch.Store) dispatch.Store // stands before the store of the boundary
}

func (o Options) withDefaults() (Options, error) {
	if o.Config == nil {
		return o, record.Errorf(record.Invalid, "a configuration is required")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.HTTP == nil {
		o.HTTP = &http.Client{Timeout: 10 * time.Second}
	}
	if o.LookupEnv == nil {
		o.LookupEnv = os.LookupEnv
	}
	if o.ReadFile == nil {
		o.ReadFile = os.ReadFile
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if len(o.Tenants) == 0 {
		o.Tenants = []string{"dev"}
	}
	if o.Version == "" {
		o.Version = "devel"
	}
	return o, nil
}

// Placet is an open boundary with its doors.
type Placet struct {
	o        Options
	store    records
	verifier *identity.Verifier
	boundary *dispatch.Boundary
	servers  *Servers
	engine   *rego.Engine
	signer   *credential.Signer
	secret   secret         // empty: this server shares its keys with none
	passkeys *passkey.Keys  // nil where nobody can use one
	issuer   *issuer.Issuer // nil without users of its own
	profiles *credential.Profiles
	sources  *credential.Delegations // nil: no issuer is a live source
	mcp      *edgemcp.Handler
	handler  http.Handler
	ignored  *front.Ignored
	ingress  *ingress.Limit
	notices  *notify.Desk
	alerts   *alert.Watch
	metrics  *metrics.Metrics
	traces   *traces // nil: nobody is told
	sealer   *audit.Sealer
	logKey   string // verifies its checkpoints

	beside    bool        // it loads versions only to compare them
	leaving   atomic.Bool // it is about to stop
	reloading sync.Mutex
	tried     attempt
	files     atomic.Pointer[activeFiles]
	stop      context.CancelFunc
	work      sync.WaitGroup
	closing   sync.Once
	closed    error
}

// Open wires what the configuration names and activates it. The result must be
// closed. It fails, and leaves nothing behind, when any part is at fault.
func Open(ctx context.Context, o Options) (_ *Placet, err error) {
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	if o, err = o.withSignIn(ctx); err != nil {
		return nil, err
	}
	p := &Placet{o: o, engine: rego.New(), ignored: front.NewIgnored(o.Log)}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if p.traces, err = o.openTraces(ctx); err != nil {
		return nil, err
	}
	if p.issuer, err = o.openIssuer(p.neededScopes); err != nil {
		return nil, err
	}
	if p.verifier, err = o.verifier(); err != nil {
		return nil, err
	}
	if p.store, err = o.openStore(ctx); err != nil {
		return nil, err
	}
	// After the store is open: its lock keeps a second process from these keys.
	if p.secret, err = o.openSecret(); err != nil {
		return nil, err
	}
	if p.signer, err = o.openSigner(p.secret); err != nil {
		return nil, err
	}
	if p.passkeys, err = o.openPasskeys(p.secret); err != nil {
		return nil, err
	}
	if p.profiles, err = o.openProfiles(); err != nil {
		return nil, err
	}
	if p.sources, err = o.openDelegations(p.issuer, p.secret); err != nil {
		return nil, err
	}
	if err = p.agree(ctx); err != nil {
		return nil, err
	}
	if err = p.openSealer(ctx); err != nil {
		return nil, err
	}
	handlers, err := o.handlers()
	if err != nil {
		return nil, err
	}
	p.servers = openServers(toolmcp.Options{Log: o.Log, Now: o.Clock, LookupEnv: o.LookupEnv, Version: o.Version,
		Own: credentials{p.profiles}.own}, o.world(), p.held())
	p.servers.local = handlers
	var away dispatch.Delegations
	if p.sources != nil {
		away = delegations{p.sources, p.verifier}
	}
	var records dispatch.Store = p.store
	if o.testOnlyStore != nil {
		records = o.testOnlyStore(records)
	}
	peers, _ := p.store.(dispatch.Peers)
	p.boundary, err = dispatch.New(dispatch.Options{Store: records, Peers: peers, Invoker: p.servers, Clock: o.Clock,
		Random: o.Random, Log: o.Log, Limits: o.limits(), Tracer: p.traces.tracer(), Signer: signer{p.signer}, Credentials: credentials{p.profiles}, Delegations: away, Passkeys: p.sealed(),
		World: o.world(), Latest: p.latest(), Revoked: func(took time.Duration) {
			if p.metrics != nil { // not before the doors are there
				p.metrics.Revoked(took)
			}
		}})
	if err != nil {
		return nil, err
	}
	p.ingress = p.openIngress()
	if err = p.begin(ctx); err != nil {
		return nil, err
	}
	if err = p.openNotices(); err != nil {
		return nil, err
	}
	if err = p.openAlerts(); err != nil {
		return nil, err
	}
	p.metrics = metrics.New(metrics.Options{Records: p.store, Generation: p.boundary.Generation, Ignored: p.ignored.Counts, Clock: o.Clock, Log: o.Log,
		Unsealed: p.sealer.Unsealed, Unpublished: p.sealer.Unpublished,
		Quarantined: p.quarantined})
	if err = p.metrics.Begin(ctx); err != nil {
		return nil, err
	}
	if err = p.doors(); err != nil {
		return nil, err
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	p.work.Go(func() { p.boundary.Work(work) })
	p.follow(work)
	p.followVersions(work)
	return p, nil
}

func (o Options) limits() dispatch.Limits {
	c := o.Config
	depth := c.Runs.Depth
	if depth == 0 {
		depth = -1 // none: the boundary's own 0 is its default
	}
	return dispatch.Limits{Depth: depth, FanOut: int64(c.Runs.FanOut), Idle: c.Runs.Idle, TaintLasts: c.Runs.TaintLasts, CallsPerTurn: int64(c.Runs.CallsPerTurn),
		TurnsPerRun: int64(c.Runs.TurnsPerRun), MoneyPerRun: money(c.Runs.Money), MoneyPerDay: money(c.Money.PerDay),
		CallsPerRun: int64(c.Runs.CallsPerRun), ProposalsOpen: int64(c.Runs.ProposalsOpen), OpenInTurn: int64(c.Runs.OpenInTurn), OpenOfOne: int64(c.Runs.OpenOfOne),
		Quota:       record.Quota{Events: int64(max(c.Quota.Events-c.Quota.Reserve, 0)), Window: c.Quota.Per},
		CallExpires: c.Calls.Expires, Finish: c.Stop.Finish,
		Retention: record.Retention{Arguments: record.Recording(c.Calls.RecordArguments), For: c.Calls.Retention}}
}

// openIngress makes the rates of callers. What is refused becomes events.
func (p *Placet) openIngress() *ingress.Limit {
	c := p.o.Config.Ingress
	return ingress.New(ingress.Options{PerSecond: c.PerSecond, Burst: c.Burst, Clock: p.o.Clock, Refused: func(owner record.Owner, n int64) {
		if err := p.boundary.Throttled(context.Background(), owner, n); err != nil {
			p.o.Log.Error("refused requests were not recorded", "requests", n, "error", err)
		}
	}})
}

// money is a configuration's limits. They were checked when it was loaded.
func money(limits config.Money) dispatch.Money {
	if limits == nil {
		return nil
	}
	out := dispatch.Money{}
	for _, l := range limits {
		out[l.Key], _ = record.Micros(l.Value.Rat()) // one that cannot be counted would be 0: nothing may be spent
	}
	return out
}

// doors makes the HTTP handlers.
func (p *Placet) doors() error {
	c := p.o.Config
	resource := p.oauth()
	states, err := p.secret.key("request-states")
	if err != nil {
		return err
	}
	mcp, err := edgemcp.New(edgemcp.Options{
		Boundary: dispatch.Unleased{Boundary: p.boundary}, Verifier: p.verifier, Ingress: p.ingress, Clock: p.o.Clock, Random: p.o.Random, Log: p.o.Log,
		Tool: func(name string) (*registry.Tool, bool) {
			now := p.boundary.Current()
			if now == nil {
				return nil, false
			}
			return now.Registry.Tool(name)
		},
		PublicURL: c.PublicURL, OAuth: resource, Wait: c.Approvals.Wait, Version: p.o.Version, Tracer: p.traces.tracer(), Key: states, Leaving: p.boundary.Leaving(),
		Ignored: func(what string) { p.ignored.Note(what); p.boundary.IgnoreVouch() },
	})
	if err != nil {
		return err
	}
	p.mcp = mcp
	mux := http.NewServeMux()
	mcp.Mount(mux)
	resource.Mount(mux)
	p.terminalLogin().Mount(mux)
	if err := p.mountConsole(mux); err != nil {
		return err
	}
	if p.issuer != nil {
		p.issuer.Mount(mux)
	}
	mountKeys(mux, p.signer)
	if err := p.mountProviders(mux, resource); err != nil {
		return err
	}
	mux.Handle("/", api.New(api.Options{
		Boundary: p.boundary, Reader: p.store, Verifier: p.verifier, Ingress: p.ingress, Version: p.o.Version, Log: p.o.Log, Clock: p.o.Clock,
		OAuth: resource, PublicURL: c.PublicURL,
		Wait:      c.Approvals.Wait,
		Overrides: p.overrides,
		Ready:     p.ready,
		Sealed:    p.store,
		LogKey:    p.logKey,
		Checked:   p.metrics.History,
		History:   api.HistoryLimits{Bytes: int64(c.History.Bytes), Held: int64(c.History.Held)},
		Reported:  lease.Result,
		Evidence:  p.evidence(),
		Versions:  api.Versions{Standing: p.standing, Compare: p.compare},
		Reload: func(ctx context.Context, by string, order api.ReloadOrder) (api.Reloaded, error) {
			o := orderOf(order)
			do := func() (Reloaded, error) { return p.Enact(ctx, record.Who{Workload: by}, o) }
			if order.Plan {
				do = func() (Reloaded, error) { return p.PlanOrder(ctx, o) }
			}
			r, err := do()
			return api.Reloaded{Generation: r.Generation, Version: r.Version, Changed: r.Changed, Plan: r.Lines(), Voids: r.Voids}, err
		},
	}))
	p.handler = front.Plain(p.ignored.Headers(p.traces.spanned(mux)))
	return nil
}

// ready reports whether calls can be decided and recorded.
func (p *Placet) ready(ctx context.Context) error {
	select {
	case <-p.store.Broken():
		return record.Errorf(record.Unavailable, "the store is broken; this process must be restarted")
	default:
	}
	if p.leaving.Load() {
		return record.Errorf(record.Unavailable, "this server is about to stop")
	}
	if s, ok := p.store.(interface{ Fits(context.Context) error }); ok {
		if err := s.Fits(ctx); err != nil {
			return err
		}
	}
	now, _, err := p.store.Generation(ctx)
	switch {
	case err != nil:
		return err
	case p.boundary.Ready() != nil:
		// Which part differs is for operators.
		return record.Because(record.Unavailable, p.boundary.Ready(), "this server does not decide by the active version, or the records hold what it does not know; /v1/versions and the log say more")
	case now != p.boundary.Generation():
		return record.Errorf(record.Unavailable, "version %d is active and not loaded here yet", now)
	}
	return p.sealedInTime(ctx)
}

// Announce makes the server say that it is not ready, so that load balancers send
// requests elsewhere. What comes all the same is served.
func (p *Placet) Announce() { p.leaving.Store(true) }

// Leave lets go whoever is held: they are told to come back, and find another server.
// Calls that execute go on.
func (p *Placet) Leave() {
	p.Announce()
	p.boundary.Leave()
}

// Do proposes a call and dispatches it if it is allowed.
func (p *Placet) Do(ctx context.Context, q dispatch.Proposal) (dispatch.Answer, error) {
	return p.boundary.Do(ctx, q)
}

// Boundary is the dispatch boundary itself.
func (p *Placet) Boundary() *dispatch.Boundary { return p.boundary }

// Records reads what is recorded.
func (p *Placet) Records() dispatch.Reader { return p.store }

// Verifier turns credentials into identities.
func (p *Placet) Verifier() *identity.Verifier { return p.verifier }

// Servers reaches the servers of the registry.
func (p *Placet) Servers() *Servers { return p.servers }

// Handler serves every door: /mcp, /v1 and their metadata, and the development
// issuer where people may sign in at it.
func (p *Placet) Handler() http.Handler { return p.handler }

// Metrics serves what the log says as numbers, for Prometheus. It asks nobody who
// they are: it belongs on a listener of its own.
func (p *Placet) Metrics() http.Handler { return p.metrics.Handler() }

// Ignored is how often something was sent that looks like identity and is none, by
// what it was. The log tells it too.
func (p *Placet) Ignored() map[string]int64 { return p.ignored.Counts() }

// Broken is closed when the store can no longer tell what is durable; the
// process must end then.
func (p *Placet) Broken() <-chan struct{} { return p.store.Broken() }

// Close stops the clock, the doors and the servers' sessions, and closes the store
// after what is waiting was recorded.
func (p *Placet) Close() error {
	p.closing.Do(func() {
		if p.stop != nil {
			p.stop()
		}
		p.work.Wait()
		p.ingress.Close()
		if p.mcp != nil {
			p.mcp.Close()
		}
		if p.servers != nil {
			p.closed = errors.Join(p.closed, p.servers.Close())
		}
		if p.profiles != nil {
			p.profiles.Close()
		}
		if p.sources != nil {
			p.sources.Close()
		}
		if p.store != nil {
			p.closed = errors.Join(p.closed, p.store.Close())
		}
		p.traces.close()
	})
	return p.closed
}
