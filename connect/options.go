package connect

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/placet-dev/placet/record"
)

// Options say which server to connect to, and as which client. Server, and Open
// or Token, are required.
type Options struct {
	Server string // the MCP endpoint's URL

	ClientID       string   // registered by an operator; empty: see ClientMetadata
	ClientSecret   string   // of ClientID, where the issuer wants one
	ClientMetadata string   // URL of a client ID metadata document, used where the issuer takes one
	CallbackPort   int      // of the loopback redirect; 0: a free one
	Scopes         []string // asked for beside those the server names

	// Token gives tokens that something else obtained; nobody is signed in then.
	Token func() (string, error)
	// Open shows the user a page.
	Open func(ctx context.Context, url string) error
	// Folder is where tokens lie. Empty: they live as long as the process.
	Folder string

	HTTP   http.RoundTripper // nil: http.DefaultTransport's settings
	Log    *slog.Logger      // nil: no log
	Clock  func() time.Time  // nil: time.Now
	Random io.Reader         // nil: crypto/rand
}

const (
	signInLasts   = 5 * time.Minute  // how long the user may take
	issuerAnswers = 30 * time.Second // one request to an issuer
	refusalLasts  = 30 * time.Second // before the browser opens again
)

// New makes a bridge to a server. It reaches nobody yet.
func New(o Options) (*Bridge, error) {
	server, err := endpoint(o.Server)
	if err != nil {
		return nil, err
	}
	if o.ClientMetadata != "" {
		if u, err := endpoint(o.ClientMetadata); err != nil || u.Scheme != "https" || strings.Trim(u.Path, "/") == "" {
			return nil, record.Errorf(record.Invalid, "the client metadata's URL must be an https URL with a path, not %q", o.ClientMetadata)
		}
	}
	if o.CallbackPort < 0 || o.CallbackPort > 65535 {
		return nil, record.Errorf(record.Invalid, "%d is not a port", o.CallbackPort)
	}
	o = o.withDefaults()
	return &Bridge{account: o.account(server), url: server.String(), log: o.Log, running: map[string]*running{},
		http: &http.Client{Transport: o.HTTP, CheckRedirect: stay}}, nil
}

func (o Options) withDefaults() Options {
	if o.HTTP == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.ResponseHeaderTimeout = slowest
		o.HTTP = t
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	return o
}

// stay follows no redirect: it would lead a secret to where nobody meant it to go.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (o Options) account(server *url.URL) *account {
	return &account{Options: o, server: server, asked: map[string][]string{},
		http: &http.Client{Transport: o.HTTP, CheckRedirect: stay, Timeout: issuerAnswers}}
}

// endpoint reads a URL that a secret may be sent to: https, or this machine.
func endpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, record.Errorf(record.Invalid, "%q is not the URL of a server, such as https://tools.example.com/mcp", text)
	}
	if u.Scheme == "http" && !loopback(u.Hostname()) {
		return nil, record.Errorf(record.Invalid, "%s would carry the token in the clear; use https", text)
	}
	return u, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
