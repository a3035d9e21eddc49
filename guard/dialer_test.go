package guard_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/record"
)

// names is a resolver whose answers change: the n-th question about a name gets
// its n-th answer, later ones the last.
type names struct {
	mu    sync.Mutex
	have  map[string][]string
	asked map[string]int
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	answers := n.have[strings.TrimSuffix(host, ".")]
	if len(answers) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if n.asked == nil {
		n.asked = map[string]int{}
	}
	i := min(n.asked[host], len(answers)-1)
	n.asked[host]++
	var out []netip.Addr
	for _, a := range strings.Fields(answers[i]) {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

// within is a server on loopback that stands for something inside; it counts hits.
func within(t *testing.T) (*httptest.Server, *atomic.Int64) {
	var hits atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hits.Add(1); r.URL.Path == "/away" {
			http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusFound)
		}
	}))
	t.Cleanup(s.Close)
	return s, &hits
}

// A name that means a public address when it is checked and a private one when it
// is dialled reaches neither: the dialer connects only to what it checked itself.
func TestDialerPinsWhatItChecked(t *testing.T) {
	server, hits := within(t)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var dialled []string
	d := &guard.Dialer{Resolver: &names{have: map[string][]string{
		"rebinds.example": {"93.184.216.34", "127.0.0.1"},
		"both.example":    {"93.184.216.34 127.0.0.1"},
		"public.example":  {"93.184.216.34"},
		"mapped.example":  {"::ffff:127.0.0.1"},
		"nat64.example":   {"64:ff9b::7f00:1"},
	}}, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled = append(dialled, address)
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String()) // what is public stands here
	}}
	client := &http.Client{Transport: d.Transport()}
	get := func(host string) error {
		client.CloseIdleConnections()
		answer, err := client.Get("http://" + host + ":" + port + "/")
		if err == nil {
			answer.Body.Close()
		}
		return err
	}
	if err := get("public.example"); err != nil || hits.Load() != 1 || dialled[0] != "93.184.216.34:"+port {
		t.Fatalf("a public host: %v, %d hits, dialled %v", err, hits.Load(), dialled)
	}
	if err := get("rebinds.example"); err != nil || dialled[1] != "93.184.216.34:"+port {
		t.Fatalf("the first answer is public: %v, dialled %v", err, dialled)
	}
	for _, host := range []string{"rebinds.example", "both.example", "mapped.example", "nat64.example", "127.0.0.1", "127.1", "2130706433", "0x7f000001"} {
		err := get(host)
		var refusal *guard.Refusal
		if !errors.As(err, &refusal) || refusal.Code != record.CodePrivateAddress {
			t.Errorf("%s: %v", host, err)
		}
	}
	if hits.Load() != 2 || len(dialled) != 2 {
		t.Fatalf("%d hits, dialled %v", hits.Load(), dialled)
	}
}

// A request that is sent on is judged anew at each step.
func TestRedirectsAreCheckedEach(t *testing.T) {
	inside, hits := within(t)
	public, publicHits := within(t)
	g, err := guard.New(guard.Spec{Argument: "url", Type: guard.URL, Schemes: []string{"http"}})
	if err != nil {
		t.Fatal(err)
	}
	d := &guard.Dialer{Resolver: &names{have: map[string][]string{"public.example": {"93.184.216.34"}, "inside.example": {"127.0.0.1"}}},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, public.Listener.Addr().String())
		}}
	client := &http.Client{Transport: d.Transport(), CheckRedirect: g.Redirects}
	for to, want := range map[string]bool{
		"http://public.example/there": true,
		inside.URL:                    false,
		"http://inside.example/":      false,
		"http://2130706433/":          false,
		"http://user@public.example/": false,
		"ftp://public.example/":       false,
		"http://public.example/away?to=http%3A%2F%2F169.254.169.254%2F": false,
	} {
		before := publicHits.Load()
		answer, err := client.Get("http://public.example/away?to=" + strings.ReplaceAll(strings.ReplaceAll(to, "%", "%25"), "&", "%26"))
		if err == nil {
			answer.Body.Close()
		}
		if (err == nil) != want || want && publicHits.Load() != before+2 {
			t.Errorf("to %s: %v, %d requests", to, err, publicHits.Load()-before)
		}
	}
	if hits.Load() != 0 {
		t.Fatalf("the private server was reached %d times", hits.Load())
	}
}

func TestPublicAddresses(t *testing.T) {
	for text, want := range map[string]bool{
		"93.184.216.34": true, "8.8.8.8": true, "1.1.1.1": true, "2606:4700:4700::1111": true, "::ffff:8.8.8.8": true, "172.32.0.1": true,
		"0.0.0.0": false, "10.0.4.7": false, "127.0.0.1": false, "169.254.169.254": false, "172.31.255.255": false, "192.168.0.1": false,
		"100.100.100.200": false, "192.0.0.192": false, "168.63.129.16": false, "224.0.0.1": false, "255.255.255.255": false, "198.18.0.1": false,
		"::": false, "::1": false, "::ffff:10.0.0.1": false, "::7f00:1": false, "64:ff9b::a00:1": false, "fd00:ec2::254": false, "fe80::1": false,
		"ff02::1": false, "2001:db8::1": false, "2002:7f00:1::": false, "2001:0:7f00:1::": false, "3fff::1": false, "5f00::1": false,
	} {
		if got := guard.Public(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: public is %t", text, got)
		}
	}
	if guard.Public(netip.MustParseAddr("2606:4700::1%eth0")) || guard.Public(netip.Addr{}) {
		t.Error("an address with a zone, or none, is public")
	}
}
