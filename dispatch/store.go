package dispatch

import (
	"context"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Store is what the boundary needs of a store. Every read is one snapshot and
// names its tenant; every write is a [record.Change].
type Store interface {
	// Apply makes a change durable, whole or not at all. On return, nil means
	// durable; a *record.Refusal means nothing was written; any other error
	// means that it is not known to be durable, and nobody may act on it. The
	// caller's context bounds the wait, never the statements: after it ends, the
	// outcome is of the third kind.
	Apply(ctx context.Context, c record.Change) error

	// Call returns a call with its run, its approval and that one's answers. An
	// unknown ID and another tenant's answer with the same record.NotFound.
	Call(ctx context.Context, tenant record.TenantID, id record.CallID) (Loaded, error)

	// Approval is Call for the call that a question belongs to.
	Approval(ctx context.Context, tenant record.TenantID, id record.ApprovalID) (Loaded, error)

	// Run returns a run, or record.NotFound.
	Run(ctx context.Context, tenant record.TenantID, id record.RunID) (record.Run, error)

	// LiveRun returns the newest live run that an owner opened without vouch
	// under a label, or record.NotFound.
	LiveRun(ctx context.Context, owner record.Owner, label string) (record.Run, error)

	// Prior returns what is known of equal effects, in one snapshot.
	Prior(ctx context.Context, tenant record.TenantID, lineage record.LineageID, effect record.EffectKey, occurrence string) (Prior, error)

	// Rejected returns a person's no to an equal effect in the lineage, or nil.
	Rejected(ctx context.Context, tenant record.TenantID, lineage record.LineageID, effect record.EffectKey) (*record.Rejection, error)

	// Unused returns the newest call of a tool in the lineage that people approved
	// and that has not run, or nil.
	Unused(ctx context.Context, tenant record.TenantID, lineage record.LineageID, tool string, now time.Time) (*record.Call, error)

	// OpenCalls returns the open calls of a run, oldest first, at most n.
	OpenCalls(ctx context.Context, tenant record.TenantID, run record.RunID, n int) ([]record.Call, error)

	// Due returns calls whose time has come, oldest first. It claims nothing:
	// the guarded transition does, and losers get the conflict.
	Due(ctx context.Context, now time.Time, n int) (calls []Loaded, next time.Time, err error)

	// Ready returns calls that people approved, and calls whose outcome is not known, in
	// runs that hold a delegation: what may be dispatched or looked into while its caller
	// is away. It goes by tenant and ID, from after
	// the given ones, at most n at once. It claims nothing.
	Ready(ctx context.Context, tenant record.TenantID, after record.CallID, n int) ([]Loaded, error)

	// Queued returns what of the queue may be dispatched now, of every tenant that has
	// such calls the first n, so that none waits behind another's; and when the next
	// comes. It claims nothing.
	Queued(ctx context.Context, now time.Time, n int) (due []Queue, next time.Time, err error)

	// Schedule returns a schedule, or record.NotFound. Firing returns those that fire
	// now, the longest due first, and when the next does. It claims nothing.
	Schedule(ctx context.Context, tenant record.TenantID, id record.ScheduleID) (record.Schedule, error)
	Firing(ctx context.Context, now time.Time, n int) (due []record.Schedule, next time.Time, err error)

	// Levels returns counters of a tenant, in the order asked for. One that has counted
	// nothing is zero.
	Levels(ctx context.Context, tenant record.TenantID, counters []record.Counter) ([]record.Level, error)

	// Answered returns questions, pending or approved, that a login said yes to, in the
	// order of their IDs from after the given one, at most n.
	Answered(ctx context.Context, tenant record.TenantID, login record.Principal, after record.ApprovalID, n int) ([]record.ApprovalID, error)

	// Passkeys returns those of a person, oldest first. What it says of them is not
	// believed: they are sealed.
	Passkeys(ctx context.Context, tenant record.TenantID, person record.Principal) ([]record.Passkey, error)

	// Epoch is which lineage of an owner's runs without vouch is the present one (rule
	// B1); Standing lists those of a principal, and LiveRuns their runs.
	Epoch(ctx context.Context, owner record.Owner) (int64, error)
	Standing(ctx context.Context, tenant record.TenantID, p record.Principal) ([]record.Standing, error)
	LiveRuns(ctx context.Context, owner record.Owner) ([]record.Run, error)

	// Children returns the runs directly below one, the newest first, at most n.
	// RunsOver returns live runs whose time is over, the first first, and when the
	// next one's is.
	Children(ctx context.Context, tenant record.TenantID, run record.RunID, n int) ([]record.Run, error)
	RunsOver(ctx context.Context, now time.Time, n int) (runs []record.Run, next time.Time, err error)

	// Emission returns the oldest emission that a proposal of a tool with a proposed
	// digest can consume in a lineage: open, made after a time, its run alive in its
	// turn; or nil. Every proposal asks, so it costs nothing while there is none.
	Emission(ctx context.Context, tenant record.TenantID, lineage record.LineageID, tool string, digest canon.Digest, since time.Time) (*record.Emission, error)

	// OpenEmissions returns the open emissions of a run, oldest first, at most n.
	OpenEmissions(ctx context.Context, tenant record.TenantID, run record.RunID, n int) ([]record.Emission, error)

	// Requests returns the newest request of a run to a model, and the newest one with
	// a digest; zero: there is none.
	Requests(ctx context.Context, tenant record.TenantID, run record.RunID, digest canon.Digest) (newest, equal record.ModelRequest, err error)

	// KeptFor returns the run that a provider keeps something for, or nothing.
	KeptFor(ctx context.Context, tenant record.TenantID, provider, id string) (record.RunID, error)

	// Labelled returns what a lineage holds under a name that a provider, a client or
	// this server gave: emissions, oldest first, and calls by occurrence or ID; at most n of the former.
	Labelled(ctx context.Context, tenant record.TenantID, lineage record.LineageID, label string, n int) ([]Labelled, error)

	// Lineage returns a lineage's labels and payments; the zero value is one that has
	// read and been told nothing. Every decision asks, so it must not cost a read of a file.
	Lineage(ctx context.Context, tenant record.TenantID, lineage record.LineageID) (record.Lineage, error)

	// Materials returns what a lineage has read and been told after seq and since a
	// time, in its order, at most n.
	Materials(ctx context.Context, tenant record.TenantID, lineage record.LineageID, after int64, since time.Time, n int) ([]record.Material, error)

	// Revocations returns what is revoked in a tenant and everywhere and not undone. It
	// may be older than what is committed: the fence holds a reservation to it. Every
	// decision asks, so it must not cost a read.
	Revocations(ctx context.Context, tenant record.TenantID) (record.Revocations, error)

	// Revocation returns one that was made, or record.NotFound. Those of all tenants are
	// in the tenant without a name.
	Revocation(ctx context.Context, tenant record.TenantID, id record.RevocationID) (record.Revocation, error)

	// RevocationMoves is how many revocations were made and undone in all.
	RevocationMoves(ctx context.Context) (int64, error)

	// Generation returns the active version's number and digest; 0 before the first.
	Generation(ctx context.Context) (int64, string, error)

	Transcripts
	Versions
}

// Loaded is a call with what belongs to it, as one snapshot showed it.
type Loaded struct {
	Call     record.Call
	Run      record.Run
	Approval *record.Approval // the call's current question, with its answers
}

// RunsWhen says when an approved call runs, for people: "runs once, …". until is
// its end as they read times.
func (l Loaded) RunsWhen(now time.Time, until string) string {
	if l.Run.Delegation.Live(now) {
		return "runs once: now, for a user who is away, or when the agent asks again before " + until
	}
	return "runs once, when the agent asks again before " + until
}

// Prior is what is known of calls with an equal effect key.
type Prior struct {
	Seen      []record.Seen     // the effect's version, and the occurrence's where one is stated
	Same      *record.Call      // the latest in this lineage with this occurrence, whatever its state; nil without one
	Equal     *record.Call      // open, in this lineage, with this occurrence (rule A6)
	Done      *record.Call      // the latest that succeeded, of this principal, with its result (rule A7)
	Unsettled []record.Call     // executing or unknown, in any lineage of tenant and principal (rule A8)
	Rejection *record.Rejection // a person's no in this lineage (rule A9)
}

// OpenCount is how many calls are in an open state, and since when the oldest is.
type OpenCount struct {
	State  record.State
	N      int64
	Oldest time.Time
}

// Reader is what doors and commands read beside the boundary. It moves nothing.
type Reader interface {
	Calls(ctx context.Context, q CallQuery) ([]record.Call, error)
	Approvals(ctx context.Context, q ApprovalQuery) ([]Loaded, error)
	Runs(ctx context.Context, q RunQuery) ([]record.Run, error)
	Events(ctx context.Context, q EventQuery) ([]record.Event, error)
	Schedules(ctx context.Context, q ScheduleQuery) ([]record.Schedule, error)
	// Counters returns counters of a tenant in the order of their names, from after a
	// name on, at most n.
	Counters(ctx context.Context, tenant record.TenantID, after record.Counter, n int) ([]Counted, error)

	// Held returns lineages of a tenant that an alert holds, in the order of their IDs
	// from after the given one, at most n.
	Held(ctx context.Context, tenant record.TenantID, after record.LineageID, n int) ([]record.Lineage, error)

	// ListRevocations returns those of one tenant, or those of all tenants where it names
	// none, newest first.
	ListRevocations(ctx context.Context, q RevocationQuery) ([]record.Revocation, error)

	// Asked returns what a person may answer. It looks through a bounded number of
	// other people's questions.
	Asked(ctx context.Context, q AskedQuery) (Asked, error)

	// Approved returns the newest call that people approved, or nil. It looks through
	// a bounded number of its owner's.
	Approved(ctx context.Context, q ApprovedQuery) (*Loaded, error)
}

// Counted is a counter and what it holds.
type Counted struct {
	Counter record.Counter
	Level   record.Level
}

// CallQuery selects calls of one tenant, newest first.
type CallQuery struct {
	Tenant record.TenantID
	Owner  *record.Owner // only theirs
	Run    record.RunID
	Denied *record.Call // only denied ones for the effect of this call, in its lineage
	Queued bool         // only queued ones that may still run, held for a person or not
	Dead   bool         // only queued ones that came to nothing ([record.Call.Dead])
	States []record.State
	Before record.CallID // for the next page
	Limit  int           // 1 to 500; 0 is 50
}

// ApprovalQuery selects questions of one tenant, oldest first.
type ApprovalQuery struct {
	Tenant record.TenantID
	Owner  *record.Owner
	States []record.ApprovalState
	Newest bool              // newest first
	After  record.ApprovalID // for the next page, in that order
	Limit  int
}

// RevocationQuery selects revocations, newest first.
type RevocationQuery struct {
	Tenant record.TenantID // empty: those of all tenants
	Ended  bool            // those that were undone or have expired, too
	Before record.RevocationID
	Limit  int // 1 to 500; 0 is 50
}

// Size is how many are wanted.
func (q RevocationQuery) Size() int {
	if q.Limit <= 0 || q.Limit > 500 {
		return 50
	}
	return q.Limit
}

// RunQuery selects runs of one tenant, newest first.
type RunQuery struct {
	Tenant record.TenantID
	Owner  *record.Owner
	Live   bool
	Before record.RunID
	Limit  int
}

// ScheduleQuery selects schedules of one tenant, newest first.
type ScheduleQuery struct {
	Tenant record.TenantID
	Owner  *record.Owner
	Over   bool // also those that have ended or were deleted
	Before record.ScheduleID
	Limit  int
}

// EventQuery selects events of one tenant in the order of the log.
type EventQuery struct {
	Tenant record.TenantID
	All    bool // every tenant, and what belongs to none: for whoever owns the store
	Server bool // beside the tenant's, what belongs to no tenant: activations and overrides
	After  int64
	Run    record.RunID
	Of     []record.CallID // with Run: only the run's own events and those of these calls of it
	Call   record.CallID
	Kinds  []record.EventKind
	Newest bool // the newest first, in place of the order of the log
	Limit  int
}

// Labelled is what stands under a label: an emission, the call that it became, or a
// call alone.
type Labelled struct {
	Emission *record.Emission
	Run      record.Run // of the emission
	Call     *record.Call
}
