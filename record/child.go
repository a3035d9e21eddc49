package record

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/placet-dev/placet/canon"
)

// MaxDepth is the deepest that runs lie below one another, whatever is configured. A
// store that finds more above a run refuses.
const MaxDepth = 16

// Grant is what a child run may do at most (rule B4). Nothing in it gives anything:
// its caller may do what they may do anyway, the runs above leave, and this names.
type Grant struct {
	Tools   []string            `json:"tools"`             // exact names
	Scopes  []string            `json:"scopes,omitempty"`  // of the caller's
	Targets map[string][]string `json:"targets,omitempty"` // argument to its values, in canonical JSON; an argument that is not named is left as it is
	Money   map[string]int64    `json:"money,omitempty"`   // millionths by currency; one that is not named may not be spent
	Calls   int64               `json:"calls"`
	Until   time.Time           `json:"until"`

	// Unmetered and Endless are of a run to which nobody granted anything.
	Unmetered bool `json:"-"` // money has no limit
	Endless   bool `json:"-"` // Until does not count
}

// Bounds of a grant's text: it is part of every run that is read.
const (
	maxGrantTools  = 256
	maxGrantScopes = 64
	maxGrantValues = 1024
	maxGrantText   = 64 << 10
)

// Normal is the grant in its one form: sorted, each thing once, values canonical. An
// error says what is missing or cannot be read.
func (g Grant) Normal() (Grant, error) {
	set := func(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }
	out := Grant{Tools: set(g.Tools), Scopes: set(g.Scopes), Money: maps.Clone(g.Money), Calls: g.Calls, Until: g.Until.UTC().Truncate(time.Microsecond)}
	size, values := 0, 0
	for _, s := range append(slices.Clone(out.Tools), out.Scopes...) {
		size += len(s)
	}
	for argument, list := range g.Targets {
		if out.Targets == nil {
			out.Targets = make(map[string][]string, len(g.Targets))
		}
		texts := make([]string, 0, len(list))
		for _, v := range list {
			text, err := canonical(v)
			if argument == "" || err != nil {
				return Grant{}, Errorf(Invalid, "the targets of a child run name arguments, and for each the JSON values that it may have")
			}
			texts = append(texts, text)
			size += len(text)
		}
		out.Targets[argument] = set(texts)
		size += len(argument)
		values += 1 + len(texts)
	}
	switch {
	case len(out.Tools) == 0 || slices.Contains(out.Tools, ""):
		return Grant{}, Errorf(Invalid, "a child run is given its tools by name, one or more")
	case out.Calls < 1:
		return Grant{}, Errorf(Invalid, "a child run is given a number of calls, 1 or more")
	case out.Until.IsZero():
		return Grant{}, Errorf(Invalid, "a child run is given an end")
	case len(out.Tools) > maxGrantTools || len(out.Scopes) > maxGrantScopes || values > maxGrantValues || size > maxGrantText:
		return Grant{}, Errorf(Invalid, "what a child run is given is more text than can be kept with it")
	}
	for currency, micros := range out.Money {
		if currency == "" || micros < 0 {
			return Grant{}, Errorf(Invalid, "the money of a child run is amounts of 0 or more, by currency")
		}
	}
	return out, nil
}

// canonical is one JSON value in canonical form.
func canonical(v string) (string, error) {
	object, _, err := canon.Object([]byte(`{"v":`+v+`}`), canon.Limits{})
	if err != nil {
		return "", err
	}
	members := maps.Collect(canon.Members(object))
	if len(members) != 1 {
		return "", Errorf(Invalid, "not one JSON value")
	}
	return string(members["v"]), nil
}

// Beyond says in what the grant goes beyond another, or nothing: what lies within is
// never more, in any of its dimensions.
func (g Grant) Beyond(p Grant) string {
	for _, t := range g.Tools {
		if !slices.Contains(p.Tools, t) {
			return "the tool " + t
		}
	}
	for _, s := range g.Scopes {
		if !slices.Contains(p.Scopes, s) {
			return "the scope " + s
		}
	}
	for argument, values := range p.Targets {
		own, ok := g.Targets[argument]
		if !ok || slices.ContainsFunc(own, func(v string) bool { return !slices.Contains(values, v) }) {
			return "the values of the argument " + argument
		}
	}
	for currency, micros := range g.Money {
		if !p.Unmetered && micros > p.Money[currency] {
			return "money in " + currency
		}
	}
	switch {
	case g.Unmetered && !p.Unmetered:
		return "money"
	case g.Calls > p.Calls:
		return "the number of calls"
	case !p.Endless && (g.Endless || g.Until.After(p.Until)):
		return "its end"
	}
	return ""
}

// Within reports whether the grant is a strict subset of another one: it goes beyond
// it in nothing, and is less in its tools, scopes, targets, money or calls. An earlier
// end alone makes nothing smaller.
func (g Grant) Within(p Grant) bool {
	if g.Beyond(p) != "" {
		return false
	}
	less := len(g.Tools) < len(p.Tools) || len(g.Scopes) < len(p.Scopes) || g.Calls < p.Calls || p.Unmetered && !g.Unmetered
	for argument, values := range g.Targets {
		above, ok := p.Targets[argument]
		less = less || !ok || len(values) < len(above)
	}
	for currency, micros := range p.Money {
		less = less || !g.Unmetered && g.Money[currency] < micros
	}
	return less
}

// Names reports whether the grant holds a tool.
func (g Grant) Names(tool string) bool { return slices.Contains(g.Tools, tool) }

// Admits reports whether an argument may have a value, in canonical form. Of a list
// each element must be admitted, unless the list itself is; nothing is not.
func (g Grant) Admits(argument string, value []byte) bool {
	allowed, bound := g.Targets[argument]
	switch {
	case !bound || slices.Contains(allowed, string(value)):
		return true
	case len(value) == 0 || value[0] != '[':
		return false
	}
	n := 0
	for element := range canon.Elements(value) {
		if n++; !slices.Contains(allowed, string(element)) {
			return false
		}
	}
	return n > 0
}

// Bound are the arguments that the grant binds, in order.
func (g Grant) Bound() []string { return slices.Sorted(maps.Keys(g.Targets)) }

// Over reports whether a run's time is over: its grant's end has come, or cannot be read.
func (r Run) Over(now time.Time) bool {
	return r.Parent != "" && (r.Grant == nil || !now.Before(r.Grant.Until))
}

// brood counts the live children of a run.
func brood(parent RunID, limit int64) Charge {
	return Charge{Counter: CounterFor("children", string(parent)), Amount: 1, Limit: limit, Code: CodeLimitReached}
}

// OpenChild opens a run below another one, of the same principal and lineage. It
// belongs to the present turn of the parent, of which at most fanOut children live at
// the same time. The grant lies within what the parent has, which its caller proves.
func OpenChild(parent, child Run, fanOut, generation int64, who Who) (Change, error) {
	child.Parent, child.Lineage, child.Vouched = parent.ID, parent.Lineage, parent.Vouched
	switch {
	case !parent.Live() || parent.Over(child.Opened):
		return Change{}, Errorf(Conflict, "the run has ended")
	case child.Tenant != parent.Tenant || child.Principal != parent.Principal:
		return Change{}, Errorf(Invalid, "a child run is of the principal of the run above it")
	case child.Grant == nil || parent.Grant != nil && !child.Grant.Within(*parent.Grant):
		return Change{}, Errorf(Forbidden, "a child run is given less than the run above it has")
	case child.Over(child.Opened):
		return Change{}, Errorf(Invalid, "a child run ends after it was opened")
	}
	child.Version, child.State, child.Turn = 1, ModelPending, 1
	return Change{Facts{
		At:  child.Opened,
		Run: &RunMove{After: child},
		Premise: &Premise{Tenant: parent.Tenant, Run: parent.ID, Owner: parent.Owner, Turn: parent.Turn,
			Generation: generation},
		Charges: []Charge{brood(parent.ID, fanOut)},
		Events:  []Event{child.event(EventRunOpened, who, child.Opened, child.Grant.opened(parent.ID))},
	}}, nil
}

// opened is the body of a child run's first event. Values are of arguments: they stand
// with the run, not in the log.
func (g Grant) opened(parent RunID) Body {
	b := Body{Turn: 1, Parent: parent, Grant: &g}
	if len(g.Targets) > 0 {
		named := make(map[string][]string, len(g.Targets))
		for argument := range g.Targets {
			named[argument] = []string{}
		}
		g.Targets, b.Redacted = named, []string{"targets"}
	}
	return b
}

// leaves gives back the place among its parent's children that a run had.
func (f *Facts) leaves(r Run) {
	if r.Parent != "" {
		f.Release = append(f.Release, brood(r.Parent, math.MaxInt64))
	}
}

// Below ends a run that lies below the one whose calls the sweep ends, with its own
// waiting calls, in the same transaction. A child ends with the run above it, with its
// turn, and with its owner's hold on it.
func (w Sweep) Below(r Run) (Change, error) {
	why := "the run above ended"
	if w.Code == CodeCanceled {
		why = "the run above went on to another turn"
	}
	c, err := EndRun(r, why, w.Who, w.At)
	if err != nil {
		return c, err
	}
	c.f.Sweep.To, c.f.Sweep.By = w.To, w.By
	if w.Code != CodeCanceled {
		c.f.Sweep.Code = w.Code
	}
	return c, nil
}

// GrantCharges are what a call takes of what a child run was given: one call, and
// where it costs something the money. They are charged for the call's own run and for
// each one above it, in the change that reserves it.
func (r Run) GrantCharges(currency string, micros int64, reported bool) []Charge {
	if r.Grant == nil {
		return nil
	}
	out := []Charge{{Counter: CounterFor("child_calls", string(r.ID)), Amount: 1, Limit: r.Grant.Calls, Code: CodeLimitReached}}
	if currency != "" {
		out = append(out, Charge{Counter: CounterFor("child_money", string(r.ID), currency), Amount: micros, Limit: r.Grant.Money[currency],
			Code: CodeLimitReached, Proof: true, Cost: reported})
	}
	return out
}

// Text is the grant in words, for pages and command lines.
func (g Grant) Text() string {
	return strings.Join(g.Tools, ", ")
}
