package issuer

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/yamlfile"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// Path is where it is mounted.
const Path = "/dev/issuer"

// How long things last. A login takes a person's minutes, a code a client's moment.
const (
	loginLasts    = 10 * time.Minute
	codeLasts     = time.Minute
	accessLasts   = 15 * time.Minute
	exchangeLasts = 5 * time.Minute
	sessionLasts  = 12 * time.Hour
)

// Options is what an issuer is made of. Only Clock, Random and Log have defaults.
type Options struct {
	Local           *identity.Local // whose key signs
	PublicURL       string          // of the server that it is mounted on
	Users           Users
	Audience        string          // of proposing; what a client gets that names no resource
	ConsoleAudience string          // of answering
	Scopes          func() []string // those that tools need now: what a user with the scope * has; nil: none

	Clock  func() time.Time
	Random io.Reader
	Log    *slog.Logger
}

// Issuer is the provider. Sessions are in memory: a restart ends them all. It may
// be used concurrently.
type Issuer struct {
	op.UnimplementedServer
	o      Options
	url    string
	local  *identity.Local // under this issuer's URL
	keys   jose.JSONWebKeySet
	secret string // of the clients that the server itself is

	mu         sync.Mutex // guards all below, and o.Random
	requests   *shelf[request]
	codes      *shelf[*grant]
	sessions   *shelf[*session]
	revoked    *shelf[struct{}] // IDs of access tokens
	registered *shelf[Client]
	sealKey    []byte // of refresh tokens
}

// New makes an issuer.
func New(o Options) (*Issuer, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Local == nil || o.Users == nil || o.PublicURL == "" || o.Audience == "" || o.Audience == o.ConsoleAudience {
		return nil, record.Errorf(record.Invalid, "the development issuer needs a key, users, the server's URL, and an audience each for proposing and answering")
	}
	i := &Issuer{o: o, url: strings.TrimRight(o.PublicURL, "/") + Path,
		requests: newShelf[request](1000), codes: newShelf[*grant](1000), sessions: newShelf[*session](10000),
		revoked: newShelf[struct{}](10000), registered: newShelf[Client](1000)}
	i.local = o.Local.At(i.url)
	text, err := i.local.JWKS()
	if err == nil {
		err = json.Unmarshal(text, &i.keys)
	}
	if err != nil {
		return nil, fmt.Errorf("read the development issuer's key: %w", err)
	}
	key, err := i.nonce()
	if err != nil {
		return nil, err
	}
	i.sealKey = []byte(key)
	i.secret, err = i.nonce()
	return i, err
}

// URL is the issuer's name, as its tokens give it and clients discover it.
func (i *Issuer) URL() string { return i.url }

// Self is the client as which the server itself introspects and exchanges. The
// secret is made anew at each start.
func (i *Issuer) Self() (clientID, secret string) { return self, i.secret }

// Console is the client as which the server's console signs people in to answer.
func (i *Issuer) Console() (clientID, secret string) { return console, i.secret }

// Terminal is the client as which placet login signs people in to answer. It is
// public: what runs on a person's machine keeps no secret (RFC 8252 section 8.5).
func (i *Issuer) Terminal() string { return terminal }

// Mount registers the issuer and its metadata (RFC 8414 section 3, OpenID Connect
// Discovery section 4).
func (i *Issuer) Mount(mux *http.ServeMux) {
	metadata := i.guarded(op.RegisterMetadataServer(metadataServer{i: i}, op.WithServerCORSOptions(nil)))
	paths := []string{Path}
	if u, err := url.Parse(i.url); err == nil && u.Path != Path {
		paths = append(paths, u.Path) // behind a proxy that serves it below a path
	}
	for _, p := range paths {
		mux.Handle(oidc.AuthorizationServerMetadataEndpoint+p, anyOrigin(metadata))
		mux.Handle(oidc.DiscoveryEndpoint+p, anyOrigin(metadata))
		mux.Handle(p+oidc.DiscoveryEndpoint, anyOrigin(metadata))
	}
	mux.Handle(Path+"/", i.guarded(http.StripPrefix(Path, i.routes())))
}

func (i *Issuer) routes() http.Handler {
	protocol := op.RegisterServer(i, endpoints, op.WithServerCORSOptions(nil))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", i.welcome)
	mux.HandleFunc("GET /login", i.showLogin)
	mux.HandleFunc("POST /login", i.takeLogin)
	mux.Handle("/register", anyOrigin(http.HandlerFunc(i.register)))
	mux.Handle("/authorize", once(i.named(protocol)))
	for _, path := range []string{"/token", "/revoke"} {
		mux.Handle(path, anyOrigin(posted(once(protocol))))
	}
	mux.Handle("/introspect", posted(once(protocol)))
	mux.Handle("/keys", anyOrigin(protocol))
	return mux
}

var endpoints = op.Endpoints{
	Authorization: op.NewEndpoint("authorize"), Token: op.NewEndpoint("token"), Introspection: op.NewEndpoint("introspect"),
	Revocation: op.NewEndpoint("revoke"), JwksURI: op.NewEndpoint("keys"),
}

// nonce makes a secret of 256 bits.
func (i *Issuer) nonce() (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.nonceLocked()
}

func (i *Issuer) nonceLocked() (string, error) {
	b := make([]byte, 32)
	if _, err := io.ReadFull(i.o.Random, b); err != nil {
		return "", fmt.Errorf("read randomness: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b), nil
}

// directory reads who there is now. What is wrong with it is for the log: a
// client's error text is no place for a file.
func (i *Issuer) directory(ctx context.Context) (*Directory, error) {
	d, err := i.o.Users.Directory(ctx)
	if err == nil {
		return d.with(i.o.Scopes), nil
	}
	i.o.Log.Error("nobody can sign in: the users cannot be read", "error", err)
	var problems yamlfile.Problems
	if errors.As(err, &problems) || record.KindOf(err) != record.Unavailable {
		err = record.Because(record.Unavailable, err, "the users file is wrong")
	}
	return nil, err
}

// client finds a program by its ID: of the directory, registered by itself, or
// this server.
func (i *Issuer) client(d *Directory, id string) (Client, bool) {
	if id == self {
		return Client{Name: "Placet itself", Secret: i.secret, Exchanges: true, Introspects: true}, true
	}
	if id == console {
		return Client{Name: "The console", Secret: i.secret, Redirects: []string{i.o.ConsoleAudience + "/callback"}, Approves: true}, true
	}
	if id == terminal {
		return Client{Name: "Placet in a terminal", Redirects: []string{"http://127.0.0.1/callback"}, Approves: true}, true
	}
	for _, c := range d.Clients {
		if c.Key == id {
			return c.Value, true
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.registered.get(id, i.o.Clock())
}

// resource finds what an audience stands for.
func (i *Issuer) resource(d *Directory, audience string) (Resource, bool) {
	if audience == i.o.Audience {
		return Resource{Audience: audience}, true
	}
	for _, r := range d.Resources {
		if r.Audience == audience && audience != i.o.ConsoleAudience {
			return r, true
		}
	}
	return Resource{}, false
}
