package registry

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/label"
	"github.com/placet-dev/placet/record"
)

// Tool is one tool that callers may be given. Its fields are set at load and
// must not be changed: snapshots share it between goroutines.
type Tool struct {
	Name      string // the one name: on the wire, in policy, in events
	Server    string
	Upstream  string    // its name at the server: of a resource, its URI or template
	Method    Method    // by which it is reached
	Template  *Template // of a resource; nil for everything else
	Completes *Tool     // the prompt or template that a completion is about; nil for everything else
	Place     string    // "tools.yaml:21"

	Scope        string // "" when callers names who may call
	Callers      Callers
	Environments []string // nil means all

	Read, Write, Destructive, Financial, Sink bool

	Privacy bool     // as strict as a sink
	Taint   Taint    // what a labelled lineage gets; none: labels change nothing
	Feeds   []string // tools that return what this one writes
	Unseen  bool     // unseen model input counts as a label
	Data    []string // data classes that a lineage may have read; nil means all
	Origins label.Rules
	Results label.Results

	Sources      []record.Source
	SourcesBelow record.Verdict // requires-approval or deny, for a source not listed

	PerMinute, PerRun, Concurrent int // 0 means no limit of its own
	PerTenant                     TenantLimits
	Timeout                       time.Duration

	Targets             []string
	Guards              []Guard  // by argument
	SameEffect          []string // nil means all arguments
	IdempotencyArgument string
	AutonomousLimit     *Limit
	Cost                *Cost
	Effect              Effect
	Approval            Approval
	Repeat              Repeat
	Retry               Retry
	Errors              ErrorMeaning
	Observe             bool
	Instead             string
	Compensate          string // the tool that undoes it; "" for none
	DryRun              *DryRun
	Reconcile           *Reconcile
	Network             guard.Zones // what it may reach; nil: everything
	MaxRows             int         // of a named query; 0: the default
	Unverified          bool        // leased though nothing verifies the dispatch token (rule E6)
	Queued              bool        // an allowed call is left to the boundary's clock (rule C2)
	Scheduled           bool        // it may be called at set times
	Retention           Retention

	// Digest covers everything above that decides, and the pin. It is equal for
	// two loads exactly when the tool is the same (rule D1).
	Digest canon.Digest
	// Pin is what a person reviewed of the server's own description.
	Pin *Pin

	rules         []*guard.Guard // of Guards
	input, output *schema
	listed        json.RawMessage
	previews      *Tool  // this tool with the argument that makes it a preview
	taintStated   bool   // the entry says other than its marks do
	normal        []byte // the canonical form that Digest covers, without the pin
}

// Callers is who may call a tool: each list that is not nil must hold the caller.
type Callers struct {
	Principals []record.Principal
	Tenants    []record.TenantID
	Agents     []record.AgentID
	Groups     []record.Group // of which one is enough
}

// Approval is when and whom a tool asks. References are as the file gives them;
// who they are is for the identity package to say. No approvers means the
// configured default, whose quorum and expiry then hold too.
type Approval struct {
	When      When
	Approvers []string
	Quorum    int           // 0 only when Approvers is empty
	Self      bool          //
	Expires   time.Duration // 0 means the configured default
	Purpose   bool          // the proposer must state a purpose
	Reason    bool          // whoever answers must say why
	Passkey   bool          // a yes must be signed with a passkey
}

// Retention is what stays of calls once they have ended; nothing: what is configured for all.
type Retention struct {
	Arguments record.Recording
	For       time.Duration
}

// Repeat is what an equal call gets that already succeeded (rule A7).
type Repeat struct {
	Within time.Duration
	Answer RepeatAnswer
}

// Accepts reports whether a proposal of this source needs no question for its
// source alone. If it does not, SourcesBelow is the verdict.
func (t *Tool) Accepts(s record.Source) bool {
	return slices.ContainsFunc(t.Sources, func(least record.Source) bool { return s.Shows(least) })
}

// Admits reports whether a caller may know of this tool. When only the scope is
// missing, it names the scope; that is the one reason a caller may be told.
func (t *Tool) Admits(owner record.Owner, scopes []string, groups []record.Group) (missingScope string, ok bool) {
	c := t.Callers
	fits := (c.Tenants == nil || slices.Contains(c.Tenants, owner.Tenant)) &&
		(c.Principals == nil || slices.Contains(c.Principals, owner.Principal)) &&
		(c.Agents == nil || slices.Contains(c.Agents, owner.Agent)) &&
		(c.Groups == nil || slices.ContainsFunc(groups, func(g record.Group) bool { return slices.Contains(c.Groups, g) }))
	switch {
	case !fits || owner.Tenant == "" || owner.Principal.Subject == "" || owner.Agent == "":
		return "", false
	case t.Scope != "" && !slices.Contains(scopes, t.Scope):
		return t.Scope, false
	}
	return "", true
}

// InputSchema is the schema that callers are shown: the pinned one, without the
// argument that Placet fills.
func (t *Tool) InputSchema() json.RawMessage { return t.listed }

// CheckArguments validates the arguments of a proposal, in canonical form,
// against the pinned schema. Members that the schema does not name are refused;
// defaults are not filled in. The error names place and rule, never a value.
func (t *Tool) CheckArguments(canonical []byte) error {
	if t.input == nil {
		return record.Errorf(record.Unavailable, "the input schema of %s is not pinned", t.Name)
	}
	return t.input.check("arguments", canonical)
}

// CheckResult validates structured content against the pinned output schema, if
// there is one. Members that the schema does not name are left alone.
func (t *Tool) CheckResult(structured []byte) error {
	if t.output == nil {
		return nil
	}
	return t.output.check("result", structured)
}

// Server is a way to reach tools. Its fields must not be changed after load.
type Server struct {
	Name          string
	Place         string
	URL           string
	Command       []string
	Env           []string // names of the variables the command gets
	Stateless     bool
	Inproc        bool              // handlers of the embedding program
	Kind          Kind              // how its tools run
	Queries       string            // with KindQueries: folder of the queries
	Database      string            // and what they run on: postgres or sqlite:PATH
	Operations    string            // with KindOperations: file of the operations
	Files         guard.Folder      // with KindFiles
	Schemas       map[string]string // with KindLease: file of each tool's schema, by its name there
	InputRequired bool              // it may ask back during a call
	Sampling      bool              // and what it asks may be for the client's model
	DispatchToken bool              // calls carry a dispatch token, which it verifies
	Network       guard.Zones       // the one zone that it is in; nil: not stated
	Credential    string            // credential profile that calls carry; "" for none
	ToolsMaxAge   time.Duration
	Pin           *ServerPin // what tools.lock holds of it; nil when nothing
	Digest        canon.Digest

	queries, operations string // as the file names them: where they are differs by machine
}
