package console

import (
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/placet-dev/placet/record"
	"golang.org/x/oauth2"
)

// attemptLasts is how many seconds a person has at the provider.
const attemptLasts = 600

// begin sends the browser to the provider.
func (c *Console) begin(w http.ResponseWriter, r *http.Request) error {
	a := attempt{verifier: oauth2.GenerateVerifier(), to: ownPath(r.URL.Query().Get("to"))}
	a.fresh = r.URL.Query().Get("fresh") != ""
	var err error
	if a.state, err = c.sessions.secret(); err != nil {
		return err
	}
	if a.nonce, err = c.sessions.secret(); err != nil {
		return err
	}
	to, err := c.provider.begin(r.Context(), a)
	if err != nil {
		return err
	}
	http.SetCookie(w, c.attemptCookie(a.state, strings.Join([]string{a.state, a.nonce, a.verifier,
		base64.RawURLEncoding.EncodeToString([]byte(a.to))}, ".")))
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// attemptCookie keeps an attempt in its browser. Each has its own, so that two tabs
// can sign in at once. The provider's redirect back is a navigation from
// elsewhere, hence Lax.
func (c *Console) attemptCookie(state, value string) *http.Cookie {
	k := &http.Cookie{Name: c.cookieName("signin-" + state[:min(16, len(state))]), Value: value, Path: "/", MaxAge: attemptLasts,
		HttpOnly: true, Secure: c.secure, SameSite: http.SameSiteLaxMode}
	if value == "" {
		k.MaxAge = -1
	}
	return k
}

// attemptOf is the attempt that this browser began with this state.
func (c *Console) attemptOf(r *http.Request, state string) (attempt, bool) {
	k, err := r.Cookie(c.attemptCookie(state, "").Name)
	if err != nil || state == "" {
		return attempt{}, false
	}
	parts := strings.Split(k.Value, ".")
	if len(parts) != 4 || subtle.ConstantTimeCompare([]byte(parts[0]), []byte(state)) != 1 {
		return attempt{}, false
	}
	to, err := base64.RawURLEncoding.DecodeString(parts[3])
	return attempt{state: parts[0], nonce: parts[1], verifier: parts[2], to: ownPath(string(to))}, err == nil
}

// ownPath is a page of the console: what leads elsewhere leads to the inbox.
func ownPath(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || path.Clean(u.Path) != u.Path || strings.ContainsAny(to, "\\\r\n\t") {
		return home
	}
	if u.Path != home && !strings.HasPrefix(u.Path, home+"/") || u.Path == home+"/sign-in" || u.Path == home+"/callback" {
		return home
	}
	return (&url.URL{Path: u.Path, RawQuery: u.RawQuery}).String()
}

// callback ends a sign-in.
func (c *Console) callback(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	for _, values := range q {
		if len(values) > 1 { // RFC 6749 section 3.1
			return record.Errorf(record.Invalid, "the answer to this sign-in says something twice; start it again")
		}
	}
	a, ok := c.attemptOf(r, q.Get("state"))
	if !ok {
		return record.Errorf(record.Forbidden, "this browser did not begin this sign-in, or too long ago; start it again")
	}
	http.SetCookie(w, c.attemptCookie(a.state, ""))
	// RFC 9207: an answer that names another issuer is another's.
	if iss := q.Get("iss"); iss != "" && iss != c.o.Login.Issuer {
		return record.Errorf(record.Forbidden, "the answer to this sign-in is another issuer's; start it again")
	}
	if q.Get("error") != "" || q.Get("code") == "" {
		c.o.Log.Info("a sign-in was refused by the provider", "error", q.Get("error"))
		return record.Errorf(record.Forbidden, "the identity provider did not sign you in; start it again if you want to")
	}
	token, id, asked, err := c.provider.finish(r.Context(), a, q.Get("code"))
	if err != nil {
		return err
	}
	p, err := c.o.Verifier.Person(r.Context(), token.AccessToken)
	if err != nil {
		return err
	}
	if !p.Valid() {
		return record.Errorf(record.Unauthenticated, "this login cannot answer; sign in with another one")
	}
	if old := c.sessionName(r); old != "" {
		if err := c.sessions.drop(r.Context(), old); err != nil {
			return err
		}
	}
	name, err := c.sessions.open(r.Context(), &session{owner: p.Principal(), access: token.AccessToken, refresh: token.RefreshToken, id: id, asked: asked}, c.o.Clock())
	if err != nil {
		return err
	}
	c.o.Log.Info("signed in at the console", "person", p.Principal().String(), "tenant", string(p.Tenant()))
	http.SetCookie(w, c.cookie(name))
	http.Redirect(w, r, a.to, http.StatusSeeOther)
	return nil
}

// signOut ends the session, here and where the provider offers it there too. The
// page leads on by itself: a form's answer must not redirect to another site.
func (c *Console) signOut(w http.ResponseWriter, r *http.Request, v viewer) error {
	if err := c.sessions.drop(r.Context(), c.sessionName(r)); err != nil {
		return err
	}
	http.SetCookie(w, c.cookie(""))
	v.session.mu.Lock()
	id := v.session.id
	v.session.mu.Unlock()
	return c.show(w, r, http.StatusOK, "signed-out", page{Title: "You are signed out",
		Body: c.provider.leave(r.Context(), id, c.o.PublicURL+home)})
}
