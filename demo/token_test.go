package demo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/placet-dev/placet/credential"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/verify"
)

// desk is the demo's help desk with an issuer whose tokens it takes, and a client
// that reaches it past the gateway.
type desk struct {
	t        *testing.T
	dir      string
	signer   *credential.Signer
	audience string
	session  *sdk.ClientSession

	mu   sync.Mutex
	past time.Duration // how much earlier the issuer's clock is
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, dir: t.TempDir()}
	mux := http.NewServeMux()
	issuer := httptest.NewServer(mux)
	t.Cleanup(issuer.Close)
	server := httptest.NewUnstartedServer(nil)
	d.audience = "http://" + server.Listener.Addr().String() + "/mcp"
	if err := (deskSettings{Issuer: issuer.URL, Audience: d.audience}).write(d.dir); err != nil {
		t.Fatal(err)
	}
	handler, end, err := newHelpdesk(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = end() })
	server.Config.Handler = handler
	server.Start()
	t.Cleanup(server.Close)
	d.signer = d.issuerNamed(issuer.URL)
	mux.Handle(verify.KeysPath, d.signer)
	client := sdk.NewClient(&sdk.Implementation{Name: "past the gateway", Version: "1"}, nil)
	d.session, err = client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: d.audience}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.session.Close() })
	return d
}

func (d *desk) issuerNamed(name string) *credential.Signer {
	s, err := credential.Open(filepath.Join(d.t.TempDir(), "keys"), credential.Options{Issuer: name, Random: rand.Reader, Clock: func() time.Time {
		d.mu.Lock()
		defer d.mu.Unlock()
		return time.Now().Add(-d.past)
	}})
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

func (d *desk) claims() credential.Claims {
	return credential.Claims{Audience: d.audience, Tool: "stripe_refund", Arguments: []byte(refund60), Run: "run_1", Call: "call_1", Attempt: 1, Key: "k1",
		Owner: record.Owner{Tenant: tenant, Principal: record.Principal{Issuer: "urn:x", Subject: "anna"}, Agent: "bot"}, Lease: time.Now().Add(time.Minute)}
}

func (d *desk) token(s *credential.Signer, edit func(*credential.Claims)) string {
	d.t.Helper()
	c := d.claims()
	if edit != nil {
		edit(&c)
	}
	token, err := s.Sign(c)
	if err != nil {
		d.t.Fatal(err)
	}
	return token
}

// call asks the help desk itself, and returns how many effects its ledger then holds.
func (d *desk) call(token any) (int, error) {
	d.t.Helper()
	meta := sdk.Meta{keyMeta: "k1"}
	if token != nil {
		meta[verify.MetaKey] = token
	}
	_, err := d.session.CallTool(d.t.Context(), &sdk.CallToolParams{Meta: meta, Name: "stripe_refund", Arguments: json.RawMessage(refund60)})
	rows, lerr := readLedger(context.Background(), filepath.Join(d.dir, ledgerFile))
	if lerr != nil {
		d.t.Fatal(lerr)
	}
	return len(rows), err
}

// The help desk goes by the user whom the token names: ben refunds for the customer
// whom he serves and for no other, whatever anybody approved.
func TestHelpDesk_RefusesForeignOrders(t *testing.T) {
	d := newDesk(t)
	call := func(tool, order string) (int, error) {
		t.Helper()
		arguments := []byte(refundOf(order))
		token := d.token(d.signer, func(c *credential.Claims) {
			c.Tool, c.Arguments, c.Owner.Principal.Subject, c.Key = tool, arguments, "ben", tool+order
		})
		_, err := d.session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments),
			Meta: sdk.Meta{keyMeta: tool + order, verify.MetaKey: token}})
		rows, lerr := readLedger(t.Context(), filepath.Join(d.dir, ledgerFile))
		if lerr != nil {
			t.Fatal(lerr)
		}
		return len(rows), err
	}
	for _, tool := range []string{"issue_refund", "stripe_refund"} {
		for _, order := range []string{foreign, "ord_1002", "ord_1040", "ord_9999", ""} {
			if n, err := call(tool, order); err == nil || n != 0 {
				t.Errorf("%s of %q: %d effects, %v", tool, order, n, err)
			}
		}
	}
	for i, tool := range []string{"issue_refund", "stripe_refund"} {
		if n, err := call(tool, owned); err != nil || n != i+1 {
			t.Errorf("the neighbour, %s: %d effects, %v", tool, n, err)
		}
	}
}

// TestRule_K3_TheHelpDeskRefusesWhatIsNotDispatched: on every way past the gateway
// the ledger stays empty, and the neighbour with a token of its own runs once.
func TestRule_K3_TheHelpDeskRefusesWhatIsNotDispatched(t *testing.T) {
	d := newDesk(t)
	stranger := d.issuerNamed("http://placet.example")
	d.mu.Lock()
	d.past = 2 * time.Minute
	d.mu.Unlock()
	ended := d.token(d.signer, nil)
	d.mu.Lock()
	d.past = 0
	d.mu.Unlock()
	for name, token := range map[string]any{
		"none":           nil,
		"empty":          "",
		"not a text":     7,
		"not a token":    "x.y.z",
		"other tool":     d.token(d.signer, func(c *credential.Claims) { c.Tool = "delete_file" }),
		"other values":   d.token(d.signer, func(c *credential.Claims) { c.Arguments = []byte(refund1200) }),
		"other audience": d.token(d.signer, func(c *credential.Claims) { c.Audience = "http://else.example/mcp" }),
		"other issuer":   d.token(stranger, nil),
		"ended":          ended,
	} {
		if n, err := d.call(token); err == nil || n != 0 {
			t.Errorf("%s: %d effects, %v", name, n, err)
		}
	}
	good := d.token(d.signer, nil)
	if n, err := d.call(good); err != nil || n != 1 {
		t.Fatalf("the neighbour: %d effects, %v", n, err)
	}
	if n, err := d.call(good); err == nil || n != 1 {
		t.Errorf("the same token again: %d effects, %v", n, err)
	}
	if tools, err := d.session.ListTools(t.Context(), nil); err != nil || len(tools.Tools) == 0 {
		t.Errorf("listing needs no token: %v", err)
	}
}
