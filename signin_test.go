package placet

import (
	"context"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/issuer"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/local"
)

// ledger is what a tool did, and for whom.
type ledger struct {
	mu    sync.Mutex
	lines []string
}

func (l *ledger) tool(name, scope string) Tool {
	return Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`), Entry: registry.Entry{Scope: scope, Read: true},
		Handler: func(_ context.Context, c local.Call) (json.RawMessage, error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.lines = append(l.lines, name+" for "+c.Owner.Principal.String())
			return json.RawMessage(`{}`), nil
		}}
}

func (l *ledger) read() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// signInAs is a person at a browser: opens the page a client asks for, presses the
// button with their name, and tells the client where it was returned to.
func signInAs(t *testing.T, user string) auth.AuthorizationCodeFetcher {
	hidden := regexp.MustCompile(`name="request" value="([^"]+)"`)
	return func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
		jar, err := cookiejar.New(nil)
		if err != nil {
			return nil, err
		}
		b := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
			if strings.HasSuffix(r.URL.Path, "/callback") {
				return http.ErrUseLastResponse
			}
			return nil
		}}
		r, err := b.Get(args.URL)
		if err != nil {
			return nil, err
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		m := hidden.FindSubmatch(body)
		if m == nil {
			t.Errorf("no sign-in page: %d %s", r.StatusCode, body)
			return nil, io.ErrUnexpectedEOF
		}
		r, err = b.PostForm(r.Request.URL.Scheme+"://"+r.Request.URL.Host+r.Request.URL.Path, url.Values{"request": {html.UnescapeString(string(m[1]))}, "user": {user}})
		if err != nil {
			return nil, err
		}
		defer r.Body.Close()
		to, err := r.Location()
		if err != nil {
			return nil, err
		}
		q := to.Query()
		return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
	}
}

// An MCP client that knows nothing but the server's URL finds the issuer, registers,
// has its person sign in, and calls. The person is the one that an offline token
// names too.
func TestMCPClientSignsIn(t *testing.T) {
	door := httptest.NewUnstartedServer(nil)
	var done ledger
	o := checkedOptions(t, "version: 1\n", done.tool("see", "desk:read"), done.tool("run", "desk:admin"))
	o.Config.PublicURL = "http://" + door.Listener.Addr().String()
	file := filepath.Join(t.TempDir(), "users.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("version: 1\nusers: {anna: {tenant: acme, groups: [support], scopes: [\"desk:read\"]}}\n")
	o.Users = issuer.File(file)
	p, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	door.Config.Handler = p.Handler()
	door.Start()
	t.Cleanup(func() { door.CloseClientConnections(); door.Close() })

	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "a test's client", RedirectURIs: []string{"http://127.0.0.1:4711/callback"}, GrantTypes: []string{"authorization_code", "refresh_token"}}},
		AuthorizationCodeFetcher: signInAs(t, "anna"),
	})
	if err != nil {
		t.Fatal(err)
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "newcomer", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: o.Config.Audience(), OAuthHandler: handler}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	out, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "see", Arguments: json.RawMessage(`{}`)})
	if err != nil || out.IsError {
		t.Fatalf("%v %+v", err, out)
	}
	if out, err = session.CallTool(t.Context(), &sdk.CallToolParams{Name: "run", Arguments: json.RawMessage(`{}`)}); err == nil && !out.IsError {
		t.Errorf("a tool whose scope anna lacks ran: %+v", out)
	}
	if got := done.read(); !slices.Equal(got, []string{"see for anna@" + LocalIssuer}) {
		t.Fatalf("the ledger has %v", got)
	}
	source, err := handler.TokenSource(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	token, err := source.Token()
	if err != nil {
		t.Fatal(err)
	}
	signed, err := p.Verifier().Caller(t.Context(), identity.Credentials{Bearer: token.AccessToken})
	if err != nil {
		t.Fatal(err)
	}
	offline, err := o.Local.Sign(identity.TokenSpec{Audience: o.Config.Audience(), Subject: "anna", Tenant: "acme", Agent: string(signed.Owner().Agent), Groups: []string{"support"}})
	if err != nil {
		t.Fatal(err)
	}
	printed, err := p.Verifier().Caller(t.Context(), identity.Credentials{Bearer: offline})
	if err != nil || printed.Owner() != signed.Owner() || printed.SessionID() != signed.SessionID() {
		t.Errorf("signed in she is %v, by an offline token %v: %v", signed.Owner(), printed.Owner(), err)
	}
	if s, err := p.Issuer().Session(t.Context(), token.RefreshToken); err != nil || !s.Active || s.Tenant != "acme" || !slices.Equal(s.Groups, []string{"support"}) {
		t.Errorf("her session is %+v, %v", s, err)
	}
	write("version: 1\nusers: {otto: {}}\n")
	if s, err := p.Issuer().Session(t.Context(), token.RefreshToken); err != nil || s.Active {
		t.Errorf("after her dismissal it is %+v, %v", s, err)
	}
}

// Users of its own are the development issuer's alone, and a server without them
// has no page to sign in at.
func TestUsersAreOfTheDevelopmentIssuer(t *testing.T) {
	o := checkedOptions(t, "version: 1\n", goTool("alpha", "a"))
	p, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	a := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, o.Config.PublicURL+issuer.Path+"/", nil)
	r.RemoteAddr = "127.0.0.1:1"
	p.Handler().ServeHTTP(a, r)
	if a.Code != http.StatusNotFound || p.Issuer() != nil {
		t.Errorf("without users: %d, %v", a.Code, p.Issuer())
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	o.Users, o.Local = issuer.Cast(), nil
	if _, err := Open(t.Context(), o); record.KindOf(err) != record.Invalid {
		t.Errorf("users without the development issuer: %v", err)
	}
}
