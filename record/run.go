package record

import "time"

// Run is one execution of an agent for one principal.
type Run struct {
	Owner
	ID      RunID     `json:"id"`
	Lineage LineageID `json:"lineage"`
	Parent  RunID     `json:"parent,omitempty"`
	Label   string    `json:"label,omitempty"` // the caller's own name for it; a label, never a credential (rule B2)
	Vouched bool      `json:"vouched"`         // opened, and given its turns, by a vouch workload
	Turn    Turn      `json:"turn"`
	Turns   bool      `json:"turns"` // somebody starts turns, so per-turn limits apply (rule B3)
	State   RunState  `json:"state"`
	Version int64     `json:"version"`
	Opened  time.Time `json:"opened_at"`
	Active  time.Time `json:"active_at"` // within an eighth of the idle time
	Ended   time.Time `json:"ended_at,omitzero"`
	Why     string    `json:"why,omitempty"`
	Replays RunID     `json:"replays,omitempty"` // the ended run that an operator opened this one to replay

	// Delegation lets the run's calls be dispatched while its caller is away; nil: they wait.
	Delegation *Delegation `json:"delegation,omitempty"`
}

// Delegation is the authority of a run's owner while they are away (rule C2). It
// is worth nothing without its source, which is asked at every dispatch.
type Delegation struct {
	Issuer  string    `json:"issuer"`
	Sealed  []byte    `json:"sealed"` // what the source is asked with; only the process that sealed it can read it
	Scopes  []string  `json:"scopes"` // at most these, whatever the source says
	Granted time.Time `json:"granted_at"`
	Until   time.Time `json:"until"`

	Asking time.Time `json:"asking,omitzero"` // until when one process asks the source, alone
	Fixed  bool      `json:"fixed,omitempty"` // asking did not use up what it was asked with: many may at once
}

// Live reports whether the delegation has not ended.
func (d *Delegation) Live(now time.Time) bool { return d != nil && now.Before(d.Until) }

// Live reports whether the run may hold calls.
func (r Run) Live() bool { return r.State == AwaitingUser || r.State == ModelPending }

// Shown is the state a reader sees: the projection of the open calls onto the
// run, the most advanced first. It is derived, never stored.
func (r Run) Shown(open []State) string {
	if !r.Live() {
		return string(r.State)
	}
	for _, p := range []struct {
		state State
		shown string
	}{
		{Executing, "executing"}, {Unknown, "executing"}, {DispatchAuthorized, "dispatch_authorized"},
		{ApprovalPending, "approval_pending"}, {Proposed, "call_proposed"},
	} {
		for _, s := range open {
			if s == p.state {
				return p.shown
			}
		}
	}
	return string(r.State)
}
