package credential

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

const (
	answerBytes = 128 << 10
	metadataAge = time.Hour
)

// endpoint is the token endpoint of an issuer, as one client of it sees it.
type endpoint struct {
	client Client
	auth   *assertion // nil: a secret
	http   *http.Client
	clock  func() time.Time

	mu    sync.Mutex
	found metadata
	at    time.Time // when it was found; zero: never
}

// metadata is what an issuer says of itself (RFC 8414).
type metadata struct{ token, revocation string }

func newEndpoint(c Client, o ProfileOptions) (*endpoint, error) {
	e := &endpoint{client: c, clock: o.Clock}
	own := *o.HTTP
	// A redirect would carry tokens and secrets to wherever it says.
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	own.Jar = nil
	e.http = &own
	if c.Key != "" {
		var err error
		if e.auth, err = newAssertion(c, o); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// silent makes the error of an issuer that gives no answer.
func silent(format string, args ...any) error {
	return record.Because(record.Unavailable, fmt.Errorf(format, args...), "the issuer cannot be asked now")
}

// refused makes the error of a no, or of an answer that must not be used.
func refused(format string, args ...any) error {
	return record.Because(record.Forbidden, fmt.Errorf(format, args...), "the issuer gives no credential for this call")
}

// ask posts a form as this client and reads the answer.
func (e *endpoint) ask(ctx context.Context, form url.Values) (granted, error) {
	where, err := e.metadata(ctx)
	if err != nil {
		return granted{}, err
	}
	text, err := e.post(ctx, where.token, where.token, form)
	if err != nil {
		return granted{}, err
	}
	return readGranted(text)
}

// revoke says that a token is not needed any more (RFC 7009).
func (e *endpoint) revoke(ctx context.Context, token Secret, hint string) error {
	where, err := e.metadata(ctx)
	if err != nil {
		return err
	}
	if where.revocation == "" {
		return record.Errorf(record.Unsupported, "the issuer has no revocation endpoint")
	}
	_, err = e.post(ctx, where.revocation, where.token, url.Values{"token": {token.Reveal()}, "token_type_hint": {hint}})
	return err
}

// post sends a form with the client's authentication. What is wrong comes back by
// the issuer's error code alone: the rest of its words may hold anything.
func (e *endpoint) post(ctx context.Context, address, audience string, form url.Values) ([]byte, error) {
	basic, err := e.authenticate(form, audience)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, silent("its endpoint: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if basic {
		// RFC 6749 section 2.3.1 wants both form-encoded first.
		req.SetBasicAuth(url.QueryEscape(e.client.ID), url.QueryEscape(e.client.Secret.Reveal()))
	}
	resp, err := e.http.Do(req)
	if err != nil {
		return nil, silent("%w", withoutURL(err))
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, answerBytes+1))
	switch {
	case err != nil:
		return nil, silent("its answer was cut off: %w", err)
	case len(text) > answerBytes:
		return nil, refused("its answer is longer than %d bytes", answerBytes)
	case resp.StatusCode == http.StatusOK:
		return text, nil
	}
	return nil, statusError(resp.StatusCode, text)
}

func (e *endpoint) authenticate(form url.Values, audience string) (basic bool, err error) {
	switch {
	case e.auth != nil:
		signed, err := e.auth.sign(audience)
		if err != nil {
			return false, err
		}
		form.Set("client_id", e.client.ID)
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", signed)
	case e.client.Post:
		form.Set("client_id", e.client.ID)
		form.Set("client_secret", e.client.Secret.Reveal())
	default:
		return true, nil
	}
	return false, nil
}

// withoutURL drops what net/http puts before an error: the address is
// configuration, and may hold what is not for a record.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

var errorCode = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,63}$`)

// statusError reads a refusal (RFC 6749 section 5.2).
func statusError(status int, text []byte) error {
	code := "no error code"
	if object, _, err := canon.Object(text, canon.Limits{Bytes: answerBytes}); err == nil {
		value, _ := canon.Lookup(object, "error")
		if said, ok := canon.Text(value); ok && errorCode.MatchString(said) {
			code = said
		}
	}
	switch {
	case status >= 500, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status >= 300 && status < 400,
		code == "temporarily_unavailable", code == "server_error", code == "slow_down":
		return silent("status %d, %s", status, code)
	case code == "invalid_client", status == http.StatusUnauthorized, status == http.StatusNotFound:
		// It does not know this server, which says nothing of the call.
		return silent("status %d, %s: check client_id, its secret or key, and the endpoint", status, code)
	}
	return record.Because(record.Forbidden, &Refusal{Code: code, Status: status}, "the issuer gives no credential for this call")
}

// Refusal is an issuer's no.
type Refusal struct {
	Code   string // as RFC 6749 section 5.2 has it
	Status int
}

func (r *Refusal) Error() string { return fmt.Sprintf("status %d, %s", r.Status, r.Code) }

// metadata returns the endpoints, which are looked up once an hour. While that
// fails, those found before stay.
func (e *endpoint) metadata(ctx context.Context) (metadata, error) {
	e.mu.Lock()
	found, at := e.found, e.at
	e.mu.Unlock()
	if age := e.clock().Sub(at); !at.IsZero() && age >= 0 && age < metadataAge {
		return found, nil
	}
	now, err := e.discover(ctx)
	if err != nil {
		if !at.IsZero() {
			return found, nil
		}
		return metadata{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.found, e.at = now, e.clock()
	return now, nil
}

func (e *endpoint) discover(ctx context.Context) (metadata, error) {
	if e.client.Issuer == "" {
		return metadata{token: e.client.TokenURL}, nil
	}
	var failed error
	for _, at := range wellKnown(e.client.Issuer) {
		m, err := e.read(ctx, at)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if e.client.TokenURL != "" {
			m.token = e.client.TokenURL
		}
		return m, nil
	}
	if e.client.TokenURL != "" {
		return metadata{token: e.client.TokenURL}, nil
	}
	return metadata{}, silent("find its token endpoint: %w", failed)
}

// wellKnown lists where an issuer's metadata may lie: OpenID Connect Discovery
// section 4, RFC 8414 section 3.
func wellKnown(issuer string) []string {
	out := []string{strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"}
	if u, err := url.Parse(issuer); err == nil {
		u.Path = "/.well-known/oauth-authorization-server" + strings.TrimSuffix(u.Path, "/")
		out = append(out, u.String())
	}
	return out
}

// read gets one metadata document, which must name the issuer it was asked for.
func (e *endpoint) read(ctx context.Context, at string) (metadata, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return metadata{}, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := e.http.Do(req)
	if err != nil {
		return metadata{}, withoutURL(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return metadata{}, fmt.Errorf("metadata: status %d", resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, answerBytes+1))
	if err != nil {
		return metadata{}, err
	}
	object, _, err := canon.Object(text, canon.Limits{Bytes: answerBytes})
	if err != nil {
		return metadata{}, errors.New("metadata: not one JSON object")
	}
	if member(object, "issuer") != e.client.Issuer {
		return metadata{}, errors.New("metadata: it is another issuer's")
	}
	m := metadata{member(object, "token_endpoint"), member(object, "revocation_endpoint")}
	if safeURL(m.token) && (m.revocation == "" || safeURL(m.revocation)) {
		return m, nil
	}
	return metadata{}, errors.New("metadata: no token endpoint by https")
}

// member is a text of an object, "" for anything else.
func member(object []byte, name string) string {
	value, _ := canon.Lookup(object, name)
	text, _ := canon.Text(value)
	return text
}

// safeURL reports whether a secret may be sent to an address: https, or http on
// this machine.
func safeURL(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	here := u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
	return u.Scheme == "https" || u.Scheme == "http" && here
}
