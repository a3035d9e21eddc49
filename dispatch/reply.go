package dispatch

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// maxNote bounds what an approver may say beside yes or no.
const maxNote = 2000

// maxReplies bounds how often one answer starts over. Each time, another answer came
// first or the question moved on, so that it ends.
const maxReplies = 1000

// Reply records a person's answer to a question. It is compare-and-set on the
// binding the person saw (rule D6): the same answer twice returns the first, a
// conflicting one is refused, and an answer to something else changes nothing.
func (b *Boundary) Reply(ctx context.Context, p identity.Person, id record.ApprovalID, seen canon.Digest, word record.Word, note string) (Loaded, error) {
	return b.ReplySigned(ctx, p, id, seen, word, note, nil)
}

// ReplySigned is Reply with what the person's passkey said of it, as the browser
// gave it: a yes where the rule demands a passkey. A no needs none.
func (b *Boundary) ReplySigned(ctx context.Context, p identity.Person, id record.ApprovalID, seen canon.Digest, word record.Word, note string, signed []byte) (Loaded, error) {
	if !p.Valid() {
		return Loaded{}, record.Errorf(record.Unauthenticated, "answering needs a verified login for the answering audience")
	}
	if word != record.Yes && word != record.No {
		return Loaded{}, record.Errorf(record.Invalid, "an answer is %q or %q", record.Yes, record.No)
	}
	if len(note) > maxNote {
		return Loaded{}, record.Errorf(record.Invalid, "a note is at most %d bytes", maxNote)
	}
	for range maxReplies {
		l, err := b.question(ctx, p, id)
		if err != nil {
			return Loaded{}, err
		}
		done, err := b.reply(ctx, p, l, seen, word, note, signed)
		if refusal(err) == nil {
			return done, err
		}
		runtime.Gosched()
	}
	return Loaded{}, record.Errorf(record.Conflict, "the question kept changing; read it again")
}

// Question returns a question to a person who may answer it. For anybody else
// there is none (rule I3).
func (b *Boundary) Question(ctx context.Context, p identity.Person, id record.ApprovalID) (Loaded, error) {
	if !p.Valid() {
		return Loaded{}, record.Errorf(record.Unauthenticated, "this needs a verified login for the answering audience")
	}
	return b.question(ctx, p, id)
}

func (b *Boundary) question(ctx context.Context, p identity.Person, id record.ApprovalID) (Loaded, error) {
	none := record.Errorf(record.NotFound, "there is no approval %q here", id)
	if !record.ValidID("apr", string(id)) {
		return Loaded{}, record.Errorf(record.NotFound, "there is no such approval here")
	}
	l, err := b.store.Approval(ctx, p.Tenant(), id)
	switch {
	case err != nil && record.KindOf(err) == record.NotFound:
		return Loaded{}, none
	case err != nil:
		return Loaded{}, err
	case !l.Approval.Rule.Eligible(p.Principal(), p.Groups(), l.Approval.Principal):
		return Loaded{}, none
	case l.Approval.Rule.Passkey && l.Approval.State == record.Pending && !b.whole(l):
		return Loaded{}, record.Errorf(record.Unavailable, "the record of this question does not hold together: it was changed by somebody else than this server. It cannot be shown or answered; tell an operator")
	}
	return l, nil
}

func (b *Boundary) reply(ctx context.Context, p identity.Person, l Loaded, seen canon.Digest, word record.Word, note string, signed []byte) (Loaded, error) {
	q, now, people := *l.Approval, b.clock(), b.people()
	for _, a := range q.Answers {
		if people.Same(a.Person, p.Principal()) {
			if a.Word == word && a.Binding == seen {
				return l, nil
			}
			return Loaded{}, record.Errorf(record.Conflict, "you answered this question already: %s at %s", a.Word, a.At.Format(time.RFC3339))
		}
	}
	if q.State != record.Pending {
		return Loaded{}, record.Errorf(record.Conflict, "the question is already %s", q.State)
	}
	if !now.Before(q.Expires) {
		if _, err := b.expire(ctx, l, now); err != nil {
			return Loaded{}, err
		}
		return Loaded{}, record.Errorf(record.Conflict, "the question has expired")
	}
	if seen != q.Binding {
		return Loaded{}, record.Errorf(record.Conflict, "what you saw is not what would run; read the question again")
	}
	if err := mayReply(q, p, word, note, people); err != nil {
		return Loaded{}, err
	}
	r := record.Reply{Person: p.Principal(), Groups: counting(q.Rule, p.Groups()), Word: word, Note: note, Binding: seen, At: now, Session: p.Session()}
	if err := b.maySay(ctx, q.Tenant, r); err != nil {
		return Loaded{}, err
	}
	if q.Rule.Passkey && word == record.Yes {
		var err error
		if r, err = b.sign(ctx, q, r, signed); err != nil {
			return Loaded{}, err
		}
		if q.Answers, _, err = b.proved(ctx, q); err != nil {
			return Loaded{}, err
		}
	}
	d := l.Call.Decision
	if word == record.No {
		d = record.Decision{Verdict: record.Deny, Code: record.CodeRejected, At: now, Generation: d.Generation, DecidedBy: d.DecidedBy,
			Reasons: []record.Reason{{Rule: "approval " + string(q.ID), Verdict: record.Deny, Code: record.CodeRejected, Public: note}}}
	}
	change, err := record.Answer(q, l.Call, r, d, people)
	if err != nil {
		return Loaded{}, err
	}
	if err := b.apply(ctx, change); err != nil {
		return Loaded{}, err
	}
	after := change.Facts().Approvals[0].After
	l.Approval = &after
	if m := change.Facts().Call; m != nil {
		l.Call = m.After
	}
	return l, nil
}

// people is who is one person by what is active now.
func (b *Boundary) people() *record.People {
	if a := b.now.Load(); a != nil {
		return a.People
	}
	return nil
}

// Barred says why a person's yes to a question cannot count, whoever names them; ""
// if it can (rule D5).
func (b *Boundary) Barred(p identity.Person, q record.Approval) string {
	return barred(q, p, b.people())
}

func barred(q record.Approval, p identity.Person, people *record.People) string {
	switch who := p.Principal(); {
	case !q.Rule.Barred(who, q.Owner, people):
		return ""
	case people.Same(who, q.Principal):
		return "this call is for you, and its rule wants another person"
	case who.Issuer == q.Principal.Issuer:
		return "you are signed in as the agent of this call"
	default:
		return "you sign in at another issuer than the one this call is for, and nothing says that you are two persons; an operator can say so under identities"
	}
}

// mayReply holds an answer to the rule it is given under. A no needs no other person:
// it only takes away.
func mayReply(q record.Approval, p identity.Person, word record.Word, note string, people *record.People) error {
	if q.Rule.Reason && strings.TrimSpace(note) == "" {
		return record.Errorf(record.Invalid, "this rule wants a reason; say why in the note")
	}
	if why := barred(q, p, people); word == record.Yes && why != "" {
		return record.Errorf(record.Forbidden, "your yes does not count: %s", why)
	}
	return nil
}

// counting are those of a person's groups that the rule names: what the answer
// rests on, and no more.
func counting(rule record.ApprovalRule, groups []record.Group) []record.Group {
	var out []record.Group
	for _, part := range rule.Parts {
		for _, g := range part.Groups {
			if slices.Contains(groups, g) && !slices.Contains(out, g) {
				out = append(out, g)
			}
		}
	}
	return out
}
