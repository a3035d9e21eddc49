package identity

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/placet-dev/placet/record"
)

// Presented is the access token that a caller came with. It is for its issuer
// alone, in exchange for another one; no tool server ever gets it. The zero value
// is none: a workload that calls by its own key has none. It shows itself as
// "redacted".
type Presented struct {
	// A function, since fmt shows what a pointer points to when a verb does not fit.
	reveal  func() string
	session string
	expires time.Time
}

// Presented is the caller's own token, for whoever exchanges it at its issuer.
func (c Caller) Presented() Presented {
	if c.presented == nil {
		return Presented{}
	}
	return *c.presented
}

// None reports whether there is no token.
func (p Presented) None() bool { return p.reveal == nil }

// Reveal is the token itself.
func (p Presented) Reveal() string {
	if p.reveal == nil {
		return ""
	}
	return p.reveal()
}

// Session names the login that the token belongs to, as its issuer does; where the
// issuer names none, it names this one token.
func (p Presented) Session() string { return p.session }

// Expires is when the token ceases to count.
func (p Presented) Expires() time.Time { return p.expires }

// Format writes "redacted", whatever the verb.
func (Presented) Format(s fmt.State, _ rune)   { _, _ = s.Write([]byte(redacted)) }
func (Presented) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (Presented) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// present keeps a verified token beside what it says.
func present(bearer string, r *verified) *Presented {
	p := &Presented{reveal: func() string { return bearer }, session: r.login, expires: r.expires}
	if p.session == "" {
		sum := sha256.Sum256([]byte(bearer))
		p.session = "token:" + base64.RawURLEncoding.EncodeToString(sum[:])
	}
	return p
}

// loginOf reads the issuer's name for the login that a token came from: sid
// (OpenID Connect Front-Channel Logout), or session_state as older Keycloaks say.
func loginOf(claims []byte) string {
	for _, name := range []string{"sid", "session_state"} {
		if text, problem := nameClaim(claims, name); problem == "" {
			return name + ":" + text
		}
	}
	return ""
}

// Delegated says who an owner who is away is now, from a token that their issuer
// has just issued to this server for them. The token is verified like any other
// and must be the owner's own. The caller it makes has the owner's agent, which is
// not this server, at most the scopes stated, and the groups of now. Errors are
// Unauthenticated, Forbidden or Unavailable.
func (v *Verifier) Delegated(ctx context.Context, bearer string, owner record.Owner, scopes []string) (Caller, error) {
	r, err := v.verify(ctx, bearer)
	if err != nil {
		return Caller{}, err
	}
	if err := r.mayPropose(); err != nil {
		return Caller{}, err
	}
	if r.principal != owner.Principal || r.tenant != owner.Tenant || owner.Agent == "" {
		return Caller{}, refuse(checkSubject, record.Forbidden, "the issuer answered with a token of somebody else")
	}
	now := *r
	now.agent, now.session = owner.Agent, sessionOf(owner)
	now.actors = append([]string{string(owner.Agent)}, r.actors...)
	now.scopes = slices.DeleteFunc(slices.Clone(r.scopes), func(s string) bool { return !slices.Contains(scopes, s) })
	return Caller{v: &now, presented: present(bearer, &now)}, nil
}
