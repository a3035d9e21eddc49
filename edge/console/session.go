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
	form  string // what forms must carry
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
}

// sessions is a bounded store in memory, by the digest of what the cookie holds:
// the index tells nobody a cookie.
type sessions struct {
	mu     sync.Mutex
	random io.Reader
	held   map[[sha256.Size]byte]*session
}

// secret is 256 random bits as text.
func (s *sessions) secret() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.secretLocked()
}

func (s *sessions) secretLocked() (string, error) {
	var b [32]byte
	if _, err := io.ReadFull(s.random, b[:]); err != nil {
		return "", fmt.Errorf("read randomness: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b[:]), nil
}

// open makes a session under a new name, which nobody knew before the sign-in.
func (s *sessions) open(in *session, now time.Time) (name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name, err = s.secretLocked(); err != nil {
		return "", err
	}
	if in.form, err = s.secretLocked(); err != nil {
		return "", err
	}
	in.since = now
	in.used.Store(now.UnixNano())
	s.make(in.owner, now)
	s.held[sha256.Sum256([]byte(name))] = in
	return name, nil
}

// make makes room: what is over goes, then a person's own oldest, then the one
// that was not used for longest.
func (s *sessions) make(owner record.Principal, now time.Time) {
	var oldest, unused [sha256.Size]byte
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
func (s *sessions) find(name string, now time.Time, touch bool) *session {
	if name == "" {
		return nil
	}
	key := sha256.Sum256([]byte(name))
	s.mu.Lock()
	held := s.held[key]
	s.mu.Unlock()
	switch {
	case held == nil:
		return nil
	case over(held.since, held.lastUsed(), now):
		s.drop(name)
		return nil
	}
	if touch {
		held.used.Store(now.UnixNano())
	}
	return held
}

func (s *sessions) drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, sha256.Sum256([]byte(name)))
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
	s := c.sessions.find(name, now, touch)
	if s == nil {
		return viewer{}, nil
	}
	p, err := c.person(ctx, s, now)
	switch {
	case err != nil && record.KindOf(err) == record.Unavailable:
		return viewer{}, err
	case err != nil || !p.Valid() || p.Principal() != s.owner:
		c.o.Log.Debug("a session ended: its token no longer counts", "error", err)
		c.sessions.drop(name)
		return viewer{}, nil
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
		c.o.Log.Debug("a sign-in was not renewed", "error", renewed)
		return p, err // it counts until it ends
	}
	s.access = token.AccessToken
	if token.RefreshToken != "" {
		s.refresh = token.RefreshToken
	}
	return c.o.Verifier.Person(ctx, s.access)
}
