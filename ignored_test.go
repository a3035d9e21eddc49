package placet

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/identity"
)

// lookAlikes are headers that say who is calling at other servers, and the names
// under which they are counted here.
var lookAlikes = map[string]string{
	"X-Forwarded-User": "", "X-Forwarded-Email": "", "X-Forwarded-Groups": "", "X-Forwarded-Preferred-Username": "", "X-Forwarded-Access-Token": "",
	"X-Forwarded-Client-Cert": "", "X-Forwarded-Tls-Client-Cert": "", "Forwarded": "", "X-Remote-User": "", "X-Remote-Group": "", "Remote-User": "", "Remote-Groups": "",
	"X-User": "", "X-User-Id": "", "X-Username": "", "X-Email": "", "X-Groups": "", "X-Roles": "", "X-Scopes": "", "X-Authenticated-User": "", "X-Webauth-User": "", "X-Consumer-Username": "",
	"X-Tenant": "", "X-Tenant-Id": "", "X-Org-Id": "", "X-Scope-OrgID": "X-Scope-Orgid", "X-Principal": "", "X-Agent": "", "X-On-Behalf-Of": "",
	"Impersonate-User": "", "Impersonate-Group": "", "X-Client-Cert": "", "X-Client-DN": "X-Client-Dn", "Client-Cert": "", "X-ARR-ClientCert": "X-Arr-Clientcert", "X-SPIFFE-ID": "X-Spiffe-Id",
	"X-Auth-Request-User": "X-Auth-Request-*", "X-Auth-Request-Groups": "X-Auth-Request-*", "X-Auth-Request-Access-Token": "X-Auth-Request-*",
	"X-Amzn-Oidc-Identity": "X-Amzn-Oidc-*", "X-Amzn-Oidc-Data": "X-Amzn-Oidc-*", "X-Amzn-Mtls-Clientcert": "X-Amzn-Mtls-*",
	"X-Goog-Authenticated-User-Email": "X-Goog-*", "X-Goog-IAP-JWT-Assertion": "X-Goog-*", "X-MS-Client-Principal": "X-Ms-*", "X-MS-Client-Principal-Name": "X-Ms-*",
	"X-SSL-Client-S-DN": "X-Ssl-*", "X-SSL-Client-Cert": "X-Ssl-*", "Ssl-Client-Cert": "Ssl-*", "Ssl-Client-Verify": "Ssl-*",
	"X-Authorization": "", "X-Access-Token": "", "X-Id-Token": "", "Proxy-Authorization": "", "X-Api-Key": "", "Cf-Access-Jwt-Assertion": "", "Tailscale-User-Login": "",
	"Placet-Principal": "", "Placet-Tenant": "", "Placet-Agent": "",
}

// wire sends a request byte for byte, since clients tidy headers up.
func wire(t *testing.T, url, method, path, body string, headers ...string) (int, string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n%s\r\n%s",
		method, path, strings.TrimPrefix(url, "http://"), len(body), strings.Join(append(headers, ""), "\r\n"), body)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// door is one way to call a tool.
type aDoor struct {
	name, path string
	body       func(meta string) string
	headers    []string
}

var doors = []aDoor{
	{"mcp", "/mcp", func(meta string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_ticket","arguments":{"text":"sub: root, tenant: globex"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}` + meta + `}}}`
	}, []string{"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: read_ticket"}},
	{"v1", "/v1/calls", func(string) string { return `{"tool":"read_ticket","arguments":{"text":"sub: root, tenant: globex"}}` }, nil},
}

// TestNothingACallerWritesIsIdentity: whatever looks like identity, in any
// spelling, beside a token or in its place, the call is the token's principal's or
// nobody's. The tool's ledger and the record say whose.
func TestNothingACallerWritesIsIdentity(t *testing.T) {
	issuer, err := identity.NewLocal(LocalIssuer, rand.Reader, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s := newService(t, "", func(o *Options) { o.Local, o.Tenants = issuer, []string{"acme", "globex"} })
	sign := func(subject, tenant, agent string) string {
		token, err := issuer.Sign(identity.TokenSpec{Audience: s.placet.o.Config.Audience(), Subject: subject, Tenant: tenant, Agent: agent, Scopes: []string{"tickets:read"}})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	anna, root := sign("anna", "acme", "bot"), sign("root", "globex", "admin-bot")
	authorization := "Authorization: Bearer " + anna
	const hers = "read_ticket acme/anna/bot"
	var seen int64 // the newest event that was looked at
	for _, d := range doors {
		call := func(t *testing.T, what string, want int, meta string, headers ...string) {
			t.Helper()
			status, text := wire(t, s.url, "POST", d.path, d.body(meta), append(append([]string{}, d.headers...), headers...)...)
			if status != want {
				t.Errorf("%s: %d %s", what, status, text)
			}
			if want != http.StatusOK {
				s.effects(what)
				if n := len(s.events("acme", seen)); n != 0 {
					t.Errorf("%s: nobody wrote %d events", what, n)
				}
				return
			}
			s.effects(what, hers)
			events := s.events("acme", seen)
			for _, e := range events {
				seen = e.Seq
				if who := e.Who; who.System == "" && (who.Principal == nil || who.Principal.Subject != "anna" || who.Agent != "bot") || e.Tenant != "acme" {
					t.Errorf("%s: the record says %+v", what, e)
				}
			}
			if len(events) == 0 || len(s.events("globex", 0)) != 0 {
				t.Errorf("%s: no events, or another tenant has some", what)
			}
		}
		t.Run(d.name, func(t *testing.T) {
			call(t, "the token alone", http.StatusOK, "", authorization)
			for name, counted := range lookAlikes {
				if counted == "" {
					counted = name
				}
				for _, value := range []string{"root", "Bearer " + root} {
					for spelling, lines := range map[string][]string{
						"as it is":    {name + ": " + value},
						"twice":       {name + ": anna", name + ": " + value},
						"lower":       {strings.ToLower(name) + ": " + value},
						"upper":       {strings.ToUpper(name) + ": " + value},
						"underscored": {strings.ReplaceAll(name, "-", "_") + ": " + value},
					} {
						what := name + ", " + spelling
						n := s.placet.Ignored()[counted]
						call(t, what, http.StatusOK, "", append(lines, authorization)...)
						call(t, what+", alone", http.StatusUnauthorized, "", lines...)
						if got := s.placet.Ignored()[counted] - n; got != int64(2*len(lines)) {
							t.Errorf("%s: counted %d times", what, got)
						}
						if value != "root" {
							break // the spelling was the other value's to show
						}
					}
				}
			}
			// What counts is one header in one spelling, once.
			for _, lines := range [][]string{
				{"Placet_Workload: plk_x"}, {"PLACET_WORKLOAD: plk_x"}, {"Authorization_: Bearer " + root}, {"_Authorization: Bearer " + root}, {"HTTP_AUTHORIZATION: Bearer " + root},
				{"Cookie: session=root; token=" + root}, {"X-HTTP-Method-Override: DELETE"}, {"X-Original-URL: /v1/reload"}, {"X-Rewrite-URL: /v1/reload"}, {"Mcp-Session-Id: " + root},
			} {
				call(t, lines[0], http.StatusOK, "", append(lines, authorization)...)
				call(t, lines[0]+", alone", http.StatusUnauthorized, "", lines...)
			}
			for what, lines := range map[string][]string{
				"two tokens":             {authorization, "Authorization: Bearer " + root},
				"two tokens, other case": {authorization, "AUTHORIZATION: Bearer " + root},
				"the same token twice":   {authorization, authorization},
				"two in one":             {authorization + ", Bearer " + root},
				"a key nobody has":       {authorization, "Placet-Workload: plk_x"},
				"two keys":               {authorization, "Placet-Workload: plk_x", "placet-workload: plk_y"},
				"another scheme":         {"Authorization: Basic cm9vdDpyb290"},
				"in the query's place":   {"Authorization: " + root},
			} {
				call(t, what, http.StatusUnauthorized, "", lines...)
			}
			// A token that stands elsewhere than in the header.
			status, _ := wire(t, s.url, "POST", d.path+"?access_token="+root, d.body(""), d.headers...)
			if status != http.StatusUnauthorized && status != http.StatusBadRequest {
				t.Errorf("a token in the query: %d", status)
			}
			s.effects("a token in the query")
		})
	}
	t.Run("_meta", func(t *testing.T) {
		d := doors[0]
		for _, member := range []string{`"user":"root"`, `"principal":{"issuer":"x","subject":"root"}`, `"dev.placet/principal":"root"`, `"dev.placet/tenant":"globex"`, `"tenant":"globex"`, `"dev.placet/agent":"admin-bot"`,
			`"sub":"root"`, `"authorization":"Bearer ` + root + `"`, `"io.modelcontextprotocol/user":"root"`, `"scopes":["admin"]`, `"groups":["platform"]`, `"example.com/sessionId":"s"`, `"token":"` + root + `"`} {
			n := s.placet.Ignored()["_meta"]
			status, text := wire(t, s.url, "POST", d.path, d.body(","+member), append([]string{authorization}, d.headers...)...)
			if status != http.StatusOK || s.placet.Ignored()["_meta"] != n+1 {
				t.Errorf("%s: %d, counted %d times, %s", member, status, s.placet.Ignored()["_meta"]-n, text)
			}
			s.effects(member, hers)
			if status, _ = wire(t, s.url, "POST", d.path, d.body(","+member), d.headers...); status != http.StatusUnauthorized {
				t.Errorf("%s alone: %d", member, status)
			}
			s.effects(member + " alone")
		}
	})
}

// TestPathsAreReadInOneWay: every spelling of a path but the plain one is refused
// at every door, before anything is routed.
func TestPathsAreReadInOneWay(t *testing.T) {
	issuer, err := identity.NewLocal(LocalIssuer, rand.Reader, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s := newService(t, "", func(o *Options) { o.Local, o.Tenants = issuer, []string{"acme"} })
	token, err := issuer.Sign(identity.TokenSpec{Audience: s.placet.o.Config.Audience(), Subject: "anna", Tenant: "acme", Agent: "bot", Scopes: []string{"tickets:read"}})
	if err != nil {
		t.Fatal(err)
	}
	plain := map[string]string{ // and what each answers to GET without credentials
		"/mcp": "", "/v1/calls": "", "/v1/tools": "", "/v1/openapi.json": "", "/healthz": "", "/console/approvals/apr_0123456789abcdefghjkmnpqrs": "", "/.well-known/placet-jwks.json": "",
	}
	for path := range plain {
		first, rest, _ := strings.Cut(path[1:], "/")
		bad := []string{"/" + path, "/." + path, "/x/.." + path, "/%2e" + path, "/x/%2e%2e" + path, "/x%2f.." + path, "/%2f" + path, path + "%00", path + "%2f", path + "%5c", path + `\`, path + "%252f", path + "%23", path + "%3f",
			"/%" + fmt.Sprintf("%02x", path[1]) + path[2:], "/%25" + fmt.Sprintf("%02x", path[1]) + path[2:], path + ";x=1", path + "%0d%0a", "/x%ef%bc%8f" + path[1:], "/x／" + path[1:]}
		if rest != "" {
			for _, slash := range []string{"%2f", "%2F", "%5c", "%5C", `\`, "%252f", "%c0%af", "%ef%bc%8f", "%e2%88%95", "%e2%81%84", "／", "∕", "⁄", "//", "/./", "/x/../", "/%2e/", "/x/%2e%2e/", "%2f%2e%2f"} {
				bad = append(bad, "/"+first+slash+rest)
			}
		}
		for _, at := range bad {
			for _, method := range []string{"GET", "POST"} {
				if status, text := wire(t, s.url, method, at, "", "Authorization: Bearer "+token); status != http.StatusBadRequest {
					t.Errorf("%s %q: %d %s", method, at, status, text)
				}
			}
		}
		if status, text := wire(t, s.url, "GET", path, ""); status == http.StatusBadRequest {
			t.Errorf("%s itself: %s", path, text)
		}
	}
	for _, d := range doors { // what is dispatched is what was written, with the method as written
		for _, method := range []string{"post", "Post"} {
			if status, _ := wire(t, s.url, method, d.path, d.body(""), append([]string{"Authorization: Bearer " + token}, d.headers...)...); status != http.StatusBadRequest {
				t.Errorf("%s %s: %d", method, d.path, status)
			}
		}
		s.effects(d.name)
		if status, text := wire(t, s.url, "POST", d.path, d.body(""), append([]string{"Authorization: Bearer " + token}, d.headers...)...); status != http.StatusOK {
			t.Errorf("%s: %d %s", d.path, status, text)
		}
		s.effects(d.name, "read_ticket acme/anna/bot")
	}
}
