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
}

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
