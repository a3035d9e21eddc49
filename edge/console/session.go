package console

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// Bounds of sessions. The token inside one may end it sooner.
const (
	idleLimit     = time.Hour
	absoluteLimit = 12 * time.Hour
	maxSessions   = 10_000
	maxOwn        = 20 // of one person
)

// session is a signed-in browser. It holds the token that says who that is, and
// nothing that would say so by itself.
type session struct {
	key   canon.Digest // of its name
	form  string       // what forms must carry
	owner record.Principal
	since time.Time
	asked time.Time // when they proved to the provider who they are (auth_time); zero: it does not say

	used    atomic.Int64 // when last, in Unix nanoseconds
	streams atomic.Int32 // pages that are kept current

	mu      sync.Mutex // guards what follows; held while a token is renewed
	access  string
	refresh string // empty: it cannot be renewed
	id      string // the ID token, for the provider's sign-out
	nonce   []byte // of the change of passkeys under way
	until   time.Time
	version int64 // as it is kept for other servers
}

// sessions is a bounded store in memory, by the digest of what the cookie holds:
// the index tells nobody a cookie. Where several servers keep their sessions
// together, what is in memory is a copy that is compared at every request.
type sessions struct {
	keep   keep
	mu     sync.Mutex
	random io.Reader
	held   map[canon.Digest]*session
}

func keyOf(name string) canon.Digest { return sha256.Sum256([]byte(name)) }

// secret is 256 random bits as text.
func (s *sessions) secret() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b [32]byte
	if _, err := io.ReadFull(s.random, b[:]); err != nil {
		return "", fmt.Errorf("read randomness: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b[:]), nil
}

// open makes a session under a new name, which nobody knew before the sign-in.
func (s *sessions) open(ctx context.Context, in *session, now time.Time) (name string, err error) {
	if name, err = s.secret(); err != nil {
		return "", err
	}
	if in.form, err = s.secret(); err != nil {
		return "", err
	}
	in.key, in.since = keyOf(name), now
	in.used.Store(now.UnixNano())
	if s.keep.Kept != nil {
		if err := s.keep.TrimSessions(ctx, ownerDigest(in.owner), maxOwn-1, now.Add(-idleLimit), now.Add(-absoluteLimit)); err != nil {
			return "", err
		}
		if err := s.keep.save(ctx, in, now); err != nil {
			return "", err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.make(in.owner, now)
	s.held[in.key] = in
	return name, nil
}

// make makes room: what is over goes, then a person's own oldest, then the one
// that was not used for longest.
func (s *sessions) make(owner record.Principal, now time.Time) {
	var oldest, unused canon.Digest
	var oldestSince, unusedSince time.Time
	own := 0
	for key, held := range s.held {
		used := held.lastUsed()
		if over(held.since, used, now) {
			delete(s.held, key)
			continue
		}
		if held.owner == owner {
			if own++; oldestSince.IsZero() || held.since.Before(oldestSince) {
				oldest, oldestSince = key, held.since
			}
		}
		if unusedSince.IsZero() || used.Before(unusedSince) {
			unused, unusedSince = key, used
		}
	}
	switch {
	case own >= maxOwn:
		delete(s.held, oldest)
	case len(s.held) >= maxSessions:
		delete(s.held, unused)
	}
}

func over(since, used, now time.Time) bool {
	return now.Sub(used) > idleLimit || now.Sub(since) > absoluteLimit
}

func (s *session) lastUsed() time.Time { return time.Unix(0, s.used.Load()) }

// find returns a session that is not over. touch counts as use: a page that only
// keeps itself current does not.
func (s *sessions) find(ctx context.Context, name string, now time.Time, touch bool) (*session, error) {
	if name == "" {
		return nil, nil
	}
	held, err := s.current(ctx, keyOf(name), now)
	switch {
	case isOver(err) || err == nil && held == nil:
		s.forget(name)
		return nil, nil
	case err != nil:
		return nil, err
	case over(held.since, held.lastUsed(), now):
		return nil, s.drop(ctx, name)
	}
	if !touch {
		return held, nil
	}
	if s.keep.Kept != nil && now.Sub(held.lastUsed()) >= useStep {
		err = s.keep.UseSession(ctx, held.key, now)
	}
	held.used.Store(now.UnixNano())
	return held, err
}

// current is a session as it is now, whichever server changed it last; nil: there is none.
func (s *sessions) current(ctx context.Context, key canon.Digest, now time.Time) (*session, error) {
	s.mu.Lock()
	held := s.held[key]
	s.mu.Unlock()
	if s.keep.Kept == nil {
		return held, nil
	}
	if held == nil {
		held = &session{key: key}
	}
	held.mu.Lock()
	_, err := s.keep.load(ctx, held)
	owner := held.owner
	held.mu.Unlock()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.held[key]; other != nil {
		return other, nil
	}
	s.make(owner, now)
	s.held[key] = held
	return held, nil
}

// drop ends a session, at every server.
func (s *sessions) drop(ctx context.Context, name string) error {
	s.forget(name)
	if s.keep.Kept == nil {
		return nil
	}
	return s.keep.DropSession(ctx, keyOf(name))
}

func (s *sessions) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, keyOf(name))
}

// sent reports whether a form carries this session's secret.
func (s *session) sent(form string) bool {
	return subtle.ConstantTimeCompare([]byte(form), []byte(s.form)) == 1
}

// maxStreams is how many pages of one session are kept current at once.
const maxStreams = 12

// cookie is the session's. Links from mail and chat must find it, so it travels
// with a navigation from elsewhere (Lax); what changes anything needs the form's
// secret as well. Over TLS its name binds it to this very host (RFC 6265bis
// section 4.1.3.2).
func (c *Console) cookie(value string) *http.Cookie {
	k := &http.Cookie{Name: c.cookieName("session"), Value: value, Path: "/", HttpOnly: true, Secure: c.secure, SameSite: http.SameSiteLaxMode}
	if value == "" {
		k.MaxAge = -1
	}
	return k
}

func (c *Console) cookieName(what string) string {
	if c.secure {
		return "__Host-placet-" + what
	}
	return "placet-" + what + "-" + c.port // cookies of one host are shared by its ports
}

func (c *Console) sessionName(r *http.Request) string {
	k, err := r.Cookie(c.cookieName("session"))
	if err != nil {
		return ""
	}
	return k.Value
}

// renewBefore is how long before its end a token is renewed.
const renewBefore = 10 * time.Second

// signedIn says whose session a request belongs to. Who that is, identity says,
// from the token, now; a token about to end is renewed where the provider lets
// us. Nobody: a zero viewer and no error.
func (c *Console) signedIn(ctx context.Context, name string, touch bool) (viewer, error) {
	now := c.o.Clock()
	s, err := c.sessions.find(ctx, name, now, touch)
	if s == nil || err != nil {
		return viewer{}, err
	}
	p, err := c.person(ctx, s, now)
	switch {
	case err != nil && record.KindOf(err) == record.Unavailable:
		return viewer{}, err
	case err != nil || !p.Valid() || p.Principal() != s.owner:
		c.o.Log.Debug("a session ended: its token no longer counts", "error", err)
		return viewer{}, c.sessions.drop(ctx, name)
	}
	return viewer{person: p, session: s}, nil
}

func (c *Console) person(ctx context.Context, s *session, now time.Time) (identity.Person, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := c.o.Verifier.Person(ctx, s.access)
	if s.refresh == "" || err == nil && now.Add(renewBefore).Before(p.Expires()) || err != nil && record.KindOf(err) == record.Unavailable {
		return p, err
	}
	token, renewed := c.provider.renew(ctx, s.refresh)
	if renewed != nil {
		if changed, _ := c.sessions.keep.load(ctx, s); changed { // another server was first
			return c.o.Verifier.Person(ctx, s.access)
		}
		c.o.Log.Debug("a sign-in was not renewed", "error", renewed)
		return p, err // it counts until it ends
	}
	s.access = token.AccessToken
	if token.RefreshToken != "" {
		s.refresh = token.RefreshToken
	}
	switch err := c.sessions.keep.save(ctx, s, now); {
	case conflicts(err):
		_, err = c.sessions.keep.load(ctx, s)
		if err != nil {
			return p, err
		}
	case err != nil:
		return p, err
	}
	return c.o.Verifier.Person(ctx, s.access)
}
