package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// run is steps 9 and 10: reserve, durably; then invoke; then record the outcome,
// durably; then answer. rest is the approval the call rests on, void one that the
// call no longer needs.
func (b *Boundary) run(ctx context.Context, e *evaluation, d record.Decision, rest, void *record.Approval, progress func(json.RawMessage)) (Answer, error) {
	if err := b.Ready(); err != nil {
		return b.undecided(e.tool.Name, err.Error()), nil
	}
	if e.held() {
		return b.holdBack(ctx, e, d)
	}
	credential, why := b.obtain(ctx, e)
	if why != nil {
		return b.uncredited(ctx, e, d, *why, rest, void)
	}
	step := e.step(d)
	step.Charges = e.charges()
	if rest == nil {
		step.Charges = append(step.Charges, e.unasked...)
	}
	var err error
	if step.Lineage, step.Labels, err = e.marks(); err != nil {
		return b.undecided(e.tool.Name, err.Error()), nil
	}
	secret, holder, err := b.leaseSecret(e)
	if err != nil {
		return b.undecided(e.tool.Name, err.Error()), nil
	}
	step.Holder = holder
	timeout := e.timeout()
	lease := e.now.Add(timeout + leaseSlack)
	change, err := record.Reserve(e.call, step, lease, rest, void)
	if err != nil {
		return Answer{}, err
	}
	// The deadline starts before the reservation, so that it ends before the lease
	// does however long the commit takes (rule E5).
	deadline := time.Now().Add(timeout)
	if err := b.apply(ctx, change); err != nil {
		switch r := refusal(err); {
		case overQuota(err):
			return Answer{}, err
		case r != nil && r.Kind == record.RefusedLimit && r.Charge.Code == record.CodeAboveLimit:
			// Another call took what was left without a question: decide anew, and ask.
			return Answer{}, &record.Refusal{Kind: record.RefusedPremise, What: "the autonomous limit was reached meanwhile"}
		case r != nil && r.Kind == record.RefusedLimit:
			return b.limit(ctx, e, d, r)
		case r != nil:
			return Answer{}, err
		}
		return b.undecided(e.tool.Name, err.Error()), nil
	}
	call := change.Facts().Call.After
	work := b.work(e, call, credential, deadline, e.labelled(ctx, call, progress))
	work.Secret = secret
	ticket := mint(work)
	return b.invoke(ctx, e, call, ticket)
}

// work is what the ticket is good for.
func (b *Boundary) work(e *evaluation, c record.Call, credential Credential, deadline time.Time, progress func(json.RawMessage)) Work {
	questions := e.questions
	if !e.server.InputRequired {
		questions = Questions{}
	}
	questions.Sampling = questions.Sampling && e.server.Sampling
	w := Work{
		Questions: questions,
		Tool:      e.tool, Server: e.server, Owner: c.Owner, Lineage: c.Lineage, Run: c.Run, Call: c.ID, Attempt: c.Attempt,
		Arguments: withKey(e.tool.IdempotencyArgument, c.Arguments, c.Key), Input: c.Input, Key: c.Key, Targets: c.Targets,
		Deadline: deadline, Lease: c.Lease, Progress: progress, Credential: credential,
	}
	if e.server.DispatchToken {
		w.Token = b.token(w)
	}
	return w
}

// token signs w each time it is called, after the reservation is durable: a token
// for a call that was not reserved never exists.
func (b *Boundary) token(w Work) func() (string, error) {
	return func() (string, error) {
		if b.signer == nil {
			return "", errors.New("the server verifies dispatch tokens, and this boundary signs none")
		}
		return b.signer.Sign(w)
	}
}

// withKey fills in the argument that Placet fills, never the model (rule A5). The
// key follows from run and call, so what was decided still determines every byte.
func withKey(name string, arguments []byte, key string) json.RawMessage {
	if name == "" {
		return arguments
	}
	all := map[string]json.RawMessage{}
	for n, v := range canon.Members(arguments) {
		all[n] = v
	}
	quoted, err := json.Marshal(key)
	if err != nil {
		return arguments // a key is base32 text: it always marshals
	}
	all[name] = quoted
	out, err := canon.Marshal(all)
	if err != nil {
		return arguments
	}
	return out
}

// limit answers a reservation that a limit refused. A new call stays proposed, so
// that an equal proposal gets it (rule A11); one that exists stays as it is, its
// approval unused (rule A9). A read is not merged with later ones, so one that is
// held back would never be found again: it ends denied.
func (b *Boundary) limit(ctx context.Context, e *evaluation, d record.Decision, r *record.Refusal) (Answer, error) {
	d = limited(d, r, e.now)
	step := e.step(d)
	if e.call.State != record.None {
		if err := b.postpone(ctx, e.was, step); err != nil {
			return b.undecided(e.tool.Name, err.Error()), nil
		}
		return e.answer(d, e.call), nil
	}
	return b.record(ctx, e, d, func() (record.Change, error) {
		if e.tool.Read {
			return record.Refuse(e.call, step, nil)
		}
		return record.HeldBack(e.call, step)
	})
}
