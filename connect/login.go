package connect

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/placet-dev/placet/record"
)

// Account is a person's sign-in at a Placet, to answer: the same browser, the same
// files, another audience than that of an agent's tokens (rule D4).
type Account struct {
	server string
	a      *account
}

// answering is where people answer at a server.
const answering = "/console"

// NewAccount makes it. Options.Server is the Placet's own URL. It reaches nobody yet.
func NewAccount(o Options) (*Account, error) {
	server := strings.TrimRight(o.Server, "/")
	u, err := endpoint(server + answering)
	if err != nil {
		return nil, err
	}
	o = o.withDefaults()
	return &Account{server: server, a: o.account(u)}, nil
}

// loginDocument is the metadata of where people answer: RFC 9728's, and which client
// signs them in from a terminal.
type loginDocument struct {
	oauthex.ProtectedResourceMetadata
	Client string `json:"placet_client_id"`
	Ask    string `json:"placet_ask"`
}

// Login signs a person in now, whoever was signed in before.
func (l *Account) Login(ctx context.Context) error {
	a := l.a
	a.life = ctx
	at := l.server + "/.well-known/oauth-protected-resource" + answering
	doc, err := document[loginDocument](ctx, a.http, at)
	if err != nil {
		return err
	}
	if doc == nil {
		return record.Errorf(record.Unavailable, "%s offers no sign-in for people; is it a Placet server, and does its configuration have console?", l.server)
	}
	if a.ClientID = cmp.Or(a.ClientID, doc.Client); a.ClientID == "" {
		return record.Errorf(record.Unavailable, "%s names no client for terminals; its operator registers one and names it in console.terminal_client, or give one with --client-id", l.server)
	}
	where, err := a.discover(ctx, challenge{metadata: at})
	if err != nil {
		return err
	}
	g := grant{Server: a.server.String(), Issuer: where.issuer.Issuer, Ask: doc.Ask}
	if err := a.signIn(ctx, &g, where, union(where.scopes, a.Scopes)); err != nil {
		return err
	}
	before, err := a.paths()
	if err == nil {
		err = a.save(&g)
	}
	if err != nil {
		return err
	}
	for _, path := range before {
		if path != a.path(&g) {
			err = errors.Join(err, os.Remove(path)) // one person at one server
		}
	}
	return err
}

// Token is what requests carry, refreshed where the issuer allows it. It is empty
// where nobody is signed in.
func (l *Account) Token(ctx context.Context) (string, error) {
	a := l.a
	a.life = ctx
	defer a.work.Wait()
	token, err := a.token(ctx)
	if err != nil {
		return "", err
	}
	g := a.copy()
	if g.Issuer != "" && (token == "" || !g.Expires.IsZero() && !a.Clock().Before(g.Expires)) {
		return "", record.Errorf(record.Unauthenticated, "your sign-in at %s is over; sign in again: placet login %s", l.server, l.server)
	}
	return token, nil
}

// Logout removes what is stored, and has the issuer revoke it where it offers that.
func (l *Account) Logout(ctx context.Context) (int, error) { return l.a.logout(ctx) }

// SignedIn lists the servers that a folder has sign-ins for, the newest first.
func SignedIn(folder string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(escapeGlob(folder), "*.json"))
	if err != nil {
		return nil, err
	}
	var out []string
	var newest time.Time
	for _, path := range paths {
		g, err := readGrant(path)
		if err != nil {
			continue // whoever uses it is told
		}
		server := strings.TrimSuffix(g.Server, answering)
		if g.Saved.After(newest) {
			newest = g.Saved
			out = append([]string{server}, out...)
		} else {
			out = append(out, server)
		}
	}
	return out, nil
}
