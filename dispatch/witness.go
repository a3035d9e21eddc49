package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// emittedPrefix begins the occurrences of calls that a model was seen to emit.
const emittedPrefix = "emission:"

// maxEmissions bounds the calls of one response, and what one request may retire.
const maxEmissions = 256

// Exchange is one request to a model, as the door that passes it on read it. What
// it says of the history is a claim; it can only retire what the server saw.
type Exchange struct {
	Caller   identity.Caller
	Run      record.RunID    // a run that the caller opened; empty: the caller's own run under RunLabel
	RunLabel string          //
	Provider string          // the configured name
	Request  canon.Digest    // of the whole body: an equal one is the same question asked again (rule G2)
	NewInput bool            // it ends with user input after a finished answer: a turn begins (rule B3)
	Keep     []record.CallID // waiting calls that outlive the turn that ends
	Typed    string          // what the user typed; counts only from a caller who vouches (rule B5)
	Told     []Told          // the tool calls that its history holds, in order
	Objects  []string        // what it names of the provider's own (rule G1)
	Labels   []string        // what tools that the provider runs itself bring
	Detail   string          // of the check of its history, for operators
}

// Told is a call in a history.
type Told struct {
	Label, Tool string       // Tool is the registry's name
	Digest      canon.Digest // of the arguments, as [record.ArgumentDigest] makes it
	Answered    bool
}

// Sending is a request to a model that is recorded, and may be sent.
type Sending struct {
	Run     record.Run
	request record.ModelRequest
}

// Emitted is a response of a model that completed.
type Emitted struct {
	Response string // the provider's ID of it, a label
	Calls    []EmittedCall
	Objects  []string // what the provider keeps from now on
	Labels   []string // what tools that the provider ran bring
	Void     string   // why its calls are no proposals; empty: they are
}

// EmittedCall is a call of a response, as the model wrote it.
type EmittedCall struct {
	Label, Tool string
	Arguments   []byte
	Position    int
	Forced      bool // the request demanded this tool
}

// Ask records a request to a model before it is sent: it opens or continues the run
// and its turn, and retires the emissions that the request answers, drops or asks
// for again (rules B3 and G2). A provider's object that the run does not own is
// record.NotFound (rule G1).
func (b *Boundary) Ask(ctx context.Context, x Exchange) (Sending, error) {
	if !x.Caller.Valid() {
		return Sending{}, record.Errorf(record.Unauthenticated, "no verified identity came with this request")
	}
	p := Proposal{Caller: x.Caller, Run: x.Run, RunLabel: x.RunLabel}
	if err := p.labels(); err != nil {
		return Sending{}, err
	}
	for range maxConflicts {
		sending, err := b.ask(ctx, x, &p)
		if refusal(err) == nil {
			return sending, err
		}
	}
	return Sending{}, record.Errorf(record.Conflict, "the run kept changing; try again")
}

func (b *Boundary) ask(ctx context.Context, x Exchange, p *Proposal) (Sending, error) {
	now := b.clock()
	a := b.now.Load()
	if a == nil {
		return Sending{}, record.Errorf(record.Unavailable, "nothing is active")
	}
	run, err := b.runFor(ctx, p, now)
	if err != nil {
		return Sending{}, err
	}
	if err := b.keptFor(ctx, run, x.Provider, x.Objects); err != nil {
		return Sending{}, err
	}
	newest, _, err := b.store.Requests(ctx, run.Tenant, run.ID, x.Request)
	if err != nil {
		return Sending{}, err
	}
	open, err := b.store.OpenEmissions(ctx, run.Tenant, run.ID, maxEmissions)
	if err != nil {
		return Sending{}, err
	}
	id, err := record.NewID("req", now, b.random)
	if err != nil {
		return Sending{}, record.Because(record.Unavailable, err, "no request ID could be made")
	}
	asking := record.Asking{Keep: x.Keep, Retire: retired(open, x), Detail: x.Detail,
		Request: record.ModelRequest{ID: id, Tenant: run.Tenant, Run: run.ID, Provider: x.Provider, Digest: x.Request, At: now}}
	if x.NewInput && newest.Digest != x.Request {
		if asking.Turn, err = b.begins(ctx, run, newest, x.Keep); err != nil {
			return Sending{}, err
		}
	}
	if asking.Labels, asking.Salt, err = b.fresh(ctx, run, x.Labels, now); err != nil {
		return Sending{}, err
	}
	premise := &record.Premise{Tenant: run.Tenant, Run: run.ID, Owner: run.Owner, Turn: run.Turn, Generation: a.generation, Touch: !asking.Turn}
	change, err := record.AskModel(run, asking, premise, x.Caller.Owner().By())
	if err != nil {
		return Sending{}, err
	}
	if err := b.apply(ctx, change); err != nil {
		return Sending{}, err
	}
	if move := change.Facts().Run; move != nil {
		run = move.After
	}
	if x.Typed != "" {
		if !x.Caller.Vouches() {
			b.IgnoreVouch()
		} else if err := b.stateInput(ctx, run, x.Typed, now); err != nil {
			return Sending{}, err
		}
	}
	return Sending{Run: run, request: asking.Request}, nil
}

// begins reports whether new user input starts the run's next turn. The first input
// of a run that has done nothing yet is its first turn.
func (b *Boundary) begins(ctx context.Context, run record.Run, newest record.ModelRequest, keep []record.CallID) (bool, error) {
	open, err := b.store.OpenCalls(ctx, run.Tenant, run.ID, 500)
	if err != nil {
		return false, err
	}
	for _, k := range keep {
		if !slices.ContainsFunc(open, func(o record.Call) bool { return o.ID == k && o.State.Waiting() }) {
			return false, record.Errorf(record.Invalid, "keep names %q, which is no waiting call of this run", k)
		}
	}
	if newest.ID == "" && !run.Turns && len(open) == 0 {
		return false, nil
	}
	if most := b.limits.TurnsPerRun; most > 0 && int64(run.Turn) >= most {
		return false, record.Errorf(record.Limited, "the run has had its %d turns; end it and open another", most)
	}
	return true, nil
}

// keptFor refuses what a provider keeps for another run, or for nobody known (rule G1).
func (b *Boundary) keptFor(ctx context.Context, run record.Run, provider string, objects []string) error {
	for _, id := range objects {
		of, err := b.store.KeptFor(ctx, run.Tenant, provider, id)
		if err != nil {
			return err
		}
		if of != run.ID {
			return record.Errorf(record.NotFound, "the request names something that the provider does not keep for this run")
		}
	}
	return nil
}

// retired are the open emissions that a request makes count no longer: an equal one
// asked for them, or its history answers them, or does not have them (rule G2).
func retired(open []record.Emission, x Exchange) []record.EmissionID {
	told := slices.Clone(x.Told)
	var out []record.EmissionID
	for _, e := range open {
		at := slices.IndexFunc(told, func(t Told) bool { return t.Label == e.Label && t.Tool == e.Tool && t.Digest == e.Digest })
		stays := at >= 0 && !told[at].Answered && e.Request != x.Request
		if at >= 0 {
			told = slices.Delete(told, at, at+1)
		}
		if !stays {
			out = append(out, e.ID)
		}
	}
	return out
}

// fresh are the labels that a lineage has to be given now, and its salt where it
// has none.
func (b *Boundary) fresh(ctx context.Context, run record.Run, labels []string, now time.Time) ([]string, []byte, error) {
	if len(labels) == 0 {
		return nil, nil, nil
	}
	l, err := b.store.Lineage(ctx, run.Tenant, run.Lineage)
	if err != nil {
		return nil, nil, err
	}
	if labels = l.Fresh(labels, now); len(labels) == 0 || len(l.Salt) > 0 {
		return labels, nil, nil
	}
	salt, err := b.salt()
	return labels, salt, err
}

// Witness records a response that completed. When it returns nil, and the run is
// still in the turn that asked, proposals match its calls, each once. A response
// that came too late, or to a request that was made again meanwhile, shows nothing.
func (b *Boundary) Witness(ctx context.Context, asked Sending, e Emitted) error {
	for range maxConflicts {
		err := b.witness(ctx, asked, e)
		if refusal(err) == nil {
			return err
		}
	}
	return record.Errorf(record.Conflict, "the run kept changing")
}

func (b *Boundary) witness(ctx context.Context, asked Sending, e Emitted) error {
	now := b.clock()
	a := b.now.Load()
	if a == nil {
		return record.Errorf(record.Unavailable, "nothing is active")
	}
	run, err := b.store.Run(ctx, asked.Run.Tenant, asked.Run.ID)
	if err != nil {
		return err
	}
	answered := record.Answered{Request: asked.request, Response: cut(e.Response), Void: e.Void}
	if answered.Labels, answered.Salt, err = b.fresh(ctx, run, e.Labels, now); err != nil {
		return err
	}
	for _, id := range e.Objects {
		answered.Objects = append(answered.Objects, record.ModelObject{Tenant: run.Tenant, Provider: asked.request.Provider, ID: id, Run: run.ID})
	}
	_, equal, err := b.store.Requests(ctx, run.Tenant, run.ID, asked.request.Digest)
	switch {
	case err != nil:
		return err
	case !run.Live() || run.Owner != asked.Run.Owner:
		return record.Errorf(record.Conflict, "the run has ended")
	case answered.Void != "":
	case run.Turn != asked.Run.Turn:
		answered.Void = "a new turn began"
	case equal.ID != asked.request.ID:
		answered.Void = "the same request was sent again"
	default:
		if answered.Emissions, err = b.emissions(a, asked, e, now); err != nil {
			return err
		}
	}
	premise := &record.Premise{Tenant: run.Tenant, Run: run.ID, Owner: run.Owner, Turn: run.Turn, Generation: a.generation}
	change, err := record.Witness(run, answered, premise, run.By(), now)
	if err != nil {
		return err
	}
	return b.apply(ctx, change)
}

// emissions are the calls of a response that may become proposals. What names no
// tool of the registry, or whose arguments no proposal could have, is none.
func (b *Boundary) emissions(a *active, asked Sending, e Emitted, now time.Time) ([]record.Emission, error) {
	var out []record.Emission
	run := asked.Run
	nth := map[canon.Digest]int{} // of equal calls
	for _, c := range e.Calls {
		if _, listed := a.Registry.Tool(c.Tool); !listed || c.Forced || len(out) == maxEmissions {
			continue
		}
		arguments, _, err := canon.Object(c.Arguments, canon.Limits{Bytes: b.limits.ArgumentBytes})
		if err != nil {
			continue
		}
		id, err := record.NewID("emi", now, b.random)
		if err != nil {
			return nil, record.Because(record.Unavailable, err, "no emission ID could be made")
		}
		digest := record.ArgumentDigest(arguments, nil)
		equal := canon.Of("placet/emitted/1", []byte(run.Lineage), asked.request.Digest[:], []byte(c.Tool), digest[:])
		occurrence := fmt.Sprintf("%s%s:%d", emittedPrefix, equal, nth[equal])
		nth[equal]++
		out = append(out, record.Emission{Owner: run.Owner, ID: record.EmissionID(id), Run: run.ID, Lineage: run.Lineage, Turn: run.Turn,
			Provider: asked.request.Provider, Request: asked.request.Digest, Response: cut(e.Response), Position: c.Position,
			Label: cut(c.Label), Tool: c.Tool, Digest: digest, Occurrence: occurrence, At: now})
	}
	return out, nil
}

// cut bounds what a provider names things.
func cut(label string) string {
	if len(label) > maxLabel {
		return "" // no label that anybody gives
	}
	return label
}

// witnessed makes a proposal the emission that it matches, if there is one: by tool
// and proposed digest, in the lineage, in its run's present turn (rules A2 and G3). It
// is consumed by the change that records the call.
func (b *Boundary) witnessed(ctx context.Context, e *evaluation, p *Proposal) error {
	c := &e.call
	if c.Source != record.Direct || len(c.Input) > 0 || p.Route != "" && p.Route != record.RouteModel {
		return nil
	}
	if c.Occurrence != "" {
		// A label that was used names the call that used it, and consumes nothing.
		known, err := b.store.Labelled(ctx, c.Tenant, c.Lineage, c.Occurrence, 0)
		if err != nil || slices.ContainsFunc(known, func(l Labelled) bool { return l.Call != nil && l.Call.Occurrence == c.Occurrence }) {
			return err
		}
	}
	emission, err := b.store.Emission(ctx, c.Tenant, c.Lineage, c.Tool.Name, c.Digest, e.now.Add(-b.limits.CallExpires))
	if err != nil || emission == nil || emission.Owner != c.Owner {
		return err
	}
	c.Source, c.Emission = record.Witnessed, emission.ID
	if c.Route == record.RouteAPI {
		c.Route = record.RouteModel
	}
	if c.Occurrence != "" {
		return nil
	}
	// An equal call of an answer that was made again is no occurrence of its own: what
	// became of the first is what rules A6 and A7 look at.
	before, err := b.store.Labelled(ctx, c.Tenant, c.Lineage, emission.Occurrence, 0)
	if len(before) == 0 {
		c.Occurrence = emission.Occurrence
	}
	return err
}
