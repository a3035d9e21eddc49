package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

const public = "https://tools.example.com"

func serve(t *testing.T, o Options) *httptest.Server {
	t.Helper()
	o.Clock, o.Log = time.Now, slog.New(slog.DiscardHandler)
	mux := http.NewServeMux()
	New(o).Mount(mux)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, method, url, body string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, strings.TrimSpace(string(text))
}

func TestMetadata(t *testing.T) {
	s := serve(t, Options{PublicURL: public + "/", Resource: public + "/mcp", Issuers: []string{"https://login.example.com"},
		Scopes: func() []string { return []string{"a:read", "b"} }})
	const want = `{"resource":"https://tools.example.com/mcp","authorization_servers":["https://login.example.com"],"bearer_methods_supported":["header"],` +
		`"scopes_supported":["a:read","b"],"resource_name":"Placet at tools.example.com"}`
	for _, door := range []string{"", "/mcp", "/v1"} {
		status, header, text := get(t, "GET", s.URL+metadataPath+door, "")
		if status != 200 || text != want || header.Get("Access-Control-Allow-Origin") != "*" || header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s %v", door, status, text, header)
		}
		if status, header, _ := get(t, "OPTIONS", s.URL+metadataPath+door, ""); status != 204 || !strings.Contains(header.Get("Access-Control-Allow-Headers"), "MCP-Protocol-Version") {
			t.Errorf("preflight of %s: %d %v", door, status, header)
		}
	}
	bound := serve(t, Options{PublicURL: public, Resource: public + "/mcp", Issuers: []string{"https://login.example.com"},
		ProofAlgorithms: []string{"ES256"}, ProofRequired: true, Certificates: true})
	if _, _, text := get(t, "GET", bound.URL+metadataPath, ""); !strings.HasSuffix(text, `"tls_client_certificate_bound_access_tokens":true,"dpop_signing_alg_values_supported":["ES256"],"dpop_bound_access_tokens_required":true}`) {
		t.Errorf("bound tokens: %s", text)
	}
	// Without a configured client there is nothing to register at.
	for _, path := range []string{serverPath, openIDPath, registerPath} {
		if status, _, _ := get(t, "GET", s.URL+path, ""); status != 404 {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, _, _ := get(t, "GET", serve(t, Options{PublicURL: public}).URL+metadataPath, ""); status != 404 {
		t.Errorf("without issuers: %d", status)
	}
}

func TestChallenges(t *testing.T) {
	o := Options{PublicURL: public, Issuers: []string{"https://login.example.com"}}
	plain, full := New(o), o
	full.Scopes = func() []string { return []string{"a", "b"} }
	long := o
	long.Scopes = func() []string { return []string{strings.Repeat("a", 3000)} }
	const at = `resource_metadata="https://tools.example.com/.well-known/oauth-protected-resource/v1"`
	for got, want := range map[string]string{
		(*Resource)(nil).Unauthenticated("v1", false):                  "Bearer",
		(*Resource)(nil).Unauthenticated("v1", true):                   `Bearer error="invalid_token"`,
		(*Resource)(nil).Insufficient("v1", "a", ""):                   `Bearer error="insufficient_scope", scope="a"`,
		plain.Unauthenticated("v1", false):                             "Bearer " + at,
		New(full).Unauthenticated("v1", true):                          `Bearer error="invalid_token", scope="a b", ` + at,
		New(long).Unauthenticated("v1", true):                          `Bearer error="invalid_token", ` + at,
		plain.Insufficient("v1", "a\"b\r\n\\c", "needs \"x\"\r\nY: 1"): `Bearer error="insufficient_scope", scope="abc", error_description="needs xY: 1", ` + at,
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

const provided = `{"authorization_endpoint":"https://login.example.com/auth","code_challenge_methods_supported":["S256"],"grant_types_supported":["authorization_code"],` +
	`"issuer":"https://login.example.com","jwks_uri":"https://login.example.com/keys","registration_endpoint":"https://login.example.com/dcr","response_types_supported":["code"],` +
	`"authorization_response_iss_parameter_supported":true,"token_endpoint":"https://login.example.com/token","token_endpoint_auth_methods_supported":["client_secret_basic"],"x":1}`

func withClient(document func(context.Context) (json.RawMessage, error)) Options {
	return Options{PublicURL: public, Resource: public + "/mcp", Issuers: []string{"https://login.example.com", "https://other.example.com"},
		Client: &Client{ID: "mcp-tools", Port: 7777, Provider: document}}
}

// The document points to the provider's own endpoints, and to ours for registration.
func TestServerDocument(t *testing.T) {
	text, fail := provided, false
	s := serve(t, withClient(func(context.Context) (json.RawMessage, error) {
		if fail {
			return nil, errors.New("down")
		}
		return json.RawMessage(text), nil
	}))
	const want = `{"authorization_endpoint":"https://login.example.com/auth","code_challenge_methods_supported":["S256"],"grant_types_supported":["authorization_code"],` +
		`"issuer":"https://tools.example.com","jwks_uri":"https://login.example.com/keys","registration_endpoint":"https://tools.example.com/register","response_types_supported":["code"],` +
		`"token_endpoint":"https://login.example.com/token","token_endpoint_auth_methods_supported":["none"]}`
	for _, path := range []string{serverPath, openIDPath} {
		if status, _, got := get(t, "GET", s.URL+path, ""); status != 200 || got != want {
			t.Errorf("%s: %d %s", path, status, got)
		}
	}
	fail = true // held, and good
	if status, _, got := get(t, "GET", s.URL+serverPath, ""); status != 200 || got != want {
		t.Errorf("while it is down: %d %s", status, got)
	}
	if _, _, got := get(t, "GET", s.URL+metadataPath+"/mcp", ""); !strings.Contains(got, `"authorization_servers":["https://tools.example.com","https://login.example.com","https://other.example.com"]`) {
		t.Errorf("metadata %s", got)
	}
	if status, header, _ := get(t, "GET", serve(t, withClient(func(context.Context) (json.RawMessage, error) { return nil, errors.New("down") })).URL+serverPath, ""); status != 503 || header.Get("Retry-After") == "" {
		t.Errorf("never read: %d", status)
	}
}

func TestRegister(t *testing.T) {
	s := serve(t, withClient(nil))
	for _, good := range []string{"http://127.0.0.1:7777/callback", "http://localhost:7777/cb", "http://[::1]:7777/", "http://127.0.0.2:7777"} {
		body := `{"redirect_uris":["` + good + `"],"token_endpoint_auth_method":"client_secret_basic","client_name":"An IDE"}`
		status, header, text := get(t, "POST", s.URL+registerPath, body)
		want := `{"client_id":"mcp-tools","redirect_uris":["` + good + `"],"token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token"],"response_types":["code"]}`
		if status != 201 || text != want || header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %s", good, status, text)
		}
	}
	for _, bad := range []string{
		`"https://evil.example/callback"`, `"http://evil.example:7777/callback"`, `"http://127.0.0.1:7778/callback"`, `"http://127.0.0.1/callback"`,
		`"https://127.0.0.1:7777/callback"`, `"http://user@127.0.0.1:7777/"`, `"http://127.0.0.1:7777/#f"`, `"http://127.0.0.1:7777/#"`, `"http://127.0.0.1:7777/?x=1"`,
		`"http://127.0.0.1.evil.example:7777/"`, `"http://localhost.evil.example:7777/"`, `"http://evil.example#@127.0.0.1:7777/"`, `"http://127.0.0.1:7777@evil.example/"`,
		`"cursor://anysphere"`, `"urn:ietf:wg:oauth:2.0:oob"`, `"javascript:alert(1)//127.0.0.1:7777"`, `"http://0.0.0.0:7777/"`, `"http://2130706433:7777/"`, `"http://LOCALHOST:7777/"`, `"//127.0.0.1:7777/"`, `""`, `7`, `null`,
		`"http://127.0.0.1:7777/","https://evil.example/"`, ``,
	} {
		if status, _, text := get(t, "POST", s.URL+registerPath, `{"redirect_uris":[`+bad+`]}`); status != 400 || !strings.HasPrefix(text, `{"error":"invalid_redirect_uri",`) || strings.Contains(text, "evil") {
			t.Errorf("%s: %d %s", bad, status, text)
		}
	}
	for body, code := range map[string]string{
		`{}`: "invalid_redirect_uri", `{"redirect_uris":"http://127.0.0.1:7777/"}`: "invalid_redirect_uri", `{"Redirect_uris":["http://127.0.0.1:7777/"]}`: "invalid_redirect_uri",
		``: "invalid_redirect_uri", `[]`: "invalid_client_metadata", `x`: "invalid_client_metadata",
		`{"redirect_uris":["http://127.0.0.1:7777/"],"redirect_uris":["https://evil.example/"]}`:          "invalid_client_metadata",
		`{"redirect_uris":["http://127.0.0.1:7777/"],"x":"` + strings.Repeat("a", maxRegistration) + `"}`: "invalid_client_metadata",
	} {
		if status, _, text := get(t, "POST", s.URL+registerPath, body); status != 400 || !strings.HasPrefix(text, `{"error":"`+code+`"`) {
			t.Errorf("%.60s: %d %s", body, status, text)
		}
	}
	if status, _, _ := get(t, "GET", s.URL+registerPath, ""); status != 405 {
		t.Errorf("GET: %d", status)
	}
}

// Whatever a client asks for, what it is given redirects to this user's machine.
func FuzzRegister(f *testing.F) {
	p := &provider{client: Client{ID: "c", Port: 7777}}
	f.Add(`{"redirect_uris":["http://127.0.0.1:7777/callback"]}`)
	f.Add(`{"redirect_uris":["http://[::1%25eth0]:7777/"]}`)
	f.Add(`{"redirect_uris":["http://127.0.0.1:7777\\@evil.example/"]}`)
	f.Fuzz(func(t *testing.T, body string) {
		w := httptest.NewRecorder()
		p.register(w, httptest.NewRequest("POST", registerPath, strings.NewReader(body)))
		var out struct {
			ID        string   `json:"client_id"`
			Secret    *string  `json:"client_secret"`
			Redirects []string `json:"redirect_uris"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
			t.Fatal(err)
		}
		if w.Code != 201 && w.Code != 400 || w.Code == 201 && (out.ID != "c" || out.Secret != nil || len(out.Redirects) == 0) {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		for _, r := range out.Redirects {
			host := strings.TrimPrefix(r, "http://")
			if i := strings.IndexAny(host, "/\\"); i >= 0 {
				host = host[:i]
			}
			if !strings.HasSuffix(host, ":7777") || !strings.HasPrefix(host, "127.") && !strings.HasPrefix(host, "localhost:") && !strings.HasPrefix(host, "[") {
				t.Fatalf("%q was taken", r)
			}
		}
	})
}
