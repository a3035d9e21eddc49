package mcp_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	edge "github.com/placet-dev/placet/edge/mcp"
	"github.com/placet-dev/placet/edge/oauth"
	"github.com/placet-dev/placet/identity"
)

func headerForm(name string) string {
	for _, c := range []byte(name) {
		if c <= ' ' || c > '~' {
			return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(name)) + "?="
		}
	}
	return name
}

func TestOnlyAVerifiedCallerGetsIn(t *testing.T) {
	w := newWorld(t, func(o *edge.Options) {
		o.PublicURL = "https://tools.example.com"
		o.OAuth = oauth.New(oauth.Options{PublicURL: o.PublicURL, Resource: o.PublicURL + "/mcp", Issuers: []string{"https://login.example.com"}})
	})
	good := w.token("anna")
	expired, err := w.issuer.Sign(identity.TokenSpec{Audience: audience, Subject: "anna", Tenant: "acme", Agent: "bot", Scopes: []string{"use"}, TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	answering, err := w.issuer.Sign(identity.TokenSpec{Audience: console, Subject: "anna", Tenant: "acme", Scopes: []string{"use"}})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond) // the token lives a second, and tokens count whole seconds
	const metadata = `resource_metadata="https://tools.example.com/.well-known/oauth-protected-resource/mcp"`
	for _, c := range []struct {
		name, token, challenge string
		header                 map[string]string
	}{
		{"none", "", "Bearer " + metadata, nil},
		{"forged", good[:len(good)-4] + "AAAA", `Bearer error="invalid_token", ` + metadata, nil},
		{"expired", expired, `Bearer error="invalid_token", ` + metadata, nil},
		{"of the answering audience", answering, `Bearer error="invalid_token", ` + metadata, nil},
		{"another scheme", "", `Bearer error="invalid_token", ` + metadata, map[string]string{"Authorization": "Basic " + good}},
		{"look-alike headers", "", "Bearer " + metadata, map[string]string{"X-Authorization": "Bearer " + good, "X-Forwarded-User": "anna", "Placet-Principal": "anna"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
			for k, v := range c.header {
				h[k] = v
			}
			a := w.post(c.token, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+callParams("echo", "{}")+`}`, h)
			if a.status != http.StatusUnauthorized || a.header.Get("WWW-Authenticate") != c.challenge {
				t.Fatalf("%d %q", a.status, a.header.Get("WWW-Authenticate"))
			}
		})
	}
	w.effects()
	w.call(good, "echo", `{}`)
	w.effects(`echo {}`)
}

func TestHostAndOrigin(t *testing.T) {
	w := newWorld(t, func(o *edge.Options) {
		o.PublicURL, o.Origins = "https://tools.example.com", []string{"https://app.example.com"}
	})
	token := w.token("anna")
	local := strings.TrimPrefix(w.server.URL, "http://")
	for _, c := range []struct {
		host, origin string
		ok           bool
	}{
		{local, "", true}, {local, "http://" + local, true}, {"localhost", "http://localhost:3000", true}, {"[::1]:80", "", true},
		{"tools.example.com", "", true}, {"tools.example.com", "https://tools.example.com", true}, {local, "https://app.example.com", true},
		{"evil.example.com", "", false}, {"evil.example.com", "http://evil.example.com", false}, {local, "http://evil.example.com", false},
		{local, "null", false}, {"localhost.evil.example.com", "", false}, {"127.0.0.1.evil.example.com", "", false},
		{local, "https://tools.example.com.evil.example.com", false}, {"tools.example.com", "http://localhost", false},
	} {
		r, _ := http.NewRequest(http.MethodPost, w.server.URL+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+callParams("echo", "{}")+`}`))
		r.Host = c.host
		for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "*/*", "Authorization": "Bearer " + token, "Origin": c.origin,
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo"} {
			if v != "" {
				r.Header.Set(k, v)
			}
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if c.ok != (resp.StatusCode == 200) || !c.ok && resp.StatusCode != http.StatusForbidden {
			t.Errorf("host %q, origin %q: %d", c.host, c.origin, resp.StatusCode)
		}
	}
	if n := len(w.ledger.all()); n != 7 {
		t.Fatalf("%d effects, want 7", n)
	}
}

func TestBelowJSONRPC(t *testing.T) {
	w := newWorld(t, nil)
	token := w.token("anna")
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + callParams("echo", "{}") + `}`
	base := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
	for _, c := range []struct {
		name   string
		header map[string]string
		body   string
		status int
	}{
		{"form", map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, body, 415},
		{"text", map[string]string{"Content-Type": "text/plain"}, body, 415},
		{"no type", map[string]string{"Content-Type": ""}, body, 415},
		{"gzip", map[string]string{"Content-Encoding": "gzip"}, body, 415},
		{"accepts nothing of ours", map[string]string{"Accept": "text/html"}, body, 406},
		{"too large", nil, body[:len(body)-1] + strings.Repeat(" ", 5<<20) + "}", 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := map[string]string{}
			for k, v := range base {
				h[k] = v
			}
			for k, v := range c.header {
				h[k] = v
			}
			if a := w.post(token, c.body, h); a.status != c.status {
				t.Fatalf("%d %s", a.status, a.body)
			}
		})
	}
	for _, method := range []string{"GET", "DELETE", "PUT", "PATCH", "OPTIONS", "HEAD"} {
		r, _ := http.NewRequest(method, w.server.URL+"/mcp", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") == "" {
			t.Errorf("%s: %d", method, resp.StatusCode)
		}
	}
	w.effects()
}

// Header and body must agree: what routes by one must not see another call than
// what is decided by the other.
func TestHeadersAgreeWithTheBody(t *testing.T) {
	w := newWorld(t, nil)
	token := w.token("anna")
	call := callParams("echo", "{}")
	for _, c := range []struct {
		name, params string
		header       map[string]string
		code         int
	}{
		{"no version header", call, map[string]string{"Mcp-Protocol-Version": ""}, -32020},
		{"older version header", call, map[string]string{"Mcp-Protocol-Version": "2025-11-25"}, -32020},
		{"later version header", call, map[string]string{"Mcp-Protocol-Version": "2027-01-01"}, -32020},
		{"no method header", call, map[string]string{"Mcp-Method": ""}, -32020},
		{"other method header", call, map[string]string{"Mcp-Method": "tools/list"}, -32020},
		{"method header in other case", call, map[string]string{"Mcp-Method": "Tools/Call"}, -32020},
		{"no name header", call, map[string]string{"Mcp-Name": ""}, -32020},
		{"other name header", call, map[string]string{"Mcp-Name": "delete_file"}, -32020},
		{"name header in other case", call, map[string]string{"Mcp-Name": "Echo"}, -32020},
		{"broken base64", call, map[string]string{"Mcp-Name": "=?base64?%%?="}, -32020},
		{"no _meta", `{"name":"echo","arguments":{}}`, nil, -32602},
		{"no version in _meta", `{"name":"echo","arguments":{},"_meta":{}}`, nil, -32602},
		{"no capabilities", `{"name":"echo","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`, nil, -32602},
		{"version of another type", `{"name":"echo","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":20260728}}`, nil, -32602},
		{"unknown version", `{"name":"echo","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"v9"}}`, map[string]string{"Mcp-Protocol-Version": "v9"}, -32022},
		{"_meta of another type", `{"name":"echo","arguments":{},"_meta":[]}`, nil, -32602},
		{"_meta member in other case", `{"name":"echo","arguments":{},"_meta":{` + modernMeta + `,"Dev.Placet/Run":"x"}}`, nil, -32600},
		{"run of another type", callParams("echo", "{}", `"dev.placet/run":7`), nil, -32602},
		{"run with control characters", callParams("echo", "{}", `"dev.placet/run":"a\u0007"`), nil, -32602},
		{"mirrored argument not mirrored", callParams("mirror", `{"region":"eu"}`), map[string]string{"Mcp-Name": "mirror"}, -32020},
		{"mirrored argument differs", callParams("mirror", `{"region":"eu"}`), map[string]string{"Mcp-Name": "mirror", "Mcp-Param-Region": "us"}, -32020},
		{"mirrored argument absent", callParams("mirror", `{}`), map[string]string{"Mcp-Name": "mirror", "Mcp-Param-Region": "us"}, -32020},
		{"mirrored number differs", callParams("mirror", `{"n":1}`), map[string]string{"Mcp-Name": "mirror", "Mcp-Param-N": "2"}, -32020},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
			for k, v := range c.header {
				h[k] = v
			}
			a := w.post(token, `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":`+c.params+`}`, h)
			m := a.rpc(t)
			if a.status != 400 || m.Error == nil || m.Error.Code != c.code || string(m.ID) != `"x"` && c.code != -32600 {
				t.Fatalf("%d %s", a.status, a.body)
			}
		})
	}
	t.Run("twice", func(t *testing.T) {
		r, _ := http.NewRequest(http.MethodPost, w.server.URL+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+call+`}`))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"*/*"}, "Authorization": {"Bearer " + token},
			"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"echo", "delete_file"}}
		resp, err := http.DefaultClient.Do(r)
		if err != nil || resp.StatusCode != 400 {
			t.Fatalf("%v %v", resp, err)
		}
		_ = resp.Body.Close()
	})
	w.effects()
	for _, h := range [][]string{{"Mcp-Param-Region", "eu", "Mcp-Param-N", "1"}, {"Mcp-Param-Region", "=?base64?ZXU=?=", "Mcp-Param-N", "1.0"}} {
		a := w.modern(token, "tools/call", callParams("mirror", `{"region":"eu","n":1}`), append(h, "Mcp-Name", "mirror")...)
		if a.status != 200 || a.tool(t).IsError {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	w.effects(`mirror {"n":1,"region":"eu"}`, `mirror {"n":1,"region":"eu"}`)
}
