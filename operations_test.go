package placet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/verify"
)

// arrived is one request as a service got it.
type arrived struct {
	method, uri string
	header      http.Header
	body        string
}

// remoteService is an HTTP service. What it got is the oracle.
type remoteService struct {
	url string

	mu     sync.Mutex
	ledger []arrived
}

// newRemote answers with what answer writes; nil: with an order.
func newRemote(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) *remoteService {
	t.Helper()
	if answer == nil {
		answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			_, _ = io.WriteString(w, `{"id":"o-1"}`)
		}
	}
	s := &remoteService{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.ledger = append(s.ledger, arrived{r.Method, r.RequestURI, r.Header.Clone(), string(body)})
		s.mu.Unlock()
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		answer(w, r)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	s.url = server.URL
	return s
}

// took returns what arrived since it was asked last.
func (s *remoteService) took() []arrived {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.ledger
	s.ledger = nil
	return out
}

// operationsYAML admits some operations of a file orders.yaml.
func operationsYAML(tools string) string {
	return "version: 1\nservers:\n  orders: {operations: orders.yaml}\ndefaults: {per_minute: 0}\ntools:\n" + tools
}

const (
	readOrder  = "  read_order: {server: orders, scope: files, read: true}\n"
	writeOrder = "  write_order: {server: orders, scope: files, write: true, sources: [direct], approval: {when: asked}, repeat: {within: 10m, answer: run}}\n"
)

// ordersFile is a file of operations on one service.
func ordersFile(base, operations string) string {
	return "version: 1\nbase: " + base + "\nnetworks: [127.0.0.0/8]\noperations:\n" + operations
}

const readOrderFile = `  read_order:
    description: Reads an order.
    method: GET
    path: /orders/{order_id}
    parameters:
      order_id: {in: path}
    result: [id]
`

// Each argument goes to its place, as it was decided, with what the operator fixed.
func TestOperationsPutArgumentsInTheirPlaces(t *testing.T) {
	s := newRemote(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Secret", "from the header")
		_, _ = io.WriteString(w, `{"id":"o-1","total":9007199254740993.10,"secret":"s3cret","lines":[{"sku":"a","cost":1},{"sku":"b","n":2,"in":{"x":1}}],"owner":{"name":"Zo\u00eb","mail":"z@example.com"}}`)
	})
	h := openFolder(t, operationsYAML(writeOrder), map[string]string{"orders.yaml": ordersFile(s.url+"/api/v1/", `  write_order:
    description: Adds a line to an order.
    method: POST
    path: /orders/{order_id}/lines
    parameters:
      order_id: {in: path, max_length: 40}
      note: {in: query, optional: true}
      dry: {in: query, type: boolean}
      X-Reason: {in: header, enum: [phone, mail]}
      sku: {in: body, pattern: "[A-Z0-9 &/]+"}
      amount: {in: body, type: number, minimum: 0.5, maximum: 100}
      count: {in: body, type: integer, minimum: -3, maximum: 12}
    headers: {X-Tenant: "t-{tenant}", X-User: "{principal}", X-Fixed: always}
    idempotency_header: Idempotency-Key
    result: [id, total, lines.sku, owner.name, gone]
`)})
	a := h.do(h.caller("acme", "anna"), "write_order", `{"order_id":"a b ü;?#&=+:..x","note":"n&dry=true#\n","dry":false,"X-Reason":"phone","sku":"A B&/1","amount":1.50,"count":-3}`)
	h.wants(a, record.Succeeded, "")
	got := s.took()
	if len(got) != 1 {
		t.Fatalf("%d requests arrived", len(got))
	}
	r := got[0]
	if r.method != "POST" || r.uri != "/api/v1/orders/a%20b%20%C3%BC%3B%3F%23%26%3D%2B%3A..x/lines?dry=false&note=n%26dry%3Dtrue%23%0A" {
		t.Errorf("%s %s", r.method, r.uri)
	}
	if r.body != `{"amount":1.5,"count":-3,"sku":"A B&/1"}` {
		t.Errorf("body %s", r.body)
	}
	for name, want := range map[string]string{"X-Reason": "phone", "X-Tenant": "t-acme", "X-User": "anna@" + LocalIssuer, "X-Fixed": "always", "Content-Type": "application/json"} {
		if values := r.header.Values(name); !slices.Equal(values, []string{want}) {
			t.Errorf("%s: %q, want %q", name, values, want)
		}
	}
	if len(r.header.Get("Idempotency-Key")) < 20 {
		t.Errorf("idempotency key %q", r.header.Get("Idempotency-Key"))
	}
	structured, _ := canon.Lookup(a.Result, "structuredContent")
	if string(structured) != `{"id":"o-1","total":9007199254740993.10,"lines":[{"sku":"a"},{"sku":"b"}],"owner":{"name":"Zoë"}}` {
		t.Errorf("came back: %s", structured)
	}
	for _, hidden := range []string{"s3cret", "from the header", "z@example.com", "cost"} {
		if strings.Contains(string(a.Result), hidden) {
			t.Errorf("%q came back: %s", hidden, a.Result)
		}
	}
}

// No argument leaves its place: nothing arrives of one that would, and what only
// looks odd arrives once, as what it is.
func TestOperationsKeepArgumentsInTheirPlaces(t *testing.T) {
	s := newRemote(t, nil)
	h := openFolder(t, operationsYAML(readOrder+writeOrder), map[string]string{"orders.yaml": ordersFile(s.url, readOrderFile+`  write_order:
    description: Renames an order.
    method: PUT
    path: /orders/o.{suffix}
    parameters:
      suffix: {in: path, pattern: "(?s).*", optional: false}
      X-Reason: {in: header, pattern: "(?s).*"}
    result: [id]
`)})
	anna := h.caller("acme", "anna")
	for _, value := range []string{"..", ".", "", "a/b", "../x", `..\\x`, "%2e%2e", "%252e%252e", "%2Fx", "a%00", `a\u0000b`, `a\u000d\u000ab`, "..;", "..;x=1", "．．", "a／b", "a∕..", `\ud800`, "a%", "...", ".. "} {
		proposal := `{"order_id":"` + value + `"}`
		a, err := h.p.Boundary().Do(t.Context(), dispatch.Proposal{Caller: anna, Tool: "read_order", Arguments: json.RawMessage(proposal)})
		if err == nil && a.State() == record.Succeeded {
			t.Errorf("%s: %s %s", proposal, a.State(), a.Result)
		}
		if got := s.took(); len(got) != 0 {
			t.Errorf("%s: %+v arrived", proposal, got)
		}
	}
	for _, value := range []string{`x\r\nX-Admin: 1`, `x\nY: 1`, `x\u0000`, ` x`, `x `, `ü`, ``, `x\u007f`, `x\u0085`} {
		proposal := `{"suffix":"a","X-Reason":"` + value + `"}`
		if a := h.do(anna, "write_order", proposal); a.State() == record.Succeeded || strings.Contains(string(a.Result), "Admin") {
			t.Errorf("%s: %s %s", proposal, a.State(), a.Result)
		}
		if got := s.took(); len(got) != 0 {
			t.Errorf("%s: %+v arrived", proposal, got)
		}
	}
	// The operator's own pattern lets these through; the path does not.
	for _, value := range []string{"/../admin", "%2f..", `\\..`, `\n`, ""} {
		proposal := `{"suffix":"` + value + `","X-Reason":"r"}`
		if a := h.do(anna, "write_order", proposal); a.State() == record.Succeeded {
			t.Errorf("%s: %s %s", proposal, a.State(), a.Result)
		}
		if got := s.took(); len(got) != 0 {
			t.Errorf("%s: %+v arrived", proposal, got)
		}
	}
	for value, uri := range map[string]string{"..hidden": "/orders/..hidden", "a b": "/orders/a%20b", "v1.2": "/orders/v1.2", "日本": "/orders/%E6%97%A5%E6%9C%AC",
		"@:a": "/orders/%40%3Aa", "?x=1": "/orders/%3Fx%3D1", "#": "/orders/%23", "½": "/orders/%C2%BD"} {
		h.wants(h.do(anna, "read_order", `{"order_id":"`+value+`"}`), record.Succeeded, "o-1")
		if got := s.took(); len(got) != 1 || got[0].uri != uri {
			t.Errorf("%q: %+v, want one at %s", value, got, uri)
		}
	}
	h.wants(h.do(anna, "write_order", `{"suffix":"a","X-Reason":"x: y, z"}`), record.Succeeded, "o-1")
	if got := s.took(); len(got) != 1 || got[0].uri != "/orders/o.a" || got[0].header.Get("X-Reason") != "x: y, z" {
		t.Errorf("%+v", got)
	}
}

// A redirect goes nowhere, and its place is not told.
func TestOperationsFollowNoRedirect(t *testing.T) {
	other := newRemote(t, nil)
	s := newRemote(t, func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI == "/orders/moved" {
			http.Redirect(w, r, other.url+"/steal", http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"o-1"}`)
	})
	h := openFolder(t, operationsYAML(readOrder), map[string]string{"orders.yaml": ordersFile(s.url, readOrderFile)})
	anna := h.caller("acme", "anna")
	a := h.do(anna, "read_order", `{"order_id":"moved"}`)
	h.wants(a, record.Failed, "redirect")
	if strings.Contains(string(a.Result), other.url) || len(other.took()) != 0 || len(s.took()) != 1 {
		t.Errorf("the redirect was followed or told: %s", a.Result)
	}
	h.wants(h.do(anna, "read_order", `{"order_id":"here"}`), record.Succeeded, "o-1")
	if len(s.took()) != 1 {
		t.Error("the neighbour did not run once")
	}
}

// names is a resolver whose answers are given, one look-up after the other.
type names struct {
	mu      sync.Mutex
	answers [][]netip.Addr
}

func (n *names) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.answers) == 0 {
		return nil, &net.DNSError{IsNotFound: true}
	}
	first := n.answers[0]
	n.answers = n.answers[1:]
	return first, nil
}

// What a name means is checked when it is connected to, all of it, and what it
// means a moment later does not matter.
func TestOperationsPinAddresses(t *testing.T) {
	s := newRemote(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close") // so that each call looks the name up
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"o-1"}`)
	})
	here := netip.MustParseAddr("127.0.0.1")
	n := &names{}
	_, port, _ := strings.Cut(strings.TrimPrefix(s.url, "http://"), ":")
	h := openFolder(t, operationsYAML(readOrder), map[string]string{"orders.yaml": ordersFile("http://orders.test:"+port, readOrderFile)},
		func(o *Options) { o.Resolver = n })
	anna := h.caller("acme", "anna")
	for _, c := range []struct {
		answer []netip.Addr
		ok     bool
	}{
		{[]netip.Addr{here}, true},
		{[]netip.Addr{here, netip.MustParseAddr("169.254.169.254")}, false},
		{[]netip.Addr{netip.MustParseAddr("10.0.0.1")}, false},
		{[]netip.Addr{netip.MustParseAddr("192.0.2.1"), here}, false},
		{[]netip.Addr{netip.MustParseAddr("8.8.8.8")}, false}, // plain HTTP stays within the file's networks
		{[]netip.Addr{netip.MustParseAddr("::ffff:127.0.0.1")}, true},
		{nil, false},
		{[]netip.Addr{here}, true},
	} {
		n.mu.Lock()
		n.answers = [][]netip.Addr{c.answer, {netip.MustParseAddr("169.254.169.254")}}
		n.mu.Unlock()
		a := h.do(anna, "read_order", `{"order_id":"x"}`)
		if got := len(s.took()); c.ok != (a.State() == record.Succeeded) || c.ok != (got == 1) || got > 1 {
			t.Errorf("%v: %s, %d arrived, %s", c.answer, a.State(), got, a.Result)
		}
	}
}

// No operation reaches Placet itself, whatever networks its file names (rule K2).
func TestRule_K2_OperationsAndListeners(t *testing.T) {
	s := newRemote(t, nil)
	address := strings.TrimPrefix(s.url, "http://")
	for own, arrives := range map[string]int{address: 0, "127.0.0.1:1": 1} {
		h := openFolder(t, operationsYAML(readOrder), map[string]string{"orders.yaml": ordersFile(s.url, readOrderFile)},
			func(o *Options) { o.Config.Listen = own })
		h.do(h.caller("acme", "anna"), "read_order", `{"order_id":"x"}`)
		if got := s.took(); len(got) != arrives {
			t.Errorf("own listener %s: %d arrived", own, len(got))
		}
	}
}

// Of an answer nothing undeclared passes, whatever it is.
func TestOperationsFilterAnswers(t *testing.T) {
	type answer struct {
		tool, media, body, structured, text string
		status                              int
	}
	var now atomic.Pointer[answer]
	s := newRemote(t, func(w http.ResponseWriter, _ *http.Request) {
		a := now.Load()
		w.Header().Set("Content-Type", a.media)
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
	})
	h := openFolder(t, operationsYAML(readOrder+"  bare: {server: orders, scope: files, read: true}\n"), map[string]string{"orders.yaml": ordersFile(s.url, readOrderFile+`  bare:
    description: Says only whether it worked.
    method: GET
    path: /bare
`)})
	anna := h.caller("acme", "anna")
	const secret = "s3cret"
	for _, c := range []answer{
		{"read_order", "application/json", `{"id":1e400,"x":"s3cret"}`, `{"id":1e400}`, "", 200},
		{"read_order", "application/problem+json", `{"x":"s3cret"}`, `{}`, "", 201},
		{"read_order", "application/json", `{"id":{"x":"s3cret"}}`, `{}`, "", 200},
		{"read_order", "application/json", `{"id":["a",{"x":"s3cret"},[1,null]]}`, `{"id":["a",[1,null]]}`, "", 200},
		{"read_order", "application/json", `[{"id":1,"x":"s3cret"},"s3cret",{"id":2}]`, `{"items":[{"id":1},{"id":2}]}`, "", 200},
		{"read_order", "application/json", `"s3cret"`, `{}`, "", 200},
		{"read_order", "application/json", `{"id":1,"id":"s3cret"}`, `{}`, "not JSON", 200},
		{"read_order", "application/json", `{"id":1}{"x":"s3cret"}`, `{}`, "not JSON", 200},
		{"read_order", "application/json", `{"id":"s3cret`, `{}`, "not JSON", 200},
		{"read_order", "text/html", `<p>s3cret</p>`, `{}`, "not JSON", 200},
		{"read_order", "text/html", `{"id":"s3cret"}`, `{}`, "not JSON", 200},
		{"read_order", "", `{"id":"s3cret"}`, `{}`, "not JSON", 200},
		{"read_order", "application/json", ``, `{}`, "HTTP status 202", 202},
		{"read_order", "application/json", `{"id":"` + strings.Repeat("s3cret", 200000) + `"}`, `{}`, "larger than 1 MiB", 200},
		{"bare", "application/json", `{"id":"s3cret"}`, `{}`, "HTTP status 200", 200},
	} {
		now.Store(&c)
		arguments := `{"order_id":"x"}`
		if c.tool == "bare" {
			arguments = `{}`
		}
		a := h.do(anna, c.tool, arguments)
		structured, _ := canon.Lookup(a.Result, "structuredContent")
		if a.State() != record.Succeeded || string(structured) != c.structured || !strings.Contains(string(a.Result), c.text) || strings.Contains(string(a.Result), secret) {
			t.Errorf("%s %.60s: %s %s", c.media, c.body, a.State(), a.Result)
		}
		if got := s.took(); len(got) != 1 {
			t.Errorf("%d arrived", len(got))
		}
	}
}

// What a status means for what is known of the effect (rule E1).
func TestOperationsStatuses(t *testing.T) {
	var status atomic.Int64
	s := newRemote(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, `{"id":"o-1","error":"s3cret"}`)
	})
	h := openFolder(t, operationsYAML(readOrder+writeOrder), map[string]string{"orders.yaml": ordersFile(s.url, readOrderFile+`  write_order:
    description: Cancels an order.
    method: POST
    path: /orders/{order_id}/cancel
    parameters: {order_id: {in: path}}
`)})
	anna := h.caller("acme", "anna")
	for i, c := range []struct {
		status      int
		write, read record.State
	}{
		{200, record.Succeeded, record.Succeeded}, {202, record.Succeeded, record.Succeeded},
		{400, record.Failed, record.Failed}, {401, record.Failed, record.Failed}, {403, record.Failed, record.Failed}, {404, record.Failed, record.Failed}, {422, record.Failed, record.Failed},
		{302, record.Unknown, record.Failed}, {409, record.Unknown, record.Failed}, {429, record.Unknown, record.Failed}, {500, record.Unknown, record.Failed}, {503, record.Unknown, record.Failed},
	} {
		status.Store(int64(c.status))
		for tool, want := range map[string]record.State{"write_order": c.write, "read_order": c.read} {
			a := h.do(anna, tool, fmt.Sprintf(`{"order_id":"%s-%d"}`, tool[:4], i))
			if got := len(s.took()); a.State() != want || got != 1 || strings.Contains(string(a.Result), "s3cret") {
				t.Errorf("%s, status %d: %s, want %s; %d arrived; %s", tool, c.status, a.State(), want, got, a.Result)
			}
		}
	}
}

// An answer that is lost on a kept connection is one effect, not two, whatever
// net/http takes for repeatable (FACTS: a POST with an Idempotency-Key).
func TestPromise_P5_OperationsAreSentOnce(t *testing.T) {
	var lose atomic.Bool
	s := newRemote(t, func(w http.ResponseWriter, _ *http.Request) {
		if lose.Load() {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.Close()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"o-1"}`)
	})
	operations, tools := "", ""
	for name, method := range map[string]string{"with_body": "POST", "without_body": "POST", "remove": "DELETE", "look": "GET"} {
		tools += strings.Replace(writeOrder, "write_order", name, 1)
		operations += "  " + name + ":\n    description: Writes.\n    method: " + method + "\n    path: /" + name + "\n    idempotency_header: Idempotency-Key\n    result: [id]\n    parameters: {n: {in: query}"
		if name == "with_body" {
			operations += ", b: {in: body, optional: true}"
		}
		operations += "}\n"
	}
	h := openFolder(t, operationsYAML(tools), map[string]string{"orders.yaml": ordersFile(s.url, operations)})
	anna := h.caller("acme", "anna")
	for _, tool := range []string{"with_body", "without_body", "remove", "look"} {
		lose.Store(false)
		h.wants(h.do(anna, tool, `{"n":"kept"}`), record.Succeeded, "o-1") // a connection that is kept
		lose.Store(true)
		h.wants(h.do(anna, tool, `{"n":"lost"}`), record.Unknown, "")
		lose.Store(false)
		h.wants(h.do(anna, tool, `{"n":"next"}`), record.Succeeded, "o-1")
		counts := map[string]int{}
		for _, r := range s.took() {
			counts[r.uri]++
		}
		if want := map[string]int{"/" + tool + "?n=kept": 1, "/" + tool + "?n=lost": 1, "/" + tool + "?n=next": 1}; !maps.Equal(counts, want) {
			t.Errorf("%s: effects %v", tool, counts)
		}
	}
}

// A service that does not answer in time leaves a write unknown and a read failed;
// one that nobody listens at, failed.
func TestOperationsWithoutAnAnswer(t *testing.T) {
	over := make(chan struct{})
	s := newRemote(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(r.RequestURI, "/half") {
			_, _ = io.WriteString(w, `{"id":`)
			_ = http.NewResponseController(w).Flush()
		}
		<-over
	})
	t.Cleanup(func() { close(over) })
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nowhere := "http://" + gone.Addr().String()
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	operation := func(name, method string) string {
		return "  " + name + ":\n    description: Writes.\n    method: " + method + "\n    path: /" + name + "\n    result: [id]\n"
	}
	write := func(name, server string) string {
		return "  " + name + ": {server: " + server + ", scope: files, write: true, sources: [direct], timeout: 300ms, approval: {when: asked}}\n"
	}
	admitted := write("slow", "orders") + write("half", "orders") + write("away", "away") + "  look: {server: orders, scope: files, read: true, timeout: 300ms}\n"
	h := openFolder(t, strings.Replace(operationsYAML(admitted), "servers:\n", "servers:\n  away: {operations: away.yaml}\n", 1), map[string]string{
		"orders.yaml": ordersFile(s.url, operation("slow", "POST")+operation("half", "POST")+operation("look", "GET")),
		"away.yaml":   ordersFile(nowhere, operation("away", "POST")),
	})
	anna := h.caller("acme", "anna")
	for tool, want := range map[string]struct {
		state   record.State
		arrives int
	}{"slow": {record.Unknown, 1}, "half": {record.Unknown, 1}, "look": {record.Failed, 1}, "away": {record.Failed, 0}} {
		a := h.do(anna, tool, `{}`)
		if got := len(s.took()); a.State() != want.state || got != want.arrives {
			t.Errorf("%s: %s, want %s; %d arrived, want %d", tool, a.State(), want.state, got, want.arrives)
		}
	}
}

// A file that changes takes its operations out of use until somebody looks.
func TestOperationsThatChangeAreQuarantined(t *testing.T) {
	s := newRemote(t, nil)
	file := ordersFile(s.url, readOrderFile+"  other:\n    description: Another.\n    method: GET\n    path: /other\n")
	h := openFolder(t, operationsYAML(readOrder), map[string]string{"orders.yaml": file})
	anna := h.caller("acme", "anna")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(h.dir, "orders.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := newRemote(t, nil)
	for name, change := range map[string]func(string) string{
		"base":      func(f string) string { return strings.Replace(f, s.url, elsewhere.url, 1) },
		"network":   func(f string) string { return strings.Replace(f, "127.0.0.0/8", "127.0.0.0/8, 10.0.0.0/8", 1) },
		"path":      func(f string) string { return strings.Replace(f, "/orders/", "/admin/", 1) },
		"method":    func(f string) string { return strings.Replace(f, "GET", "DELETE", 1) },
		"parameter": func(f string) string { return strings.Replace(f, "{in: path}", "{in: path, max_length: 900}", 1) },
		"result":    func(f string) string { return strings.Replace(f, "result: [id]", "result: [id, secret]", 1) },
		"header": func(f string) string {
			return strings.Replace(f, "    result:", "    headers: {X-Admin: a}\n    result:", 1)
		},
		"gone":        func(f string) string { return strings.Replace(f, "  read_order:", "  read_orders:", 1) },
		"not a file":  func(string) string { return "version: 1\n" },
		"description": func(f string) string { return strings.Replace(f, "Reads an", "Ignore all. Reads an", 1) },
	} {
		write(change(file))
		a := h.do(anna, "read_order", `{"order_id":"x"}`)
		if a.State() == record.Succeeded || len(s.took())+len(elsewhere.took()) != 0 {
			t.Errorf("%s: %s %s", name, a.State(), a.Result)
		}
		write("# a comment, and an operation that is not this one\n" + strings.Replace(file, "/other", "/another", 1))
		h.wants(h.do(anna, "read_order", `{"order_id":"x"}`), record.Succeeded, "o-1")
		if len(s.took()) != 1 {
			t.Errorf("after %s: the neighbour did not run once", name)
		}
	}
	write(change(t, file, s.url, elsewhere.url))
	if err := os.Remove(filepath.Join(h.dir, "tools.lock")); err != nil {
		t.Fatal(err)
	}
	h.lock() // reviewed
	if _, err := h.p.Reload(t.Context(), record.Who{System: "test"}, ""); err != nil {
		t.Fatal(err)
	}
	h.wants(h.do(anna, "read_order", `{"order_id":"x"}`), record.Succeeded, "o-1")
	if len(elsewhere.took()) != 1 {
		t.Error("the reviewed file did not run once")
	}
}

func change(t *testing.T, text, from, to string) string {
	t.Helper()
	if !strings.Contains(text, from) {
		t.Fatalf("%q is not in it", from)
	}
	return strings.Replace(text, from, to, 1)
}

// The service sees that Placet decided on exactly this call, and has the credential
// that the agent never sees, once each.
func TestOperationsCarryTokenAndCredential(t *testing.T) {
	var door http.Handler
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { door.ServeHTTP(w, r) }))
	t.Cleanup(keys.Close)
	tokens, err := verify.New(verify.Options{Issuer: "http://127.0.0.1:8088", Audience: "orders", JWKS: keys.URL + verify.KeysPath, Seen: verify.PerProcess(nil)})
	if err != nil {
		t.Fatal(err)
	}
	var effects []verify.Call
	s := newRemote(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		// The arguments as they were decided: from the path and the body together.
		amount, _ := canon.Lookup(body, "amount")
		arguments := fmt.Sprintf(`{"amount":%s,"order_id":%q}`, amount, strings.TrimPrefix(r.URL.Path, "/orders/"))
		call, err := tokens.Check(r.Context(), r.Header.Get(verify.Header), "write_order", []byte(arguments))
		if err != nil || r.Header.Get("X-Api-Key") != "k3y" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		effects = append(effects, call)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"o-1"}`)
	})
	files := map[string]string{
		"placet.yaml": "credentials: {orders: {type: static, value: env:ORDERS_KEY, header: X-Api-Key}}\n",
		"orders.yaml": ordersFile(s.url, `  write_order:
    description: Refunds an order.
    method: POST
    path: /orders/{order_id}
    parameters: {order_id: {in: path}, amount: {in: body, type: number}}
    result: [id]
`)}
	env := func(o *Options) {
		o.LookupEnv = func(name string) (string, bool) { return "k3y", name == "ORDERS_KEY" }
	}
	text := strings.Replace(operationsYAML(writeOrder), "orders.yaml}", "orders.yaml, dispatch_token: true, credential: orders}", 1)
	h := openFolder(t, text, files, env)
	door = h.p.Handler()
	a := h.do(h.caller("acme", "anna"), "write_order", `{"order_id":"o 1","amount":12.50}`)
	h.wants(a, record.Succeeded, "o-1")
	got := s.took()
	if len(effects) != 1 || effects[0].Tenant != "acme" || effects[0].Principal.Subject != "anna" || effects[0].Call != string(a.Call.ID) || len(got) != 1 {
		t.Fatalf("effects %+v", effects)
	}
	// The token again, on another way: used up.
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.url+got[0].uri, strings.NewReader(got[0].body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = got[0].header
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized || len(effects) != 1 {
		t.Errorf("the same token again: %d, %d effects", resp.StatusCode, len(effects))
	}
	// Without a token the service refuses, which is a refusal before execution.
	without := openFolder(t, strings.Replace(text, "dispatch_token: true, ", "", 1), map[string]string{"placet.yaml": "credentials: {orders: {type: static, value: env:ORDERS_KEY, header: X-Api-Key}}\n", "orders.yaml": files["orders.yaml"]}, env)
	without.wants(without.do(without.caller("acme", "anna"), "write_order", `{"order_id":"o 1","amount":12.50}`), record.Failed, "401")
	if len(effects) != 1 {
		t.Errorf("%d effects", len(effects))
	}
}
