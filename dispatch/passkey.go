package dispatch

import (
	"bytes"
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// Passkeys reads, verifies and seals what people sign with (WebAuthn). It asks
// nobody, and believes nothing that the store says alone.
type Passkeys interface {
	// Read takes an assertion apart. It verifies nothing.
	Read(message []byte) (record.Proof, error)

	// Verify reports whether p.Passkey was enrolled here, is unchanged and not
	// removed, and whether its holder signed challenge.
	Verify(p record.Proof, challenge []byte) error

	// Enrol verifies a new passkey that was made for nonce and returns it sealed as
	// p's, with what an older one signs to confirm it.
	Enrol(message, nonce []byte, p record.Passkey) (record.Passkey, []byte, error)

	// Forget makes a passkey worthless for ever, whatever the store says later.
	Forget(p record.Passkey) error

	// Seal signs a digest with a key that is not in the store, and Sealed says
	// whether it did.
	Seal(d canon.Digest) []byte
	Sealed(d canon.Digest, seal []byte) bool
}

// freshLogin is how long after a sign-in somebody may change their passkeys.
const freshLogin = 5 * time.Minute

// maxName bounds what a person calls a passkey.
const maxName = 60

// PasskeyChange is what a person's change of their passkeys rests on.
type PasskeyChange struct {
	Nonce     []byte    // this ceremony's, from this server, used once
	SignedIn  time.Time // when the person proved who they are to the issuer (auth_time); zero: not known
	Confirmed []byte    // an assertion of a passkey they have; may be missing for the first one
}

// Passkeys returns those of a person.
func (b *Boundary) Passkeys(ctx context.Context, p identity.Person) ([]record.Passkey, error) {
	if !p.Valid() {
		return nil, record.Errorf(record.Unauthenticated, "this needs a verified login for the answering audience")
	}
	return b.store.Passkeys(ctx, p.Tenant(), p.Principal())
}

// AddPasskey enrols a passkey of a person who has just signed in, and who confirms
// it with one that they have, if they have one.
func (b *Boundary) AddPasskey(ctx context.Context, p identity.Person, c PasskeyChange, name string, message []byte) (record.Passkey, error) {
	have, err := b.mayChange(ctx, p, c)
	if err != nil {
		return record.Passkey{}, err
	}
	name = strings.TrimSpace(name)
	if name == "" || !utf8.ValidString(name) || utf8.RuneCountInString(name) > maxName {
		return record.Passkey{}, record.Errorf(record.Invalid, "name the passkey, in at most %d characters", maxName)
	}
	if len(have) >= record.MaxPasskeys {
		return record.Passkey{}, record.Errorf(record.Conflict, "you have %d passkeys, and nobody may have more; remove one first", len(have))
	}
	next, confirm, err := b.passkeys.Enrol(message, c.Nonce, record.Passkey{Tenant: p.Tenant(), Person: p.Principal(), Name: name, Added: b.clock()})
	if err != nil {
		b.log.Warn("dispatch: a passkey was not added", "person", p.Principal().String(), "error", err)
		return record.Passkey{}, err
	}
	rests := "the first, after a fresh sign-in"
	if len(have) > 0 {
		by, err := b.confirmed(p, have, c.Confirmed, confirm)
		if err != nil {
			return record.Passkey{}, err
		}
		rests = "confirmed with " + by
	}
	who := p.Principal()
	err = b.apply(ctx, record.AddPasskey(next, record.Who{Principal: &who}, rests))
	if refusal(err) != nil {
		err = record.Errorf(record.Conflict, "this passkey is enrolled already; nothing was added")
	}
	return next, err
}

// RemovePasskey removes a passkey of a person who has just signed in and confirms it
// with one that they have, which may be the same.
func (b *Boundary) RemovePasskey(ctx context.Context, p identity.Person, c PasskeyChange, id []byte) error {
	have, err := b.mayChange(ctx, p, c)
	if err != nil {
		return err
	}
	gone, ok := passkeyOf(have, id)
	if !ok {
		return record.Errorf(record.NotFound, "there is no such passkey here")
	}
	by, err := b.confirmed(p, have, c.Confirmed, RemovalChallenge(c.Nonce, id))
	if err != nil {
		return err
	}
	who := p.Principal()
	return b.forget(ctx, gone, record.Who{Principal: &who}, "confirmed with "+by)
}

// RemovalChallenge is what a passkey signs to remove one.
func RemovalChallenge(nonce, id []byte) []byte {
	d := canon.Of("placet/passkey-remove/1", nonce, id)
	return d[:]
}

// RevokePasskeys removes every passkey of a person of the operator's tenant: for
// whoever has lost theirs, or must not answer any more. It returns how many it were.
func (b *Boundary) RevokePasskeys(ctx context.Context, o identity.Operator, person record.Principal) (int, error) {
	if !o.Valid() {
		return 0, record.Errorf(record.Forbidden, "removing passkeys of others needs the operate permission")
	}
	have, err := b.store.Passkeys(ctx, o.Tenant(), person)
	switch {
	case err != nil:
		return 0, err
	case len(have) > 0 && b.passkeys == nil:
		return 0, errNoPasskeys()
	}
	for n, p := range have {
		if err := b.forget(ctx, p, record.Who{Workload: o.Name()}, "by an operator"); err != nil {
			return n, err
		}
	}
	return len(have), nil
}

// forget makes a passkey worthless outside the store first: if the rest fails, it
// signs nothing any more and can be removed again.
func (b *Boundary) forget(ctx context.Context, p record.Passkey, who record.Who, what string) error {
	if err := b.passkeys.Forget(p); err != nil {
		return record.Because(record.Unavailable, err, "the removal could not be kept; try again")
	}
	return b.apply(ctx, record.RemovePasskey(p, who, what, b.clock()))
}

func errNoPasskeys() error {
	return record.Errorf(record.NeedsPasskey, "this server takes no passkeys: people cannot sign in here, or its public_url is not one that passkeys work with")
}

// mayChange admits a change of passkeys: a stolen session is not enough for one.
func (b *Boundary) mayChange(ctx context.Context, p identity.Person, c PasskeyChange) ([]record.Passkey, error) {
	if b.passkeys == nil {
		return nil, errNoPasskeys()
	}
	if now := b.clock(); p.Valid() && (c.SignedIn.IsZero() || now.Sub(c.SignedIn) > freshLogin || c.SignedIn.After(now.Add(time.Minute))) {
		return nil, record.Errorf(record.Forbidden, "you signed in too long ago to change passkeys; sign in again")
	}
	if len(c.Nonce) == 0 {
		return nil, record.Errorf(record.Invalid, "this page is too old; open it again")
	}
	return b.Passkeys(ctx, p)
}

// confirmed says by which passkey of a person a change was confirmed.
func (b *Boundary) confirmed(p identity.Person, have []record.Passkey, message, challenge []byte) (string, error) {
	if len(message) == 0 {
		return "", record.Errorf(record.NeedsPasskey, "confirm this with a passkey that you have; nothing was changed. If you have lost it, an operator can remove it (placet passkeys revoke)")
	}
	proof, err := b.passkeys.Read(message)
	if err != nil {
		return "", err
	}
	known, ok := passkeyOf(have, proof.Passkey.ID)
	if !ok {
		return "", record.Errorf(record.NeedsPasskey, "this was not confirmed with a passkey of yours; nothing was changed")
	}
	proof.Passkey = known
	if err := b.passkeys.Verify(proof, challenge); err != nil {
		b.log.Warn("dispatch: a passkey did not confirm a change", "person", p.Principal().String(), "error", err)
		return "", record.Errorf(record.NeedsPasskey, "the passkey did not confirm this; nothing was changed. Try again")
	}
	return known.Name, nil
}

func passkeyOf(have []record.Passkey, id []byte) (record.Passkey, bool) {
	for _, p := range have {
		if len(id) > 0 && bytes.Equal(p.ID, id) {
			return p, true
		}
	}
	return record.Passkey{}, false
}

// sign makes a yes count for a rule that demands a passkey: the assertion is of a
// passkey of this person, over this question and its binding. What comes out is
// sealed, so that the store alone can change nothing of it.
func (b *Boundary) sign(ctx context.Context, q record.Approval, r record.Reply, message []byte) (record.Reply, error) {
	if b.passkeys == nil {
		return r, errNoPasskeys()
	}
	if len(message) == 0 {
		return r, record.Errorf(record.NeedsPasskey, "a yes to this question is signed with a passkey, on its page: /console/approvals/%s. A no needs none", q.ID)
	}
	proof, err := b.passkeys.Read(message)
	if err != nil {
		return r, err
	}
	have, err := b.store.Passkeys(ctx, q.Tenant, r.Person)
	if err != nil {
		return r, err
	}
	known, ok := passkeyOf(have, proof.Passkey.ID)
	if !ok {
		return r, record.Errorf(record.NeedsPasskey, "this is not a passkey of yours that was added here; nothing was recorded. Add one at /console/passkeys")
	}
	proof.Passkey = known
	challenge := record.AnswerChallenge(q.Binding, q.ID, r.Word)
	if err := b.passkeys.Verify(proof, challenge[:]); err != nil {
		b.log.Warn("dispatch: a passkey's answer was not accepted", "approval", string(q.ID), "person", r.Person.String(), "error", err)
		return r, record.Errorf(record.NeedsPasskey, "the passkey did not sign this question as it is now; nothing was recorded. Open the page again")
	}
	if !record.Rises(known.Count, proof.Count) {
		b.log.Warn("dispatch: a passkey's counter went back", "person", r.Person.String(), "seen", known.Count, "count", proof.Count)
		return r, record.Errorf(record.NeedsPasskey, "this passkey's counter went back, as that of a copy would; nothing was recorded. Remove the passkey and add another")
	}
	r.Proof, r.Proved = &proof, true
	proof.Seal = b.passkeys.Seal(r.Sealable(q.Tenant, q.ID))
	return r, nil
}

// proved verifies the answers of a question that are signed, and names the passkeys
// that they rest on. Nothing that the store says is believed: not the state of the
// question, not who answered, not whose key it is.
func (b *Boundary) proved(ctx context.Context, q record.Approval) ([]record.Reply, []record.PasskeyRef, error) {
	var out []record.Reply
	var rests []record.PasskeyRef
	for _, r := range q.Answers {
		ok, err := b.holds(ctx, q, r)
		if err != nil {
			return nil, nil, err
		}
		if r.Proved = ok; ok {
			rests = append(rests, r.Proof.Passkey.Ref())
		}
		out = append(out, r)
	}
	return out, rests, nil
}

func (b *Boundary) holds(ctx context.Context, q record.Approval, r record.Reply) (bool, error) {
	if b.passkeys == nil || r.Word != record.Yes || r.Proof == nil {
		return false, nil
	}
	no := func(why string) (bool, error) {
		b.log.Warn("dispatch: a signed answer does not count", "approval", string(q.ID), "person", r.Person.String(), "why", why)
		return false, nil
	}
	key := r.Proof.Passkey
	if key.Tenant != q.Tenant || key.Person != r.Person {
		return no("the passkey is somebody else's")
	}
	have, err := b.store.Passkeys(ctx, q.Tenant, r.Person)
	if err != nil {
		return false, err
	}
	if now, ok := passkeyOf(have, key.ID); !ok || !bytes.Equal(now.Seal, key.Seal) {
		return no("the passkey is not enrolled any more")
	}
	if !b.passkeys.Sealed(r.Sealable(q.Tenant, q.ID), r.Proof.Seal) {
		return no("the answer is not as it was recorded")
	}
	challenge := record.AnswerChallenge(r.Binding, q.ID, record.Yes)
	if err := b.passkeys.Verify(*r.Proof, challenge[:]); err != nil {
		return no(err.Error())
	}
	return true, nil
}

// whole reports whether what a question shows is what its binding is of. Rows that
// somebody changed must not be what a person reads while they sign something else.
func (b *Boundary) whole(l Loaded) bool {
	c, q := l.Call, *l.Approval
	a := b.now.Load()
	if a == nil || c.Approval != q.ID {
		return false
	}
	if tool, ok := a.Registry.Tool(c.Tool.Name); ok && tool.Digest == c.Tool.Version && c.EffectText != tool.Effect.Render(c.Arguments) {
		return false
	}
	c.Digest = record.ArgumentDigest(c.Arguments, c.Input)
	return record.BindingOf(c, &q.Rule, q.Expires, c.Decision.DecidedBy) == q.Binding
}
