package issuer

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/placet-dev/placet/record"
)

// Session is what the issuer says now of a token and of the login behind it. The
// zero value is none: the token is not one, or the login is over, or whoever it
// was is not in the directory any more.
type Session struct {
	Active   bool
	Refresh  bool // the token is a refresh token
	Issuer   string
	Subject  string
	Tenant   string
	Client   string // for whom the token was made
	Audience string
	Scopes   []string // those of the token that its user still has
	Groups   []string // the user's, now
	Actors   []string // who acts for the subject, the present one first
	ID       string   // of an access token
	Login    string   // the session's ID; empty without a login
	Issued   time.Time
	Expires  time.Time
}

// session is a login that goes on.
type session struct {
	id, subject, tenant, client, audience string

	scopes  []string // the most it may have
	issued  time.Time
	until   time.Time
	turn    int // which refresh token is the present one; 0: it has none
	endedBy string
}

// own are the claims of tokens that this issuer made, read after their signature.
type own struct {
	Issuer   string   `json:"iss"`
	Subject  string   `json:"sub"`
	Audience string   `json:"aud"`
	Tenant   string   `json:"tenant"`
	Client   string   `json:"client_id"`
	Scope    string   `json:"scope"`
	Groups   []string `json:"groups"`
	ID       string   `json:"jti"`
	Login    string   `json:"sid"`
	Issued   int64    `json:"iat"`
	Expires  int64    `json:"exp"`
	Act      *actor   `json:"act"`
}

type actor struct {
	Subject string `json:"sub"`
	Act     *actor `json:"act"`
}

// Session says what an access or refresh token is worth now. It is the live
// source of a delegation: ask it before each use. An error says that nobody can
// tell, which is not a yes.
func (i *Issuer) Session(ctx context.Context, token string) (Session, error) {
	d, err := i.directory(ctx)
	if err != nil {
		return Session{}, err
	}
	now := i.o.Clock()
	if id, turn, ok := i.unseal(token); ok {
		return i.refreshSession(d, id, turn, now), nil
	}
	c, ok := i.verify(token)
	if !ok || now.Unix() >= c.Expires {
		return Session{}, nil
	}
	return i.accessSession(d, c, now), nil
}

func (i *Issuer) refreshSession(d *Directory, id string, turn int, now time.Time) Session {
	i.mu.Lock()
	s, ok := i.sessions.get(id, now)
	ok = ok && s.endedBy == "" && s.turn == turn
	i.mu.Unlock()
	if !ok {
		return Session{}
	}
	return i.now(d, Session{Refresh: true, Issuer: i.url, Subject: s.subject, Tenant: s.tenant, Client: s.client, Audience: s.audience,
		Scopes: s.scopes, Login: s.id, Issued: s.issued, Expires: s.until})
}

func (i *Issuer) accessSession(d *Directory, c own, now time.Time) Session {
	i.mu.Lock()
	_, gone := i.revoked.get(c.ID, now)
	if c.Login != "" {
		s, ok := i.sessions.get(c.Login, now)
		gone = gone || !ok || s.endedBy != ""
	}
	i.mu.Unlock()
	if gone {
		return Session{}
	}
	s := Session{Issuer: c.Issuer, Subject: c.Subject, Tenant: c.Tenant, Client: c.Client, Audience: c.Audience, Scopes: strings.Fields(c.Scope),
		ID: c.ID, Login: c.Login, Issued: time.Unix(c.Issued, 0), Expires: time.Unix(c.Expires, 0)}
	for a := c.Act; a != nil; a = a.Act {
		s.Actors = append(s.Actors, a.Subject)
	}
	return i.now(d, s)
}

// now narrows what a token says to what the directory says: the person must be
// there, in the same tenant; scopes can only go, and groups are those of today. A
// token made without this server (`placet dev token`) may name any agent.
func (i *Issuer) now(d *Directory, s Session) Session {
	c, known := i.client(d, s.Client)
	if !known && (s.Issuer == i.url) {
		return Session{}
	}
	var u User
	if s.Subject == s.Client { // a program by itself (RFC 9068 section 2.2)
		if !c.ActsAlone {
			return Session{}
		}
		u = User{Tenant: c.Tenant, Scopes: c.Scopes}
	} else if person, ok := d.user(s.Subject); ok {
		u = person
	} else {
		return Session{}
	}
	if u.Tenant != s.Tenant {
		return Session{}
	}
	s.Scopes = slices.DeleteFunc(slices.Clone(s.Scopes), func(name string) bool { return !slices.Contains(u.Scopes, name) || !within(c.Scopes, name) })
	s.Groups, s.Active = slices.Clone(u.Groups), true
	return s
}

// verify reads a token that this issuer's key signed as an access token, by
// either of its names.
func (i *Issuer) verify(token string) (own, bool) {
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || len(signed.Signatures) != 1 || signed.Signatures[0].Header.ExtraHeaders[jose.HeaderType] != "at+jwt" {
		return own{}, false
	}
	text, err := signed.Verify(i.keys.Keys[0].Key)
	if err != nil {
		return own{}, false
	}
	var c own
	if err := json.Unmarshal(text, &c); err != nil {
		return own{}, false
	}
	return c, c.Issuer == i.url || c.Issuer == i.o.Local.Name()
}

// begin opens the session of a login.
func (i *Issuer) begin(s session, now time.Time) (*session, error) {
	id, err := record.NewID("login", now, i.o.Random)
	if err != nil {
		return nil, err
	}
	s.id, s.issued, s.until = id, now, now.Add(sessionLasts)
	i.sessions.put(id, &s, now, s.until)
	return &s, nil
}

// end ends a session, for good: all its tokens are worth nothing here.
func (i *Issuer) end(id, why string) {
	now := i.o.Clock()
	if s, ok := i.sessions.get(id, now); ok && s.endedBy == "" {
		s.endedBy = why
		i.o.Log.Warn("a session of the development issuer ended", "subject", s.subject, "client", s.client, "why", why)
	}
}

// refreshPrefix makes a refresh token recognisable where it leaks.
const refreshPrefix = "placet-dev-refresh"

// seal makes a refresh token: which session, which turn, and that we made it. So
// one that was used up is known for what it is.
func (i *Issuer) seal(id string, turn int) string {
	body := fmt.Sprintf("%s.%s.%d", refreshPrefix, id, turn)
	return body + "." + i.mac(body)
}

func (i *Issuer) mac(body string) string {
	h := hmac.New(sha256.New, i.sealKey)
	h.Write([]byte(body))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

func (i *Issuer) unseal(token string) (id string, turn int, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 4 || parts[0] != refreshPrefix || !hmac.Equal([]byte(parts[3]), []byte(i.mac(strings.Join(parts[:3], ".")))) {
		return "", 0, false
	}
	turn, err := strconv.Atoi(parts[2])
	return parts[1], turn, err == nil
}
