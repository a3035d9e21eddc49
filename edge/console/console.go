package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

const home = "/console"

// maxForm bounds a form. The largest rejects many questions, each with its binding.
const maxForm = 128 << 10

// Console is the handler of the pages.
type Console struct {
	o        Options
	sessions *sessions
	provider *provider
	cross    *http.CrossOriginProtection
	secure   bool   // it is reached over TLS
	port     string // of the public URL, for the names of cookies without TLS
	pages    *http.ServeMux
}

// New makes the pages.
func New(o Options) (*Console, error) {
	o = o.withDefaults()
	c := &Console{o: o, pages: http.NewServeMux(), cross: http.NewCrossOriginProtection()}
	c.serveAssets()
	if o.Login == nil {
		c.pages.HandleFunc("GET /console/approvals/{id}", func(w http.ResponseWriter, r *http.Request) { c.answer(w, r, c.terminal(w, r)) })
		return c, nil
	}
	public, err := url.Parse(o.PublicURL)
	if o.Boundary == nil || o.Reader == nil || o.Verifier == nil || err != nil || public.Host == "" {
		return nil, errors.New("a console that people sign in at needs a boundary, a reader, a verifier and the server's public URL")
	}
	// Behind a proxy the host that the browser sees is not the one that we see.
	if err := c.cross.AddTrustedOrigin(public.Scheme + "://" + public.Host); err != nil {
		return nil, err
	}
	c.secure, c.port = public.Scheme == "https", public.Port()
	kept, err := newKeep(o.Sessions, o.SessionKey, o.Random)
	if err != nil {
		return nil, err
	}
	c.sessions = &sessions{keep: kept, random: o.Random, held: map[canon.Digest]*session{}}
	base := strings.TrimRight(o.PublicURL, "/") + home
	c.provider = &provider{login: *o.Login, audience: base, callback: base + "/callback", http: o.HTTP, clock: o.Clock}
	c.o.PublicURL = strings.TrimRight(o.PublicURL, "/")
	c.routes()
	return c, nil
}

// Mount registers the pages.
func (c *Console) Mount(mux *http.ServeMux) {
	mux.Handle(home, c)
	mux.Handle(home+"/", c)
}

// open is a page that needs no session, in is one that does, form is what changes
// something: it needs the session's form as well.
type (
	openPage func(http.ResponseWriter, *http.Request) error
	inPage   func(http.ResponseWriter, *http.Request, viewer) error
)

func (c *Console) routes() {
	open := func(pattern string, f openPage) {
		c.pages.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { c.answer(w, r, f(w, r)) })
	}
	in := func(path string, f inPage) {
		open("GET "+path, func(w http.ResponseWriter, r *http.Request) error {
			v, err := c.signedIn(r.Context(), c.sessionName(r), true)
			if err != nil {
				return err
			}
			if !v.person.Valid() {
				return c.askSignIn(w, r)
			}
			return f(w, r, v)
		})
	}
	form := func(path string, f inPage) {
		open("POST "+path, func(w http.ResponseWriter, r *http.Request) error {
			v, err := c.formOf(w, r)
			if err != nil {
				return err
			}
			return f(w, r, v)
		})
	}
	open("GET /console/sign-in", c.begin)
	open("GET /console/callback", c.callback)
	form("/console/sign-out", c.signOut)
	in("/console", c.inbox)
	in("/console/approvals/{id}", c.question)
	in("/console/approvals/{id}/arguments", c.questionArguments)
	form("/console/approvals/{id}/approve", c.answerWith(record.Yes))
	form("/console/approvals/{id}/reject", c.answerWith(record.No))
	in("/console/passkeys", c.passkeys)
	form("/console/passkeys/add", c.addPasskey)
	form("/console/passkeys/{id}/remove", c.removePasskey)
	in("/console/calls", c.calls)
	in("/console/calls/{id}", c.call)
	in("/console/calls/{id}/arguments", c.callArguments)
	in("/console/runs/{id}", c.run)
	form("/console/runs/{id}/reject", c.rejectRun)
	in("/console/tools", c.tools)
	in("/console/limits", c.limits)
	in("/console/agents", c.agents)
	form("/console/agents/fresh", c.startFresh)
	in("/console/alerts", c.alerts)
	form("/console/runs/{id}/lift", c.lift)
	in("/console/later", c.later)
	in("/console/schedules/{id}/arguments", c.scheduleArguments)
	form("/console/calls/{id}/settle", c.settle)
	in("/console/revocations", c.revocations)
	in("/console/revocations/{id}", c.revocation)
	form("/console/revocations", c.revoke)
	form("/console/revocations/{id}/undo", c.undo)
	open("GET /console/live", c.live)
}

// formOf admits a form: sent by a page of ours, from a session that is alive, with
// that session's secret. Each of the three alone would stop another site.
func (c *Console) formOf(w http.ResponseWriter, r *http.Request) (viewer, error) {
	if !c.ours(r) {
		return viewer{}, record.Errorf(record.Forbidden, "another site sent this form; nothing was done")
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return viewer{}, record.Errorf(record.Invalid, "the form cannot be read; nothing was done")
	}
	v, err := c.signedIn(r.Context(), c.sessionName(r), true)
	switch {
	case err != nil:
		return v, err
	case !v.person.Valid():
		return v, record.Errorf(record.Unauthenticated, "you are no longer signed in; nothing was done. Sign in and answer again")
	case !v.session.sent(r.PostForm.Get("form")):
		return v, record.Errorf(record.Forbidden, "this form is not of your present sign-in; nothing was done. Open the page again")
	}
	return v, nil
}

// ours reports whether a page of ours sent a form, by what the browser says of it.
// Every browser says one of the two; what says neither is none.
func (c *Console) ours(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	if site == "" && r.Header.Get("Origin") == "" || site != "" && site != "same-origin" && site != "none" {
		return false
	}
	return c.cross.Check(r) == nil
}

// ServeHTTP sets what holds for every page, then routes.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Frame-Options", "DENY") // for browsers that know no frame-ancestors
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store")
	if _, pattern := c.pages.Handler(r); pattern == "" {
		c.answer(w, r, absent())
		return
	}
	c.pages.ServeHTTP(w, r)
}

// contentPolicy lets in what is served here, and no markup become script.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// absent is what a missing page answers, and somebody else's (rule I3).
func absent() error {
	return record.Errorf(record.NotFound, "there is no such page, or it is not yours to see")
}

func hide(err error) error {
	if err != nil && record.KindOf(err) == record.NotFound {
		return absent()
	}
	return err
}

// page is what every page has beside its own content.
type page struct {
	Title string
	Live  string // what to follow, as a query; empty: nothing moves
	Again int    // seconds after which a browser without scripts asks anew; 0: never
	Body  any

	View     viewer
	Form     string // the session's secret, for forms
	Path     string // of this page
	URL      string // of this page, as it is to be opened elsewhere
	Embedded bool   // the browser is inside another app
	Style    string
	Script   string
	Passkeys string // the script for forms that a passkey signs; empty: the page has none
}

// show writes a page.
func (c *Console) show(w http.ResponseWriter, r *http.Request, status int, name string, p page) error {
	return c.showTo(w, r, status, name, p, viewer{})
}

func (c *Console) showTo(w http.ResponseWriter, r *http.Request, status int, name string, p page, v viewer) error {
	p.View, p.Path, p.Style, p.Script = v, r.URL.Path, stylePath, scriptPath
	p.URL = c.o.PublicURL + (&url.URL{Path: r.URL.Path}).String()
	p.Embedded = embedded(r.UserAgent())
	if v.session != nil {
		p.Form = v.session.form
	}
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, p); err != nil {
		return record.Because(record.Internal, err, "the page could not be made")
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // whoever is gone reads it when they come back
	return nil
}

// answer writes a page for an error. Causes go to the log.
func (c *Console) answer(w http.ResponseWriter, r *http.Request, err error) {
	if err == nil {
		return
	}
	kind := record.KindOf(err)
	if kind == record.Internal || kind == record.Unavailable {
		c.o.Log.Error("a page failed", "kind", string(kind), "error", err)
	}
	status := record.SurfaceOf(kind).HTTP
	if kind == record.Unauthenticated { // 401 asks for a challenge that browsers answer (RFC 9110 section 11.6.1); ours is a page
		status = http.StatusForbidden
	}
	p := page{Title: titles[kind], Body: problem{Message: record.PublicMessage(err), SignIn: kind == record.Unauthenticated || kind == record.Forbidden}}
	if p.Title == "" {
		p.Title = "This cannot be shown now"
	}
	if err := c.show(w, r, status, "problem", p); err != nil {
		http.Error(w, "the page could not be made", http.StatusInternalServerError)
	}
}

var titles = map[record.Kind]string{
	record.NeedsPasskey: "A passkey is needed",
	record.NotFound:     "There is nothing here", record.Forbidden: "Not accepted", record.Unauthenticated: "Sign in again",
	record.Invalid: "This cannot be read", record.Conflict: "It has changed",
}

type problem struct {
	Message string
	SignIn  bool
}

// askSignIn is what anybody reads who is not signed in, whatever the page.
func (c *Console) askSignIn(w http.ResponseWriter, r *http.Request) error {
	to := home
	if r.Method == http.MethodGet {
		to = ownPath(r.URL.RequestURI())
	}
	return c.show(w, r, http.StatusOK, "sign-in", page{Title: "Sign in", Body: struct{ To, Provider string }{to, hostOf(c.o.Login.Issuer)}})
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// embedded reports whether a browser seems to be a part of another app, such as a
// chat: people are often not signed in there, and cannot see where they are.
func embedded(agent string) bool {
	for _, sign := range []string{"; wv)", "FBAN/", "FBAV/", "Instagram", "Slack/", "SlackMobile", "Slack_", "Line/", "MicroMessenger", "WhatsApp", "Telegram", "Discord/", "Teams/", "LinkedInApp", "Snapchat", "GSA/"} {
		if strings.Contains(agent, sign) {
			return true
		}
	}
	// A view inside an iOS app does not call itself Safari.
	return (strings.Contains(agent, "iPhone") || strings.Contains(agent, "iPad")) && strings.Contains(agent, "AppleWebKit") && !strings.Contains(agent, "Safari/")
}

//go:embed pages assets
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"marked": marked, "clock": clockText, "machine": machineTime, "word": stateWord, "plural": plural, "batch": newBatch, "settling": settling,
	"breaks": breaks,
	"short":  func(s string) folded { return fold(s, 120, 400) },
	"whole":  func(s string) folded { return fold(s, 120, len(s)) }, // for what no file holds
}).ParseFS(files, "pages/*.html"))

// Assets are named by what is in them, so that browsers may keep them.
var (
	stylePath, style   = asset("console.css")
	scriptPath, script = asset("console.js")

	passkeyPath, passkeyScript = asset("passkeys.js")
)

func asset(name string) (path string, text []byte) {
	text, err := files.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is part of this program
	}
	sum := sha256.Sum256(text)
	return home + "/assets/" + hex.EncodeToString(sum[:8]) + "/" + name, text
}

func (c *Console) serveAssets() {
	serve := func(path, kind string, text []byte) {
		c.pages.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			_, _ = w.Write(text)
		})
	}
	serve(stylePath, "text/css; charset=utf-8", style)
	serve(scriptPath, "text/javascript; charset=utf-8", script)
	serve(passkeyPath, "text/javascript; charset=utf-8", passkeyScript)
}
