package record

import (
	"fmt"
	"slices"
	"strings"
)

// State is where a call stands. The tables below are the only statement of what
// may follow what: constructors refuse what is not in them, stores guard the
// same moves, docs/states.md is generated from them.
type State string

const (
	// None is the state before a call exists.
	None State = ""

	// Proposed: recorded, not decided, or held back by a limit. The boundary
	// moves it on when its caller asks again.
	Proposed State = "proposed"
	// ApprovalPending: a person must answer. The boundary moves it on once the
	// approval is complete and authority is current; a rejection denies it.
	ApprovalPending State = "approval_pending"
	// DispatchAuthorized: may run when its caller dispatches it and nothing has changed.
	DispatchAuthorized State = "dispatch_authorized"
	// Executing: an attempt is reserved and durable; its holder may invoke and
	// report until the lease ends.
	Executing State = "executing"
	// Unknown: an attempt may have taken effect and no proof says which. Left
	// only by reconciliation, or by a retry that the registry allows.
	Unknown State = "unknown"

	Succeeded State = "succeeded"
	Failed    State = "failed"
	Denied    State = "denied"
	Expired   State = "expired"
	Canceled  State = "canceled"
	Revoked   State = "revoked"
)

// Cause says who moves a call: the last column of the table in the design.
type Cause string

const (
	ByBoundary  Cause = "boundary"       // a decision, a reservation or an outcome
	ByPerson    Cause = "person"         // an approver's answer
	ByClock     Cause = "clock"          // an expiry or the end of a lease
	ByPrincipal Cause = "principal"      // a cancel, a new turn or the end of a run
	ByOperator  Cause = "operator"       // a revocation
	ByReconcile Cause = "reconciliation" // evidence and an attributable reconciler
	ByRecovery  Cause = "recovery"       // a new epoch of the store (rule J2)
)

// Transition is one row of the table: from, to, and who may cause it.
type Transition struct {
	From, To State
	By       []Cause
}

var callTable = []Transition{
	{None, Proposed, []Cause{ByBoundary}},
	{Proposed, ApprovalPending, []Cause{ByBoundary}},
	{Proposed, DispatchAuthorized, []Cause{ByBoundary}},
	{Proposed, Denied, []Cause{ByBoundary}},
	{ApprovalPending, DispatchAuthorized, []Cause{ByBoundary}},
	{ApprovalPending, Denied, []Cause{ByPerson, ByBoundary}},
	{DispatchAuthorized, Executing, []Cause{ByBoundary}},
	{DispatchAuthorized, ApprovalPending, []Cause{ByBoundary}},
	{DispatchAuthorized, Denied, []Cause{ByBoundary}},
	{Proposed, Expired, []Cause{ByClock}},
	{Proposed, Canceled, []Cause{ByPrincipal, ByRecovery}},
	{Proposed, Revoked, []Cause{ByOperator}},
	{ApprovalPending, Expired, []Cause{ByClock}},
	{ApprovalPending, Canceled, []Cause{ByPrincipal, ByRecovery}},
	{ApprovalPending, Revoked, []Cause{ByOperator}},
	{DispatchAuthorized, Expired, []Cause{ByClock}},
	{DispatchAuthorized, Canceled, []Cause{ByPrincipal, ByRecovery}},
	{DispatchAuthorized, Revoked, []Cause{ByOperator}},
	{Executing, Succeeded, []Cause{ByBoundary}},
	{Executing, Failed, []Cause{ByBoundary, ByClock}},
	{Executing, Unknown, []Cause{ByBoundary, ByClock, ByRecovery}},
	{Unknown, Succeeded, []Cause{ByReconcile}},
	{Unknown, Failed, []Cause{ByReconcile, ByClock}},
	{Unknown, Executing, []Cause{ByBoundary}},
}

// States lists every state, None first.
func States() []State {
	return []State{None, Proposed, ApprovalPending, DispatchAuthorized, Executing, Unknown,
		Succeeded, Failed, Denied, Expired, Canceled, Revoked}
}

// Causes lists every cause.
func Causes() []Cause {
	return []Cause{ByBoundary, ByPerson, ByClock, ByPrincipal, ByOperator, ByReconcile, ByRecovery}
}

// Transitions returns a copy of the call table.
func Transitions() []Transition { return slices.Clone(callTable) }

// May reports whether a call may move from one state to another by a cause.
func May(from, to State, by Cause) bool {
	for _, t := range callTable {
		if t.From == from && t.To == to {
			return slices.Contains(t.By, by)
		}
	}
	return false
}

// Terminal reports whether nothing follows s.
func (s State) Terminal() bool {
	return s != None && !slices.ContainsFunc(callTable, func(t Transition) bool { return t.From == s })
}

// Open reports whether a call in s still may take effect or may have: the calls
// whose effect key and occurrence are taken (rule A6).
func (s State) Open() bool {
	switch s {
	case Proposed, ApprovalPending, DispatchAuthorized, Executing, Unknown:
		return true
	default:
		return false
	}
}

// Waiting reports whether a call in s has been proposed and not yet run: what
// the cap on open proposals counts, and what cancels, expires and is revoked.
func (s State) Waiting() bool {
	switch s {
	case Proposed, ApprovalPending, DispatchAuthorized:
		return true
	default:
		return false
	}
}

// Valid reports whether s is a state of a call that exists.
func (s State) Valid() bool { return s != None && slices.Contains(States(), s) }

// RunState is the stored part of a run's state. While calls are open the shown
// state is their projection ([Run.Shown]); it is never stored twice.
type RunState string

const (
	AwaitingUser RunState = "awaiting_user"
	ModelPending RunState = "model_pending"
	Terminated   RunState = "terminated"
)

// ApprovalState is where a question stands.
type ApprovalState string

const (
	Pending  ApprovalState = "pending"
	Approved ApprovalState = "approved"
	Rejected ApprovalState = "rejected"
	Lapsed   ApprovalState = "expired"
	Void     ApprovalState = "void"
	Consumed ApprovalState = "consumed"
)

var approvalTable = map[ApprovalState][]ApprovalState{
	Pending:  {Approved, Rejected, Lapsed, Void},
	Approved: {Consumed, Lapsed, Void},
}

// ApprovalStates lists every state of an approval.
func ApprovalStates() []ApprovalState {
	return []ApprovalState{Pending, Approved, Rejected, Lapsed, Void, Consumed}
}

// MayApproval reports whether an approval may move from one state to another.
func MayApproval(from, to ApprovalState) bool { return slices.Contains(approvalTable[from], to) }

// Diagram draws the tables in Mermaid, for docs/states.md.
func Diagram() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	name := func(s State) string {
		if s == None {
			return "[*]"
		}
		return string(s)
	}
	for _, t := range callTable {
		by := make([]string, len(t.By))
		for i, c := range t.By {
			by[i] = string(c)
		}
		fmt.Fprintf(&b, "    %s --> %s: %s\n", name(t.From), name(t.To), strings.Join(by, ", "))
	}
	for _, s := range States() {
		if s.Terminal() {
			fmt.Fprintf(&b, "    %s --> [*]\n", s)
		}
	}
	return b.String()
}

// ApprovalDiagram draws the approval table in Mermaid.
func ApprovalDiagram() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n    [*] --> pending\n")
	for _, from := range ApprovalStates() {
		for _, to := range approvalTable[from] {
			fmt.Fprintf(&b, "    %s --> %s\n", from, to)
		}
		if len(approvalTable[from]) == 0 {
			fmt.Fprintf(&b, "    %s --> [*]\n", from)
		}
	}
	return b.String()
}
