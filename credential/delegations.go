package credential

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Source is an issuer that tells, at any time, who somebody is now: this server is
// a client of it that may refresh.
type Source struct {
	Client   Client
	Audience []string // of the tokens that it answers with: this server's own
	Max      time.Duration
}

// Delegations keep the authority of callers who are away (rule C2). What is kept is
// a refresh token of this server's own client, sealed; it is worth nothing without
// the issuer, which is asked at every dispatch. They are safe for concurrent use.
type Delegations struct {
	sources     map[string]*source // by issuer
	sealer      *sealer
	fingerprint canon.Digest
	clock       func() time.Time
	log         *slog.Logger
	ctx         context.Context
	stop        context.CancelFunc

	mu        sync.Mutex
	flights   map[[sha256.Size]byte]*refreshing
	follows   map[[sha256.Size]byte]Secret // what an issuer gave in place of a refresh token it took
	following [][sha256.Size]byte          // the same, oldest first
}

type source struct {
	Source
	endpoint *endpoint
}

func (*Delegations) String() string       { return redacted }
func (*Delegations) GoString() string     { return redacted }
func (*Delegations) LogValue() slog.Value { return slog.StringValue(redacted) }

// OpenDelegations reads the key that seals them from path, or makes one there.
// Close must be called.
func OpenDelegations(path string, sources []Source, o ProfileOptions) (*Delegations, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	key, err := sealKey(path, o.Random)
	if err != nil {
		return nil, err
	}
	return NewDelegations(key, sources, o)
}

// Fingerprint names the key that seals them, and says nothing of it.
func (ds *Delegations) Fingerprint() canon.Digest { return ds.fingerprint }

// NewDelegations is OpenDelegations with a key of 32 bytes.
func NewDelegations(key []byte, sources []Source, o ProfileOptions) (*Delegations, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	ds := &Delegations{sources: map[string]*source{}, clock: o.Clock, log: o.Log,
		flights: map[[sha256.Size]byte]*refreshing{}, follows: map[[sha256.Size]byte]Secret{}}
	for _, s := range sources {
		e, err := newEndpoint(s.Client, o)
		if err != nil {
			return nil, record.Errorf(record.Invalid, "delegation of issuer %q: %w", s.Client.Issuer, err)
		}
		ds.sources[s.Client.Issuer] = &source{s, e}
	}
	ds.fingerprint = canon.Of("placet/delegation-key/1", key)
	if ds.sealer, err = newSealer(key, o.Random); err != nil {
		return nil, err
	}
	ds.ctx, ds.stop = context.WithCancel(context.Background())
	return ds, nil
}

// Close ends requests under way.
func (ds *Delegations) Close() { ds.stop() }

// sealKey reads or makes the key file. It is its owner's alone, as that of
// dispatch tokens: who has it can read what the store holds.
func sealKey(path string, random io.Reader) ([]byte, error) {
	key, found, err := readSealKey(path)
	if err != nil || found {
		return key, err
	}
	key = make([]byte, sealBytes)
	if _, err := io.ReadFull(random, key); err != nil {
		return nil, fmt.Errorf("read randomness for the key of delegations: %w", err)
	}
	return key, saveSealKey(path, key)
}

// Grant exchanges a caller's token for a refresh token of this server's own client
// and returns it sealed. It fails with record.Invalid where the issuer has no live
// source, or gives none.
func (ds *Delegations) Grant(ctx context.Context, owner record.Owner, s Subject, until time.Time) (record.Delegation, error) {
	now := ds.clock().UTC().Truncate(time.Microsecond)
	src, ok := ds.sources[owner.Principal.Issuer]
	switch {
	case !ok || s.Token == "":
		return record.Delegation{}, record.Errorf(record.Invalid, "this caller's issuer has no live source (issuers.delegation), so that nobody could tell whether the authority still holds")
	case !until.After(now):
		return record.Delegation{}, record.Errorf(record.Invalid, "a delegation must end in the future")
	}
	if most := now.Add(src.Max); until.After(most) {
		until = most
	}
	refresh, err := src.grant(ctx, s)
	if err != nil {
		return record.Delegation{}, err
	}
	d := record.Delegation{Issuer: owner.Principal.Issuer, Scopes: slices.Sorted(slices.Values(s.Scopes)), Granted: now, Until: until.UTC().Truncate(time.Microsecond)}
	d.Sealed, err = ds.sealer.seal(sealed{Owner: owner, Scopes: d.Scopes, Until: d.Until, Refresh: refresh.Reveal()})
	return d, err
}

// grant asks for a refresh token (RFC 8693 section 2.1), or takes the one that an
// issuer adds to an access token.
func (s *source) grant(ctx context.Context, subject Subject) (Secret, error) {
	form := func(kind string, scopes ...string) url.Values {
		f := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "subject_token": {subject.Token.Reveal()},
			"subject_token_type": {accessTokenType}, "requested_token_type": {kind}, "audience": s.Audience}
		if scopes = append(slices.Clone(subject.Scopes), scopes...); len(scopes) > 0 {
			f.Set("scope", strings.Join(scopes, " "))
		}
		return f
	}
	g, err := s.endpoint.ask(ctx, form(refreshTokenType))
	var no *Refusal
	if errors.As(err, &no) && (no.Code == "invalid_request" || no.Code == "unsupported_token_type") {
		g, err = s.endpoint.ask(ctx, form(accessTokenType, "offline_access"))
	}
	refresh := g.refresh
	if refresh == "" && g.issued == refreshTokenType {
		refresh = g.token
	}
	switch {
	case err != nil:
		return "", err
	case refresh == "" || refresh == subject.Token:
		return "", record.Errorf(record.Invalid, "the issuer gives no refresh token for this caller; allow token exchange to refresh tokens for this server's client")
	}
	return refresh, nil
}

// Refreshed is what an issuer says of somebody now.
type Refreshed struct {
	Token  Secret   // a fresh access token, not yet verified
	Scopes []string // at most these count
	// Delegation replaces the one that was asked with, which the issuer may have used up.
	Delegation record.Delegation
}

// Refresh asks the issuer for an access token of now. Errors are record.Unavailable
// when it does not answer, record.Forbidden when the authority is gone.
func (ds *Delegations) Refresh(ctx context.Context, owner record.Owner, d record.Delegation) (Refreshed, error) {
	v, src, err := ds.check(owner, d)
	if err != nil {
		return Refreshed{}, err
	}
	f := ds.join(src, Secret(v.Refresh))
	select {
	case <-f.done:
	case <-ctx.Done():
		return Refreshed{}, record.Because(record.Unavailable, ctx.Err(), "the issuer has not answered in time")
	}
	if f.err != nil {
		return Refreshed{}, f.err
	}
	out := Refreshed{Token: f.token, Delegation: d, Scopes: slices.DeleteFunc(slices.Clone(v.Scopes), func(s string) bool { return !slices.Contains(d.Scopes, s) })}
	if f.next.Reveal() != v.Refresh {
		v.Refresh = f.next.Reveal()
		if out.Delegation.Sealed, err = ds.sealer.seal(v); err != nil {
			return Refreshed{}, err
		}
	}
	return out, nil
}

// check opens a delegation for its owner. Nothing is asked of anybody before.
func (ds *Delegations) check(owner record.Owner, d record.Delegation) (sealed, *source, error) {
	v, ok := ds.sealer.open(d.Sealed)
	src := ds.sources[owner.Principal.Issuer]
	switch now := ds.clock(); {
	case !ok || v.Owner != owner || d.Issuer != owner.Principal.Issuer:
		return v, nil, record.Errorf(record.Forbidden, "this delegation is not this run's owner's")
	case !d.Live(now) || !now.Before(v.Until):
		return v, nil, record.Errorf(record.Forbidden, "the delegation has ended")
	case src == nil:
		return v, nil, record.Errorf(record.Forbidden, "the delegation's issuer has no live source any more")
	}
	return v, src, nil
}

// refreshing is one request to an issuer. It has a context of its own: a refresh
// token may count once, and what came for it must not be lost with one caller.
type refreshing struct {
	done  chan struct{}
	token Secret
	next  Secret
	err   error
}

const maxFollows = 1024

// join starts a request, or joins the one with the same refresh token. A token that
// was replaced stands for its successor, for a caller that read the record before
// the successor was in it.
func (ds *Delegations) join(src *source, refresh Secret) *refreshing {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	refresh = ds.latest(refresh)
	name := sha256.Sum256([]byte(refresh))
	if f := ds.flights[name]; f != nil {
		return f
	}
	f := &refreshing{done: make(chan struct{})}
	ds.flights[name] = f
	go ds.refresh(src, refresh, name, f)
	return f
}

// latest follows a refresh token to the one that stands for it now. The lock is held.
func (ds *Delegations) latest(refresh Secret) Secret {
	for range maxFollows {
		next, ok := ds.follows[sha256.Sum256([]byte(refresh))]
		if !ok {
			break
		}
		refresh = next
	}
	return refresh
}

func (ds *Delegations) refresh(src *source, refresh Secret, name [sha256.Size]byte, f *refreshing) {
	ctx, stop := context.WithTimeout(ds.ctx, flightTime)
	defer stop()
	// No scope: what the issuer gives is what there is now.
	g, err := src.endpoint.ask(ctx, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh.Reveal()}})
	if err == nil {
		err = g.checkBearer()
	}
	f.token, f.next, f.err = g.token, g.refresh, err
	if f.next == "" {
		f.next = refresh
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	delete(ds.flights, name)
	if err == nil && f.next != refresh {
		ds.follows[name] = f.next
		ds.following = append(ds.following, name)
		if len(ds.following) > maxFollows {
			delete(ds.follows, ds.following[0])
			ds.following = ds.following[1:]
		}
	}
	close(f.done)
}

// Withdraw tells the issuer that a delegation is not needed any more (RFC 7009).
func (ds *Delegations) Withdraw(ctx context.Context, d record.Delegation) error {
	v, ok := ds.sealer.open(d.Sealed)
	src := ds.sources[d.Issuer]
	switch {
	case !ok || v.Owner.Principal.Issuer != d.Issuer:
		return record.Errorf(record.Forbidden, "this delegation was not made here")
	case src == nil:
		return record.Errorf(record.Unsupported, "the delegation's issuer has no live source any more")
	}
	ds.mu.Lock()
	refresh := ds.latest(Secret(v.Refresh))
	ds.mu.Unlock()
	return src.endpoint.revoke(ctx, refresh, "refresh_token")
}
