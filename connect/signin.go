package connect

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/placet-dev/placet/record"
	"golang.org/x/oauth2"
)

// signIn has the user sign in, and fills the grant.
func (a *account) signIn(ctx context.Context, g *grant, where found, scopes []string) error {
	ctx, stop := context.WithTimeout(ctx, signInLasts)
	defer stop()
	state, verifier, err := a.secrets()
	if err != nil {
		return err
	}
	page, err := a.client(ctx, g, where)
	if err != nil {
		return err
	}
	defer page.close()
	g.Resource, g.TokenEndpoint, g.RevocationEndpoint = where.resource, where.issuer.TokenEndpoint, where.issuer.RevocationEndpoint
	cfg := g.config(page.redirect)
	cfg.Endpoint.AuthURL, cfg.Scopes = where.issuer.AuthorizationEndpoint, scopes
	address := cfg.AuthCodeURL(state, append(g.target(), oauth2.S256ChallengeOption(verifier))...)
	a.Log.Info("sign in with your browser", "issuer", g.Issuer, "server", g.Server)
	if err := a.Open(ctx, address); err != nil {
		return record.Because(record.Unavailable, err, "the browser cannot be opened; use --no-browser and open the printed address yourself")
	}
	answer, err := page.wait(ctx)
	if err != nil {
		return err
	}
	code, err := judge(answer, state, where.issuer)
	if err != nil {
		return err
	}
	g.Scopes = scopes
	if err := a.redeem(ctx, g, page.redirect, code, oauth2.VerifierOption(verifier)); err != nil {
		var refused *oauth2.RetrieveError
		if errors.As(err, &refused) && refused.ErrorCode == "invalid_client" {
			g.Client = client{}
			_ = a.forget(g)
		}
		return clean(g.Issuer, err)
	}
	g.fresh = true
	return nil
}

// secrets are the state and the PKCE verifier of one sign-in (RFC 7636 section 4.1).
func (a *account) secrets() (state, verifier string, err error) {
	var raw [64]byte
	if _, err := io.ReadFull(a.Random, raw[:]); err != nil {
		return "", "", err
	}
	text := base64.RawURLEncoding
	return text.EncodeToString(raw[:32]), text.EncodeToString(raw[32:]), nil
}

// judge takes the code out of the authorization response. Its issuer is looked at
// before its error: both may be another's (RFC 9207 section 2.4).
func judge(answer url.Values, state string, issuer *oauthex.AuthServerMeta) (code string, err error) {
	if subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(state)) != 1 || len(answer["state"]) != 1 {
		return "", record.Errorf(record.Forbidden, "the answer of the browser does not belong to this sign-in (state): nobody is signed in")
	}
	iss, given := answer["iss"]
	if given && (len(iss) != 1 || iss[0] != issuer.Issuer) {
		return "", record.Errorf(record.Forbidden, "the answer of the browser is from another issuer than %s (RFC 9207): nobody is signed in", issuer.Issuer)
	}
	if !given && issuer.AuthorizationResponseIssParameterSupported {
		return "", record.Errorf(record.Forbidden, "the answer of the browser does not say which issuer it is from, as %s promises (RFC 9207): nobody is signed in", issuer.Issuer)
	}
	if e := answer.Get("error"); e != "" {
		if e == "access_denied" {
			return "", record.Errorf(record.Forbidden, "the sign-in at %s was denied: %s", issuer.Issuer, readable(e, answer.Get("error_description")))
		}
		return "", record.Errorf(record.Unauthenticated, "the sign-in at %s failed: %s", issuer.Issuer, readable(e, answer.Get("error_description")))
	}
	if len(answer["code"]) != 1 || answer.Get("code") == "" {
		return "", record.Errorf(record.Unauthenticated, "the answer of the browser has no code: nobody is signed in")
	}
	return answer.Get("code"), nil
}

// readable makes an issuer's words fit to show: printable ASCII, and not long.
func readable(words ...string) string {
	text := strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return -1
		}
		return r
	}, strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ": "))
	if text == "" {
		return "it gives no reason"
	}
	return text[:min(len(text), 300)]
}

func splitScopes(text string) []string { return strings.Fields(text) }

// client settles which client asks, and opens the page that it is answered at. In
// the order of MCP's authorization: registered by an operator, a metadata document
// where the issuer takes one, registered before by us, registered now.
func (a *account) client(ctx context.Context, g *grant, where found) (*page, error) {
	method := func(secret string) string {
		return authMethod(secret, where.issuer.TokenEndpointAuthMethodsSupported)
	}
	switch {
	case a.ClientID != "":
		g.Client = client{ID: a.ClientID, Secret: a.ClientSecret, Method: method(a.ClientSecret)}
		return openPage(callback(a.CallbackPort))
	case a.ClientMetadata != "" && where.issuer.ClientIDMetadataDocumentSupported:
		g.Client = client{ID: a.ClientMetadata, Method: "none"}
		return openPage(callback(a.CallbackPort))
	case g.Client.Redirect != "":
		if p, err := openPage(g.Client.Redirect); err == nil {
			return p, nil
		} // somebody else listens there
	}
	return a.register(ctx, g, where)
}

// register registers a client (RFC 7591): at the issuer, or, where it has no
// registration, at the server, which may answer with the client that its operator
// configured.
func (a *account) register(ctx context.Context, g *grant, where found) (*page, error) {
	p, err := openPage(callback(a.CallbackPort))
	if err != nil {
		return nil, err
	}
	at := where.issuer.RegistrationEndpoint
	if at == "" {
		at = (&url.URL{Scheme: a.server.Scheme, Host: a.server.Host, Path: "/register"}).String()
	}
	method := "none"
	if offered := where.issuer.TokenEndpointAuthMethodsSupported; len(offered) > 0 && !slices.Contains(offered, "none") {
		method = authMethod("wanted", offered)
	}
	answer, err := oauthex.RegisterClient(ctx, at, &oauthex.ClientRegistrationMetadata{RedirectURIs: []string{p.redirect}, TokenEndpointAuthMethod: method,
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"}, ClientName: "placet connect", ApplicationType: "native"}, a.http)
	if err != nil {
		p.close()
		var refused *oauthex.ClientRegistrationError
		reason := "it has no registration that works"
		if errors.As(err, &refused) {
			reason = readable(refused.ErrorCode, refused.ErrorDescription)
		}
		return nil, record.Errorf(record.Unavailable, "%s registers no client (%s); have one registered for %s and give it with --client-id and --callback-port", at, reason, g.Issuer)
	}
	g.Client = client{ID: answer.ClientID, Secret: answer.ClientSecret, Method: answer.TokenEndpointAuthMethod}
	if g.Client.Method == "" {
		g.Client.Method = authMethod(answer.ClientSecret, where.issuer.TokenEndpointAuthMethodsSupported)
	}
	if len(answer.RedirectURIs) > 0 && !slices.Contains(answer.RedirectURIs, p.redirect) {
		p.close()
		if p, err = a.openRegistered(answer.RedirectURIs); err != nil {
			return nil, err
		}
	}
	g.Client.Redirect = p.redirect
	return p, nil
}

// openRegistered listens where the operator's client is answered.
func (a *account) openRegistered(uris []string) (*page, error) {
	for _, uri := range uris {
		u, err := url.Parse(uri)
		if err != nil || u.Scheme != "http" || !loopback(u.Hostname()) || u.RawQuery != "" || u.Fragment != "" {
			continue
		}
		if u.Port() == "" { // any port (RFC 8252 section 7.3)
			u.Host = net.JoinHostPort(u.Hostname(), strconv.Itoa(a.CallbackPort))
		}
		if a.CallbackPort != 0 && u.Port() != strconv.Itoa(a.CallbackPort) {
			continue
		}
		return openPage(u.String())
	}
	return nil, record.Errorf(record.Unavailable, "the client that %s gives is answered at %v, and this program listens on this machine only; have http://127.0.0.1/callback registered", a.server, uris)
}

// authMethod is how a client shows who it is at the token endpoint.
func authMethod(secret string, offered []string) string {
	switch {
	case secret == "":
		return "none"
	case slices.Contains(offered, "client_secret_post"):
		return "client_secret_post"
	}
	return "client_secret_basic" // RFC 8414's default
}
