// Gateway is Placet as the conformance suite needs it: every tool, resource and
// prompt of one server admitted and allowed, and in front of it a proxy that adds the token, since the
// suite has none. The proxy passes Host and Origin through, so that the checks on
// them are real.
package main

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/placet-dev/placet/dispatch"
	edge "github.com/placet-dev/placet/edge/mcp"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/store/sqlite"
	"github.com/placet-dev/placet/tool/mcp"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "where the suite connects")
	upstream := flag.String("upstream", "", "URL of the server behind")
	verbose := flag.Bool("v", false, "log to standard error")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	level := slog.LevelError
	if *verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	if err := run(ctx, *listen, *upstream, log); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

const audience = "http://localhost/mcp"

func run(ctx context.Context, listen, upstream string, log *slog.Logger) error {
	dir, err := os.MkdirTemp("", "placet-conformance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "state.db"), sqlite.Options{Log: log})
	if err != nil {
		return err
	}
	defer store.Close()
	invoker := mcp.New(mcp.Options{Log: log})
	defer invoker.Close()
	snapshot, err := admitAll(ctx, upstream, invoker)
	if err != nil {
		return err
	}
	boundary, err := dispatch.New(dispatch.Options{Store: store, Invoker: invoker, Clock: time.Now, Random: rand.Reader, Log: log,
		Limits: dispatch.Limits{CallsPerRun: 1 << 30}})
	if err != nil {
		return err
	}
	none, err := policy.NewSet(nil, time.Second, nil)
	if err != nil {
		return err
	}
	if _, err := boundary.Activate(ctx, dispatch.Active{Registry: snapshot, Policy: none, Environment: "test", Digest: "conformance"},
		record.Who{System: "conformance"}); err != nil {
		return err
	}
	local, err := identity.NewLocal("conformance", rand.Reader, time.Now)
	if err != nil {
		return err
	}
	issuer, err := local.Issuer(audience, "http://localhost/console", []string{"conformance"})
	if err != nil {
		return err
	}
	verifier, err := identity.New(identity.Config{Issuers: []identity.Issuer{issuer}}, identity.Deps{Clock: time.Now, Log: log})
	if err != nil {
		return err
	}
	door, err := edge.New(edge.Options{Boundary: boundary, Verifier: verifier, Clock: time.Now, Random: rand.Reader, Log: log, Tool: snapshot.Tool})
	if err != nil {
		return err
	}
	defer door.Close()
	token, err := local.Sign(identity.TokenSpec{Audience: audience, Subject: "suite", Tenant: "conformance", Agent: "suite", TTL: 12 * time.Hour})
	if err != nil {
		return err
	}
	return serve(ctx, listen, door, token)
}

// serve puts the door on a listener of its own and the proxy before it.
func serve(ctx context.Context, listen string, door *edge.Handler, token string) error {
	mux := http.NewServeMux()
	door.Mount(mux)
	behind, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	front, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	target := &url.URL{Scheme: "http", Host: behind.Addr().String()}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+token)
	}}
	failed := make(chan error, 2)
	for l, h := range map[net.Listener]http.Handler{behind: mux, front: proxy} {
		server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
		defer server.Close()
		go func() { failed <- server.Serve(l) }()
	}
	fmt.Printf("http://%s/mcp\n", front.Addr())
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// admitAll writes a registry that admits and pins everything the server offers.
// Its tools have no effects, so all of them count as reads.
func admitAll(ctx context.Context, upstream string, invoker *mcp.Invoker) (*registry.Snapshot, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nservers: {up: {url: %q, input_required: true, sampling: true}}\ndefaults: {per_minute: 0, concurrent: 0}\n", upstream)
	parse := func(text string, lock []byte) (*registry.Snapshot, error) {
		return registry.Parse([]registry.Source{{Name: "tools.yaml", Text: []byte(text), Lock: lock}}, registry.Options{Environment: "test"})
	}
	empty, err := parse(b.String()+"tools: {}\n", nil)
	if err != nil {
		return nil, err
	}
	server, ok := empty.Server("up")
	if !ok {
		return nil, fmt.Errorf("the registry lacks its server")
	}
	offers, err := invoker.ListOffers(ctx, server)
	if err != nil {
		return nil, err
	}
	readable, err := invoker.ListReadable(ctx, server)
	if err != nil {
		return nil, err
	}
	b.WriteString("tools:\n")
	lock := registry.NewLock()
	for i, o := range append(offers, readable...) {
		name, key := o.Name, "tool"
		switch o.Method {
		case registry.MethodResource:
			name, key = fmt.Sprintf("resource_%d", i), "resource"
		case registry.MethodPrompt:
			key = "prompt"
		}
		if strings.HasPrefix(name, "_") {
			continue // not a name that a registry may hold
		}
		pin, err := registry.PinOf(o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Name, err)
		}
		admit := func(name, key, of string) {
			fmt.Fprintf(&b, "  %s: {server: up, %s: %q, read: true, callers: {tenants: [conformance]}}\n", name, key, of)
			lock.Tools[name] = registry.LockedTool{Server: "up", Pin: pin}
		}
		admit(name, key, o.Name)
		if o.Method != registry.MethodTool && strings.Contains(string(o.InputSchema), `"required"`) {
			admit("complete_"+name, "completes", name)
		}
	}
	pins, err := lock.Write()
	if err != nil {
		return nil, err
	}
	snapshot, err := parse(b.String(), pins)
	if err != nil {
		return nil, err
	}
	for _, q := range snapshot.Quarantined() {
		return nil, fmt.Errorf("%s is quarantined: %s", q.Tool.Name, q.Reason)
	}
	return snapshot, nil
}
