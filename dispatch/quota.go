package dispatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/placet-dev/placet/record"
)

// quotaWindow is how long refusals of one tenant are counted until they become an event.
const quotaWindow = time.Minute

// overQuota reports whether a change was refused because its tenant has written as many
// events as it may for now (rule J3).
func overQuota(err error) bool {
	r := refusal(err)
	return r != nil && r.Kind == record.RefusedLimit && r.Charge.Counter == record.EventQuota
}

// refusedByQuota answers a proposal that is not recorded because its tenant's quota of
// events is used up. Nothing ran. Refusals are one event in a window, with their count.
func (b *Boundary) refusedByQuota(tenant record.TenantID, tool string, err error) Answer {
	if !toolName(tool) {
		tool = ""
	}
	b.quota.refused(tenant, func(n int64) {
		event := record.Event{At: b.clock(), Tenant: tenant, Kind: record.EventThrottled, Who: record.Who{System: "boundary"}}
		body := record.Body{Verdict: record.Deny, Code: record.CodeLimitReached, Detail: fmt.Sprintf("quota.events: %d proposals in a minute", n)}
		if err := b.apply(context.Background(), record.Note(event, body)); err != nil {
			b.log.Error("dispatch: proposals refused by the quota of events were not recorded", "tenant", tenant, "proposals", n, "error", err)
		}
	})
	a := Answer{Verdict: record.Deny, Code: record.CodeLimitReached, Tool: tool}
	if r := refusal(err); r != nil {
		a.Retry = r.Retry
	}
	return a
}

// refusals counts what was refused, by tenant, until it is told.
type refusals struct {
	mu sync.Mutex
	n  map[record.TenantID]int64
}

// refused counts one; the first of a window has all of it told when the window ends.
func (r *refusals) refused(tenant record.TenantID, tell func(int64)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == nil {
		r.n = map[record.TenantID]int64{}
	}
	if r.n[tenant]++; r.n[tenant] > 1 {
		return
	}
	time.AfterFunc(quotaWindow, func() {
		r.mu.Lock()
		n := r.n[tenant]
		delete(r.n, tenant)
		r.mu.Unlock()
		tell(n)
	})
}
