package policy

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/placet-dev/placet/record"
)

// InputVersion is the value of input.version. It changes when a field changes
// its meaning or goes away; new fields do not change it.
const InputVersion = "placet.input/1"

// Input is what a layer is asked. docs/policy.md lists the document field by
// field. An Input and everything it points to is read only once it was handed
// to a [Set].
type Input struct {
	Tool      Tool
	Args      []byte // the canonical arguments, a JSON object; what is dispatched, byte for byte
	Principal Principal
	Agent     Agent
	Run       Run
	Call      Call
	Targets   []Target
	Origins   map[string]string // argument to where its value came from
	Approval  *Approval         // nil when no approval exists for this call yet
	Limits    Limits
	Env       string    // the server's environment, "production"
	Time      time.Time // the one clock reading of this decision
	// Amounts are the arguments that the registry declares as amounts, as
	// decimal text ("1200.00"). Layers see them as numbers, because in Rego a
	// string sorts above every number.
	Amounts map[string]string
}

// Tool is the registry's entry, and what the server said about itself.
type Tool struct {
	Name        string
	Server      string
	Version     string // digest of the registry entry with its pin
	Method      string // the MCP method by which it is reached; "" is tools/call
	Flags       Flags
	Network     string          // the network that its server is in; "" where the registry does not say
	Annotations json.RawMessage // the server's hints, a JSON object; nothing here is a promise. nil is {}
}

// Reached is the method as layers see it.
func (t *Tool) Reached() string { return cmp.Or(t.Method, "tools/call") }

// Flags is what the operator declared in the registry.
type Flags struct{ Read, Write, Destructive, Financial, Sink, Privacy bool }

// Principal is the verified person or service a call is made for.
type Principal struct {
	record.Principal
	Tenant record.TenantID
	Scopes []string
	Groups []record.Group
	// GroupsKnown says that Groups is complete. A layer that applies to groups
	// only denies when it cannot be decided whether this principal is in one.
	GroupsKnown bool
	Claims      json.RawMessage // the mapped claims, a JSON object; nil is {}
}

// Agent is the workload that makes the call.
type Agent struct{ ID record.AgentID }

// Run is the run the call belongs to, with the labels of its lineage.
type Run struct {
	ID     record.RunID
	Turn   record.Turn
	Labels []string
	Parent record.RunID // empty for a root run
}

// Call is the call itself.
type Call struct {
	ID      record.CallID
	Source  record.Source
	Route   record.Route
	Attempt int    // the attempt that would be made now; 0 at proposal
	Purpose string // text of the proposer; it proves nothing
}

// Target is one thing the call acts on, as a guard read it.
type Target struct {
	Argument string // its argument
	Kind     string // "order", "url", "email"; empty when none is declared
	Value    string
}

// Approval is the approval that stands for this call's binding.
type Approval struct {
	ID      record.ApprovalID
	State   string
	Answers int // approving persons so far
}

// Limits is what the principal has used of the tool's limits.
type Limits struct {
	CallsInTurn int64
	CallsInRun  int64
	Autonomous  string // decimal text of the autonomous limit; empty when there is none
}
