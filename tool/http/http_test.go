package http

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

const sample = `version: 1
base: BASE
networks: [127.0.0.0/8]
operations:
  op:
    description: Does it.
    method: POST
    path: /a/{id}/b.{ext}
    parameters:
      id: {in: path, pattern: "(?s).*"}
      ext: {in: path, optional: false}
      q: {in: query, optional: true}
      X-H: {in: header, optional: true}
      n: {in: body, type: number, optional: true}
    headers: {X-Tenant: "{tenant}"}
    idempotency_header: Idempotency-Key
    result: [id, items.sku]
`

// work is a call of the sample's operation, on a file of its own.
func work(t *testing.T, v *Invoker, base, arguments string) dispatch.Work {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ops.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(sample, "BASE", base, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &registry.Server{Name: "srv", Kind: registry.KindOperations, Operations: file}
	o, err := v.Offer(t.Context(), s, "op", 0)
	if err != nil {
		t.Fatal(err)
	}
	pin, err := registry.PinOf(o)
	if err != nil {
		t.Fatal(err)
	}
	return dispatch.Work{Tool: &registry.Tool{Name: "op", Upstream: "op", Pin: &pin}, Server: s, Arguments: json.RawMessage(arguments), Key: "key-1",
		Owner: record.Owner{Tenant: "acme", Principal: record.Principal{Issuer: "i", Subject: "anna"}}}
}

func open(t *testing.T, o Options) *Invoker {
	v := New(o)
	t.Cleanup(func() { _ = v.Close() })
	return v
}

// counting is a service that counts what it got.
func counting(t *testing.T, start func(*httptest.Server)) (string, *httptest.Server, *atomic.Int64) {
	n := new(atomic.Int64)
	s := httptest.NewUnstartedServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		n.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"1"}`)
	}))
	start(s)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL, s, n
}

const good = `{"ext":"x","id":"1"}`

// The deadline is looked at just before the first byte, on a new connection and on
// a kept one: what is late by then does not leave (rule E5).
func TestNothingLeavesAfterTheDeadline(t *testing.T) {
	base, _, n := counting(t, (*httptest.Server).Start)
	start := time.Now()
	var late atomic.Bool
	v := open(t, Options{Now: func() time.Time {
		if late.Load() {
			return start.Add(time.Hour)
		}
		return start
	}})
	w := work(t, v, base, good)
	w.Deadline = start.Add(time.Minute)
	for range 2 {
		late.Store(true)
		if out := v.invoke(t.Context(), w); out.Sent || !errors.Is(out.Err, errDeadline) {
			t.Fatalf("%+v", out)
		}
		late.Store(false)
		if out := v.invoke(t.Context(), w); !out.Sent || out.Err != nil {
			t.Fatalf("%+v", out)
		}
	}
	if n.Load() != 2 {
		t.Errorf("%d arrived", n.Load())
	}
}

// Over TLS, with the certificate checked for the host of the base.
func TestTLS(t *testing.T) {
	base, server, n := counting(t, (*httptest.Server).StartTLS)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	here := resolver{netip.MustParseAddr("127.0.0.1")}
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		base string
		o    Options
		ok   bool
	}{
		"trusted":         {base, Options{TLS: &tls.Config{RootCAs: roots}}, true},
		"by name":         {"https://example.com:" + u.Port(), Options{TLS: &tls.Config{RootCAs: roots}}, true},
		"another name":    {"https://example.org:" + u.Port(), Options{TLS: &tls.Config{RootCAs: roots}}, false},
		"no authority":    {base, Options{}, false},
		"nobody resolves": {"https://nowhere.test:" + u.Port(), Options{TLS: &tls.Config{RootCAs: roots}}, false},
	} {
		before := n.Load()
		if name != "nobody resolves" {
			c.o.World.Resolver = here
		}
		v := open(t, c.o)
		out := v.invoke(t.Context(), work(t, v, c.base, good))
		if c.ok != (out.Err == nil) || c.ok != out.Sent || (n.Load() == before+1) != c.ok {
			t.Errorf("%s: %+v, %d arrived", name, out, n.Load()-before)
		}
	}
}

type resolver struct{ address netip.Addr }

func (r resolver) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{r.address}, nil
}

// No proxy of the environment is asked, and nothing is decompressed.
func TestOwnTransport(t *testing.T) {
	f, err := Parse("x", []byte(strings.Replace(sample, "BASE", "https://example.com", 1)))
	if err != nil {
		t.Fatal(err)
	}
	tr := newLine(Options{}, f, true, nil).transport
	if tr.Proxy != nil || !tr.DisableCompression || tr.Protocols.HTTP2() {
		t.Errorf("%+v", tr)
	}
}

// Nothing is sent without its token, nor with a header that has two sources; a
// credential that is not taken is told to its source.
func TestTokenAndCredential(t *testing.T) {
	var refusedTimes atomic.Int64
	var seen atomic.Pointer[nethttp.Header]
	var arrived atomic.Int64
	s := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		arrived.Add(1)
		seen.Store(&r.Header)
		if r.Header.Get("Authorization") != "Bearer good" {
			w.WriteHeader(nethttp.StatusUnauthorized)
		}
	}))
	t.Cleanup(s.Close)
	v := open(t, Options{})
	refused := func() { refusedTimes.Add(1) }
	for name, c := range map[string]struct {
		credential dispatch.Credential
		token      func() (string, error)
		sent       bool
		refused    int64
	}{
		"good":           {dispatch.Credential{Header: "authorization", Value: "Bearer good", Refused: refused}, func() (string, error) { return "t.o.k", nil }, true, 0},
		"not taken":      {dispatch.Credential{Header: "authorization", Value: "Bearer bad", Refused: refused}, nil, true, 1},
		"no token":       {dispatch.Credential{}, func() (string, error) { return "", errors.New("no key") }, false, 0},
		"empty token":    {dispatch.Credential{}, func() (string, error) { return "", nil }, false, 0},
		"header clashes": {dispatch.Credential{Header: "x-tenant", Value: "globex"}, nil, false, 0},
	} {
		arrived.Store(0)
		refusedTimes.Store(0)
		w := work(t, v, s.URL, good)
		w.Credential, w.Token = c.credential, c.token
		out := v.invoke(t.Context(), w)
		if out.Sent != c.sent || (arrived.Load() == 1) != c.sent || refusedTimes.Load() != c.refused || (name == "good") != (out.Err == nil) {
			t.Errorf("%s: %+v, %d arrived, %d refusals told", name, out, arrived.Load(), refusedTimes.Load())
		}
		if out.Err != nil && strings.Contains(out.Err.Error(), "bad") {
			t.Errorf("%s: %v", name, out.Err)
		}
		if name != "good" {
			continue
		}
		if h := *seen.Load(); h.Get(tokenHeader) != "t.o.k" || h.Get("X-Tenant") != "acme" || h.Get("Idempotency-Key") != "key-1" {
			t.Errorf("%v", h)
		}
	}
}

// What the file changed to after the boundary looked does not run.
func TestOnlyWhatWasReviewedRuns(t *testing.T) {
	base, _, n := counting(t, (*httptest.Server).Start)
	v := open(t, Options{})
	w := work(t, v, base, good)
	text, err := os.ReadFile(w.Server.Operations)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if err := os.WriteFile(w.Server.Operations, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, changed := range []string{strings.Replace(string(text), "/a/", "/admin/", 1), strings.Replace(string(text), "op:", "other:", 1), "", "{"} {
		write(changed)
		if out := v.invoke(t.Context(), w); out.Sent || !out.Refused {
			t.Errorf("%+v", out)
		}
	}
	write(string(text))
	if out := v.invoke(t.Context(), w); !out.Sent || n.Load() != 1 {
		t.Errorf("%+v, %d arrived", out, n.Load())
	}
}

// What a caller is called stands in a header only if it arrives as it is.
func TestIdentityInHeaders(t *testing.T) {
	base, _, n := counting(t, (*httptest.Server).Start)
	v := open(t, Options{})
	for tenant, ok := range map[record.TenantID]bool{"a\r\nX: 1": false, "ü": false, "": false, " a": false, "a b": true, "acme": true} {
		before := n.Load()
		w := work(t, v, base, good)
		w.Owner.Tenant = tenant
		if out := v.invoke(t.Context(), w); out.Sent != ok || (n.Load() == before+1) != ok {
			t.Errorf("%q: %+v", tenant, out)
		}
	}
}

// A lost answer is not read as one, and what was received is not told.
func TestErrorsQuoteNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, "s3cret\r\n\r\n")
			_ = conn.Close()
		}
	}()
	v := open(t, Options{})
	out := v.invoke(t.Context(), work(t, v, "http://"+l.Addr().String(), good))
	if !out.Sent || out.Err == nil || strings.Contains(out.Err.Error(), "s3cret") {
		t.Errorf("%+v", out)
	}
}

// Files that could mean two things, or reach where they should not, are refused.
func TestFilesThatAreRefused(t *testing.T) {
	plain := strings.Replace(sample, "BASE", "https://example.com/api", 1)
	if _, err := Parse("x", []byte(plain)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string][2]string{
		"http":               {"https://example.com", "http://example.com:80@evil.test"},
		"http in public":     {"https://example.com", "http://8.8.8.8"},
		"user":               {"https://", "https://u:p@"},
		"query":              {"/api", "/api?x=1"},
		"fragment":           {"/api", "/api#x"},
		"no host":            {"https://example.com/api", "https:///x"},
		"other scheme":       {"https", "ftp"},
		"dots in base":       {"/api", "/api/.."},
		"template in base":   {"/api", "/{id}"},
		"encoded base":       {"/api", "/a%2fb"},
		"method":             {"POST", "TRACE"},
		"method in lower":    {"POST", "post"},
		"path without /":     {"/a/{id}", "a/{id}"},
		"dots in path":       {"/a/{id}", "/../{id}"},
		"encoded path":       {"/a/{id}", "/%61/{id}"},
		"empty part":         {"/a/{id}", "/a//{id}"},
		"query in path":      {"b.{ext}", "b.{ext}?a=b"},
		"two in a part":      {"{id}/b.{ext}", "{id}-{ext}"},
		"twice":              {"b.{ext}", "{id}"},
		"not a parameter":    {"{id}", "{nobody}"},
		"optional in path":   {"optional: false", "optional: true"},
		"body of a GET":      {"POST", "GET"},
		"bad pattern":        {"(?s).*", "("},
		"bad header":         {"X-H", "\"X H\""},
		"credential header":  {"X-H", "Authorization"},
		"cookie":             {"X-H", "Cookie"},
		"host":               {"X-H", "Host"},
		"framing":            {"X-H", "Transfer-Encoding"},
		"method override":    {"X-H", "X-HTTP-Method-Override"},
		"forwarded":          {"X-H", "X-Forwarded-For"},
		"token header":       {"X-H", "Placet-Dispatch-Token"},
		"header twice":       {"X-H", "x-tenant"},
		"key header twice":   {"idempotency_header: Idempotency-Key", "idempotency_header: x-h"},
		"unknown in header":  {"{tenant}", "{user}"},
		"break in header":    {`"{tenant}"`, `"a\r\nb"`},
		"number of no bound": {"type: number", "type: number, minimum: 1e3"},
		"bounds crossed":     {"type: number", "type: number, minimum: 3, maximum: 2"},
		"bounds of a text":   {"q: {in: query", "q: {maximum: 3, in: query"},
		"half an integer":    {"type: number", "type: integer, minimum: 0.5"},
		"pattern of numbers": {"type: number", "type: number, pattern: x"},
		"no length":          {"q: {in: query", "q: {max_length: 0, in: query"},
		"long":               {"q: {in: query", "q: {max_length: 5000, in: query"},
		"result twice":       {"[id, items.sku]", "[id, id]"},
		"result and inside":  {"[id, items.sku]", "[items, items.sku]"},
		"inside and result":  {"[id, items.sku]", "[items.sku, items]"},
		"odd result":         {"[id, items.sku]", "[items..sku]"},
		"network":            {"127.0.0.0/8", "127.0.0.0"},
		"unknown key":        {"result:", "results:"},
		"version":            {"version: 1", "version: 2"},
		"no description":     {"description: Does it.", "description: ''"},
		"operation's name":   {"  op:", "  Op:"},
	} {
		text := strings.Replace(plain, c[0], c[1], 1)
		if _, err := Parse("x", []byte(text)); err == nil || text == plain {
			t.Errorf("%s is taken", name)
		}
	}
	for name, c := range map[string][2]string{
		"http on loopback":     {"https://example.com", "http://127.0.0.1:80"},
		"http by name":         {"https://example.com", "http://orders.internal"},
		"a port":               {"https://example.com/api", "https://example.com:8443"},
		"a slash at the end":   {"b.{ext}", "b.{ext}/"},
		"colons":               {"b.{ext}", "x:{ext}"},
		"a negative bound":     {"type: number", "type: number, minimum: -2.5, maximum: -1"},
		"a number in quotes":   {"type: number", "type: number, minimum: '3'"},
		"neighbouring results": {"[id, items.sku]", "[items.sku, items.count, id]"},
	} {
		text := strings.Replace(plain, c[0], c[1], 1)
		if _, err := Parse("x", []byte(text)); err != nil || text == plain {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The schema that callers see is closed, and bounds every value.
func TestSchemaIsClosedAndBounded(t *testing.T) {
	f, err := Parse("x", []byte(strings.Replace(sample, "BASE", "https://example.com", 1)))
	if err != nil {
		t.Fatal(err)
	}
	_, offers, err := f.operations()
	if err != nil {
		t.Fatal(err)
	}
	text, err := canon.Canonical(offers[0].InputSchema, canon.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"additionalProperties":false,"properties":{"X-H":{"maxLength":256,"minLength":1,"pattern":"^[\\x21-\\x7e]([\\x20-\\x7e]*[\\x21-\\x7e])?$","type":"string"},"ext":{"maxLength":256,"minLength":1,"pattern":"^[^/\\\\%\\x00-\\x1f\\x7f]+$","type":"string"},"id":{"maxLength":256,"minLength":1,"pattern":"^(?:(?s).*)$","type":"string"},"n":{"maximum":9007199254740991,"minimum":-9007199254740991,"type":"number"},"q":{"maxLength":256,"type":"string"}},"required":["id","ext"],"type":"object"}`
	if string(text) != want {
		t.Errorf("%s", text)
	}
}

// The documented sample is a valid file, and shows every key.
func TestDocumentedSample(t *testing.T) {
	text, err := os.ReadFile("../../docs/sample/operations.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse("operations.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	if _, offers, err := f.operations(); err != nil || len(offers) < 3 {
		t.Errorf("%d operations, %v", len(offers), err)
	}
	showsEveryKey(t, string(text))
}

// Plain HTTP goes to the networks of the file and nowhere else, not even to a public
// address that TLS may go to; nothing goes where Placet itself listens (rule K2).
func TestWhereConnectionsGo(t *testing.T) {
	for name, c := range map[string]struct {
		base, address string
		dialled       bool
	}{
		"plain in a network":      {"http://orders.test:80", "127.0.0.9", true},
		"plain in public":         {"http://orders.test:80", "8.8.8.8", false},
		"plain in another":        {"http://orders.test:80", "10.0.0.1", false},
		"TLS in public":           {"https://orders.test", "8.8.8.8", true},
		"TLS in a network":        {"https://orders.test", "127.0.0.9", true},
		"TLS in another":          {"https://orders.test", "10.0.0.1", false},
		"metadata":                {"https://orders.test", "169.254.169.254", false},
		"Placet itself":           {"https://orders.test:8088", "127.0.0.1", false},
		"Placet by its name":      {"https://placet.test", "8.8.8.8", false},
		"Placet's other port":     {"https://placet.test:444", "8.8.8.8", true},
		"a number as a host":      {"https://2130706433", "8.8.8.8", false},
		"an address in a network": {"https://127.0.0.9", "8.8.8.8", true},
	} {
		var dialled []string
		o := Options{Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			dialled = append(dialled, address)
			return nil, errors.New("nobody is there")
		}}
		o.World.Resolver = resolver{netip.MustParseAddr(c.address)}
		o.World.Listeners = []string{"127.0.0.1:8088", "placet.test:443"}
		v := open(t, o)
		if out := v.invoke(t.Context(), work(t, v, c.base, good)); out.Sent || out.Err == nil || (len(dialled) == 1) != c.dialled {
			t.Errorf("%s: %+v, dialled %v", name, out, dialled)
		}
	}
}

// A server's network bounds what its file's networks admit: the call leaves only for
// an address that is in it.
func TestServersAreReachedInTheirNetwork(t *testing.T) {
	base, _, n := counting(t, func(s *httptest.Server) { s.Start() })
	for block, sent := range map[string]int64{"127.0.0.0/8": 1, "10.0.0.0/8": 0} {
		n.Store(0)
		v := open(t, Options{})
		w := work(t, v, base, good)
		z, err := guard.ParseZone("internal", []string{block})
		if err != nil {
			t.Fatal(err)
		}
		w.Server.Network, w.Server.Digest = guard.Zones{z}, canon.Of(block)
		if out := v.invoke(t.Context(), w); (out.Err == nil) != (sent == 1) || out.Sent != (sent == 1) || n.Load() != sent {
			t.Errorf("%s: %+v, %d requests", block, out, n.Load())
		}
	}
}
