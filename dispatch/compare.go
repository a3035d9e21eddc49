package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/label"
	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// Comparison is what two versions say about the calls of a tenant.
type Comparison struct {
	Calls   int // that were looked at
	More    bool
	Same    int
	Changed []Change
	Unknown []Unjudged
}

// Change is a verdict that is another under the second version.
type Change struct {
	Tool     string
	From, To record.Verdict
	Rule     string // that gives the second one; "" where nothing speaks against it
	Count    int
	Examples []record.CallID
}

// Unjudged are calls that cannot be judged from what is recorded of them.
type Unjudged struct {
	Why      string
	Count    int
	Examples []record.CallID
}

// Compare judges recorded calls of a tenant since a time by two versions, at most n of
// them. It asks nobody, runs nothing and records nothing.
//
// What the entries and the layers say of the call itself is worked out anew. What
// depended on more, as it was then (labels, look-ups, decision points, earlier equal
// calls, amounts over time), is taken from the record, and so is the word of a layer
// that did not change. A call of which something is needed that no record holds is
// counted apart: who was in which group, and what a token said, is not recorded.
func Compare(ctx context.Context, r Reader, tenant record.TenantID, since time.Time, n int, from, to Active) (Comparison, error) {
	var out Comparison
	changed, unknown := map[[4]string]*Change{}, map[string]*Unjudged{}
	var err error
	out.Calls, out.More, err = recent(ctx, r, tenant, since, n, func(c record.Call) error {
		a, b := replay(ctx, from, to, c), replay(ctx, to, from, c)
		switch why := cmp.Or(a.lacks, b.lacks); {
		case why != "":
			u := unknown[why]
			if u == nil {
				u = &Unjudged{Why: why}
				unknown[why] = u
			}
			u.Count++
			u.Examples = sample(u.Examples, c.ID)
		case a.verdict == b.verdict:
			out.Same++
		default:
			key := [4]string{c.Tool.Name, string(a.verdict), string(b.verdict), b.rule}
			if changed[key] == nil {
				changed[key] = &Change{Tool: c.Tool.Name, From: a.verdict, To: b.verdict, Rule: b.rule}
			}
			changed[key].Count++
			changed[key].Examples = sample(changed[key].Examples, c.ID)
		}
		return ctx.Err()
	})
	for _, c := range changed {
		out.Changed = append(out.Changed, *c)
	}
	slices.SortFunc(out.Changed, func(a, b Change) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.To, b.To), cmp.Compare(a.Rule, b.Rule))
	})
	for _, u := range unknown {
		out.Unknown = append(out.Unknown, *u)
	}
	slices.SortFunc(out.Unknown, func(a, b Unjudged) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Why, b.Why)) })
	return out, err
}

// judged is a verdict with the rule that gave it, or what it would need.
type judged struct {
	verdict record.Verdict
	rule    string
	lacks   string
}

func (j *judged) say(v record.Verdict, rule string) {
	if was := j.verdict; was.Stricter(v) != was {
		j.verdict, j.rule = was.Stricter(v), rule
	}
}

// replay judges one call by a version; other is the one that it is compared with.
func replay(ctx context.Context, a, other Active, c record.Call) judged {
	j := judged{verdict: record.Allow}
	t, ok := a.Registry.Tool(c.Tool.Name)
	if !ok {
		j.say(record.Deny, "registry")
		return j
	}
	if t.Digest == c.Tool.Version {
		j.recorded(c)
	} else {
		j.entry(t, other, c)
	}
	if j.verdict != record.Deny && j.lacks == "" {
		j.layers(ctx, a, t, c)
	}
	return j
}

// recorded takes the entry's word from the record: it has not changed.
func (j *judged) recorded(c record.Call) {
	for _, r := range c.Decision.Reasons {
		switch {
		case strings.HasPrefix(r.Rule, "approval "):
			j.lacks = "a person rejected it, and only that is recorded"
		case r.Observe || strings.HasPrefix(r.Rule, "layer ") || strings.HasPrefix(r.Rule, "limit ") || strings.HasPrefix(r.Rule, "policy "):
		default:
			j.say(r.Verdict, ruleName(r.Rule))
		}
	}
}

// lasting are rules about more than the call itself: their word stays as it was.
var lasting = []string{"rejection ", "unsettled ", "registry repeat", "registry taint", "registry data", "labels", "look-up", "objects", "decision point ", "delegation", "credential "}

// entry works out what another entry than the recorded one says.
func (j *judged) entry(t *registry.Tool, other Active, c record.Call) {
	if len(c.Arguments) == 0 || c.Redacted != nil {
		j.lacks = "its arguments are not kept"
		return
	}
	if was, ok := other.Registry.Tool(t.Name); ok {
		switch {
		case was.Scope != t.Scope || !reflect.DeepEqual(was.Callers.Groups, t.Callers.Groups):
			j.lacks = "the entry admits other scopes or groups, and what the caller had is not recorded"
			return
		case !slices.EqualFunc(was.Guards, t.Guards, func(x, y registry.Guard) bool {
			return reflect.DeepEqual(x.Lookup, y.Lookup) && x.Resource == y.Resource
		}):
			j.lacks = "the entry looks other things up, and what it would find is not recorded"
			return
		}
	}
	open := *t
	open.Scope, open.Callers.Groups = "", nil
	if _, ok := open.Admits(c.Owner, nil, nil); !ok {
		j.say(record.Deny, "registry callers")
		return
	}
	arguments, refused := t.AcceptArguments(c.Arguments, c.Owner)
	switch {
	case t.CheckArguments(c.Arguments) != nil:
		j.say(record.Deny, "registry schema")
		return
	case refused != nil:
		j.say(record.Deny, "registry guards")
		return
	case t.Approval.Purpose && c.Purpose == "":
		j.say(record.Deny, "registry purpose")
		return
	}
	for _, r := range c.Decision.Reasons {
		if !r.Observe && slices.ContainsFunc(lasting, func(rule string) bool { return strings.HasPrefix(r.Rule, rule) }) {
			j.say(r.Verdict, ruleName(r.Rule))
		}
	}
	if !t.Accepts(c.Source) && !(t.Observe && t.SourcesBelow == record.RequiresApproval) {
		j.say(t.SourcesBelow, "registry sources")
	}
	if !t.Observe {
		j.say(asks(t, arguments))
	}
}

// asks is the entry's own approval rule, for the call alone.
func asks(t *registry.Tool, arguments []byte) (record.Verdict, string) {
	switch t.Approval.When {
	case registry.Asked:
		return record.Allow, ""
	case registry.AboveLimit:
		if l := t.AutonomousLimit; l != nil {
			if amount, ok := amountOf(arguments, l.Argument); ok && amount.Sign() >= 0 && amount.Cmp(l.Max.Rat()) <= 0 {
				return record.Allow, ""
			}
		}
		return record.RequiresApproval, "registry above_limit"
	}
	return record.RequiresApproval, "registry approval"
}

// layers asks those that changed, and takes the word of the others from the record.
func (j *judged) layers(ctx context.Context, a Active, t *registry.Tool, c record.Call) {
	said := map[string]record.Reason{}
	for _, r := range c.Decision.Reasons {
		if strings.HasPrefix(r.Rule, "layer ") {
			said[r.Rule] = r
		}
	}
	in := recordedInput(a, t, c)
	var fresh []policy.Opinion
	for _, l := range a.Policy.Layers() {
		rule := "layer " + l.Name()
		if l.Mode() == policy.Observe || t.Observe {
			continue
		}
		if r, ok := said[rule]; ok && r.Version == l.Version().String() {
			j.say(r.Verdict, rule)
			continue
		}
		fits, err := l.For().Fits(in)
		switch {
		case err != nil:
			j.lacks = "layer " + l.Name() + " is for groups, and those of the principal are not recorded"
			return
		case !fits:
			continue
		case len(c.Arguments) == 0 || c.Redacted != nil:
			j.lacks = "its arguments are not kept"
			return
		}
		if member := unrecorded(l); member != "" {
			j.lacks = "layer " + l.Name() + " reads " + member + ", which is not recorded"
			return
		}
		if fresh == nil {
			fresh = a.Policy.Evaluate(ctx, in)
		}
		for _, o := range fresh {
			if o.Layer == l.Name() {
				j.say(o.Reason.Verdict, rule)
			}
		}
	}
}

// unrecorded names a member of the input that a layer reads and no record holds.
func unrecorded(l policy.Layer) string {
	reading, ok := l.(policy.Reading)
	if !ok {
		return "what cannot be told"
	}
	for _, member := range reading.Reads() {
		switch member {
		case "input", "principal", "principal.scopes", "principal.groups", "principal.other_groups", "principal.groups_known", "principal.claims",
			"run", "run.parent", "call", "call.attempt", "approval", "limits", "limits.calls_in_turn", "limits.calls_in_run":
			return member
		}
	}
	return ""
}

// recordedInput is what layers are asked, as far as the record holds it.
func recordedInput(a Active, t *registry.Tool, c record.Call) *policy.Input {
	e := evaluation{a: &active{Active: a}, tool: t, call: c, run: record.Run{ID: c.Run}, now: c.Decision.At, labels: c.Decision.Labels}
	if len(c.Decision.Origins) > 0 {
		e.trace = &label.Trace{Origins: c.Decision.Origins}
	}
	e.server, _ = a.Registry.Server(t.Server)
	in := e.input()
	in.Principal = policy.Principal{Principal: c.Principal, Tenant: c.Tenant}
	in.Agent = policy.Agent{ID: c.Agent}
	return in
}

// Compared records that an operator compared two versions.
func (b *Boundary) Compared(ctx context.Context, o identity.Operator, from, to string, c Comparison) error {
	event := record.Event{At: b.clock(), Tenant: o.Tenant(), Kind: record.EventCompared, Who: record.Who{Workload: o.Name()}}
	return b.apply(ctx, record.Note(event, record.Body{Detail: fmt.Sprintf("%s with %s over %d calls", from, to, c.Calls)}))
}
