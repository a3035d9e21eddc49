package dispatch

import (
	"context"
	"encoding/json"
	"math/big"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// Money is limits in millionths, by currency. Where there is one, a currency that
// it does not name has the limit 0.
type Money map[string]int64

// day is the span over which a principal's money is counted.
const day = 24 * time.Hour

// admits reports whether a caller may know of a tool now; where only the scope is
// missing, which.
func (a *active) admits(t *registry.Tool, c identity.Caller) (missingScope string, ok bool) {
	return a.admitsAs(t, c.Owner(), c)
}

// admitsAs is admits for an owner in the caller's place, with what the caller's issuer
// says of them.
func (a *active) admitsAs(t *registry.Tool, owner record.Owner, c identity.Caller) (missingScope string, ok bool) {
	if !t.Read && a.OnlyRead[owner.Agent] {
		return "", false
	}
	if t.Completes != nil {
		// Whoever may not have a prompt may not have its arguments completed.
		if scope, ok := a.admitsAs(t.Completes, owner, c); !ok {
			return scope, false
		}
	}
	return t.Admits(owner, c.Scopes(), c.Groups())
}

// spending is what a call costs, as far as it is known before it runs.
type spending struct {
	currency string
	micros   int64
	result   []string // where the result reports it; micros is then the most
}

// checkCost reads what the call costs. A cost that cannot be read denies: what is
// not counted has no limit.
func (e *evaluation) checkCost(context.Context) bool {
	c := e.tool.Cost
	if c == nil {
		return true
	}
	deny := func(public string) bool {
		return e.say(record.Reason{Rule: "registry cost", Place: e.tool.Place, Verdict: record.Deny, Code: record.CodeInvalidArguments, Public: public})
	}
	s := &spending{currency: c.Currency, result: c.Result}
	if c.Holds != "" {
		value, _ := canon.Lookup(e.call.Arguments, c.Holds)
		if json.Unmarshal(value, &s.currency) != nil || !registry.Currency(s.currency) {
			return deny("the argument " + c.Holds + " must be a currency, such as EUR")
		}
	}
	amount := c.Price.Rat()
	if c.Most.Given() {
		amount = c.Most.Rat()
	}
	if c.Argument != "" {
		value, ok := amountOf(e.call.Arguments, c.Argument)
		if !ok || value.Sign() < 0 {
			return deny("the argument " + c.Argument + " must be an amount of 0 or more")
		}
		amount = value
	}
	var ok bool
	if s.micros, ok = record.Micros(amount); !ok {
		return deny("the amount is more than can be counted")
	}
	e.spends = s
	return true
}

// charges are what a call's cost takes of the run's money and of its principal's
// day, held until it is proved that nothing was spent (rule E4).
func (s *spending) charges(e *evaluation, lasts time.Duration) []record.Charge {
	if s == nil {
		return nil
	}
	var out []record.Charge
	charge := func(counter record.Counter, limits Money, window time.Duration) {
		if limits != nil {
			out = append(out, record.Charge{Counter: counter, Amount: s.micros, Limit: limits[s.currency], Window: window,
				Code: record.CodeLimitReached, Proof: true, Cost: len(s.result) > 0})
		}
	}
	p := e.call.Principal
	charge(record.CounterFor("money_run", string(e.call.Lineage), s.currency), e.b.limits.MoneyPerRun, lasts)
	charge(record.CounterFor("money_day", p.Issuer, p.Subject, s.currency), e.b.limits.MoneyPerDay, day)
	return out
}

// reported is the cost that a result states, in millionths, or nil. What cannot be
// read leaves the most that was held.
func (s *spending) reported(result json.RawMessage) *int64 {
	if len(s.result) == 0 || result == nil {
		return nil
	}
	value, ok := canon.Lookup(result, "structuredContent")
	for _, name := range s.result {
		if !ok {
			return nil
		}
		value, ok = canon.Lookup(value, name)
	}
	if !ok {
		return nil
	}
	amount, ok := canon.Decimal(value)
	if !ok {
		return nil
	}
	if micros, ok := record.Micros(amount); ok {
		return &micros
	}
	return nil
}

// tenantCharges count what all principals of a tenant do with the tool.
func (e *evaluation) tenantCharges() []record.Charge {
	t := e.tool
	if t.PerTenant.PerMinute == 0 {
		return nil
	}
	return []record.Charge{{Counter: record.CounterFor("tenant_minute", t.Name), Amount: 1, Limit: int64(t.PerTenant.PerMinute),
		Window: time.Minute, Code: record.CodeRateLimited}}
}

// alone checks what calls without a question may add up to: a sum for the same
// targets, and a number. It returns the question that goes beyond asks, and notes
// what a call within it counts. The reservation checks again, in its own change.
func (e *evaluation) alone(ctx context.Context, l *registry.Limit, amount *big.Rat) *record.Reason {
	if e.tool.Observe {
		return nil
	}
	p := e.call.Principal
	var charges []record.Charge
	if l.PerTarget.Given() {
		limit, _ := record.Micros(l.PerTarget.Rat())
		sum, ok := record.Micros(amount)
		if !ok {
			sum = limit + 1
		}
		charges = append(charges, record.Charge{Counter: record.CounterFor("alone_sum", e.tool.Name, p.Issuer, p.Subject, e.targetsKey()), Amount: sum,
			Limit: limit, Window: l.Within, Code: record.CodeAboveLimit, Proof: true})
	}
	if l.Count > 0 {
		charges = append(charges, record.Charge{Counter: record.CounterFor("alone_count", e.tool.Name, p.Issuer, p.Subject), Amount: 1,
			Limit: int64(l.Count), Window: l.Within, Code: record.CodeAboveLimit, Proof: true})
	}
	if len(charges) == 0 || e.call.Attempt > 0 {
		return nil // a later attempt was counted before
	}
	counters := make([]record.Counter, len(charges))
	for i, c := range charges {
		counters[i] = c.Counter
	}
	levels, err := e.b.store.Levels(ctx, e.call.Tenant, counters)
	if err != nil {
		return &record.Reason{Rule: "store", Code: record.CodeAboveLimit, Private: "what ran without a question is not known: " + err.Error()}
	}
	for i, c := range charges {
		if _, ok, _ := levels[i].Add(c, e.now); !ok {
			return &record.Reason{Rule: "registry above_limit", Code: record.CodeAboveLimit, Private: "limit " + string(c.Counter)}
		}
	}
	e.unasked = charges
	return nil
}

// targetsKey names what the call acts on, whatever else it says.
func (e *evaluation) targetsKey() string {
	parts := make([][]byte, 0, 2*len(e.call.Targets))
	for _, t := range e.call.Targets {
		parts = append(parts, []byte(t.Argument), t.Value)
	}
	return canon.Of("placet/targets/1", parts...).String()
}
