package dispatch

import (
	"encoding/json"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// Proposal is a request for a capability, as a door decoded it.
type Proposal struct {
	Caller     identity.Caller
	Run        record.RunID    // a run the caller opened; empty: the caller's own unvouched run under RunLabel
	RunLabel   string          // the caller's name for its run; a label (rule B2)
	Turn       record.Turn     // vouched proposals state theirs; 0: the run's current one
	Tool       string          // the registry's name
	Method     registry.Method // how it was asked for; an entry that is reached otherwise is not there
	Arguments  json.RawMessage // as received; nil or blank is {}
	Input      json.RawMessage // answers to a server's own questions (input_required), as received
	Purpose    string          // agent text
	Questions  Questions       // kinds of question that this request's client can answer; decides nothing
	Occurrence string          // a label that makes equal proposals two (rule A5)
	Vouch      *Vouch          // counts only when the caller's workload holds vouch
	Route      record.Route    // empty: model when witnessed or vouched, else api
	Edits      record.CallID   // the call whose arguments this one edits (rule A10)
	Progress   func(json.RawMessage)
}

// Vouch is an orchestrator's statement that a model made the proposal (rule A12).
type Vouch struct {
	Turn     record.Turn
	Response string
	Position int
	Input    string // what the user typed in this turn, if it is stated (rule B5)
}

// Answer is what the boundary says of a proposal or a dispatch. It is the same
// on every door; Text is what the model reads.
type Answer struct {
	Verdict  record.Verdict
	Code     record.Code
	Call     *record.Call     // nil when the request became no call
	Approval *record.Approval // the open question, when there is one
	Decision record.Decision
	Result   json.RawMessage // the tool's result, byte for byte, when there is one to hand on
	IsError  bool            // the result's own flag
	Ran      bool            // an attempt of this request reached the tool, or may have
	Retry    time.Time       // when asking again may help; zero: not stated
	Scope    string          // with missing_scope: the scope the user lacks
	Tool     string
	Note     string // a person's note, with rejected
	Instead  string // what to do instead, from registry or policy
	DoneAt   time.Time
	Needs    Questions // the tool refused, since it may not ask these
	Lease    *Lease    // with leased: the attempt is the caller's to run
}

// State is the call's state, or empty.
func (a Answer) State() record.State {
	if a.Call == nil {
		return record.None
	}
	return a.Call.State
}
