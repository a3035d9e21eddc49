package issuer

import (
	"bytes"
	"cmp"
	"net/http"
	"net/url"
	"strings"
)

// maxTries is how many wrong passwords a login survives.
const maxTries = 5

// showLogin is the sign-in page: who one may be, and what for.
func (i *Issuer) showLogin(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("request")
	q, ok := i.waiting(id)
	if !ok {
		i.gone(w)
		return
	}
	i.page(w, r, id, q, http.StatusOK, "")
}

func (i *Issuer) waiting(id string) (request, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.requests.get(id, i.o.Clock())
}

// takeLogin signs a person in, or refuses for them, and returns to the client.
// Only the page that this browser got can send it.
func (i *Issuer) takeLogin(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		i.show(w, http.StatusBadRequest, "message", "This form cannot be read.")
		return
	}
	id := r.PostForm.Get("request")
	q, ok := i.waiting(id)
	if !ok {
		i.gone(w)
		return
	}
	if http.NewCrossOriginProtection().Check(r) != nil || !q.sentBy(r, id) {
		i.show(w, http.StatusForbidden, "message", "This form was not sent by the browser that asked for it. Start the sign-in again.")
		return
	}
	d, err := i.directory(r.Context())
	if err != nil {
		i.show(w, http.StatusServiceUnavailable, "message", "The users file is wrong or cannot be read; the server's log says why.")
		return
	}
	if r.PostForm.Has("refuse") {
		i.forget(id)
		i.leave(w, r, id, q, url.Values{"error": {"access_denied"}, "error_description": {"the person refused"}})
		return
	}
	subject := r.PostForm.Get("user")
	u, ok := d.user(subject)
	if !ok || u.Password != "" && !sameSecret(u.Password, r.PostForm.Get("password")) {
		i.wrong(w, r, id)
		return
	}
	code, err := i.grant(id, subject)
	if err != nil {
		i.gone(w)
		return
	}
	i.o.Log.Info("signed in at the development issuer", "subject", subject, "client", q.client)
	i.leave(w, r, id, q, url.Values{"code": {code}})
}

func (i *Issuer) forget(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.requests.drop(id)
}

// wrong counts a wrong password, and ends a login that had too many.
func (i *Issuer) wrong(w http.ResponseWriter, r *http.Request, id string) {
	i.mu.Lock()
	now := i.o.Clock()
	q, ok := i.requests.get(id, now)
	if q.tries++; ok && q.tries < maxTries {
		i.requests.put(id, q, now, i.requests.held[id].until)
	} else {
		ok = false
		i.requests.drop(id)
	}
	i.mu.Unlock()
	if !ok {
		i.gone(w)
		return
	}
	i.page(w, r, id, q, http.StatusForbidden, "That is not this person's password.")
}

// leave returns to the client. The answer names the issuer, so that a client of
// several is not led to the wrong one (RFC 9207).
func (i *Issuer) leave(w http.ResponseWriter, r *http.Request, id string, q request, answer url.Values) {
	to, err := url.Parse(q.redirect)
	if err != nil {
		i.gone(w)
		return
	}
	all := to.Query()
	for name, values := range answer {
		all[name] = values
	}
	if q.state != "" {
		all.Set("state", q.state)
	}
	all.Set("iss", i.url)
	to.RawQuery = all.Encode()
	over := i.cookie(id, "")
	over.MaxAge = -1
	http.SetCookie(w, over)
	http.Redirect(w, r, to.String(), http.StatusSeeOther)
}

// loginView is what the sign-in page shows.
type loginView struct {
	Request, Client, ReturnsTo, For, Problem string
	Approves                                 bool
	Scopes                                   []string
	People                                   []personView
}

type personView struct {
	Subject, Name, Tenant string
	Groups                []string
	Password              bool
}

func (i *Issuer) page(w http.ResponseWriter, r *http.Request, id string, q request, status int, problem string) {
	d, err := i.directory(r.Context())
	if err != nil {
		i.show(w, http.StatusServiceUnavailable, "message", "The users file is wrong or cannot be read; the server's log says why.")
		return
	}
	c, ok := i.client(d, q.client)
	if !ok {
		i.gone(w)
		return
	}
	returns, csp := origin(q.redirect)
	w.Header().Set("Content-Security-Policy", policy(" "+csp))
	i.show(w, status, "login", loginView{Request: id, Client: cmp.Or(c.Name, q.client), ReturnsTo: returns, For: q.audience,
		Problem: problem, Approves: c.Approves, Scopes: q.scopes, People: d.people()})
}

func (d *Directory) people() []personView {
	var out []personView
	for _, u := range d.Users {
		out = append(out, personView{u.Key, cmp.Or(u.Value.Name, u.Key), u.Value.Tenant, u.Value.Groups, u.Value.Password != ""})
	}
	return out
}

// origin is where a redirect leads, for people and as a source of a policy.
func origin(redirect string) (shown, source string) {
	u, err := url.Parse(redirect)
	if err != nil {
		return "", ""
	}
	if u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsAny(u.Host, " ;,'\"") {
		return u.Scheme + ":", u.Scheme + ":"
	}
	return u.Scheme + "://" + u.Host, u.Scheme + "://" + u.Host
}

// welcome says what is here, for whoever opens the issuer's address.
func (i *Issuer) welcome(w http.ResponseWriter, r *http.Request) {
	d, err := i.directory(r.Context())
	if err != nil {
		i.show(w, http.StatusServiceUnavailable, "message", "The users file is wrong or cannot be read; the server's log says why.")
		return
	}
	var clients []string
	for _, c := range d.Clients {
		clients = append(clients, c.Key)
	}
	i.show(w, http.StatusOK, "welcome", struct {
		URL, Audience string
		Clients       []string
		People        []personView
	}{i.url, i.o.Audience, clients, d.people()})
}

func (i *Issuer) gone(w http.ResponseWriter) {
	i.show(w, http.StatusBadRequest, "message", "This sign-in is over, or there never was one. Start it again in the program that asked for it.")
}

func (i *Issuer) show(w http.ResponseWriter, status int, name string, view any) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, view); err != nil {
		http.Error(w, "the page could not be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}
