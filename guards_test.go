package placet

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/local"
	"github.com/placet-dev/placet/yamlfile"
)

// guarded is a Placet whose tools read real files and make real requests. What they
// did is in their own ledger.
type guarded struct {
	t      *testing.T
	p      *Placet
	caller identity.Caller
	dir    string // real path of a folder with files/acme, files/globex and state.db beside them
	hits   [2]atomic.Int64
	public *httptest.Server // stands for the public network
	inside *httptest.Server // stands for something private, on loopback
	names  *turning

	mu     sync.Mutex
	ledger []string
}

// turning is a resolver: the n-th question about a name gets its n-th answer.
type turning struct {
	mu   sync.Mutex
	have map[string][]string
}

func (n *turning) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	answers := n.have[host]
	if len(answers) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(answers) > 1 {
		n.have[host] = answers[1:]
	}
	return []netip.Addr{netip.MustParseAddr(answers[0])}, nil
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := &guarded{t: t, dir: dir, names: &turning{have: map[string][]string{
		"public.example": {"93.184.216.34"}, "inside.example": {"127.0.0.1"}, "rebinds.example": {"93.184.216.34", "127.0.0.1"},
	}}}
	for i, s := range []**httptest.Server{&d.public, &d.inside} {
		*s = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { d.hits[i].Add(1) }))
		t.Cleanup((*s).Close)
	}
	for name, text := range map[string]string{
		"files/acme/a.txt": "acme's", "files/acme/..hidden/b é.txt": "acme's too", "files/globex/a.txt": "globex's",
		"tools.yaml":  "version: 1\n",
		"placet.yaml": "version: 1\nenvironment: test\nstore: sqlite:state.db\nregistry: [tools.yaml]\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"files/acme/near": "a.txt", "files/acme/out": "../globex", "files/acme/store": "../../state.db"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	d.open()
	return d
}

func (d *guarded) options() (Options, *identity.Local) {
	c, err := config.Load(filepath.Join(d.dir, "placet.yaml"))
	if err != nil {
		d.t.Fatal(err)
	}
	issuer, err := identity.NewLocal(LocalIssuer, rand.Reader, time.Now)
	if err != nil {
		d.t.Fatal(err)
	}
	files := filepath.Join(d.dir, "files/{tenant}")
	http80 := registry.GuardEntry{Type: "url", Schemes: []string{"http"}}
	max, err := registry.ParseDecimal("5000")
	if err != nil {
		d.t.Fatal(err)
	}
	return Options{Config: c, Local: issuer, Tenants: []string{"acme"}, Resolver: d.names, Tools: []Tool{
		d.tool("read_file", guards("path", registry.GuardEntry{Type: "path", Root: files, Instead: "List the folder first."}), d.readFile),
		d.tool("open_file", guards("path", registry.GuardEntry{Type: "path", Root: files, Relative: true}), d.openFile),
		d.tool("fetch", guards("url", http80), d.fetch),
		d.tool("fetch_all", guards("items[].url", http80), d.note),
		d.tool("mail", guards("to", registry.GuardEntry{Type: "email", Domains: []string{"example.com"}}, "subject", registry.GuardEntry{Type: "name"},
			"body", registry.GuardEntry{Type: "text", Secrets: "deny"}), d.note),
		d.tool("refund", guards("order", registry.GuardEntry{Type: "identifier", Pattern: "ord_[0-9]+"},
			"amount", registry.GuardEntry{Type: "amount", Currency: "{currency}", Max: max}, "currency", registry.GuardEntry{Type: "enum", Values: []string{"EUR"}}), d.note),
		d.tool("query", guards("name", registry.GuardEntry{Type: "query", Values: []string{"orders_for_customer"}}, "filter", registry.GuardEntry{Type: "size", MaxMembers: 3}), d.note),
	}}, issuer
}

func (d *guarded) open() {
	d.t.Helper()
	o, issuer := d.options()
	var err error
	if d.p, err = Open(d.t.Context(), o); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = d.p.Close() })
	token, err := issuer.Sign(identity.TokenSpec{Audience: o.Config.Audience(), Subject: "anna", Tenant: "acme", Agent: "bot", Scopes: []string{"desk"}})
	if err != nil {
		d.t.Fatal(err)
	}
	if d.caller, err = d.p.Verifier().Caller(d.t.Context(), identity.Credentials{Bearer: token}); err != nil {
		d.t.Fatal(err)
	}
}

func guards(pairs ...any) yamlfile.Entries[registry.GuardEntry] {
	var out yamlfile.Entries[registry.GuardEntry]
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, yamlfile.Entry[registry.GuardEntry]{Key: pairs[i].(string), Value: pairs[i+1].(registry.GuardEntry)})
	}
	return out
}

func (d *guarded) tool(name string, g yamlfile.Entries[registry.GuardEntry], do func(local.Call) (string, error)) Tool {
	wide := 1 << 20
	return Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object","additionalProperties":true}`),
		Entry: registry.Entry{Scope: "desk", Write: true, Guards: g, Sources: []registry.SourceName{"direct"}, PerMinute: &wide,
			Approval: registry.Asking{When: registry.Asked}, Repeat: registry.RepeatEntry{Answer: registry.RepeatRun}},
		Handler: func(_ context.Context, c local.Call) (json.RawMessage, error) {
			did, err := do(c)
			d.mu.Lock()
			defer d.mu.Unlock()
			if err == nil {
				d.ledger = append(d.ledger, did)
			}
			return json.RawMessage(`{"done":true}`), err
		}}
}

func argument(c local.Call, name string) string {
	value, _ := canon.Lookup(c.Arguments, name)
	text, _ := canon.Text(value)
	return text
}

// readFile opens what it is given, as many servers do.
func (d *guarded) readFile(c local.Call) (string, error) {
	text, err := os.ReadFile(argument(c, "path"))
	return string(text), err
}

// openFile opens below the caller's own root.
func (d *guarded) openFile(c local.Call) (string, error) {
	f, err := guard.ParseFolder(filepath.Join(d.dir, "files/{tenant}"))
	if err != nil {
		return "", err
	}
	root, err := f.Open(c.Owner, nil)
	if err != nil {
		return "", err
	}
	defer root.Close()
	file, err := root.Open(argument(c, "path"))
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	return string(text), err
}

// fetch goes through the dialer; what is public leads to the server that stands for it.
func (d *guarded) fetch(c local.Call) (string, error) {
	dialer := &guard.Dialer{Resolver: d.names, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasPrefix(address, "127.") {
			address = d.inside.Listener.Addr().String()
		} else {
			address = d.public.Listener.Addr().String()
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	client := &http.Client{Transport: dialer.Transport()}
	answer, err := client.Get(argument(c, "url"))
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	return "fetched", nil
}

func (d *guarded) note(c local.Call) (string, error) { return string(c.Arguments), nil }

func (d *guarded) do(tool, arguments string) dispatch.Answer {
	d.t.Helper()
	a, err := d.p.Do(d.t.Context(), dispatch.Proposal{Caller: d.caller, Tool: tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		d.t.Fatalf("%s %s: %v", tool, arguments, err)
	}
	return a
}

func (d *guarded) took() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.ledger
	d.ledger = nil
	return out
}

// TestGuardsByEffect: for every abuse kind a call that is denied and has no effect,
// and beside it a legitimate one that has its effect once.
func TestGuardsByEffect(t *testing.T) {
	d := newGuarded(t)
	abs := filepath.Join(d.dir, "files/acme")
	for _, c := range []struct {
		tool, arguments string
		effect          string      // what the tool's ledger shows; "" for a denial
		code            record.Code // of a denial
	}{
		{"read_file", `{"path":"a.txt"}`, "acme's", ""},
		{"read_file", `{"path":"..hidden/b é.txt"}`, "acme's too", ""},
		{"read_file", fmt.Sprintf(`{"path":%q}`, abs+"/near"), "acme's", ""},
		{"read_file", `{"path":"../globex/a.txt"}`, "", record.CodeGuardRefused},
		{"read_file", `{"path":"..%2fglobex%2fa.txt"}`, "", record.CodeGuardRefused},
		{"read_file", `{"path":"out/a.txt"}`, "", record.CodeGuardRefused},
		{"read_file", `{"path":"store"}`, "", record.CodeGuardRefused},
		{"read_file", `{"path":"/etc/passwd"}`, "", record.CodeGuardRefused},
		{"read_file", fmt.Sprintf(`{"path":%q}`, d.dir+"/state.db"), "", record.CodeGuardRefused},
		{"open_file", `{"path":"a.txt"}`, "acme's", ""},
		{"open_file", `{"path":"out/a.txt"}`, "", record.CodeGuardRefused},
		{"fetch", `{"url":"http://public.example/"}`, "fetched", ""},
		{"fetch", `{"url":"http://inside.example/"}`, "", record.CodePrivateAddress},
		{"fetch", `{"url":"http://127.0.0.1/"}`, "", record.CodePrivateAddress},
		{"fetch", `{"url":"http://2130706433/"}`, "", record.CodePrivateAddress},
		{"fetch", `{"url":"http://0x7f.1/"}`, "", record.CodePrivateAddress},
		{"fetch", `{"url":"http://[::ffff:7f00:1]/"}`, "", record.CodePrivateAddress},
		{"fetch", `{"url":"http://public.example@inside.example/"}`, "", record.CodeGuardRefused},
		{"fetch_all", `{"items":[{"url":"http://public.example/"}]}`, `{"items":[{"url":"http://public.example/"}]}`, ""},
		{"fetch_all", `{"items":[{"url":"http://public.example/"},{"url":"http://169.254.169.254/"}]}`, "", record.CodePrivateAddress},
		{"mail", `{"body":"Hello","subject":"Hi","to":"Anna+x@EXAMPLE.com"}`, `{"body":"Hello","subject":"Hi","to":"Anna+x@example.com"}`, ""},
		{"mail", `{"to":["anna@example.com","eve@evil.example"],"subject":"Hi"}`, "", record.CodeGuardRefused},
		{"mail", `{"to":"anna@example.com","subject":"Hi\r\nBcc: eve@evil.example"}`, "", record.CodeGuardRefused},
		{"mail", `{"to":"anna@example.com","body":"AKIA` + `IOSFODNN7EXAMPLQ"}`, "", record.CodeGuardRefused},
		{"refund", `{"amount":"60.00","currency":"EUR","order":"ord_1"}`, `{"amount":"60.00","currency":"EUR","order":"ord_1"}`, ""},
		{"refund", `{"amount":5000.01,"currency":"EUR","order":"ord_1"}`, "", record.CodeGuardRefused},
		{"refund", `{"amount":"-60.00","currency":"EUR","order":"ord_1"}`, "", record.CodeGuardRefused},
		{"refund", `{"amount":60,"currency":"USD","order":"ord_1"}`, "", record.CodeGuardRefused},
		{"refund", `{"amount":60,"currency":"EUR","order":"ord_1' OR '1'='1"}`, "", record.CodeGuardRefused},
		{"query", `{"filter":{"a":1},"name":"orders_for_customer"}`, `{"filter":{"a":1},"name":"orders_for_customer"}`, ""},
		{"query", `{"name":"select * from orders"}`, "", record.CodeGuardRefused},
		{"query", `{"name":"orders_for_customer","filter":{"a":1,"b":{"c":1,"d":1}}}`, "", record.CodeGuardRefused},
	} {
		a := d.do(c.tool, c.arguments)
		took := d.took()
		switch {
		case c.effect != "" && (a.Verdict != record.Allow || len(took) != 1 || took[0] != c.effect):
			t.Errorf("%s %s: %s %q, effects %q; %+v", c.tool, c.arguments, a.Verdict, a.Code, took, a.Decision.Reasons)
		case c.effect == "" && (a.Verdict != record.Deny || a.Code != c.code || len(took) != 0):
			t.Errorf("%s %s: %s %q, effects %q; want %q", c.tool, c.arguments, a.Verdict, a.Code, took, c.code)
		case c.effect == "" && strings.Contains(a.Text(), "evil") || strings.Contains(a.Text(), d.dir):
			t.Errorf("the text shows a value: %s", a.Text())
		}
		if c.effect == "" && c.tool == "read_file" && !strings.Contains(a.Text(), "List the folder first.") {
			t.Errorf("the guard's instead is not told: %s", a.Text())
		}
	}
	if d.hits[0].Load() != 1 || d.hits[1].Load() != 0 {
		t.Fatalf("%d public and %d private requests", d.hits[0].Load(), d.hits[1].Load())
	}
}

// A name that turns to a private address between the check and the connection
// does not lead there: the dialer connects to what it checked itself.
func TestGuardRebindingReachesNothing(t *testing.T) {
	d := newGuarded(t)
	a := d.do("fetch", `{"url":"http://rebinds.example/"}`)
	if a.Verdict != record.Allow || len(d.took()) != 0 || d.hits[0].Load() != 0 || d.hits[1].Load() != 0 {
		t.Fatalf("%s %q: %d public, %d private requests", a.Verdict, a.Code, d.hits[0].Load(), d.hits[1].Load())
	}
	d.do("fetch", `{"url":"http://public.example/"}`)
	if took := d.took(); len(took) != 1 || d.hits[0].Load() != 1 || d.hits[1].Load() != 0 {
		t.Fatalf("the public host: %v, %d public, %d private requests", took, d.hits[0].Load(), d.hits[1].Load())
	}
}

// Rule K2: no root may hold or lie in what Placet itself is made of.
func TestRule_K2_NoRootReachesPlacet(t *testing.T) {
	d := newGuarded(t)
	if err := os.Symlink(d.dir, filepath.Join(d.dir, "files/up")); err != nil {
		t.Fatal(err)
	}
	for root, want := range map[string]bool{
		filepath.Join(d.dir, "files/{tenant}"): true, filepath.Join(d.dir, "files"): true,
		d.dir: false, filepath.Dir(d.dir): false, filepath.Join(d.dir, "state.db"): false, filepath.Join(d.dir, "{tenant}"): false,
		filepath.Join(d.dir, "files/up"): false,
	} {
		o, _ := d.options()
		o.Tools = []Tool{d.tool("read_file", guards("path", registry.GuardEntry{Type: "path", Root: root}), d.readFile)}
		if _, err := Check(t.Context(), o); (err == nil) != want {
			t.Errorf("root %s: %v", root, err)
		}
	}
}
