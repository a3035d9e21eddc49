package alert

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const page = 500

// Records is what is read, and where alerts are written.
type Records interface {
	dispatch.Follower
	Events(context.Context, dispatch.EventQuery) ([]record.Event, error)
	Call(context.Context, record.TenantID, record.CallID) (dispatch.Loaded, error)
	Approval(context.Context, record.TenantID, record.ApprovalID) (dispatch.Loaded, error)
	Run(context.Context, record.TenantID, record.RunID) (record.Run, error)
	Apply(context.Context, record.Change) error
}

// Limits are the thresholds of the rules; the zero value of a field means its default.
type Limits struct {
	Window        time.Duration // within which rules count, and in which an alert is raised once; 1 h
	UnknownAfter  time.Duration // how long an outcome may be unknown; 15 m
	Refusals      int           // refused values of one principal, in one lineage, or of one call's result; 5
	DeniedAgain   int           // calls after a denial, for the same target with other arguments; 3
	AfterApproval int           // calls of an approved tool that may follow; 10
	Off           []record.AlertRule
	Hold          []record.AlertRule // these hold the lineage of their newest evidence too
}

func (l Limits) withDefaults() Limits {
	for d, fallback := range map[*time.Duration]time.Duration{&l.Window: time.Hour, &l.UnknownAfter: 15 * time.Minute} {
		if *d <= 0 {
			*d = fallback
		}
	}
	for n, fallback := range map[*int]int{&l.Refusals: 5, &l.DeniedAgain: 3, &l.AfterApproval: 10} {
		if *n <= 0 {
			*n = fallback
		}
	}
	return l
}

// Options is what a watch is made of. Records is required.
type Options struct {
	Records Records
	Limits  Limits
	People  func() *record.People  // who is one person, by what is active; nil: nothing is stated
	Sink    func(tool string) bool // whether the registry says that a tool sends data out; nil: none does

	Clock func() time.Time // nil: time.Now
	Log   *slog.Logger     // nil: discarded
	Poll  time.Duration    // how often the log is looked at; 0: 1 s
}

// Watch applies the rules. Its state belongs to the goroutine that runs it.
type Watch struct {
	o      Options
	limits Limits

	raised   map[subject]time.Time // when an alert was raised last
	counted  map[subject]*count
	again    map[place]*refused        // what was rejected or denied
	followed map[place]*approved       // what was approved
	tools    map[toolKey]int           // how many of the two there are for a tool
	waiting  map[record.CallID]unknown // outcomes that are not known
	read     map[lineageKey]evidence   // the sensitive reads of lineages
	lineages map[runKey]record.LineageID
	swept    time.Time

	mu     sync.Mutex
	counts map[record.AlertRule]int64
}

type (
	// subject is what an alert is raised for once.
	subject struct {
		rule   record.AlertRule
		tenant record.TenantID
		name   string
	}
	runKey struct {
		tenant record.TenantID
		run    record.RunID
	}
	lineageKey struct {
		tenant  record.TenantID
		lineage record.LineageID
	}
	toolKey struct {
		tenant record.TenantID
		tool   string
	}
	// place is a tool in a lineage.
	place struct {
		lineageKey
		tool string
	}
)

// evidence is an event and the call that it is about.
type evidence struct {
	seq  int64
	call record.CallID
	run  record.RunID
	at   time.Time
}

func of(e record.Event) evidence { return evidence{e.Seq, e.Call, e.Run, e.At} }

// count is evidence that adds up. Looking at an event twice adds it once.
type count struct{ hits []evidence }

// add adds one, forgets what is older than the window, and returns how much there is.
func (c *count) add(e evidence, window time.Duration) int {
	c.hits = slices.DeleteFunc(c.hits, func(h evidence) bool { return h.at.Before(e.at.Add(-window)) })
	if !slices.ContainsFunc(c.hits, func(h evidence) bool { return h.seq == e.seq }) {
		c.hits = append(c.hits, e)
	}
	if len(c.hits) > 1000 { // more than any threshold
		c.hits = c.hits[1:]
	}
	return len(c.hits)
}

// New makes a watch.
func New(o Options) (*Watch, error) {
	if o.Records == nil {
		return nil, errors.New("a watch needs records")
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Poll <= 0 {
		o.Poll = time.Second
	}
	if o.Sink == nil {
		o.Sink = func(string) bool { return false }
	}
	return &Watch{o: o, limits: o.Limits.withDefaults(), raised: map[subject]time.Time{}, counted: map[subject]*count{}, again: map[place]*refused{},
		followed: map[place]*approved{}, tools: map[toolKey]int{}, waiting: map[record.CallID]unknown{}, read: map[lineageKey]evidence{},
		lineages: map[runKey]record.LineageID{}, counts: map[record.AlertRule]int64{}}, nil
}

// Counts is how often each rule raised an alert since the start.
func (w *Watch) Counts() map[record.AlertRule]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make(map[record.AlertRule]int64, len(w.counts))
	for rule, n := range w.counts {
		out[rule] = n
	}
	return out
}

// Run watches until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	after, begun := int64(0), false
	t := time.NewTicker(w.o.Poll)
	defer t.Stop()
	for {
		var err error
		if !begun {
			after, err = w.begin(ctx)
			begun = err == nil
		}
		if begun {
			after, err = w.follow(ctx, after)
		}
		if err != nil && ctx.Err() == nil {
			w.o.Log.Error("alert: the log cannot be watched", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// begin finds where the last window before the newest event begins, and what was
// raised since. While no process runs nothing happens, so nothing is missed.
func (w *Watch) begin(ctx context.Context) (int64, error) {
	top, at, err := w.o.Records.Last(ctx, time.Time{})
	if err != nil || top == 0 {
		return 0, err
	}
	start, _, err := w.o.Records.Last(ctx, at.Add(-max(w.limits.Window, w.limits.UnknownAfter)))
	if err != nil {
		return 0, err
	}
	for after := start; ; {
		events, err := w.o.Records.Events(ctx, dispatch.EventQuery{All: true, After: after, Kinds: []record.EventKind{record.EventAlert}, Limit: page})
		if err != nil {
			return 0, err
		}
		for _, e := range events {
			after = e.Seq
			if b, ok := bodyOf(e); ok && b.Alert != nil {
				w.raised[subject{b.Alert.Rule, e.Tenant, b.Alert.Subject}] = e.At
			}
		}
		if len(events) < page {
			return start, nil
		}
	}
}

// watched are the events that some rule looks at.
var watched = []record.EventKind{record.EventProposed, record.EventExecuting, record.EventDenied, record.EventRejected, record.EventApproved,
	record.EventApprovalExpired, record.EventUnknown, record.EventUnreachable, eventLabelled}

// follow looks at what was recorded since and returns how far it came. On an
// error, the event that it could not judge is judged again.
func (w *Watch) follow(ctx context.Context, after int64) (int64, error) {
	top, _, err := w.o.Records.Last(ctx, time.Time{})
	if err != nil {
		return after, err
	}
	for {
		events, err := w.o.Records.Events(ctx, dispatch.EventQuery{All: true, After: after, Kinds: watched, Limit: page})
		if err != nil {
			return after, err
		}
		for _, e := range events {
			switch err := w.judge(ctx, e); {
			case err != nil && record.KindOf(err) == record.NotFound: // what it speaks of is not kept any more
				w.o.Log.Warn("alert: an event speaks of what is not there", "seq", e.Seq, "error", err)
			case err != nil:
				return after, err
			}
			after = e.Seq
		}
		if len(events) < page {
			break
		}
	}
	after = max(after, top)
	if err := w.stillUnknown(ctx); err != nil {
		return after, err
	}
	w.sweep()
	return after, nil
}

// sweep forgets what is older than every window.
func (w *Watch) sweep() {
	now := w.o.Clock()
	if now.Sub(w.swept) < w.limits.Window/4 {
		return
	}
	w.swept = now
	old := now.Add(-w.limits.Window)
	for k, at := range w.raised {
		if at.Before(old) {
			delete(w.raised, k)
		}
	}
	for k, c := range w.counted {
		if c.hits[len(c.hits)-1].at.Before(old) {
			delete(w.counted, k)
		}
	}
	for k, r := range w.again {
		if r.since.at.Before(old) {
			w.forget(w.tools, k)
			delete(w.again, k)
		}
	}
	for k, a := range w.followed {
		if a.since.at.Before(old) {
			w.forget(w.tools, k)
			delete(w.followed, k)
		}
	}
	for k, e := range w.read {
		if e.at.Before(now.Add(-sensitiveLasts)) {
			delete(w.read, k)
		}
	}
	if len(w.lineages) > 100_000 {
		clear(w.lineages)
	}
}

// raise records an alert, unless one was raised for its subject within the window
// or since the last of the evidence.
func (w *Watch) raise(ctx context.Context, rule record.AlertRule, tenant record.TenantID, name, text string, hits ...evidence) error {
	key, now, last := subject{rule, tenant, name}, w.o.Clock(), hits[len(hits)-1]
	if at, ok := w.raised[key]; ok && (now.Sub(at) < w.limits.Window || !at.Before(last.at)) || slices.Contains(w.limits.Off, rule) {
		return nil
	}
	a := record.Alert{Rule: rule, Subject: name, Text: text, Count: len(hits), Events: []int64{}}
	for _, h := range hits[max(0, len(hits)-20):] {
		a.Events = append(a.Events, h.seq)
		if h.call != "" && !slices.Contains(a.Calls, h.call) {
			a.Calls = append(a.Calls, h.call)
		}
	}
	change := record.Raise(a, tenant, last.run, last.call, now)
	if slices.Contains(w.limits.Hold, rule) && last.run != "" {
		l, err := w.lineage(ctx, record.Event{Tenant: tenant, Run: last.run})
		if err != nil {
			return err
		}
		change = record.RaiseHeld(a, tenant, l.lineage, last.run, last.call, now)
	}
	if err := w.o.Records.Apply(ctx, change); err != nil {
		return err
	}
	w.raised[key] = now
	w.mu.Lock()
	w.counts[rule]++
	w.mu.Unlock()
	calls := make([]string, len(a.Calls))
	for i, c := range a.Calls {
		calls[i] = string(c)
	}
	w.o.Log.Warn("alert: "+text, "rule", string(rule), "tenant", string(tenant), "subject", name, "count", a.Count, "calls", strings.Join(calls, " "))
	return nil
}

// lineage returns the lineage of a run.
func (w *Watch) lineage(ctx context.Context, e record.Event) (lineageKey, error) {
	k := runKey{e.Tenant, e.Run}
	if l, ok := w.lineages[k]; ok {
		return lineageKey{e.Tenant, l}, nil
	}
	r, err := w.o.Records.Run(ctx, e.Tenant, e.Run)
	if err != nil {
		return lineageKey{}, err
	}
	w.lineages[k] = r.Lineage
	return lineageKey{e.Tenant, r.Lineage}, nil
}
