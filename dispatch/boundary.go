package dispatch

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// Options is everything a boundary needs. All fields without a stated default
// are required.
type Options struct {
	Store   Store
	Invoker Invoker
	Clock   func() time.Time
	Random  io.Reader // for IDs
	Log     *slog.Logger
	Limits  Limits
	Signer  Signer       // of dispatch tokens; nil: calls to servers that verify one fail before their effect
	Tracer  trace.Tracer // of spans of calls; nil: none

	Credentials Credentials // what servers are called with; nil: calls to servers that need one are denied
	Delegations Delegations // of callers who are away; nil: their calls wait

	// Latest loads the version that the store says is active, where another process
	// activated it, and makes it decide by [Boundary.Adopt]; nil: nobody else activates.
	Latest func(context.Context) error

	World    guard.World // what guards may look at; its zero value resolves no name
	Passkeys Passkeys    // that people sign with; nil: a rule that demands one is never met

	Revoked func(took time.Duration) // told of every revocation, from the command to when nothing more starts; nil: nobody is
	Peers   Peers                    // other processes on this store; nil: there are none
}

// Limits are the bounds of runs and proposals; the zero value of a field means
// its default.
type Limits struct {
	Idle          time.Duration // silence that ends a run of a caller that names none; 30 m
	TaintLasts    time.Duration // how long an unvouched lineage's caps and rejections count; 24 h
	CallsPerTurn  int64         // 40
	CallsPerRun   int64         // 400
	ProposalsOpen int64         // waiting calls of a lineage; 100
	OpenInTurn    int64         // of a turn; 100
	OpenOfOne     int64         // of a principal, in all its lineages; 500
	Quota         record.Quota  // of a tenant's events; the zero value is none
	TurnsPerRun   int64         // 0: no limit
	Depth         int           // of runs below one another; 2, and none below 0
	FanOut        int64         // live child runs of one run; 8
	MoneyPerRun   Money         // nil: no limit
	MoneyPerDay   Money         // of one principal, in any 24 hours; nil: no limit
	CallExpires   time.Duration // 1 h

	Retention record.Retention // of calls whose entry says nothing of it; the zero value keeps everything

	RecordTimeout time.Duration // how long to wait for the store; 10 s
	Finish        time.Duration // how long calls of callers who are away may go on when the process ends; 10 s
	ArgumentBytes int           // 1 MiB
	ResultKept    int           // results longer than this are not kept for repeats; 1 MiB
}

func (l Limits) withDefaults() Limits {
	or := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	num := func(n *int64, v int64) {
		if *n <= 0 {
			*n = v
		}
	}
	or(&l.Idle, 30*time.Minute)
	or(&l.TaintLasts, 24*time.Hour)
	or(&l.CallExpires, time.Hour)
	or(&l.RecordTimeout, 10*time.Second)
	or(&l.Finish, 10*time.Second)
	num(&l.CallsPerTurn, 40)
	num(&l.CallsPerRun, 400)
	num(&l.ProposalsOpen, 100)
	num(&l.OpenInTurn, 100)
	num(&l.OpenOfOne, 500)
	num(&l.FanOut, 8)
	if l.Depth == 0 {
		l.Depth = 2
	}
	if l.ArgumentBytes <= 0 {
		l.ArgumentBytes = 1 << 20
	}
	if l.ResultKept <= 0 {
		l.ResultKept = 1 << 20
	}
	return l
}

// leaseSlack is how much longer than a tool's timeout its lease runs (rule A11).
const leaseSlack = 10 * time.Second

// Active is one version of what decides: immutable, and identified by its digest.
type Active struct {
	Registry *registry.Snapshot
	Policy   *policy.Set
	// Approver turns an approver reference of the registry into groups or people
	// of part. An error refuses the activation.
	Approver func(ref string, part *record.ApprovalPart) error
	// Default is whom to ask where no rule names anybody; nil: such a question
	// is a denial, no_approver (rule D8).
	Default *DefaultRule
	// Points are decision points for the objects that calls name (step 6); each one
	// that is asked must allow.
	Points []DecisionPoint
	// OnlyRead are agents from which every tool that is not marked read is hidden.
	OnlyRead map[record.AgentID]bool
	// People says which principals are one person; nil: nothing is stated (rule D5).
	People      *record.People
	Environment string
	Digest      string              // of everything here that decides
	Overrides   []registry.Override // settings that weaken a default; each becomes an event (rule H7)

	Files []byte        // what the version is made of, so that it can be loaded again; nil: it cannot
	Parts []record.Part // what Digest is made of
}

// DefaultRule is approvals.default of the configuration.
type DefaultRule struct {
	Part    record.ApprovalPart
	Expires time.Duration
	Self    bool
	Reason  bool // whoever answers must say why
	Passkey bool
}

// active is an Active made ready, with the generation it was activated as.
type active struct {
	Active
	generation int64
	parts      map[string]record.ApprovalPart // by tool: the entry's own approvers, resolved
}

// Boundary is the dispatch boundary. It is safe for concurrent use.
type Boundary struct {
	store   Store
	invoker Invoker
	clock   func() time.Time
	random  io.Reader
	log     *slog.Logger
	limits  Limits
	signer  Signer
	spans   spans

	credentials Credentials
	delegations Delegations
	world       guard.World
	passkeys    Passkeys
	peers       Peers

	now      atomic.Pointer[active] // nil: nothing is active, everything denies
	standing standing
	latest   func(context.Context) error
	pins     pinCache
	indexes  indexes
	waiting  waiting
	moves    moves
	running  sync.Map // record.CallID to the attempt in this process
	away     away
	leaving  chan struct{} // closed when the process is about to end
	left     sync.Once
	wake     chan struct{} // the clock has something earlier to do
	asleep   atomic.Int64  // until when the clock sleeps, in Unix nanoseconds

	ignoredVouch atomic.Int64
	quota        refusals
	onRevoked    func(time.Duration)
}

// New makes a boundary. Until Activate, it denies everything.
func New(o Options) (*Boundary, error) {
	if o.Store == nil || o.Invoker == nil || o.Clock == nil || o.Random == nil {
		return nil, errors.New("a boundary needs a store, an invoker, a clock and a source of randomness")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	b := &Boundary{
		latest: o.Latest, invoker: o.Invoker, random: o.Random, log: o.Log, signer: o.Signer, passkeys: o.Passkeys, spans: newSpans(o.Tracer), peers: o.Peers,
		credentials: o.Credentials, delegations: o.Delegations, world: o.World,
		limits: o.Limits.withDefaults(), wake: make(chan struct{}, 1),
		// What is recorded is what is read back: stores keep microseconds.
		clock: func() time.Time { return o.Clock().UTC().Truncate(time.Microsecond) },
	}
	if b.onRevoked = o.Revoked; b.onRevoked == nil {
		b.onRevoked = func(time.Duration) {}
	}
	b.store = watchful{o.Store, b.meet}
	b.leaving = make(chan struct{})
	b.pins.known = make(map[string]pinned)
	b.away.later, b.away.asking = make(map[record.CallID]time.Time), make(map[record.RunID]chan struct{})
	b.away.of = make(map[record.TenantID]int)
	b.waiting.calls = make(map[record.CallID][]chan struct{})
	return b, nil
}

// Current is the version that decides now, or nil.
func (b *Boundary) Current() *Active {
	if a := b.now.Load(); a != nil {
		return &a.Active
	}
	return nil
}

// Generation is the number of the active version; 0 before the first.
func (b *Boundary) Generation() int64 {
	if a := b.now.Load(); a != nil {
		return a.generation
	}
	return 0
}

// apply records a change under a context of its own: a caller that goes away
// must not leave us ignorant of what is durable.
func (b *Boundary) apply(ctx context.Context, c record.Change) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.limits.RecordTimeout)
	defer cancel()
	ctx, span := b.spans.Start(ctx, "placet.record")
	defer span.End()
	err := b.store.Apply(ctx, c.Counted(b.limits.Quota))
	if err == nil {
		b.moved(c.Facts())
		b.moves.tell()
	} else {
		b.otherVersion(ctx, refusal(err))
	}
	return err
}

// refusal returns the store's typed no, or nil.
func refusal(err error) *record.Refusal {
	var r *record.Refusal
	if errors.As(err, &r) {
		return r
	}
	return nil
}

// newCall mints a call's ID and its salt.
func (b *Boundary) newCall(now time.Time) (record.CallID, []byte, error) {
	salt := make([]byte, record.SaltBytes)
	if _, err := io.ReadFull(b.random, salt); err != nil {
		return "", nil, err
	}
	id, err := record.NewID("call", now, b.random)
	return record.CallID(id), salt, err
}

func (b *Boundary) newApproval(now time.Time) (record.ApprovalID, error) {
	id, err := record.NewID("apr", now, b.random)
	return record.ApprovalID(id), err
}

func (b *Boundary) newRun(now time.Time) (record.RunID, error) {
	id, err := record.NewID("run", now, b.random)
	return record.RunID(id), err
}
