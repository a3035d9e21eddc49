package record

import (
	"time"

	"github.com/placet-dev/placet/canon"
)

// Change is a whole step of the record: what moves, on which premise, at which
// charge, with which events. It is made only by the constructors of this package;
// a store applies it whole or not at all.
type Change struct{ f Facts }

// Facts shows a store what to do.
func (c Change) Facts() Facts { return c.f }

// Empty reports whether the change was never constructed.
func (c Change) Empty() bool { return len(c.f.Events) == 0 && c.f.Seal == nil }

// Facts is the content of a change. Everything in it is guarded: where a guard
// does not hold, the store returns the [Refusal] named there and leaves no trace.
type Facts struct {
	At        time.Time
	Run       *RunMove
	Call      *CallMove
	Premise   *Premise
	Charges   []Charge // of the change's tenant; refused with RefusedLimit
	Release   []Charge // given back
	Approvals []ApprovalMove
	Rejection *Rejection
	Lineage   *LineageMove // added whole, whatever the lineage holds
	Sweep     *Sweep
	Wake      *Wake
	Schedule  *ScheduleMove
	Activate  *Activation
	Version   *Version // kept, unless it is
	Passkey   *PasskeyMove
	Fresh     *Fresh
	Emissions *EmissionMove
	Events    []Event

	Revocation *RevocationMove

	Transcript *TranscriptMove
	Share      *ShareMove
	Recover    *Recovery
	Seal       *SealMove // alone, and without an event
}

// RunMove inserts a run (From zero) or updates it if it still has version From.
type RunMove struct {
	From  int64
	After Run
}

// CallMove inserts a call (From None) or updates it if it still has state From
// and version FromVersion, else RefusedConflict. An insert that meets an open
// equal call (tenant, lineage, effect key, occurrence) is RefusedEqual.
type CallMove struct {
	From        State
	FromVersion int64
	After       Call
	Redacts     bool // it takes content out of an ended call, and nothing else
}

// ApprovalMove inserts an approval (From empty) or updates it if it still has
// state From and version FromVersion, else RefusedConflict.
type ApprovalMove struct {
	From        ApprovalState
	FromVersion int64
	After       Approval
	Answer      *Reply // a new answer of a person, stored once
}

// Premise is what the decision read and the commit must find unchanged, else
// RefusedPremise (rules C3, C4).
type Premise struct {
	Tenant     TenantID
	Run        RunID
	Owner      Owner // the run still belongs to them
	Turn       Turn  // the run is live and still in this turn
	Generation int64 // the active registry and policy version
	Seen       []Seen
	Delegated  bool         // the run holds a delegation that has not ended
	Alone      bool         // it holds none: the clock does nothing for its caller
	Passkeys   []PasskeyRef // the approval rests on these, which are still enrolled
	Touch      bool         // the run was quiet: note that it is active

	Lineage LineageID // its labels and payments are those of version Labels; empty: not asked
	Labels  int64

	Revoked *Fence // no revocation was made or undone since; nil: not asked
}

// Seen is how far a key had come when the decision read it: the version rises
// with every call made for it, so that a decision about equal calls holds only
// while no other came. It is raised by the insert of a call that names it.
type Seen struct {
	Key     EffectKey // an effect, or an occurrence in a lineage
	Version int64
}

// Rejection makes a person's no stay for equal effect keys in the lineage (rule A9).
type Rejection struct {
	Tenant   TenantID
	Lineage  LineageID
	Effect   EffectKey
	Approval ApprovalID
	Note     string
	At       time.Time
}

// Sweep ends every waiting call of a run with its approvals, and every run below it, in
// the transaction that carries it. The store finds the calls and moves each by
// [Sweep.Of]; it finds the live runs below and ends each by [Sweep.Below].
type Sweep struct {
	Tenant TenantID
	Run    RunID
	To     State // Canceled or Revoked
	By     Cause
	Code   Code
	Who    Who
	Keep   []CallID // these stay, alive in Turn
	Turn   Turn
	At     time.Time
}

// Activation makes a registry and policy version the one that decides.
type Activation struct {
	From   int64 // the generation it follows, else RefusedConflict
	To     int64
	Digest string
	Who    Who
	At     time.Time

	Files FilesFrom    // where its files came from
	Plan  []string     // what it changed, as it was shown
	Sum   canon.Digest // of its files; zero: they are not stored
}

// RefusalKind is why a store left no trace.
type RefusalKind string

const (
	RefusedConflict RefusalKind = "conflict" // somebody else moved it
	RefusedEqual    RefusalKind = "equal"    // an equal call is open
	RefusedPremise  RefusalKind = "premise"  // what the decision rested on has changed
	RefusedLimit    RefusalKind = "limit"    // a charge would pass its limit
)

// Refusal is a typed no of the store: nothing was written.
type Refusal struct {
	Kind   RefusalKind
	What   string    // which row or premise, for logs
	Charge *Charge   // with RefusedLimit
	Retry  time.Time // with RefusedLimit: when the same charge may succeed; zero: never
}

func (r *Refusal) Error() string { return "refused (" + string(r.Kind) + "): " + r.What }

// Unwrap makes a refusal a conflict for everybody who does not look closer.
func (r *Refusal) Unwrap() error {
	return &Error{Kind: Conflict, Message: "it was changed at the same time; look again", full: "changed at the same time"}
}
