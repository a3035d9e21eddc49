package record

import (
	"slices"
	"time"

	"github.com/placet-dev/placet/canon"
)

// EmissionID names an emission; minted here.
type EmissionID string

// EmissionState is how far an emission has come. It counts only while it is open
// and its run is alive in its turn.
type EmissionState string

const (
	EmissionOpen     EmissionState = "open"
	EmissionConsumed EmissionState = "consumed" // it became a call
	EmissionRetired  EmissionState = "retired"  // answered, dropped or asked for again (rule G2)
)

// Emission is one tool call that the LLM edge saw a model make in a response that
// completed. It is no call: a proposal that matches it, by tool and proposed digest,
// consumes it and is witnessed by it, once (rules A2, G2, G3).
type Emission struct {
	Owner
	ID       EmissionID   `json:"id"`
	Run      RunID        `json:"run"`
	Lineage  LineageID    `json:"lineage"`
	Turn     Turn         `json:"turn"`
	Provider string       `json:"provider"` // the configured name
	Request  canon.Digest `json:"request_digest"`
	Response string       `json:"response"` // the provider's ID, a label
	Position int          `json:"position"` // among the calls of the response
	Label    string       `json:"label"`    // the provider's ID of the call; empty: it gives none
	Tool     string       `json:"tool"`
	Digest   canon.Digest `json:"argument_digest"` // as emitted, canonical (rule G3)
	// Occurrence is the same for equal calls that answer equal requests of a lineage: an
	// answer that is made again has no occurrence of its own.
	Occurrence string        `json:"occurrence"`
	State      EmissionState `json:"state"`
	Call       CallID        `json:"call,omitempty"`
	At         time.Time     `json:"at"`
}

// ModelObject is something that a provider keeps for a run: a response, a
// conversation, a file (rule G1).
type ModelObject struct {
	Tenant   TenantID
	Provider string
	ID       string
	Run      RunID
}

// EmissionMove is what a change does to emissions.
type EmissionMove struct {
	Add     []Emission
	Retire  []EmissionRef // those that are not open stay as they are
	Consume *EmissionUse  // RefusedConflict if it does not count any more
	Objects []ModelObject // RefusedConflict if one is another run's
	Asked   *ModelRequest
}

// EmissionRef names an emission.
type EmissionRef struct {
	Tenant TenantID
	ID     EmissionID
}

// EmissionUse makes an emission a call's.
type EmissionUse struct {
	EmissionRef
	Call CallID
	At   time.Time
}

// ModelRequest is a request of a run to a model.
type ModelRequest struct {
	ID       string
	Tenant   TenantID
	Run      RunID
	Provider string
	Digest   canon.Digest
	At       time.Time
}

// Counts reports whether the emission may be consumed, with its run as it is now.
func (e Emission) Counts(run Run, now time.Time, lasts time.Duration) bool {
	return e.State == EmissionOpen && run.Live() && run.ID == e.Run && run.Turn == e.Turn && now.Sub(e.At) < lasts
}

// Asking is one request to a model, and what it does to the run.
type Asking struct {
	Request ModelRequest
	Turn    bool         // it starts the run's next turn
	Keep    []CallID     // with Turn: waiting calls that stay
	Retire  []EmissionID // open emissions that it answers, drops or asks for again
	Labels  []string     // what the tools that the provider runs itself bring; only new ones
	Salt    []byte       // with Labels: the lineage's, if it has none
	Detail  string       // for operators
}

// AskModel records a request to a model before it is sent (rules B3, G1, G2).
func AskModel(r Run, a Asking, p *Premise, who Who) (Change, error) {
	if !r.Live() {
		return Change{}, Errorf(Conflict, "the run has ended")
	}
	at := a.Request.At
	f := Facts{At: at, Premise: p}
	after := r
	if a.Turn {
		started, err := StartTurn(r, a.Keep, who, at)
		if err != nil {
			return Change{}, err
		}
		f = started.f
		f.Premise = p
		after = f.Run.After
	}
	f.Emissions = &EmissionMove{Asked: &a.Request}
	for _, id := range a.Retire {
		f.Emissions.Retire = append(f.Emissions.Retire, EmissionRef{r.Tenant, id})
	}
	f.Events = append(f.Events, after.event(EventModelAsked, who, at, Body{Turn: after.Turn, Detail: a.Detail,
		Model: &Modelled{Provider: a.Request.Provider, Request: a.Request.Digest, Retired: a.Retire}}))
	f.labels(after, who, at, a.Labels, a.Salt)
	return Change{f}, nil
}

// Answered is a response of a model that completed.
type Answered struct {
	Request   ModelRequest
	Response  string // the provider's ID, a label
	Emissions []Emission
	Objects   []ModelObject
	Labels    []string
	Salt      []byte
	Void      string // why its calls are no proposals, where they are none
	Detail    string // for operators
}

// Witness records what a model emitted. From then on, and only in this turn, a
// proposal can match it.
func Witness(r Run, a Answered, p *Premise, who Who, at time.Time) (Change, error) {
	if !r.Live() {
		return Change{}, Errorf(Conflict, "the run has ended")
	}
	f := Facts{At: at, Premise: p, Emissions: &EmissionMove{Objects: slices.Clone(a.Objects)}}
	model := &Modelled{Provider: a.Request.Provider, Request: a.Request.Digest, Response: a.Response}
	body := Body{Turn: r.Turn, Detail: a.Detail, Model: model}
	if a.Void != "" {
		body.Detail = a.Void
	} else {
		for _, e := range a.Emissions {
			e.State = EmissionOpen
			f.Emissions.Add = append(f.Emissions.Add, e)
			model.Emitted = append(model.Emitted, Emitted{ID: e.ID, Tool: e.Tool, Position: e.Position})
		}
	}
	f.Events = []Event{r.event(EventModelAnswered, who, at, body)}
	f.labels(r, who, at, a.Labels, a.Salt)
	return Change{f}, nil
}

// Return records that an equal call was answered from its record (rule A7). An emission
// that asked for it again is used up by that.
func Return(e Event, b Body, again EmissionID) Change {
	c := Note(e, b)
	if again != "" {
		c.f.Emissions = &EmissionMove{Consume: &EmissionUse{EmissionRef{e.Tenant, again}, e.Call, e.At}}
	}
	return c
}

// labels adds labels that a run's model input brings to its lineage.
func (f *Facts) labels(r Run, who Who, at time.Time, labels []string, salt []byte) {
	if len(labels) == 0 {
		return
	}
	f.Lineage = &LineageMove{Tenant: r.Tenant, ID: r.Lineage, Salt: salt}
	for _, l := range labels {
		f.Lineage.Marks = append(f.Lineage.Marks, Mark{Label: l, At: at})
	}
	f.Events = append(f.Events, r.event(EventLabelled, who, at, Body{Labels: labels}))
}

// Modelled is what an event says of a request to a model or of its response.
type Modelled struct {
	Provider string       `json:"provider"`
	Request  canon.Digest `json:"request_digest"`     // of the whole body
	Response string       `json:"response,omitempty"` // the provider's ID, a label
	Emitted  []Emitted    `json:"emitted,omitempty"`
	Retired  []EmissionID `json:"retired,omitempty"` // emissions that count no longer
}

// Emitted names an emission in an event. Of its arguments an event says nothing: the
// call that consumes it commits to them.
type Emitted struct {
	ID       EmissionID `json:"id"`
	Tool     string     `json:"tool"`
	Position int        `json:"position"`
}
