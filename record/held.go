package record

import "time"

// Held says that a lineage is held: until an operator lifts it, no call of the lineage
// that changes something starts. Reads go on, and what waits keeps its place.
type Held struct {
	Rule   AlertRule `json:"rule"`   // the alert that put it there
	Text   string    `json:"text"`   // what the alert says
	Events []int64   `json:"events"` // its evidence in the log
	Calls  []CallID  `json:"calls,omitempty"`
	Run    RunID     `json:"run"` // of the newest evidence
	At     time.Time `json:"at"`
}

// RaiseHeld is Raise with a hold on the lineage that the evidence is of, in one change:
// when it is durable, every later reservation of the lineage sees the hold (rule C3).
func RaiseHeld(a Alert, tenant TenantID, lineage LineageID, run RunID, call CallID, at time.Time) Change {
	c := Raise(a, tenant, run, call, at)
	event := Event{At: at, Tenant: tenant, Kind: EventHeld, Run: run, Call: call, Who: Who{System: "alert"},
		Body: Body{Detail: string(lineage), Evidence: string(a.Rule)}.encode()}
	c.f.Events = append(c.f.Events, event)
	c.f.Lineage = &LineageMove{Tenant: tenant, ID: lineage,
		Hold: &Held{Rule: a.Rule, Text: a.Text, Events: a.Events, Calls: a.Calls, Run: run, At: at}}
	return c
}

// Lift takes the hold from a lineage. The premise holds that the hold is still the one
// that was looked at.
func Lift(l Lineage, p *Premise, who Who, why string, at time.Time) (Change, error) {
	if l.Hold == nil {
		return Change{}, Errorf(Conflict, "its lineage is not held")
	}
	event := Event{At: at, Tenant: l.Tenant, Kind: EventLifted, Run: l.Hold.Run, Who: who,
		Body: Body{Detail: string(l.ID), Evidence: string(l.Hold.Rule), Note: why}.encode()}
	return Change{Facts{At: at, Premise: p, Lineage: &LineageMove{Tenant: l.Tenant, ID: l.ID, Lift: true}, Events: []Event{event}}}, nil
}
