package record

import (
	"math"
	"slices"
	"time"
)

// EventQuota counts the events of a tenant (rule J3).
const EventQuota Counter = "events"

// Quota is how many events of its calls a tenant may have written in a window before
// it may propose nothing more. What follows from calls that exist is counted and never
// refused: outcomes, answers, revocations and ends always have their record.
type Quota struct {
	Events int64 // 0: no quota
	Window time.Duration
}

// Counted is the change with its events counted. Where it is a proposal, or nothing but
// the note of one, it is refused once the quota is used up.
func (c Change) Counted(q Quota) Change {
	if q.Events <= 0 || c.f.Tenant() == "" {
		return c
	}
	charge := Charge{Counter: EventQuota, Amount: int64(len(c.f.Events)), Limit: math.MaxInt64, Window: q.Window, Code: CodeLimitReached}
	if c.f.proposes() {
		charge.Limit = q.Events
	}
	c.f.Charges = append(slices.Clone(c.f.Charges), charge)
	return c
}

// Tenant is whose counters the change's charges are of; "" for what is nobody's.
func (f Facts) Tenant() TenantID {
	switch {
	case f.Call != nil:
		return f.Call.After.Tenant
	case len(f.Events) > 0:
		return f.Events[0].Tenant
	}
	return ""
}

// proposes reports whether the change is there only for a new proposal. A look-up is
// made for a call that exists or comes with one that is counted itself.
func (f Facts) proposes() bool {
	if f.Call != nil {
		return f.Call.From == None && f.Call.After.Supports == ""
	}
	return f.Run == nil && len(f.Events) == 1 && slices.Contains([]EventKind{EventRefused, EventReturned, EventForeign}, f.Events[0].Kind)
}
