package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/label"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// maxInput bounds what a user typed in one turn.
const maxInput = 64 << 10

// maxOrigins bounds what a decision records of where its values come from.
const maxOrigins = 64

// lasts is how long labels count: for good, except in the lineage that all
// unvouched runs share (rule B1).
func (e *evaluation) lasts() time.Duration {
	if e.run.Vouched {
		return 0
	}
	return e.b.limits.TaintLasts
}

// checkLabels is rules F1 to F5: what the lineage has read, and where the values of
// this call come from.
func (e *evaluation) checkLabels(ctx context.Context) bool {
	if e.call.Route == record.RouteSupport {
		return true // made by the boundary, of values that are judged already
	}
	cannot := func(err error) bool {
		return e.say(record.Reason{Rule: "labels", Place: e.tool.Place, Verdict: record.Deny, Code: record.CodeCannotDecide, Private: err.Error()})
	}
	l, err := e.b.store.Lineage(ctx, e.call.Tenant, e.call.Lineage)
	if err != nil {
		return cannot(err)
	}
	e.lineage, e.looked = l, true
	e.labels = l.Labels(e.now, e.lasts())
	tainted := e.tool.Tainted(e.labels) || e.tool.Unseen && e.call.Source != record.Witnessed
	if l.Seq > 0 || tainted {
		index, err := e.b.indexes.of(ctx, e.b.store, l, e.lasts(), e.now)
		if err != nil {
			return cannot(err)
		}
		t := index.Trace(label.Call{Principal: e.call.Principal, Rules: e.tool.Origins, Arguments: e.call.Arguments,
			UnderLimit: e.underLimit(), Paid: l.Paid, Search: e.tool.Taint == registry.TaintAskUnless})
		e.trace = &t
	}
	if class, ok := e.tool.Forbids(e.labels); ok {
		return e.say(record.Reason{Rule: "registry data", Place: e.tool.Place, Verdict: record.Deny, Code: record.CodePolicyDenied, Observe: e.tool.Observe,
			Public: fmt.Sprintf("data of the class %q was read in this conversation, and may not go there", class), Instead: e.tool.Instead})
	}
	if !tainted {
		return true
	}
	return e.checkTaint()
}

// checkTaint is what the entry says a labelled lineage gets.
func (e *evaluation) checkTaint() bool {
	reason := record.Reason{Rule: "registry taint", Code: record.CodeTaintedTarget, Private: e.labelledBy()}
	switch e.tool.Taint {
	case registry.TaintNone:
		return true
	case registry.TaintDeny:
		reason.Place, reason.Verdict, reason.Observe, reason.Instead = e.tool.Place, record.Deny, e.tool.Observe, e.tool.Instead
		reason.Public = "text from outside was read in this conversation"
		return e.say(reason)
	case registry.TaintAskUnless:
		if len(e.trace.Asks) == 0 {
			return true
		}
		reason.Public = words(e.trace.Asks[0])
	default:
		reason.Public = "text from outside was read in this conversation, and after that a person decides every such call"
	}
	return e.ask(reason)
}

// words says what asks, without a value.
func words(r label.Reason) string {
	argument := strings.NewReplacer("_", " ", ".", " ").Replace(strings.TrimSuffix(strings.TrimSuffix(r.Argument, "_id"), "_"))
	what := map[string]string{label.KindURL: "a link", label.KindEmail: "an address", label.KindAccount: "an account", label.KindPhone: "a number",
		label.KindFile: "a file", label.KindAddress: "an address", label.KindSecret: "a value that you read"}[r.Kind]
	if what == "" {
		what = "something"
	}
	switch r.Ask {
	case label.AskTarget:
		if r.Labelled {
			return "the " + argument + " in this call appears only in text from outside that you read, not in what the user asked"
		}
		return "the " + argument + " in this call does not come from what the user asked, and text from outside was read"
	case label.AskUsed:
		return "what the user asked for with this " + argument + " was done already, and text from outside was read"
	case label.AskPayload:
		return "the " + argument + " in this call holds " + what + " that does not come from the user, and text from outside was read"
	case label.AskNoName:
		return "nothing in this call names what the user asked for, and text from outside was read"
	case label.AskNotSaid:
		return "the user has not asked for this in their own words, and text from outside was read"
	default:
		return "the " + argument + " in this call is too long to be looked through, and text from outside was read"
	}
}

// labelledBy tells operators which calls brought the labels.
func (e *evaluation) labelledBy() string {
	var out []string
	for _, m := range e.lineage.Marks {
		if slices.Contains(e.labels, m.Label) {
			out = append(out, fmt.Sprintf("%s by %s %s", m.Label, m.Tool, m.Call))
		}
	}
	if e.trace != nil {
		for _, a := range e.trace.Asks {
			out = append(out, fmt.Sprintf("%s %s", a.Ask, a.Argument))
		}
	}
	return strings.Join(out, "; ")
}

// underLimit reports whether a financial call is within its autonomous limit.
func (e *evaluation) underLimit() bool {
	l := e.tool.AutonomousLimit
	if !e.tool.Financial || l == nil {
		return false
	}
	amount, ok := amountOf(e.call.Arguments, l.Argument)
	return ok && amount.Sign() >= 0 && amount.Cmp(l.Max.Rat()) <= 0
}

// shownLabels are the labels that policy sees, with what follows from the call itself.
func (e *evaluation) shownLabels() []string {
	if e.call.Source == record.Witnessed {
		return e.labels
	}
	if len(e.labels) == 0 {
		return onlyUnseen
	}
	return append(slices.Clone(e.labels), label.Unseen)
}

var onlyUnseen = []string{label.Unseen}

// originsOf is where each argument's values come from, the least trusted first.
func (e *evaluation) originsOf() map[string]string {
	if e.trace == nil || len(e.trace.Origins) == 0 {
		return nil
	}
	rank := []record.ValueOrigin{record.FromOperator, record.FromUser, record.FromSelected, record.FromUnknown, record.FromLabelled}
	out := map[string]string{}
	for _, o := range e.trace.Origins {
		have, ok := out[o.Argument]
		if !ok || slices.Index(rank, o.From) > slices.Index(rank, record.ValueOrigin(have)) {
			out[o.Argument] = string(o.From)
		}
	}
	return out
}

// marks is what a reservation adds to the lineage: the labels that the tool's
// results bring (rule F1), what the call pays with (rule B5), and the ends of what
// it sends (rule F5). fresh are the labels that the lineage did not carry.
func (e *evaluation) marks() (move *record.LineageMove, fresh []string, err error) {
	if !e.looked || e.trace == nil && !e.tool.Indexed() {
		return nil, nil, nil // most calls: nothing was read or typed, and this one brings nothing
	}
	m := &record.LineageMove{Tenant: e.call.Tenant, ID: e.call.Lineage}
	labels := e.tool.Results.Labels()
	for _, l := range e.lineage.Fresh(labels, e.now) {
		m.Marks = append(m.Marks, record.Mark{Label: l, At: e.now, Call: e.call.ID, Tool: e.tool.Name})
	}
	if t := e.trace; t != nil && e.call.Attempt == 0 {
		m.Pays = t.Pays
		if len(t.Ends) > 0 && e.tool.Taint == registry.TaintAskUnless {
			body, err := json.Marshal(t.Ends)
			if err != nil {
				return nil, nil, err
			}
			m.Material = []record.Material{{Kind: label.KindSent, At: e.now, Call: e.call.ID, Body: body}}
		}
	}
	// A result that will be indexed needs the salt before it comes.
	if len(e.lineage.Salt) == 0 && (!m.Empty() || e.tool.Indexed()) {
		if m.Salt, err = e.b.salt(); err != nil {
			return nil, nil, err
		}
	}
	return m, e.lineage.New(labels), nil
}

func (b *Boundary) salt() ([]byte, error) {
	salt := make([]byte, 16)
	if _, err := io.ReadFull(b.random, salt); err != nil {
		return nil, record.Because(record.Unavailable, err, "no salt could be made")
	}
	return salt, nil
}

// reads is what an outcome adds to the lineage before anybody is answered: labels
// that the server itself stated, and the index of the result (rule F1).
func (e *evaluation) reads(ctx context.Context, c record.Call, result []byte, asks bool) (*record.LineageMove, []string, error) {
	if result == nil || !e.looked {
		return nil, nil, nil
	}
	stated := label.Stated(result)
	if !asks && len(stated) == 0 && len(e.lineage.Salt) == 0 && !e.tool.Indexed() {
		return nil, nil, nil // nothing that any rule ever looks at
	}
	labels := union(e.tool.Results.Labels(), stated)
	if asks {
		labels = union(labels, []string{label.Untrusted}) // a server's own question is text from outside (rule F6)
	}
	l, err := e.b.store.Lineage(ctx, c.Tenant, c.Lineage)
	if err != nil {
		return nil, nil, err
	}
	m, err := e.b.readingOf(l, e.tool, c, labels, result, e.trusted(), e.created(), e.b.clock())
	if err != nil {
		return nil, nil, err
	}
	return m, l.New(labels), nil
}

// readingOf is what reading a result adds to a lineage.
func (b *Boundary) readingOf(l record.Lineage, tool *registry.Tool, c record.Call, labels []string, result []byte, trusted, created bool, now time.Time) (*record.LineageMove, error) {
	m := &record.LineageMove{Tenant: c.Tenant, ID: l.ID}
	if l.ID == "" {
		m.ID = c.Lineage
	}
	for _, name := range l.Fresh(labels, now) {
		m.Marks = append(m.Marks, record.Mark{Label: name, At: now, Call: c.ID, Tool: tool.Name})
	}
	salt := l.Salt
	if len(salt) == 0 {
		if len(labels) == 0 && !tool.Indexed() {
			return m, nil
		}
		var err error
		if salt, err = b.salt(); err != nil {
			return nil, err
		}
		m.Salt = salt
	}
	if entry := label.Read(salt, tool.Name, c.ID, tool.Results, labels, result, trusted, created); entry != nil {
		m.Material = append(m.Material, record.Material{Kind: label.KindResult, At: now, Call: c.ID, Body: entry.Body()})
	}
	return m, nil
}

// trusted reports whether the call's arguments all come from the user or the operator.
func (e *evaluation) trusted() bool {
	if e.trace != nil {
		return e.trace.Trusted
	}
	return string(e.call.Arguments) == "{}" // nothing was typed yet, so anything in it is not
}

// created reports whether what the call made was named by the user.
func (e *evaluation) created() bool { return !e.tool.Read && e.trace != nil && e.trace.Named }

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// labelled passes progress on only once the labels that it states are durable.
func (e *evaluation) labelled(ctx context.Context, c record.Call, progress func(json.RawMessage)) func(json.RawMessage) {
	if progress == nil {
		return nil
	}
	return func(message json.RawMessage) {
		if labels := label.Stated(message); len(labels) > 0 {
			l, err := e.b.store.Lineage(ctx, c.Tenant, c.Lineage)
			if err != nil {
				return
			}
			m := record.LineageMove{Tenant: c.Tenant, ID: c.Lineage}
			now := e.b.clock()
			for _, name := range l.Fresh(labels, now) {
				m.Marks = append(m.Marks, record.Mark{Label: name, At: now, Call: c.ID, Tool: c.Tool.Name})
			}
			if len(m.Marks) > 0 && e.b.apply(ctx, record.Labelling(c, m, now)) != nil {
				return // what cannot be labelled is not passed on
			}
		}
		progress(message)
	}
}

// borrow labels this lineage before it is given the recorded result of a call of
// another one (rules A7 and F1).
func (b *Boundary) borrow(ctx context.Context, e *evaluation, tool *registry.Tool, done *record.Call) error {
	if done.Lineage == e.run.Lineage || done.Outcome == nil || done.Outcome.Result == nil {
		return nil
	}
	labels := union(tool.Results.Labels(), label.Stated(done.Outcome.Result))
	if done.Outcome.Reported {
		labels = union(labels, []string{label.Untrusted})
	}
	l, err := b.store.Lineage(ctx, done.Tenant, e.run.Lineage)
	if err != nil {
		return err
	}
	here := *done
	here.Lineage, here.Run = e.run.Lineage, e.run.ID
	m, err := b.readingOf(l, tool, here, labels, done.Outcome.Result, false, false, e.now)
	if err != nil || m.Empty() {
		return err
	}
	return b.apply(ctx, record.Labelling(here, *m, e.now))
}

// StateInput records what the user typed for a run's current turn, as the
// orchestrator that vouches for it says (rule B5). A turn has one such statement;
// the same one again changes nothing.
func (b *Boundary) StateInput(ctx context.Context, c identity.Caller, id record.RunID, text string) error {
	for range maxConflicts {
		run, err := b.ownRun(ctx, c, id)
		if err != nil {
			return err
		}
		if !c.Vouches() {
			err := c.Lacks(identity.Vouch)
			if lack, ok := identity.LackOf(err); ok {
				if unrecorded := b.Lacks(ctx, lack, "user-input"); unrecorded != nil {
					return unrecorded
				}
			}
			return err
		}
		if !run.Live() {
			return record.Errorf(record.Conflict, "the run %q has ended", id)
		}
		if err = b.stateInput(ctx, run, text, b.clock()); refusal(err) == nil {
			return err
		}
	}
	return record.Errorf(record.Conflict, "the run kept changing; try again")
}

// stateInput is StateInput for a run that its vouching caller owns.
func (b *Boundary) stateInput(ctx context.Context, run record.Run, text string, now time.Time) error {
	switch a := b.now.Load(); {
	case text == "":
		return nil
	case len(text) > maxInput:
		return record.Errorf(record.Invalid, "what the user typed is at most %d bytes; attachments and retrieved text do not belong in it", maxInput)
	case a == nil:
		return record.Errorf(record.Unavailable, "nothing is active")
	default:
		l, err := b.store.Lineage(ctx, run.Tenant, run.Lineage)
		if err != nil {
			return err
		}
		lasts := b.limits.TaintLasts
		if run.Vouched {
			lasts = 0
		}
		index, err := b.indexes.of(ctx, b.store, l, lasts, now)
		if err != nil {
			return err
		}
		if have, ok := index.Input(run.ID, run.Turn); ok {
			if have == text {
				return nil
			}
			return record.Errorf(record.Invalid, "what the user typed in turn %d was stated otherwise before", run.Turn)
		}
		body, err := json.Marshal(label.Typed{Principal: run.Principal, Turn: run.Turn, Run: run.ID, Text: text})
		if err != nil {
			return err
		}
		m := record.LineageMove{Tenant: run.Tenant, ID: run.Lineage,
			Material: []record.Material{{Kind: label.KindTyped, At: now, Body: body, Counts: true}}}
		if len(l.Salt) == 0 {
			if m.Salt, err = b.salt(); err != nil {
				return err
			}
		}
		p := &record.Premise{Tenant: run.Tenant, Run: run.ID, Owner: run.Owner, Turn: run.Turn, Generation: a.generation, Lineage: run.Lineage, Labels: l.Version}
		return b.apply(ctx, record.StateInput(run, p, m, run.Owner.By(), now))
	}
}

// indexes keeps the indexes of the lineages that are in use. What it does not have
// it reads from the store.
type indexes struct {
	mu   sync.Mutex
	byID map[indexKey]*index
}

type indexKey struct {
	tenant record.TenantID
	id     record.LineageID
}

type index struct {
	*label.Lineage
	lasts time.Duration
	built time.Time
}

// maxIndexes bounds how many lineages have their index in memory: see [label] for
// how large one is at most.
const maxIndexes = 128

// of returns the index of a lineage, with everything up to l in it.
func (x *indexes) of(ctx context.Context, s Store, l record.Lineage, lasts time.Duration, now time.Time) (*label.Lineage, error) {
	if l.Seq == 0 {
		return label.New(l.Salt), nil
	}
	k := indexKey{l.Tenant, l.ID}
	x.mu.Lock()
	in, ok := x.byID[k]
	if ok && in.lasts > 0 && now.Sub(in.built) > in.lasts/4 {
		ok = false // what no longer counts is left out
	}
	if !ok {
		in = &index{label.New(l.Salt), lasts, now}
		if x.byID == nil || len(x.byID) >= maxIndexes {
			next := make(map[indexKey]*index, maxIndexes)
			for key, kept := range x.byID {
				if len(next) < maxIndexes/2 {
					next[key] = kept
				}
			}
			x.byID = next
		}
		x.byID[k] = in
	}
	x.mu.Unlock()
	var since time.Time
	if in.lasts > 0 {
		since = now.Add(-in.lasts - time.Minute)
	}
	const page = 200
	for at := in.Seq(); at < l.Seq; {
		list, err := s.Materials(ctx, l.Tenant, l.ID, at, since, page)
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			in.Add(m.Seq, m.Kind, m.Body)
			at = m.Seq
		}
		if len(list) < page {
			in.Skip(l.Seq)
			break
		}
	}
	return in.Lineage, nil
}

// filtered is a result with only the fields that the entry returns.
func filtered(tool *registry.Tool, result json.RawMessage) json.RawMessage {
	if result == nil || len(tool.Results.Only) == 0 {
		return result
	}
	return label.Only(result, tool.Results)
}
