package demo

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/placet-dev/placet"
	"github.com/placet-dev/placet/edge/llm/llmtest"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/registry"
	toolmcp "github.com/placet-dev/placet/tool/mcp"
)

//go:embed files policy/main.rego
var files embed.FS

// house is the demo's folder, processes and listeners.
type house struct {
	dir      string
	self     []string
	desk     *net.TCPListener
	door     *net.TCPListener
	helpdesk *process
	gateway  *process
	issuer   *identity.Local

	model       *llmtest.Provider // a stand-in of a model, in this process
	modelDoor   *net.TCPListener
	modelServer *http.Server
}

// build starts everything. Whatever it returns must be torn down.
func build(ctx context.Context, self []string) (*house, error) {
	h := &house{self: self}
	dir, err := os.MkdirTemp("", "placet-demo-")
	if err != nil {
		return h, fmt.Errorf("make the demo's folder: %w", err)
	}
	h.dir = dir
	if h.desk, err = listen(); err != nil {
		return h, err
	}
	if h.door, err = listen(); err != nil {
		return h, err
	}
	if h.modelDoor, err = listen(); err != nil {
		return h, err
	}
	h.model = &llmtest.Provider{}
	h.modelServer = &http.Server{Handler: h.model, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = h.modelServer.Serve(h.modelDoor) }() // it ends when the house is torn down
	if err := (deskSettings{Issuer: h.url(), Audience: h.deskURL()}).write(dir); err != nil {
		return h, err
	}
	if h.helpdesk, err = start(ctx, self, roleHelpdesk, dir, h.desk); err != nil {
		return h, err
	}
	if err := h.configure(ctx); err != nil {
		return h, fmt.Errorf("configure the demo: %w", err)
	}
	return h, h.open(ctx)
}

func listen() (*net.TCPListener, error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("listen on loopback: %w", err)
	}
	return l, nil
}

func (h *house) open(ctx context.Context) (err error) {
	h.gateway, err = start(ctx, h.self, roleGateway, h.dir, h.door)
	return err
}

// tear ends both processes and removes the folder.
func (h *house) tear() error {
	for _, p := range []*process{h.gateway, h.helpdesk} {
		if p != nil {
			p.stop()
		}
	}
	var errs []error
	if h.modelServer != nil {
		errs = append(errs, h.modelServer.Close())
	}
	for _, l := range []*net.TCPListener{h.door, h.desk} {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	if h.dir != "" {
		errs = append(errs, os.RemoveAll(h.dir))
	}
	return errors.Join(errs...)
}

// configure writes what an operator would: configuration, registry, policy, the
// development issuer, and the lock with what the help desk offers.
func (h *house) configure(ctx context.Context) (err error) {
	replace := strings.NewReplacer("{listen}", h.door.Addr().String(), "{helpdesk}", h.deskURL(), "{model}", "http://"+h.modelDoor.Addr().String())
	for from, to := range map[string]string{
		"files/placet.yaml": "placet.yaml", "files/tools.yaml": "tools.yaml", "policy/main.rego": "policy/main.rego",
	} {
		text, err := fs.ReadFile(files, from)
		if err != nil {
			return err
		}
		to = filepath.Join(h.dir, filepath.FromSlash(to))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(to, []byte(replace.Replace(string(text))), 0o600); err != nil {
			return err
		}
	}
	if h.issuer, err = identity.NewLocal(placet.LocalIssuer, rand.Reader, time.Now); err != nil {
		return err
	}
	if err := h.issuer.Save(filepath.Join(h.dir, issuerFile)); err != nil {
		return err
	}
	return h.pin(ctx)
}

// pin lists the help desk's tools once, calls none, and writes the lock for those
// that the registry names, as placet tools add does.
func (h *house) pin(ctx context.Context) error {
	file := filepath.Join(h.dir, "tools.yaml")
	snapshot, err := registry.Load([]string{file}, registry.Options{Environment: "development"})
	if err != nil {
		return err
	}
	servers := toolmcp.New(toolmcp.Options{Version: "demo"})
	defer func() { _ = servers.Close() }() // nothing was called that could be lost
	lock := registry.NewLock()
	for server := range snapshot.Servers() {
		offers, err := servers.ListOffers(ctx, server)
		if err != nil {
			return err
		}
		for _, offer := range offers {
			tool, named := snapshot.ByUpstream(server.Name, offer.Name)
			if !named {
				continue
			}
			pin, err := registry.PinOf(offer)
			if err != nil {
				return err
			}
			lock.Tools[tool.Name] = registry.LockedTool{Server: server.Name, Pin: pin}
		}
	}
	text, err := lock.Write()
	if err != nil {
		return err
	}
	return os.WriteFile(registry.LockPath(file), text, 0o600)
}

func (h *house) url() string        { return "http://" + h.door.Addr().String() }
func (h *house) deskURL() string    { return "http://" + h.desk.Addr().String() + "/mcp" }
func (h *house) ledgerPath() string { return filepath.Join(h.dir, ledgerFile) }

// restart kills the gateway and opens it again on the same store and port. between
// runs while it is dead.
func (h *house) restart(ctx context.Context, between func() error) (away time.Duration, err error) {
	begin := time.Now()
	h.gateway.kill()
	h.gateway = nil
	if err := between(); err != nil {
		return 0, err
	}
	if err := h.open(ctx); err != nil {
		return 0, err
	}
	return time.Since(begin), nil
}
