package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// Use is a limit and how much of it is used.
type Use struct {
	Limit     string            // what is limited, one of the names in docs/limits.md
	Tool      string            // where it is a tool's
	Principal *record.Principal // where it is a principal's
	Lineage   record.LineageID  // where it is a lineage's
	Run       record.RunID      // where it is a turn's
	Turn      string            // and which
	Target    string            // where it is a target's: its digest
	Currency  string            // where it is money; Used and Most are then millionths
	Used      int64
	Most      int64         // 0: nothing may be used; see Bounded
	Bounded   bool          // false: no limit is configured now
	Window    time.Duration // 0: it never forgets
}

// kinds are what counters are named, with what their parts are.
var kinds = map[string]struct {
	name  string
	parts []string
}{
	"minute":            {"per_minute", []string{"tool", "issuer", "subject"}},
	"concurrent":        {"concurrent", []string{"tool", "issuer", "subject"}},
	"tenant_minute":     {"per_tenant.per_minute", []string{"tool"}},
	"tenant_concurrent": {"per_tenant.concurrent", []string{"tool"}},
	"run_tool":          {"per_run", []string{"lineage", "tool"}},
	"run":               {"calls_per_run", []string{"lineage"}},
	"money_run":         {"runs.money", []string{"lineage", "currency"}},
	"money_day":         {"money.per_day", []string{"issuer", "subject", "currency"}},
	"alone_sum":         {"autonomous_limit.per_target", []string{"tool", "issuer", "subject", "target"}},
	"alone_count":       {"autonomous_limit.count", []string{"tool", "issuer", "subject"}},
	"open":              {"proposals_open", []string{"lineage"}},
	"events":            {"quota.events", nil},
	"open_turn":         {"proposals_open_turn", []string{"run", "turn"}},
	"open_principal":    {"proposals_open_principal", []string{"issuer", "subject"}},
}

// use reads a counter. It is false for one that is not shown: of a support call, of
// a turn, or of a tool that is gone.
func (b *Boundary) use(a *active, c Counted, now time.Time) (Use, bool) {
	what, parts := c.Counter.Parts()
	kind, ok := kinds[what]
	if !ok || len(parts) != len(kind.parts) {
		return Use{}, false
	}
	u := Use{Limit: kind.name}
	var p record.Principal
	for i, part := range kind.parts {
		switch part {
		case "tool":
			u.Tool = parts[i]
		case "lineage":
			u.Lineage = record.LineageID(parts[i])
		case "run":
			u.Run = record.RunID(parts[i])
		case "turn":
			u.Turn = parts[i]
		case "currency":
			u.Currency = parts[i]
		case "target":
			u.Target = parts[i]
		case "issuer":
			p.Issuer = parts[i]
		case "subject":
			p.Subject = parts[i]
			u.Principal = &p
		}
	}
	tool := &registry.Tool{}
	if u.Tool != "" {
		if tool, ok = a.Registry.Tool(u.Tool); !ok {
			return Use{}, false
		}
	}
	b.bound(&u, what, tool)
	if what != "concurrent" && u.Window == 0 && len(c.Level.Ring) > 0 {
		u.Window = b.limits.TaintLasts // an unvouched lineage's
	}
	u.Used = c.Level.Used(u.Window, now)
	return u, u.Used > 0
}

// bound fills in what is configured now.
func (b *Boundary) bound(u *Use, what string, t *registry.Tool) {
	limit := func(n int64) { u.Most, u.Bounded = n, n > 0 }
	money := func(m Money) { u.Most, u.Bounded = m[u.Currency], m != nil }
	switch what {
	case "minute":
		limit(int64(t.PerMinute))
		u.Window = time.Minute
	case "concurrent":
		limit(int64(t.Concurrent))
	case "tenant_minute":
		limit(int64(t.PerTenant.PerMinute))
		u.Window = time.Minute
	case "tenant_concurrent":
		limit(int64(t.PerTenant.Concurrent))
	case "run_tool":
		limit(int64(t.PerRun))
	case "run":
		limit(b.limits.CallsPerRun)
	case "open":
		limit(b.limits.ProposalsOpen)
	case "events":
		limit(b.limits.Quota.Events)
		u.Window = b.limits.Quota.Window
	case "open_turn":
		limit(b.limits.OpenInTurn)
	case "open_principal":
		limit(b.limits.OpenOfOne)
	case "money_run":
		money(b.limits.MoneyPerRun)
	case "money_day":
		money(b.limits.MoneyPerDay)
		u.Window = day
	case "alone_sum", "alone_count":
		if l := t.AutonomousLimit; l != nil {
			u.Window = l.Within
			if what == "alone_count" {
				limit(int64(l.Count))
			} else if micros, ok := record.Micros(l.PerTarget.Rat()); ok {
				limit(micros)
			}
		}
	}
}

// Usage says what counts for a caller now: of the tools it may call, of its own
// lineage, and of its principal's money. What counts nothing is left out.
func (b *Boundary) Usage(ctx context.Context, c identity.Caller, run record.RunID) ([]Use, error) {
	a := b.now.Load()
	if a == nil {
		return nil, record.Errorf(record.Unavailable, "nothing is active")
	}
	if !c.Valid() {
		return nil, record.Errorf(record.Unauthenticated, "no verified identity came with this request")
	}
	owner := c.Owner()
	epoch, err := b.store.Epoch(ctx, owner)
	if err != nil {
		return nil, err
	}
	lineage := record.UnvouchedLineage(owner, epoch)
	if run != "" {
		r, err := b.ownRun(ctx, c, run)
		if err != nil {
			return nil, err
		}
		lineage = r.Lineage
	}
	p := owner.Principal
	counters := []record.Counter{record.CounterFor("run", string(lineage)), record.CounterFor("open", string(lineage)),
		record.CounterFor("open_principal", p.Issuer, p.Subject)}
	for currency := range b.limits.MoneyPerRun {
		counters = append(counters, record.CounterFor("money_run", string(lineage), currency))
	}
	for currency := range b.limits.MoneyPerDay {
		counters = append(counters, record.CounterFor("money_day", p.Issuer, p.Subject, currency))
	}
	for t := range a.Registry.Tools() {
		if _, ok := a.admits(t, c); !ok {
			continue
		}
		counters = append(counters, record.CounterFor("minute", t.Name, p.Issuer, p.Subject), record.CounterFor("concurrent", t.Name, p.Issuer, p.Subject),
			record.CounterFor("run_tool", string(lineage), t.Name), record.CounterFor("alone_count", t.Name, p.Issuer, p.Subject))
	}
	slices.Sort(counters)
	levels, err := b.store.Levels(ctx, owner.Tenant, counters)
	if err != nil {
		return nil, err
	}
	out := []Use{}
	for i, l := range levels {
		if u, ok := b.use(a, Counted{counters[i], l}, b.clock()); ok {
			out = append(out, u)
		}
	}
	return out, nil
}

// Used reads counters of a tenant, for its readers. What counts nothing, and what is
// not shown, is left out.
func (b *Boundary) Used(counted []Counted) []Use {
	a := b.now.Load()
	out := []Use{}
	if a == nil {
		return out
	}
	for _, c := range counted {
		if u, ok := b.use(a, c, b.clock()); ok {
			out = append(out, u)
		}
	}
	return out
}
