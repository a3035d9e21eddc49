package placet

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/placet-dev/placet/identity/idptest"
)

func issuerBlock(p *idptest.Provider, more string) string {
	return "issuers:\n  - {issuer: \"" + p.Issuer + "\", audience: [" + idptest.Client + "], algorithms: [RS256], tenant: acme" + more + "}\n"
}

// TestClientFindsItsWay: an MCP client that knows nothing but the address of this
// server is led to the provider, registers, logs its user in, calls, and asks for
// one scope more when that is what is lacking. Every part but ours is of real
// libraries: go-sdk is the client, zitadel/oidc the provider.
func TestClientFindsItsWay(t *testing.T) {
	provider := idptest.New(t)
	s := newService(t, issuerBlock(provider, ", client: {id: "+idptest.Client+", callback_port: 7777}"), nil)
	var logins atomic.Int32
	var asked []string
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{RedirectURIs: []string{idptest.Redirect}, ClientName: "test"}},
		AuthorizationCodeFetcher: func(ctx context.Context, a *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			logins.Add(1)
			at, err := url.Parse(a.URL)
			if err != nil {
				return nil, err
			}
			asked = append(asked, at.Query().Get("scope"))
			if !strings.HasPrefix(a.URL, provider.Issuer+"/auth?") || at.Query().Get("resource") != s.url+"/mcp" {
				t.Errorf("the user was sent to %s", a.URL)
			}
			back, err := idptest.LogIn(ctx, a.URL)
			if err != nil {
				return nil, err
			}
			return &auth.AuthorizationResult{Code: back.Get("code"), State: back.Get("state"), Iss: back.Get("iss")}, nil
		},
		ScopeFilter: func(found []string) []string {
			if logins.Load() == 0 {
				return []string{"tickets:read"} // a careful client asks for little
			}
			return found
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: s.url + "/mcp", OAuthHandler: handler}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for _, tool := range []string{"read_ticket", "refund"} {
		out, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: map[string]any{}})
		if err != nil || out.IsError {
			t.Fatalf("%s: %v %+v", tool, err, out)
		}
	}
	who := "acme/" + idptest.Subject + "/" + idptest.Client
	s.effects("calls", "read_ticket "+who, "refund "+who)
	if logins.Load() != 2 || asked[0] != "tickets:read" || !strings.Contains(asked[1], "refunds:write") {
		t.Errorf("%d logins, asked for %q", logins.Load(), asked)
	}
}

// A client that was told its ID needs no registration, and one that names another
// redirect gets none.
func TestOnlyTheConfiguredClientIsRegistered(t *testing.T) {
	s := newService(t, issuerBlock(idptest.New(t), ", client: {id: "+idptest.Client+", callback_port: 7777}"), nil)
	register := func(redirect string) error {
		_, err := oauthex.RegisterClient(t.Context(), s.url+"/register", &oauthex.ClientRegistrationMetadata{RedirectURIs: []string{redirect}}, http.DefaultClient)
		return err
	}
	if err := register(idptest.Redirect); err != nil {
		t.Error(err)
	}
	for _, redirect := range []string{"https://evil.example/callback", "http://127.0.0.1:7778/callback"} {
		if err := register(redirect); err == nil || !strings.Contains(err.Error(), "invalid_redirect_uri") {
			t.Errorf("%s: %v", redirect, err)
		}
	}
}

// Both doors tell the same of themselves, and nothing of tools that are kept to
// some callers.
func TestDoorsTellWhereTokensComeFrom(t *testing.T) {
	provider := idptest.New(t)
	s := newService(t, "resource: https://tools.example.com/mcp\n"+issuerBlock(provider, ""), nil)
	for _, door := range []string{"/mcp", "/v1"} {
		at := s.url + "/.well-known/oauth-protected-resource" + door
		for _, path := range map[string][]string{"/mcp": {"/mcp"}, "/v1": {"/v1/calls", "/v1/tools"}}[door] {
			resp, err := http.Get(s.url + path)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			want := `Bearer scope="refunds:write tickets:read", resource_metadata="` + at + `"`
			if got := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != 401 || got != want {
				t.Errorf("%s: %d\ngot  %s\nwant %s", path, resp.StatusCode, got, want)
			}
		}
		resp, err := http.Get(at)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		var m struct {
			Resource string
			Servers  []string `json:"authorization_servers"`
		}
		if err := json.Unmarshal(text, &m); err != nil || m.Resource != "https://tools.example.com/mcp" || len(m.Servers) != 1 || m.Servers[0] != provider.Issuer || strings.Contains(string(text), "merger") {
			t.Errorf("%s: %v %s", door, err, text)
		}
	}
	for _, path := range []string{"/register", "/.well-known/oauth-authorization-server"} {
		resp, err := http.Post(s.url+path, "application/json", strings.NewReader(`{"redirect_uris":["`+idptest.Redirect+`"]}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s without a configured client: %d", path, resp.StatusCode)
		}
	}
}

// TestProviderDownIsNoRefusalOfTheCaller: when a provider cannot be asked for
// longer than its keys are good, doors answer 503 and nothing runs. A client that
// read 401 would send its user to log in at a provider that is down.
func TestProviderDownIsNoRefusalOfTheCaller(t *testing.T) {
	provider := idptest.New(t)
	var ahead atomic.Int64
	s := newService(t, issuerBlock(provider, ""), func(o *Options) {
		o.Clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	token := provider.Token("tickets:read")
	provider.Down()
	call := func(want int) {
		t.Helper()
		for _, d := range doors {
			if status, text := wire(t, s.url, "POST", d.path, d.body(""), append([]string{"Authorization: Bearer " + token}, d.headers...)...); status != want {
				t.Errorf("%s: %d, want %d: %s", d.name, status, want, text)
			}
		}
	}
	call(http.StatusServiceUnavailable) // never asked
	s.effects("never asked")
	provider.Fault(nil)
	ahead.Store(int64(6 * time.Second))
	call(http.StatusOK)
	who := "read_ticket acme/" + idptest.Subject + "/" + idptest.Client
	s.effects("up", who, who)
	provider.Down()
	ahead.Store(int64(2 * time.Hour))
	call(http.StatusServiceUnavailable)
	s.effects("down")
}
