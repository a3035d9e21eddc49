package alert

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// refused is a call that a person rejected, or that policy or a guard denied.
type refused struct {
	since    evidence
	rejected bool
	targets  [][]record.Target // of each that was refused
	digests  []canon.Digest    // of their arguments: saying the same again is another matter
	after    count
}

// approved is a call that people approved.
type approved struct {
	since    evidence
	approval record.ApprovalID
	after    count
}

// unknown is a call whose outcome is not known.
type unknown struct {
	evidence
	tenant record.TenantID
}

// judge applies the rules to one event.
func (w *Watch) judge(ctx context.Context, e record.Event) error {
	b, ok := bodyOf(e)
	if !ok {
		w.o.Log.Error("alert: an event cannot be read", "seq", e.Seq)
		return nil
	}
	switch e.Kind {
	case record.EventDenied:
		return w.denied(ctx, e, b)
	case record.EventRejected:
		return w.remember(ctx, e, true)
	case record.EventProposed:
		return w.triedAgain(ctx, e, b)
	case record.EventApproved:
		return w.approved(ctx, e)
	case record.EventApprovalExpired:
		return w.neverRun(ctx, e)
	case record.EventExecuting:
		if err := w.calledAfter(ctx, e, b); err != nil {
			return err
		}
		return w.sentOut(ctx, e, b)
	case eventLabelled:
		return w.labelled(ctx, e, b)
	case record.EventUnknown:
		w.waiting[e.Call] = unknown{of(e), e.Tenant}
	case record.EventUnreachable:
		return w.raise(ctx, record.AlertUnreachable, e.Tenant, string(e.Approval), "no receiver of a question can be told of it", of(e))
	}
	return nil
}

// denied counts refusals of guarded values by whom they came from: the principal,
// the lineage, and the call whose result held the value.
func (w *Watch) denied(ctx context.Context, e record.Event, b body) error {
	if b.Code == record.CodeNoApprover {
		return w.raise(ctx, record.AlertNoApprover, e.Tenant, "tool "+b.Tool, "a person must decide, and nobody is named for it", of(e))
	}
	if b.Code == record.CodePolicyDenied || b.Code == record.CodeGuardRefused {
		if err := w.remember(ctx, e, false); err != nil {
			return err
		}
	}
	if !b.refusesValue() {
		return nil
	}
	l, err := w.lineage(ctx, e)
	if err != nil {
		return err
	}
	names := []string{"lineage " + string(l.lineage)}
	if p := e.Who.Principal; p != nil {
		names = append(names, "principal "+p.String())
	}
	for _, call := range b.sources() {
		names = append(names, "result of "+string(call))
	}
	for _, name := range names {
		c := w.counter(subject{record.AlertRefusals, e.Tenant, name})
		if n := c.add(of(e), w.limits.Window); n >= w.limits.Refusals {
			text := fmt.Sprintf("%d paths, addresses or other guarded values were refused", n)
			if err := w.raise(ctx, record.AlertRefusals, e.Tenant, name, text, c.hits...); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *Watch) counter(k subject) *count {
	if w.counted[k] == nil {
		w.counted[k] = &count{}
	}
	return w.counted[k]
}

// remember keeps what was refused, so that the same in other words is seen. A tool
// that names no targets has nothing to be the same by: only a person's rejection
// counts for it.
func (w *Watch) remember(ctx context.Context, e record.Event, rejected bool) error {
	l, err := w.o.Records.Call(ctx, e.Tenant, e.Call)
	if err != nil {
		return err
	}
	c := l.Call
	if len(c.Targets) == 0 && !rejected || c.Tool.ReadOnly && !rejected {
		return nil
	}
	k := place{lineageKey{c.Tenant, c.Lineage}, c.Tool.Name}
	r := w.again[k]
	if r == nil {
		r = &refused{}
		w.again[k] = r
		w.tools[toolKey{k.tenant, k.tool}]++
	}
	r.since, r.rejected = of(e), r.rejected || rejected
	if !slices.Contains(r.digests, c.Digest) && len(r.digests) < 100 {
		r.targets, r.digests = append(r.targets, c.Targets), append(r.digests, c.Digest)
	}
	return nil
}

// triedAgain finds calls that are one that was refused, in other words.
func (w *Watch) triedAgain(ctx context.Context, e record.Event, b body) error {
	if w.tools[toolKey{e.Tenant, b.Tool}] == 0 {
		return nil
	}
	l, err := w.lineage(ctx, e)
	if err != nil {
		return err
	}
	r := w.again[place{l, b.Tool}]
	if r == nil || r.since.at.Before(e.At.Add(-w.limits.Window)) {
		return nil
	}
	loaded, err := w.o.Records.Call(ctx, e.Tenant, e.Call)
	if err != nil {
		return err
	}
	if slices.Contains(r.digests, loaded.Call.Digest) || !slices.ContainsFunc(r.targets, func(t []record.Target) bool { return sameTargets(t, loaded.Call.Targets) }) {
		return nil
	}
	n, limit, text := r.after.add(of(e), w.limits.Window), w.limits.DeniedAgain, "a denied call was tried again in other words"
	if r.rejected {
		limit, text = 1, "a call that a person rejected was tried again in other words"
	}
	if n < limit {
		return nil
	}
	return w.raise(ctx, record.AlertTriedAgain, e.Tenant, b.Tool+" in lineage "+string(l.lineage), text, append([]evidence{r.since}, r.after.hits...)...)
}

func sameTargets(a, b []record.Target) bool {
	return slices.EqualFunc(a, b, func(x, y record.Target) bool { return x.Argument == y.Argument && bytes.Equal(x.Value, y.Value) })
}

// approved begins to count what follows an approval.
func (w *Watch) approved(ctx context.Context, e record.Event) error {
	l, err := w.o.Records.Call(ctx, e.Tenant, e.Call)
	if err != nil {
		return err
	}
	k := place{lineageKey{e.Tenant, l.Call.Lineage}, l.Call.Tool.Name}
	if w.followed[k] == nil {
		w.tools[toolKey{k.tenant, k.tool}]++
	}
	w.followed[k] = &approved{since: of(e), approval: e.Approval}
	return nil
}

// calledAfter counts the calls of an approved tool that nobody approved.
func (w *Watch) calledAfter(ctx context.Context, e record.Event, b body) error {
	if e.Approval != "" || b.Attempt > 1 || w.tools[toolKey{e.Tenant, b.Tool}] == 0 {
		return nil
	}
	l, err := w.lineage(ctx, e)
	if err != nil {
		return err
	}
	a := w.followed[place{l, b.Tool}]
	if a == nil || a.since.at.Before(e.At.Add(-w.limits.Window)) {
		return nil
	}
	n := a.after.add(of(e), w.limits.Window)
	if n <= w.limits.AfterApproval {
		return nil
	}
	return w.raise(ctx, record.AlertFollowedBy, e.Tenant, string(a.approval),
		fmt.Sprintf("an approval of %s was followed by %d calls of it that nobody approved", b.Tool, n), append([]evidence{a.since}, a.after.hits...)...)
}

func (w *Watch) people() *record.People {
	if w.o.People == nil {
		return nil
	}
	return w.o.People()
}

// neverRun finds questions that were answered with yes by all who were asked, and
// whose call did not run.
func (w *Watch) neverRun(ctx context.Context, e record.Event) error {
	l, err := w.o.Records.Approval(ctx, e.Tenant, e.Approval)
	if err != nil {
		return err
	}
	a := l.Approval
	if !a.Rule.Met(record.AsGiven(a.Answers), a.Binding, a.Owner, w.people()) {
		return nil
	}
	return w.raise(ctx, record.AlertApprovedNeverRun, e.Tenant, string(a.ID), "a call was approved and did not run before its approval ended", of(e))
}

// stillUnknown looks at the outcomes that have been unknown for long enough.
func (w *Watch) stillUnknown(ctx context.Context) error {
	now := w.o.Clock()
	for id, u := range w.waiting {
		if now.Sub(u.at) < w.limits.UnknownAfter {
			continue
		}
		l, err := w.o.Records.Call(ctx, u.tenant, id)
		if err != nil {
			return err
		}
		if l.Call.State == record.Unknown {
			text := fmt.Sprintf("the outcome of a call of %s is not known, and nobody has settled it", l.Call.Tool.Name)
			if err := w.raise(ctx, record.AlertUnknownWaiting, u.tenant, string(id), text, u.evidence); err != nil {
				return err
			}
		}
		delete(w.waiting, id)
	}
	return nil
}

// forget takes one off what is known of a tool.
func (*Watch) forget(tools map[toolKey]int, k place) {
	t := toolKey{k.tenant, k.tool}
	if tools[t]--; tools[t] <= 0 {
		delete(tools, t)
	}
}

// sensitiveLasts is how long a sensitive read counts for what is sent out after it.
const sensitiveLasts = 24 * time.Hour

// labelled keeps that a lineage has read what is sensitive.
func (w *Watch) labelled(ctx context.Context, e record.Event, b body) error {
	if !slices.Contains(b.Labels, labelSensitive) {
		return nil
	}
	l, err := w.lineage(ctx, e)
	if err != nil {
		return err
	}
	if _, ok := w.read[l]; !ok {
		w.read[l] = of(e)
	}
	return nil
}

// sentOut finds what is sent out of a lineage that has read what is sensitive.
func (w *Watch) sentOut(ctx context.Context, e record.Event, b body) error {
	if len(w.read) == 0 || !w.o.Sink(b.Tool) {
		return nil
	}
	l, err := w.lineage(ctx, e)
	if err != nil {
		return err
	}
	read, ok := w.read[l]
	if !ok {
		return nil
	}
	return w.raise(ctx, record.AlertSensitiveToSink, e.Tenant, b.Tool+" in lineage "+string(l.lineage),
		"after a sensitive read, a tool that sends data out was called", read, of(e))
}
