package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

const maxKeySet = 1 << 20

// newKeyring prepares where an issuer's keys come from. What lies here is read
// at once, so that a wrong file stops the start and not a request.
func newKeyring(i Issuer, d Deps) (*keyring, error) {
	k := &keyring{issuer: i.Issuer, clock: d.Clock, log: d.Log}
	text, remote, err := i.source(fetcher(d.HTTP))
	if err != nil {
		return nil, record.Because(record.Invalid, err, "issuer %q: its keys have no usable address", i.Issuer)
	}
	k.read = func(ctx context.Context) ([]jose.JSONWebKey, error) {
		b, err := text(ctx)
		if err != nil {
			return nil, err
		}
		return parseKeys(b, i.Algorithms)
	}
	if remote {
		return k, nil
	}
	if k.keys, err = k.read(context.Background()); err != nil {
		return nil, record.Errorf(record.Invalid, "issuer %q: %w", i.Issuer, err)
	}
	k.readAt = d.Clock()
	return k, nil
}

// source returns how the text of the key set is obtained, and whether from elsewhere.
func (i Issuer) source(f fetch) (text func(context.Context) ([]byte, error), remote bool, err error) {
	switch {
	case len(i.JWKS) > 0:
		return func(context.Context) ([]byte, error) { return i.JWKS, nil }, false, nil
	case i.Keys == "":
		return func(ctx context.Context) ([]byte, error) { return f.discovered(ctx, i.Issuer) }, true, checkURL(discoveryAt(i.Issuer))
	case strings.HasPrefix(i.Keys, "http://"), strings.HasPrefix(i.Keys, "https://"):
		return func(ctx context.Context) ([]byte, error) { return f(ctx, i.Keys) }, true, checkURL(i.Keys)
	default:
		return func(context.Context) ([]byte, error) { return readFile(i.Keys) }, false, nil
	}
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f)
}

func readAll(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxKeySet+1))
	if err == nil && len(b) > maxKeySet {
		return nil, fmt.Errorf("the answer is longer than %d bytes", maxKeySet)
	}
	return b, err
}

// fetch gets a small document. Whoever can choose the keys can be anybody, hence
// TLS everywhere but on this machine, and no redirects.
type fetch func(ctx context.Context, address string) ([]byte, error)

func fetcher(client *http.Client) fetch {
	own := *client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return func(ctx context.Context, address string) ([]byte, error) {
		if err := checkURL(address); err != nil {
			return nil, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", "application/json")
		resp, err := own.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("get %s: status %d, wanted 200 (redirects are not followed)", address, resp.StatusCode)
		}
		return readAll(resp.Body)
	}
}

// document reads an issuer's own description by OpenID Connect Discovery. It must
// name the issuer it was asked for (section 4.3). The result is canonical.
func (f fetch) document(ctx context.Context, issuer string) ([]byte, error) {
	at := discoveryAt(issuer)
	text, err := f(ctx, at)
	if err != nil {
		return nil, err
	}
	document, _, err := canon.Object(text, canon.Limits{})
	if err != nil {
		return nil, fmt.Errorf("the discovery document is refused: %w", err)
	}
	value, _ := canon.Lookup(document, "issuer")
	if named, ok := canon.Text(value); !ok || named != issuer {
		return nil, fmt.Errorf("the discovery document at %s is not that of issuer %q", at, issuer)
	}
	return document, nil
}

func discoveryAt(issuer string) string {
	return strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"
}

// discovered finds the key set that an issuer's document names.
func (f fetch) discovered(ctx context.Context, issuer string) ([]byte, error) {
	document, err := f.document(ctx, issuer)
	if err != nil {
		return nil, err
	}
	value, _ := canon.Lookup(document, "jwks_uri")
	address, ok := canon.Text(value)
	if !ok {
		return nil, fmt.Errorf("the discovery document of issuer %q names no key set (jwks_uri)", issuer)
	}
	return f(ctx, address)
}

// Keys counts the keys that an issuer's tokens are verified with, after reading them as
// far as that is needed.
func (v *Verifier) Keys(ctx context.Context, issuer string) (int, error) {
	i, ok := v.issuers[issuer]
	if !ok {
		return 0, record.Errorf(record.NotFound, "issuer %q is not configured", issuer)
	}
	keys, err := i.keys.current(ctx)
	return len(keys), err
}

// Document reads what an issuer says of itself, in canonical form. It is of use to
// clients; no decision here depends on it.
func (v *Verifier) Document(ctx context.Context, issuer string) (json.RawMessage, error) {
	if _, ok := v.issuers[issuer]; !ok {
		return nil, record.Errorf(record.NotFound, "issuer %q is not configured", issuer)
	}
	return v.fetch.document(ctx, issuer)
}

func checkURL(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("not a URL")
	}
	loopback := u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
	if u.Host == "" || u.User != nil || u.Scheme != "https" && !(u.Scheme == "http" && loopback) {
		return fmt.Errorf("keys are fetched by https, or by http from this machine, and %q is neither", address)
	}
	return nil
}
