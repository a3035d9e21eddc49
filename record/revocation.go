package record

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/placet-dev/placet/canon"
)

// RevocationID names a revocation: rev_ + 128 bits.
type RevocationID string

// RevokedKind is what a revocation withdraws authority from.
type RevokedKind string

const (
	RevokedTool       RevokedKind = "tool"       // whatever its version
	RevokedVersion    RevokedKind = "version"    // a tool as one entry describes it, by that one's digest
	RevokedServer     RevokedKind = "server"     // every tool of it
	RevokedCredential RevokedKind = "credential" // every tool that is called with this profile
	RevokedTenant     RevokedKind = "tenant"     // everything in it
	RevokedPrincipal  RevokedKind = "principal"  // what runs for a person, and what they answer, by any of their logins
	RevokedAgent      RevokedKind = "agent"      //
	RevokedRun        RevokedKind = "run"        // with every run below it; they end, for good
	RevokedSchedule   RevokedKind = "schedule"   //
	RevokedSession    RevokedKind = "session"    // what was answered in one login
	RevokedAll        RevokedKind = "all"        //
)

// RevokedKinds lists every kind.
func RevokedKinds() []RevokedKind {
	return []RevokedKind{RevokedTool, RevokedVersion, RevokedServer, RevokedCredential, RevokedTenant, RevokedPrincipal, RevokedAgent,
		RevokedRun, RevokedSchedule, RevokedSession, RevokedAll}
}

// Revocation withdraws authority in one tenant, or in all of them, until it expires or
// is undone.
type Revocation struct {
	ID       RevocationID `json:"id"`
	Tenant   TenantID     `json:"tenant"` // empty: everywhere
	Kind     RevokedKind  `json:"kind"`
	Name     string       `json:"name,omitempty"`     // of the tool, server, profile, agent, run, schedule or session
	Version  canon.Digest `json:"version,omitzero"`   // with RevokedVersion
	People   []Principal  `json:"people,omitempty"`   // with RevokedPrincipal: the person's logins, as the operator maps them when revoking
	Tools    []string     `json:"tools,omitempty"`    // with RevokedCredential: what is called with it when revoking, for the calls that wait
	Reason   string       `json:"reason"`             // for people
	Who      Who          `json:"who"`                //
	At       time.Time    `json:"at"`                 //
	Expires  time.Time    `json:"expires,omitzero"`   // zero: until it is undone
	Undone   time.Time    `json:"undone_at,omitzero"` //
	UndoneBy *Who         `json:"undone_by,omitempty"`
	Why      string       `json:"why,omitempty"` // it was undone
	Caught   Caught       `json:"caught"`
}

// Caught is what a revocation found when it was made.
type Caught struct {
	Ended     int       `json:"ended"`               // calls that waited, and are revoked
	Runs      int       `json:"runs,omitempty"`      // that ended
	Questions int       `json:"questions,omitempty"` // whose answers are void, asked anew
	Running   int       `json:"running"`             // attempts that were reserved before, and were asked to stop
	Calls     []CallRef `json:"calls,omitempty"`     // those attempts, the first MaxCaught of them
}

// Add counts an open call that the revocation takes the authority of, and reports
// whether it is running, or may have run: then it is not ended, but watched.
func (c *Caught) Add(call Call) (running bool) {
	switch {
	case call.State.Waiting():
		c.Ended++
		return false
	case call.State == Executing:
		c.Running++
		if len(c.Calls) < MaxCaught {
			c.Calls = append(c.Calls, CallRef{call.Tenant, call.ID})
		}
	}
	return true
}

// CallRef names a call of any tenant.
type CallRef struct {
	Tenant TenantID `json:"tenant"`
	ID     CallID   `json:"id"`
}

// MaxCaught bounds how many attempts a revocation lists.
const MaxCaught = 1000

// Live reports whether the revocation counts at a time.
func (r Revocation) Live(now time.Time) bool {
	return r.Undone.IsZero() && (r.Expires.IsZero() || now.Before(r.Expires))
}

// Named is everything that a call names and that can be revoked.
type Named struct {
	Owner
	Runs       []RunID // its run, and those above it
	Tool       ToolRef
	Credential string // the profile that its server is called with
	Schedule   string // what it fires from; empty: none
}

// Names is what a call names, as far as its own record says.
func (c Call) Names(above ...RunID) Named {
	n := Named{Owner: c.Owner, Runs: append([]RunID{c.Run}, above...), Tool: c.Tool}
	if c.Route == RouteSchedule {
		firing := strings.TrimPrefix(c.Occurrence, SchedulePrefix)
		n.Schedule, _, _ = strings.Cut(firing, ":")
	}
	return n
}

// Stops reports whether a call loses its authority by the revocation, while that is
// live. What this program does not know stops everything (rule H2).
func (r Revocation) Stops(n Named) bool {
	if r.Tenant != "" && r.Tenant != n.Tenant {
		return false
	}
	switch r.Kind {
	case RevokedTool:
		return n.Tool.Name == r.Name
	case RevokedVersion:
		return n.Tool.Name == r.Name && n.Tool.Version == r.Version
	case RevokedServer:
		return n.Tool.Server == r.Name
	case RevokedCredential:
		return n.Credential == r.Name || n.Credential == "" && slices.Contains(r.Tools, n.Tool.Name)
	case RevokedPrincipal:
		return slices.Contains(r.People, n.Principal)
	case RevokedAgent:
		return string(n.Agent) == r.Name
	case RevokedRun:
		return slices.Contains(n.Runs, RunID(r.Name))
	case RevokedSchedule:
		return n.Schedule != "" && n.Schedule == r.Name
	case RevokedSession:
		return false // it is about answers
	default: // a tenant, everything, and what a later program writes
		return true
	}
}

// Silences reports whether a person's answer does not count by the revocation, while
// that is live. A no stays: it only takes away.
func (r Revocation) Silences(tenant TenantID, a Reply) bool {
	if r.Tenant != "" && r.Tenant != tenant || a.Word != Yes {
		return false
	}
	switch r.Kind {
	case RevokedPrincipal:
		return slices.Contains(r.People, a.Person)
	case RevokedSession:
		return a.Session != "" && a.Session == r.Name
	case RevokedTool, RevokedVersion, RevokedServer, RevokedCredential, RevokedAgent, RevokedRun, RevokedSchedule:
		return false
	default:
		return true
	}
}

// ByAnswer reports whether the revocation is about what people answered, and not about
// calls alone.
func (r Revocation) ByAnswer() bool { return r.Kind == RevokedPrincipal || r.Kind == RevokedSession }

// Fence is how many revocations were made and undone, as a decision read it.
type Fence struct {
	Everywhere int64
	Tenant     int64
}

// Revocations are those of a tenant and those of all tenants that are not undone, with
// the fence that holds a commit to them.
type Revocations struct {
	Fence Fence
	List  []Revocation
}

// Stopped returns the first revocation that takes a call's authority now, or nil.
func (rs Revocations) Stopped(n Named, now time.Time) *Revocation {
	for i, r := range rs.List {
		if r.Live(now) && r.Stops(n) {
			return &rs.List[i]
		}
	}
	return nil
}

// Silenced returns the first revocation by which an answer does not count now, or nil.
func (rs Revocations) Silenced(tenant TenantID, a Reply, now time.Time) *Revocation {
	for i, r := range rs.List {
		if r.Live(now) && r.Silences(tenant, a) {
			return &rs.List[i]
		}
	}
	return nil
}

// ByRun reports whether some run is revoked: only then is it asked what is above one.
func (rs Revocations) ByRun() bool {
	return slices.ContainsFunc(rs.List, func(r Revocation) bool { return r.Kind == RevokedRun })
}

// RevocationMove makes a revocation, or undoes one. The store takes the fence of its
// tenant, or of all, for itself alone (rule C3), and raises it. A new one ends in the
// same transaction what waits and loses its authority: the store finds it and moves
// each by [RevocationMove.Run], [RevocationMove.Call] and [RevocationMove.Question],
// and writes down what it caught.
type RevocationMove struct {
	New   bool // else it is undone, which it must not be yet: else RefusedConflict
	After Revocation
}

// Revoke makes a revocation. When it is durable, every later reservation sees it.
func Revoke(r Revocation) (Change, error) {
	switch {
	case r.Reason == "":
		return Change{}, Errorf(Invalid, "state the reason")
	case !r.Expires.IsZero() && !r.At.Before(r.Expires):
		return Change{}, Errorf(Invalid, "a revocation ends after it begins")
	case !slices.Contains(RevokedKinds(), r.Kind):
		return Change{}, Errorf(Invalid, "there is no kind of revocation %q", r.Kind)
	}
	return Change{Facts{At: r.At, Revocation: &RevocationMove{New: true, After: r}, Events: []Event{r.event(EventRevocation, r.Who, r.At, r.Reason)}}}, nil
}

// Undo ends a revocation. What it ended stays ended.
func Undo(r Revocation, who Who, why string, at time.Time) (Change, error) {
	if !r.Live(at) {
		return Change{}, Errorf(Conflict, "the revocation %s has ended already", r.ID)
	}
	r.Undone, r.UndoneBy, r.Why = at, &who, why
	return Change{Facts{At: at, Revocation: &RevocationMove{After: r}, Events: []Event{r.event(EventRevocationUndone, who, at, why)}}}, nil
}

func (r Revocation) event(kind EventKind, who Who, at time.Time, why string) Event {
	return Event{At: at, Tenant: r.Tenant, Kind: kind, Who: who,
		Body: Body{Detail: r.What(), Evidence: string(r.ID), Note: why, Until: r.Expires}.encode()}
}

// What names what is revoked, as a command takes it.
func (r Revocation) What() string {
	switch r.Kind {
	case RevokedAll:
		return string(r.Kind)
	case RevokedVersion:
		return "tool:" + r.Name + "@" + r.Version.String()
	case RevokedPrincipal:
		if len(r.People) > 0 {
			return "principal:" + r.People[0].String()
		}
	}
	return string(r.Kind) + ":" + r.Name
}

// Run ends a run. Its calls are ended by [RevocationMove.Call], not swept.
func (m RevocationMove) Run(r Run) (Change, error) {
	c, err := EndRun(r, "revoked: "+m.After.Reason, m.After.Who, m.After.At)
	c.f.Sweep = nil
	return c, err
}

// Call ends a call that waits, with its question.
func (m RevocationMove) Call(c Call, open *Approval) (Change, error) {
	s := Step{At: m.After.At, Who: m.After.Who}
	return End(c, Revoked, ByOperator, CodeRevoked, s, open)
}

// Question asks a question anew, some of whose answers do not count any more (rule D5).
func (m RevocationMove) Question(c Call, old Approval) (Change, error) {
	r := m.After
	d := canon.Of("placet/revoked-question/1", []byte(r.ID), []byte(old.ID))
	id, err := NewID("apr", r.At, bytes.NewReader(d[:]))
	if err != nil {
		return Change{}, err
	}
	q := old
	q.ID, q.Answers, q.Asked, q.Expires = ApprovalID(id), nil, r.At, r.At.Add(q.Rule.Expires)
	return Reask(c, old, q, "revoked: "+r.Reason, Step{At: r.At, Who: r.Who})
}

// Doubts reports whether a question that has not been used holds an answer that does
// not count any more.
func (m RevocationMove) Doubts(q *Approval) bool {
	return m.New && m.After.ByAnswer() && q != nil && MayApproval(q.State, Void) &&
		slices.ContainsFunc(q.Answers, func(a Reply) bool { return m.After.Silences(q.Tenant, a) })
}

// SessionName is what a login is called in records and revocations: a digest of the
// issuer's own name for it, which stays out of them. Empty: the issuer names none.
func SessionName(issuer, session string) string {
	if session == "" {
		return ""
	}
	d := canon.Of("placet/login/1", []byte(issuer), []byte(session))
	return "ses_" + idText.EncodeToString(d[:16])
}
