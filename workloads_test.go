package placet

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/local"
	"github.com/spiffe/go-spiffe/v2/bundle/spiffebundle"
	workloadpb "github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"google.golang.org/grpc"
)

// authority makes certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	now  func() time.Time
}

func newAuthority(t *testing.T, now func() time.Time) *authority {
	t.Helper()
	a := &authority{t: t, now: now, key: newECKey(t)}
	template := &x509.Certificate{SerialNumber: serial(t), Subject: pkix.Name{CommonName: "authority"}, NotBefore: now().Add(-time.Hour), NotAfter: now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.cert = a.sign(template, template, &a.key.PublicKey)
	return a
}

func newECKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func serial(t *testing.T) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (a *authority) sign(template, parent *x509.Certificate, public any) *x509.Certificate {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

// issue makes a client's certificate; change may spoil it.
func (a *authority) issue(change func(*x509.Certificate)) tls.Certificate {
	a.t.Helper()
	key := newECKey(a.t)
	template := &x509.Certificate{SerialNumber: serial(a.t), Subject: pkix.Name{CommonName: "client"}, NotBefore: a.now().Add(-time.Minute), NotAfter: a.now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true}
	change(template)
	leaf := a.sign(template, a.cert, &key.PublicKey)
	return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
}

func (a *authority) dns(names ...string) tls.Certificate {
	return a.issue(func(c *x509.Certificate) { c.DNSNames = names })
}

func (a *authority) uri(uris ...string) tls.Certificate {
	return a.issue(func(c *x509.Certificate) {
		for _, u := range uris {
			parsed, err := url.Parse(u)
			if err != nil {
				a.t.Fatal(err)
			}
			c.URIs = append(c.URIs, parsed)
		}
	})
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// bundle is the authority as a SPIFFE bundle in JSON.
func (a *authority) bundle(domain string) []byte {
	a.t.Helper()
	text, err := spiffebundle.FromX509Authorities(spiffeid.RequireTrustDomainFromString(domain), []*x509.Certificate{a.cert}).Marshal()
	if err != nil {
		a.t.Fatal(err)
	}
	return text
}

// workloadAPI is SPIFFE's Workload API, as far as bundles go.
type workloadAPI struct {
	workloadpb.UnimplementedSpiffeWorkloadAPIServer
	mu      sync.Mutex
	bundles map[string][]byte
}

func (w *workloadAPI) FetchX509Bundles(_ *workloadpb.X509BundlesRequest, stream workloadpb.SpiffeWorkloadAPI_FetchX509BundlesServer) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return stream.Send(&workloadpb.X509BundlesResponse{Bundles: w.bundles})
}

func (w *workloadAPI) set(domain string, a *authority) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bundles = map[string][]byte{"spiffe://" + domain: a.cert.Raw}
}

// site is a server over TLS, with authorities, an issuer and one tool. What the
// tool did is in the ledger.
type premises struct {
	t      *testing.T
	dir    string
	url    string
	placet *Placet
	server *httptest.Server
	idp    *ecdsa.PrivateKey

	partners, mesh, lab *authority
	api                 *workloadAPI
	endAPI              func()

	mu     sync.Mutex
	offset time.Duration
	ledger []string
}

func (s *premises) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.offset)
}

func (s *premises) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset += d
}

func (s *premises) write(name string, text []byte) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), text, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

const siteConfig = `version: 1
environment: test
tls: {certificate: unread, key: unread}
public_url: %s
store: sqlite:state.db
registry: [tools.yaml]
issuers:
  - issuer: https://idp.test
    algorithms: [ES256]
    tenant: acme
    keys: jwks.json
    claims: {groups: groups}
  - {issuer: "https://dpop.test", algorithms: [ES256], tenant: acme, keys: jwks.json, sender_constrained: dpop}
  - {issuer: "https://mtls.test", algorithms: [ES256], tenant: acme, keys: jwks.json, sender_constrained: mtls}
  - {issuer: "https://any.test", algorithms: [ES256], tenant: acme, keys: jwks.json, sender_constrained: any}
trust:
  partners: {ca: partners.pem}
  mesh: {spiffe: example.org, bundle: mesh.json}
  lab: {spiffe: lab.example.org, workload_api: "unix://%s"}
workloads:
  billing: {certificate: {authority: partners, dns: billing.partner.example}, permissions: [propose]}
  reports: {certificate: {authority: partners, uri: "urn:partner:reports"}, permissions: [read]}
  orchestrator: {spiffe: "spiffe://example.org/orchestrator", key: "file:orchestrator.keys", permissions: [vouch, propose]}
  triage: {spiffe: "spiffe://example.org/triage", agent: triage-bot, permissions: [propose]}
  labbot: {spiffe: "spiffe://lab.example.org/bot", permissions: [propose, operate]}
`

func newPremises(t *testing.T) *premises {
	t.Helper()
	s := &premises{t: t, dir: t.TempDir(), idp: newECKey(t), api: &workloadAPI{}}
	s.partners, s.mesh, s.lab = newAuthority(t, s.now), newAuthority(t, s.now), newAuthority(t, s.now)
	socket := s.serveWorkloadAPI()
	s.api.set("lab.example.org", s.lab)
	s.server = httptest.NewUnstartedServer(nil)
	s.url = "https://" + s.server.Listener.Addr().String()
	s.write("placet.yaml", fmt.Appendf(nil, siteConfig, s.url, socket))
	s.write("tools.yaml", []byte("version: 1\n"))
	s.write("partners.pem", s.partners.pem())
	s.write("mesh.json", s.mesh.bundle("example.org"))
	s.write("orchestrator.keys", []byte(identity.HashKey(orchestratorKey)))
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &s.idp.PublicKey, KeyID: "k", Algorithm: "ES256", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	s.write("jwks.json", keys)
	c, err := config.Load(filepath.Join(s.dir, "placet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	pay := Tool{Name: "pay", InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"string"}}}`),
		Entry: registry.Entry{Write: true, Sources: []registry.SourceName{"vouched", "direct"}, Approval: registry.Asking{When: registry.Asked},
			Callers: registry.CallersEntry{Tenants: []string{"acme"}}},
		Handler: func(_ context.Context, c local.Call) (json.RawMessage, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.ledger = append(s.ledger, string(c.Arguments))
			return json.RawMessage(`{}`), nil
		}}
	if s.placet, err = Open(t.Context(), Options{Config: c, Tools: []Tool{pay}, Clock: s.now}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.placet.Close() })
	s.server.Config.Handler = s.placet.Handler()
	s.server.Config.ErrorLog = nil
	s.server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.server.EnableHTTP2 = true
	s.server.StartTLS()
	t.Cleanup(func() { s.server.CloseClientConnections(); s.server.Close() })
	return s
}

const orchestratorKey = "plk_orchestrator89abcdefghijklmnopqrstuvwxyzABC"

func (s *premises) serveWorkloadAPI() string {
	s.t.Helper()
	folder, err := os.MkdirTemp("", "wl") // a socket's path must be short
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = os.RemoveAll(folder) })
	socket := filepath.Join(folder, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		s.t.Fatal(err)
	}
	g := grpc.NewServer()
	workloadpb.RegisterSpiffeWorkloadAPIServer(g, s.api)
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Serve(l) }()
	s.endAPI = func() { g.Stop(); <-done }
	s.t.Cleanup(s.endAPI)
	return socket
}

// client holds a certificate; without one, none.
func (s *premises) client(certs ...tls.Certificate) *http.Client {
	s.t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(s.server.Certificate())
	t := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}}
	if len(certs) > 0 {
		// Whatever the server says it wants.
		t.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certs[0], nil }
	}
	s.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

// token is anna's, through an agent; more are claims.
func (s *premises) token(agent string, more map[string]any) string {
	s.t.Helper()
	claims := map[string]any{"iss": "https://idp.test", "aud": s.url + "/mcp", "sub": "anna", "azp": agent,
		"iat": s.now().Unix(), "exp": s.now().Add(5 * time.Minute).Unix()}
	for name, value := range more {
		claims[name] = value
	}
	text, err := json.Marshal(claims)
	if err != nil {
		s.t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: s.idp, KeyID: "k"}}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		s.t.Fatal(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := signed.CompactSerialize()
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

type siteAnswer struct {
	status int
	header http.Header
	body   string
	call   string
	code   string
}

// ask sends one request.
func (s *premises) ask(c *http.Client, h http.Header, method, path, body string) siteAnswer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.GetBody = nil
	for name, values := range h {
		r.Header[name] = values
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := c.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	var got struct{ Call, ID, Code string }
	_ = json.Unmarshal(text, &got)
	return siteAnswer{res.StatusCode, res.Header, string(text), got.Call, got.Code}
}

// pay proposes the payment n.
func (s *premises) pay(c *http.Client, h http.Header, n string) siteAnswer {
	s.t.Helper()
	return s.ask(c, h, "POST", "/v1/calls", `{"tool":"pay","arguments":{"n":"`+n+`"}}`)
}

// paid wants a payment to run, once.
func (s *premises) paid(c *http.Client, h http.Header, n string) siteAnswer {
	s.t.Helper()
	before := s.effects()
	a := s.pay(c, h, n)
	if a.status != 200 || s.effects() != before+1 {
		s.t.Errorf("%s: %d %s; %d effects", n, a.status, a.body, s.effects()-before)
	}
	return a
}

// refused wants a payment to be refused with a text, and nothing to run.
func (s *premises) refused(c *http.Client, h http.Header, n string, status int, text string) siteAnswer {
	s.t.Helper()
	before := s.effects()
	a := s.pay(c, h, n)
	if a.status != status || !strings.Contains(a.body, text) || s.effects() != before {
		s.t.Errorf("%s: %d %s; %d effects; wanted %d and %q", n, a.status, a.body, s.effects()-before, status, text)
	}
	return a
}

func (s *premises) effects() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ledger)
}

// A certificate of a plain authority is the workload whose name it holds. One that
// is spoilt in any way is refused with the reason, and not ignored.
func TestCertificatesOfAPlainAuthority(t *testing.T) {
	s := newPremises(t)
	const name = "billing.partner.example"
	call := s.paid(s.client(s.partners.dns(name)), nil, "good")
	loaded, err := s.placet.store.Call(t.Context(), "acme", record.CallID(call.call))
	if err != nil || loaded.Call.Owner != (record.Owner{Tenant: "acme", Principal: record.Principal{Issuer: identity.WorkloadIssuer, Subject: "billing"}, Agent: "billing"}) {
		t.Fatalf("%+v, %v", loaded.Call.Owner, err)
	}
	s.paid(s.client(s.partners.dns("other.example", "BILLING.partner.example")), nil, "case")
	with := func(change func(*x509.Certificate)) tls.Certificate {
		return s.partners.issue(func(c *x509.Certificate) { c.DNSNames = []string{name}; change(c) })
	}
	other := newAuthority(t, s.now)
	for text, cert := range map[string]tls.Certificate{
		"expired at": with(func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = s.now().Add(-time.Hour), s.now().Add(-time.Second)
		}),
		"not valid yet":                   with(func(c *x509.Certificate) { c.NotBefore = s.now().Add(time.Minute) }),
		"is an authority's (CA)":          with(func(c *x509.Certificate) { c.IsCA = true }),
		"an authority's (CA), not":        with(func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageCertSign; c.IsCA = true }),
		"not for TLS clients":             with(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }),
		"must allow digital signatures":   with(func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyEncipherment }),
		"names are no workload's":         s.partners.dns("*.partner.example", "partner.example"),
		"certificate's names are no":      s.partners.issue(func(c *x509.Certificate) { c.Subject.CommonName = name }),
		"of no authority that is trusted": other.dns(name),
		"no authority that is trusted":    s.mesh.dns(name),
		"holds the names of two workloads": s.partners.issue(func(c *x509.Certificate) {
			c.DNSNames = []string{name}
			c.URIs = []*url.URL{{Scheme: "urn", Opaque: "partner:reports"}}
		}),
	} {
		for _, h := range []http.Header{nil, bearer(s.token("helper", nil))} {
			a := s.refused(s.client(cert), h, text, 401, text)
			if a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s: no challenge", text)
			}
		}
	}
	s.paid(s.client(), bearer(s.token("helper", nil)), "token alone")

	// The other door, and the permission of a certificate.
	mcp := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{"n":"mcp"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	h := http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"pay"}, "Accept": {"application/json, text/event-stream"}}
	before := s.effects()
	if a := s.ask(s.client(other.dns(name)), h, "POST", "/mcp", mcp); a.status != 401 || s.effects() != before {
		t.Errorf("%d %s", a.status, a.body)
	}
	reports := s.client(s.partners.issue(func(c *x509.Certificate) { c.URIs = []*url.URL{{Scheme: "urn", Opaque: "partner:reports"}} }))
	if a := s.ask(reports, h, "POST", "/mcp", mcp); a.status != 403 || !strings.Contains(a.header.Get("WWW-Authenticate"), `scope="propose"`) || s.effects() != before {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	if a := s.ask(reports, nil, "GET", "/v1/calls", ""); a.status != 200 || !strings.Contains(a.body, call.call) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := s.ask(s.client(s.partners.dns(name)), h, "POST", "/mcp", mcp); a.status != 200 || s.effects() != before+1 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A certificate in a header is text that anybody can write.
func TestACertificateInAHeaderIsNothing(t *testing.T) {
	s := newPremises(t)
	cert := s.partners.dns("billing.partner.example")
	block := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}))
	for _, name := range []string{"Client-Cert", "Client-Cert-Chain", "X-Client-Cert", "X-Ssl-Client-Cert", "X-Forwarded-Client-Cert", "Ssl-Client-Cert", "X-Amzn-Mtls-Clientcert", "X-Arr-Clientcert", "x_ssl_client_cert"} {
		for _, value := range []string{":" + base64.StdEncoding.EncodeToString(cert.Certificate[0]) + ":", url.QueryEscape(block), `By=spiffe://example.org/x;URI=spiffe://example.org/triage`} {
			s.refused(s.client(), http.Header{name: {value}}, name, 401, "no credentials")
		}
	}
	s.paid(s.client(cert), nil, "the connection's")
}

// An X.509-SVID is the workload with exactly its ID, of its own trust domain.
func TestSVIDs(t *testing.T) {
	s := newPremises(t)
	s.paid(s.client(s.mesh.uri("spiffe://example.org/triage")), nil, "bundle from a file")
	s.paid(s.client(s.lab.uri("spiffe://lab.example.org/bot")), nil, "bundle from the Workload API")
	for n, c := range map[string]struct {
		cert tls.Certificate
		text string
	}{
		"other ID":            {s.mesh.uri("spiffe://example.org/triage/x"), "is no workload's here"},
		"other case":          {s.mesh.uri("spiffe://example.org/Triage"), "is no workload's here"},
		"other domain's root": {s.lab.uri("spiffe://example.org/triage"), "no authority that is trusted"},
		"a plain root":        {s.partners.uri("spiffe://example.org/triage"), "no authority that is trusted"},
		"domain unknown":      {s.mesh.uri("spiffe://elsewhere.org/triage"), "a SPIFFE trust domain that is not trusted"},
		"two URIs":            {s.mesh.uri("spiffe://example.org/triage", "spiffe://example.org/orchestrator"), "one SPIFFE ID and no other URI"},
		"an ID and a URI":     {s.partners.uri("urn:partner:reports", "spiffe://example.org/triage"), "one SPIFFE ID and no other URI"},
		"expired": {s.mesh.issue(func(c *x509.Certificate) {
			c.URIs = s.mesh.uri("spiffe://example.org/triage").Leaf.URIs
			c.NotAfter = s.now().Add(-time.Second)
		}), "expired at"},
	} {
		s.refused(s.client(c.cert), nil, n, 401, c.text)
	}
}

// SVIDs and bundles rotate while the server runs, and a root that was withdrawn ends
// what was issued under it, on connections that are open too.
func TestRotationWhileTheServerRuns(t *testing.T) {
	s := newPremises(t)
	for n, c := range map[string]struct {
		id    string
		old   *authority
		renew func(*authority)
	}{
		"file":         {"spiffe://example.org/triage", s.mesh, func(a *authority) { s.write("mesh.json", a.bundle("example.org")) }},
		"workload API": {"spiffe://lab.example.org/bot", s.lab, func(a *authority) { s.api.set("lab.example.org", a) }},
	} {
		first := s.client(c.old.uri(c.id))
		s.paid(first, nil, n+" 1")
		s.paid(s.client(c.old.uri(c.id)), nil, n+" 2, a new SVID")
		next := newAuthority(t, s.now)
		s.refused(s.client(next.uri(c.id)), nil, n+" 3", 401, "no authority that is trusted")
		c.renew(next)
		s.pass(rootsBound)
		s.refused(first, nil, n+" 4", 401, "no authority that is trusted")
		s.paid(s.client(next.uri(c.id)), nil, n+" 5")
	}
	// A Workload API that is away: for a minute its last word counts, then none.
	s.pass(rootsBound)
	bot := s.client(newAuthorityOf(t, s, "lab.example.org").uri("spiffe://lab.example.org/bot"))
	s.paid(bot, nil, "before")
	s.endAPI()
	s.pass(30 * time.Second)
	s.paid(bot, nil, "away for half a minute")
	s.pass(30 * time.Second)
	s.refused(bot, nil, "away for a minute", 503, "cannot be checked")
	s.paid(s.client(), bearer(s.token("helper", nil)), "others")
}

const rootsBound = 5 * time.Second

func newAuthorityOf(t *testing.T, s *premises, domain string) *authority {
	t.Helper()
	a := newAuthority(t, s.now)
	s.api.set(domain, a)
	return a
}

// Rule D4: a vouched request carries two credentials, and nothing of a workload
// answers. Rule I1: what is an agent goes with tokens of that agent alone.
func TestRule_D4_I1_CertificateBesideAToken(t *testing.T) {
	s := newPremises(t)
	orchestrator, triage := s.mesh.uri("spiffe://example.org/orchestrator"), s.mesh.uri("spiffe://example.org/triage")
	vouch := func(c *http.Client, token string, n string) string {
		t.Helper()
		before := s.effects()
		a := s.ask(c, bearer(token), "POST", "/v1/calls", `{"tool":"pay","arguments":{"n":"`+n+`"},"vouch":{"turn":1,"response":"`+n+`","position":0}}`)
		if a.status != 200 || s.effects() != before+1 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		loaded, err := s.placet.store.Call(t.Context(), "acme", record.CallID(a.call))
		if err != nil || loaded.Call.Principal.Subject != "anna" {
			t.Fatalf("%+v, %v", loaded.Call.Owner, err)
		}
		return string(loaded.Call.Source)
	}
	helper := s.token("helper", nil)
	if got := vouch(s.client(orchestrator), helper, "vouched"); got != "vouched" {
		t.Errorf("beside the orchestrator's certificate: %s", got)
	}
	if got := vouch(s.client(), helper, "unvouched"); got != "direct" {
		t.Errorf("without: %s", got)
	}
	if got := vouch(s.client(triage), s.token("triage-bot", nil), "not permitted"); got != "direct" {
		t.Errorf("beside a certificate without vouch: %s", got)
	}
	s.refused(s.client(triage), bearer(helper), "another agent", 403, "is the agent triage-bot, and the token names another")
	a := s.paid(s.client(triage), nil, "as itself")
	if loaded, err := s.placet.store.Call(t.Context(), "acme", record.CallID(a.call)); err != nil || loaded.Call.Agent != "triage-bot" || loaded.Call.Principal.Subject != "triage" {
		t.Errorf("%+v, %v", loaded.Call.Owner, err)
	}

	key := http.Header{"Placet-Workload": {orchestratorKey}}
	s.paid(s.client(orchestrator), key, "key and certificate of one")
	s.refused(s.client(triage), key, "key and certificate of two", 401, "the key is that of workload orchestrator, and the certificate that of triage")
	s.paid(s.client(), key, "key alone")

	// An approval: neither a certificate, nor a login beside one, answers.
	login := bearer(s.token("", map[string]any{"aud": s.url + "/console", "azp": nil, "groups": []string{"leads"}}))
	const path = "/v1/approvals/apr_00000000000000000000000000/approve"
	body := `{"binding":"sha256:` + strings.Repeat("a", 64) + `"}`
	for n, a := range map[string]siteAnswer{
		"certificate":              s.ask(s.client(triage), nil, "POST", path, body),
		"login and certificate":    s.ask(s.client(triage), login, "POST", path, body),
		"operating certificate":    s.ask(s.client(s.lab.uri("spiffe://lab.example.org/bot")), nil, "POST", path, body),
		"login and an unknown one": s.ask(s.client(s.mesh.uri("spiffe://example.org/x")), login, "POST", path, body),
	} {
		if a.status != 401 && a.status != 403 {
			t.Errorf("%s: %d %s", n, a.status, a.body)
		}
	}
	if a := s.ask(s.client(), login, "POST", path, body); a.status != 404 {
		t.Errorf("a login alone: %d %s", a.status, a.body)
	}
}

// RFC 8705 section 3.1: a token that is bound to a certificate counts on connections
// of its holder alone; the issuer answers for the certificate.
func TestTokenIsBoundToACertificate(t *testing.T) {
	s := newPremises(t)
	stranger := newAuthority(t, s.now).dns("anything")
	bound := func(c tls.Certificate, more map[string]any) http.Header {
		sum := sha256.Sum256(c.Certificate[0])
		claims := map[string]any{"cnf": map[string]any{"x5t#S256": base64.RawURLEncoding.EncodeToString(sum[:])}}
		for k, v := range more {
			claims[k] = v
		}
		return bearer(s.token("helper", claims))
	}
	s.paid(s.client(stranger), bound(stranger, nil), "its own certificate")
	s.refused(s.client(), bound(stranger, nil), "none", 401, "this connection presents none")
	s.refused(s.client(newAuthority(t, s.now).dns("anything")), bound(stranger, nil), "another", 401, "no authority that is trusted")
	orchestrator := s.mesh.uri("spiffe://example.org/orchestrator")
	s.refused(s.client(orchestrator), bound(stranger, nil), "a workload's", 401, "bound to another client certificate")
	s.paid(s.client(orchestrator), bound(orchestrator, nil), "a workload's own")
	s.refused(s.client(stranger), bearer(s.token("helper", nil)), "unbound", 401, "no authority that is trusted")
	old := newAuthority(t, s.now).issue(func(c *x509.Certificate) { c.NotAfter = s.now().Add(-time.Second) })
	s.refused(s.client(old), bound(old, nil), "expired", 401, "expired at")
	for n, cnf := range map[string]any{"nothing known": map[string]any{"kid": "x"}, "empty": map[string]any{}, "no object": "x", "null": nil, "short": map[string]any{"x5t#S256": "AAAA"}, "a number": map[string]any{"x5t#S256": 1}} {
		s.refused(s.client(stranger), bearer(s.token("helper", map[string]any{"cnf": cnf})), n, 401, "")
		s.refused(s.client(), bearer(s.token("helper", map[string]any{"cnf": cnf})), n, 401, "cnf")
	}
	// A person's login likewise.
	login := bound(stranger, map[string]any{"aud": s.url + "/console", "azp": nil})
	if a := s.ask(s.client(stranger), login, "GET", "/v1/approvals", ""); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := s.ask(s.client(), login, "GET", "/v1/approvals", ""); a.status != 401 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// proof makes a DPoP proof for one request; spoil may change header and claims.
func (s *premises) proof(key *ecdsa.PrivateKey, token, method, path string, spoil func(header, claims map[string]any)) string {
	s.t.Helper()
	access := sha256.Sum256([]byte(token))
	b64 := base64.RawURLEncoding
	jwk := map[string]any{"kty": "EC", "crv": "P-256", "x": b64.EncodeToString(key.X.FillBytes(make([]byte, 32))), "y": b64.EncodeToString(key.Y.FillBytes(make([]byte, 32)))}
	header := map[string]any{"typ": "dpop+jwt", "alg": "ES256", "jwk": jwk}
	claims := map[string]any{"htm": method, "htu": s.url + path, "iat": s.now().Unix(), "jti": rand.Text(), "ath": b64.EncodeToString(access[:])}
	if spoil != nil {
		spoil(header, claims)
	}
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			s.t.Fatal(err)
		}
		return b64.EncodeToString(text)
	}
	input := part(header) + "." + part(claims)
	sum := sha256.Sum256([]byte(input))
	r, v, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		s.t.Fatal(err)
	}
	return input + "." + b64.EncodeToString(append(r.FillBytes(make([]byte, 32)), v.FillBytes(make([]byte, 32))...))
}

func jkt(t *testing.T, key *ecdsa.PrivateKey) map[string]any {
	t.Helper()
	sum, err := (&jose.JSONWebKey{Key: &key.PublicKey}).Thumbprint(crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"jkt": base64.RawURLEncoding.EncodeToString(sum)}
}

// RFC 9449: a token that is bound to a key counts with a proof made for this very
// request, once.
func TestTokenIsBoundToAKey(t *testing.T) {
	s := newPremises(t)
	key, other := newECKey(t), newECKey(t)
	token := s.token("helper", map[string]any{"cnf": jkt(t, key)})
	dpop := func(token, proof string) http.Header {
		return http.Header{"Authorization": {"DPoP " + token}, "Dpop": {proof}}
	}
	good := func(spoil func(header, claims map[string]any)) string {
		return s.proof(key, token, "POST", "/v1/calls", spoil)
	}
	c := s.client()
	first := good(nil)
	s.paid(c, dpop(token, first), "good")
	s.refused(c, dpop(token, first), "again", 401, "was used before")
	s.paid(c, dpop(token, good(func(_, claims map[string]any) {
		claims["htu"] = strings.Replace(s.url, "https", "HTTPS", 1) + "/v1/calls?x=1#y"
	})), "query and case")
	a := s.refused(c, bearer(token), "as a bearer token", 401, "send it as Authorization: DPoP")
	if got := a.header.Get("WWW-Authenticate"); !strings.HasPrefix(got, `DPoP error="invalid_token", algs="RS256 `) {
		t.Errorf("challenge %s", got)
	}
	set := func(in, name string, value any) func(header, claims map[string]any) {
		return func(header, claims map[string]any) {
			m := claims
			if in == "header" {
				m = header
			}
			if value == nil {
				delete(m, name)
			} else {
				m[name] = value
			}
		}
	}
	for text, proof := range map[string]string{
		"another method":                  good(set("claims", "htm", "GET")),
		"another URL":                     good(set("claims", "htu", s.url+"/v1/calls/")),
		"another URL (htu)":               good(set("claims", "htu", "https://elsewhere.test/v1/calls")),
		"for another URL":                 good(set("claims", "htu", "https://user@"+strings.TrimPrefix(s.url, "https://")+"/v1/calls")),
		"within the last minute":          good(set("claims", "iat", s.now().Add(-2*time.Minute).Unix())),
		"last minute (iat)":               good(set("claims", "iat", s.now().Add(2*time.Minute).Unix())),
		"not made within the last minute": good(set("claims", "iat", nil)),
		"another token (ath)":             s.proof(key, token+"x", "POST", "/v1/calls", nil),
		"is for another token":            good(set("claims", "ath", nil)),
		"no ID (jti)":                     good(set("claims", "jti", nil)),
		"longer than 256":                 good(set("claims", "jti", strings.Repeat("j", 300))),
		"of another key":                  s.proof(other, token, "POST", "/v1/calls", nil),
		"is not its key's":                first[:len(first)-86] + good(nil)[len(first)-86:],
		"(typ) is not dpop+jwt":           good(set("header", "typ", "JWT")),
		"algorithm is not one of":         good(set("header", "alg", "none")),
		"algorithm is not one":            good(set("header", "alg", "HS256")),
		"holds no key":                    good(set("header", "jwk", nil)),
		"demands an extension":            good(set("header", "crit", []string{"x"})),
		"holds a private key":             good(func(header, _ map[string]any) { header["jwk"].(map[string]any)["d"] = "AAAA" }),
		"not a public key":                good(func(header, _ map[string]any) { header["jwk"].(map[string]any)["y"] = "AAAA" }),
		"is not a signed JWT":             "x",
		"one goes with the other":         "",
	} {
		h := dpop(token, proof)
		if proof == "" {
			delete(h, "Dpop")
		}
		a := s.refused(c, h, text, 401, text)
		if got := a.header.Get("WWW-Authenticate"); !strings.HasPrefix(got, "DPoP error=") {
			t.Errorf("%s: challenge %s", text, got)
		}
	}
	h := dpop(token, good(nil))
	h["Dpop"] = append(h["Dpop"], good(nil))
	s.refused(c, h, "two proofs", 401, "occurs 2 times")
	unbound := s.token("helper", nil)
	s.refused(c, dpop(unbound, s.proof(key, unbound, "POST", "/v1/calls", nil)), "not bound", 401, "is not bound to a key")
	s.paid(c, dpop(token, good(nil)), "the good one still")

	// A person's login likewise.
	login := s.token("", map[string]any{"aud": s.url + "/console", "azp": nil, "cnf": jkt(t, key)})
	if a := s.ask(c, dpop(login, s.proof(key, login, "GET", "/v1/approvals", nil)), "GET", "/v1/approvals", ""); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := s.ask(c, bearer(login), "GET", "/v1/approvals", ""); a.status != 401 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// An issuer whose tokens must be bound: one that is not is refused.
func TestConstrainedIssuers(t *testing.T) {
	s := newPremises(t)
	key, cert := newECKey(t), newAuthority(t, s.now).dns("x")
	sum := sha256.Sum256(cert.Certificate[0])
	bindings := map[string]map[string]any{"": nil, "dpop": jkt(t, key), "mtls": {"x5t#S256": base64.RawURLEncoding.EncodeToString(sum[:])}}
	for issuer, fits := range map[string][]string{"idp": {"", "dpop", "mtls"}, "dpop": {"dpop"}, "mtls": {"mtls"}, "any": {"dpop", "mtls"}} {
		for by, cnf := range bindings {
			claims := map[string]any{"iss": "https://" + issuer + ".test"}
			if cnf != nil {
				claims["cnf"] = cnf
			}
			token, c := s.token("helper", claims), s.client()
			h := bearer(token)
			switch by {
			case "dpop":
				h = http.Header{"Authorization": {"DPoP " + token}, "Dpop": {s.proof(key, token, "POST", "/v1/calls", nil)}}
			case "mtls":
				c = s.client(cert)
			}
			if n := issuer + " " + by; slices.Contains(fits, by) {
				s.paid(c, h, n)
			} else {
				s.refused(c, h, n, 401, "tokens of this issuer must be bound")
			}
		}
	}
}

// The roots of a file are all of it or none.
func TestTrustFilesAreCheckedAtTheStart(t *testing.T) {
	s := newPremises(t)
	for text, file := range map[string][]byte{
		"there is no certificate":      []byte("-----\n"),
		"a PEM block is no CERT":       bytes.Replace(s.partners.pem(), []byte("CERTIFICATE"), []byte("EC PRIVATE KEY"), 2),
		"not an authority's (CA)":      pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.partners.dns("x").Certificate[0]}),
		"a certificate cannot be read": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}),
	} {
		s.write("partners.pem", file)
		c, err := config.Load(filepath.Join(s.dir, "placet.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (Options{Config: c, ReadFile: os.ReadFile}).authorities(); err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), "trust.partners") {
			t.Errorf("wanted %q, got %v", text, err)
		}
	}
}
