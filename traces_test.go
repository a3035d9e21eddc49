package placet

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/placet-dev/placet/identity"
)

// taken is what a collector was sent.
type taken struct {
	mu    sync.Mutex
	spans []*otlp.Span
	raw   []byte // what was sent, for words that must not be there
}

func (c *taken) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil && r.Header.Get("Content-Encoding") == "gzip" {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(z)
		}
	}
	var request collector.ExportTraceServiceRequest
	if err == nil {
		err = protobuf.Unmarshal(body, &request)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "what is this?", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, body...)
	for _, of := range request.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

func (c *taken) named(t *testing.T, name string) *otlp.Span {
	t.Helper()
	for _, s := range c.spans {
		if s.Name == name {
			return s
		}
	}
	var have []string
	for _, s := range c.spans {
		have = append(have, s.Name)
	}
	t.Fatalf("no span %q among %q", name, have)
	return nil
}

// A call's spans belong to the caller's trace, each to the one that caused it, and
// the tool server is told of the last. No value, person or tenant is in one.
func TestTraces(t *testing.T) {
	got := &taken{}
	sink := httptest.NewServer(got)
	defer sink.Close()
	remote := newRemote(t, nil)
	h := openFolder(t, operationsYAML(readOrder), map[string]string{"orders.yaml": ordersFile(remote.url, readOrderFile)}, func(o *Options) {
		o.Tenants = []string{"tenant-acme"}
		o.Config.Telemetry.Traces = sink.URL
	})
	token, err := h.issuer.Sign(identity.TokenSpec{Audience: h.p.o.Config.Audience(), Subject: "person-anna", Tenant: "tenant-acme", Agent: "agent-bot", Scopes: []string{"files"}})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(path, body string, header ...string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), "POST", h.p.o.Config.PublicURL+path, strings.NewReader(body))
		for _, h := range append(header, "Authorization: Bearer "+token, "Content-Type: application/json", "Accept: application/json, text/event-stream") {
			name, value, _ := strings.Cut(h, ": ")
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		h.p.Handler().ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	status, text := ask("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_order","arguments":{"order_id":"value-seven"},`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"traceparent":"00-`+trace+`-`+parent+`-01"}}}`,
		"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: read_order")
	if status != http.StatusOK || !strings.Contains(text, "o-1") {
		t.Fatal(status, text)
	}
	if status, text := ask("/v1/calls", `{"tool":"name-of-nothing!"}`,
		"Traceparent: 00-"+trace+"-"+parent+"-00"); status == http.StatusOK {
		t.Fatal(status, text)
	}
	if err := h.p.Close(); err != nil { // the last spans are sent before it returns
		t.Fatal(err)
	}
	got.mu.Lock()
	defer got.mu.Unlock()
	server, call := got.named(t, "tools/call read_order"), got.named(t, "execute_tool read_order")
	var sent *otlp.Span
	for _, s := range got.spans {
		if s.Name == "tools/call read_order" && s.Kind == otlp.Span_SPAN_KIND_CLIENT {
			sent = s
		} else if s.Name == "tools/call read_order" {
			server = s
		}
	}
	arrived := remote.took()
	if len(arrived) != 1 || sent == nil {
		t.Fatalf("%d requests arrived, client span %v", len(arrived), sent)
	}
	for _, c := range []struct{ what, got, want string }{
		{"the client's trace", hex.EncodeToString(server.TraceId), trace},
		{"the client's span", hex.EncodeToString(server.ParentSpanId), parent},
		{"the call's cause", hex.EncodeToString(call.ParentSpanId), hex.EncodeToString(server.SpanId)},
		{"the decision's cause", hex.EncodeToString(got.named(t, "placet.decide").ParentSpanId), hex.EncodeToString(call.SpanId)},
		{"the sending's cause", hex.EncodeToString(sent.ParentSpanId), hex.EncodeToString(call.SpanId)},
		{"what the tool server is told", arrived[0].header.Get("Traceparent"), "00-" + trace + "-" + hex.EncodeToString(sent.SpanId) + "-01"},
		{"a caller who wants no trace", hex.EncodeToString(got.named(t, "POST /v1/calls").TraceId), trace},
	} {
		if c.got != c.want {
			t.Errorf("%s is %s, want %s", c.what, c.got, c.want)
		}
	}
	for _, word := range []string{"value-seven", "person-anna", "tenant-acme", "agent-bot", "name-of-nothing", token} {
		if bytes.Contains(got.raw, []byte(word)) {
			t.Errorf("%q is in the spans", word)
		}
	}
}

// A collector that is away costs no call.
func TestTracesWithoutACollector(t *testing.T) {
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	local, err := identity.NewLocal(LocalIssuer, rand.Reader, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s := newService(t, "", func(o *Options) {
		o.Local, o.Tenants = local, []string{"acme"}
		o.Config.Telemetry.Traces = away.URL
	})
	token, err := local.Sign(identity.TokenSpec{Audience: s.placet.o.Config.Audience(), Subject: "anna", Tenant: "acme", Agent: "bot", Scopes: []string{"refunds:write"}})
	if err != nil {
		t.Fatal(err)
	}
	if status, text := wire(t, s.url, "POST", "/v1/calls", `{"tool":"refund","arguments":{"text":"one"}}`, "Authorization: Bearer "+token); status != http.StatusOK {
		t.Fatal(status, text)
	}
	s.effects("without a collector", "refund acme/anna/bot")
}
