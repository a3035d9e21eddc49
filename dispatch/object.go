package dispatch

import (
	"context"
	"encoding/json"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// Access asks whether a caller may use the objects that one call names (step 6).
// It is what a decision point is asked.
type Access struct {
	Caller  identity.Caller
	Tool    *registry.Tool
	Run     record.RunID
	Call    record.CallID
	Purpose string
	// Arguments are canonical.
	Arguments json.RawMessage
	// Objects are the call's targets. Without any, the question is about the tool alone.
	Objects []Object
	At      time.Time
}

// Object is one thing that a call names.
type Object struct {
	Argument string // the argument that names it
	Resource string // what kind of thing it is, as the registry says; "" if it does not
	Value    string // its name: a JSON string's text, or any other value's JSON
}

// Judgement is a decision point's answer.
type Judgement struct {
	Allowed bool
	Rule    string // which decision point, and what it names as its rule; for records
	Public  string // may be shown to the model; optional
	Private string // for operators; optional
	Version string // digest of the decision point's configuration
	Observe bool   // recorded, not applied (rule H3)
}

// DecisionPoint judges access to objects outside of this process.
type DecisionPoint interface {
	// Judge answers for all objects together: allowed only if each is. asked is
	// false when the decision point is not for calls like this one. An error, and
	// an obligation that is not understood, mean that it cannot be decided.
	Judge(ctx context.Context, a Access) (j Judgement, asked bool, err error)
}
