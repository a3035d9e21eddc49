package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// checkObjects is step 6: each thing that the call names must be there for the
// principal, in their tenant. The registry's look-ups are asked first, as the
// principal; then the decision points.
func (e *evaluation) checkObjects(ctx context.Context) bool {
	if len(e.tool.Guards) == 0 && len(e.a.Points) == 0 {
		return true
	}
	objects := e.objects()
	if e.dry {
		return e.say(record.Reason{Rule: "objects", Place: e.tool.Place, Verdict: record.Allow,
			Private: "an explanation asks no look-up and no decision point; a call does"})
	}
	for _, o := range objects {
		if o.guard == nil || o.guard.Lookup == nil {
			continue
		}
		reason, err := e.lookUp(ctx, o)
		if err != nil {
			e.moved = err
			return false
		}
		if reason != nil && !e.say(*reason) {
			return false
		}
	}
	return e.checkPoints(ctx, objects)
}

// object is an Object with the guard that says how to ask about it.
type object struct {
	Object
	guard *registry.Guard
	raw   json.RawMessage
}

// objects are the call's targets, each named thing on its own. The guards have
// seen them.
func (e *evaluation) objects() []object {
	var out []object
	for _, t := range e.call.Targets {
		guard := e.tool.Guard(t.Argument)
		resource := ""
		if guard != nil {
			resource = guard.Resource
		}
		elements := []json.RawMessage{t.Value}
		if len(t.Value) > 0 && t.Value[0] == '[' {
			elements = nil
			for v := range canon.Elements(t.Value) {
				elements = append(elements, v)
			}
		}
		for _, v := range elements {
			out = append(out, object{Object{t.Argument, resource, textOf(v)}, guard, v})
		}
	}
	return out
}

// lookUp asks the registry's look-up whether one thing is there for the caller.
// An error means that the record moved: start over.
func (e *evaluation) lookUp(ctx context.Context, o object) (*record.Reason, error) {
	l := o.guard.Lookup
	reason := &record.Reason{Rule: "look-up " + l.Tool, Place: e.tool.Place, Verdict: record.Deny, Code: record.CodeCannotDecide}
	tool, ok := e.a.Registry.Tool(l.Tool)
	if !ok || !tool.Read || l.Argument == "" {
		reason.Private = "the look-up is not there, or its schema is not pinned"
		return reason, nil
	}
	reason.Version = tool.Digest.String()
	e.judged = append(e.judged, tool.Digest[:]...)
	arguments, err := canon.Marshal(map[string]json.RawMessage{l.Argument: o.raw})
	if err != nil {
		reason.Private = "the look-up's arguments cannot be written"
		return reason, nil
	}
	a, err := e.b.support(ctx, e, tool, arguments)
	if err != nil {
		return nil, err
	}
	if a.Call != nil {
		reason.Private = string(a.Call.ID) + ": "
	}
	switch {
	case a.Verdict == record.Allow && a.State() == record.Succeeded && !a.IsError:
		if why := found(l, a.Result, e.call.Tenant); why != "" {
			reason.Code, reason.Private = record.CodeNoSuchTarget, reason.Private+why
			break
		}
		return nil, nil
	case a.Verdict == record.Allow && a.Result != nil:
		// The server answered that it does not show this to this user. Absent and not
		// theirs look alike (rule C5).
		reason.Code, reason.Private = record.CodeNoSuchTarget, reason.Private+"the look-up's answer was an error"
	case a.Verdict != record.Allow:
		reason.Private += "the look-up was not allowed: " + string(a.Code)
		if a.Code == record.CodeMissingScope || a.Code == record.CodeNotAvailable {
			reason.Code = record.CodeNoSuchTarget // the caller may not see such things at all
		}
	default:
		reason.Private += "the look-up had no answer"
	}
	if reason.Code == record.CodeNoSuchTarget {
		reason.Public = o.Argument
	}
	return reason, nil
}

// found reads a look-up's result: "" if the thing is there, in the caller's tenant.
func found(l *registry.Lookup, result json.RawMessage, tenant record.TenantID) (why string) {
	if l.Found == "" && l.Tenant == "" {
		return ""
	}
	body, ok := structured(result)
	if !ok {
		return "the look-up's result is no object"
	}
	if l.Found != "" {
		if value, ok := canon.LookupPath(body, l.Found); !ok || slices.Contains([]string{"null", "false", `""`, "[]", "{}"}, string(value)) {
			return "the result has no " + l.Found
		}
	}
	if l.Tenant != "" {
		value, _ := canon.LookupPath(body, l.Tenant)
		if text, ok := canon.Text(value); !ok || text != string(tenant) {
			return "the result's " + l.Tenant + " is not the caller's tenant"
		}
	}
	return ""
}

// structured is a result's structured content, or the one text that servers
// write it in. Both are read strictly.
func structured(result json.RawMessage) ([]byte, bool) {
	if value, ok := canon.Lookup(result, "structuredContent"); ok {
		out, blank, err := canon.Object(value, canon.Limits{})
		return out, err == nil && !blank
	}
	content, _ := canon.Lookup(result, "content")
	var texts []string
	for block := range canon.Elements(content) {
		value, _ := canon.Lookup(block, "text")
		if text, ok := canon.Text(value); ok {
			texts = append(texts, text)
		}
	}
	if len(texts) != 1 {
		return nil, false
	}
	out, blank, err := canon.Object([]byte(texts[0]), canon.Limits{})
	return out, err == nil && !blank
}

// support makes a call for another one: a look-up, with a record, a ticket and
// limits of its own, as the same caller (rule C5). It goes through every step
// that any call goes through. A *record.Refusal among its errors means: start over.
func (b *Boundary) support(ctx context.Context, of *evaluation, tool *registry.Tool, arguments []byte) (Answer, error) {
	e := &evaluation{b: b, a: of.a, caller: of.caller, now: b.clock(), run: of.run, above: of.above}
	p := Proposal{Caller: of.caller, Tool: tool.Name, Arguments: arguments, Route: record.RouteSupport}
	if err := e.candidate(&p, arguments, nil, false); err != nil {
		return Answer{}, err
	}
	e.call.Supports = of.call.ID
	e.normalise(tool)
	e.identify(tool)
	e.call.Retention = e.call.Retention.Stricter(of.call.Retention) // it asks about the same values
	if own, _ := of.a.Registry.Tool(tool.Name); own != tool {
		e.as = tool // a dry run: a read, from whose record no equal call is answered
	}
	e.call.Attempts = 1
	d := e.evaluate(ctx)
	if e.moved != nil {
		return Answer{}, e.moved
	}
	switch d.Verdict {
	case record.Allow:
		e.call.Binding = record.BindingOf(e.call, nil, time.Time{}, d.DecidedBy)
		return b.run(ctx, e, d, nil, nil, nil)
	case record.RequiresApproval:
		// A question for the sake of a question helps nobody: the look-up is refused.
		d.Verdict, d.Code, d.Rule = record.Deny, record.CodeNoApprover, nil
		d.Reasons = append(d.Reasons, record.Reason{Rule: "look-up", Verdict: record.Deny, Code: record.CodeNoApprover,
			Private: "a look-up that needs an approval cannot be made"})
	}
	return b.record(ctx, e, d, func() (record.Change, error) { return record.Refuse(e.call, e.step(d), nil) })
}

// supportCharges count look-ups apart from the calls that a caller makes itself:
// they have the tool's own numbers, and counters of their own.
func (e *evaluation) supportCharges() []record.Charge {
	t, p := e.tool, e.call.Principal
	var out []record.Charge
	if t.Concurrent > 0 {
		out = append(out, record.Charge{Counter: record.CounterFor("support_concurrent", t.Name, p.Issuer, p.Subject), Amount: 1,
			Limit: int64(t.Concurrent), Code: record.CodeRateLimited, Hold: true})
	}
	if t.PerMinute > 0 {
		out = append(out, record.Charge{Counter: record.CounterFor("support_minute", t.Name, p.Issuer, p.Subject), Amount: 1,
			Limit: int64(t.PerMinute), Window: time.Minute, Code: record.CodeRateLimited})
	}
	return out
}

// checkPoints asks every decision point about the call's objects. Each one that
// is asked must allow.
func (e *evaluation) checkPoints(ctx context.Context, objects []object) bool {
	if len(e.a.Points) == 0 {
		return true
	}
	a := Access{Caller: e.caller, Tool: e.tool, Run: e.run.ID, Call: e.call.ID, Purpose: e.call.Purpose, Arguments: e.call.Arguments, At: e.now}
	for _, o := range objects {
		a.Objects = append(a.Objects, o.Object)
	}
	for _, point := range e.a.Points {
		j, asked, err := judge(ctx, point, a)
		if err == nil && !asked {
			continue
		}
		e.judged = append(e.judged, j.Version...)
		r := record.Reason{Rule: j.Rule, Verdict: record.Allow, Private: j.Private, Version: j.Version, Observe: j.Observe}
		switch {
		case err != nil:
			r.Rule, r.Verdict, r.Code, r.Private = orRule(j.Rule), record.Deny, record.CodeCannotDecide, err.Error()
		case !j.Allowed:
			r.Verdict, r.Code, r.Public = record.Deny, record.CodeNoSuchTarget, j.Public
			if len(objects) == 0 {
				r.Code = record.CodePolicyDenied
			}
		}
		if !e.say(r) {
			return false
		}
	}
	return true
}

func orRule(rule string) string {
	if rule == "" {
		return "decision point"
	}
	return rule
}

// judge asks a decision point and survives it: one that panics decides nothing.
func judge(ctx context.Context, p DecisionPoint, a Access) (j Judgement, asked bool, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the decision point panicked: %T", cause)
		}
	}()
	return p.Judge(ctx, a)
}
