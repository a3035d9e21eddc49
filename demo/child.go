package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/placet-dev/placet"
	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/issuer"
	"github.com/placet-dev/placet/yamlfile"
)

// The roles of the processes that [Run] starts.
const (
	roleHelpdesk = "helpdesk"
	roleGateway  = "gateway"
)

const (
	readyLine  = "ready\n" // what a child writes once it serves
	listenerFD = 3         // where it finds the listener that its parent opened
)

// tenant is the only one of the demo.
const tenant = "acme"

// The groups of the demo's people.
const (
	leads    = "support-leads" // tools.yaml asks them
	auditors = "auditors"      // placet.yaml lets them read
)

// deskFile is the help desk's configuration in the demo's folder.
const deskFile = "helpdesk.json"

// issuerFile holds the key that signs the demo's tokens.
const issuerFile = "issuer.json"

// Child is what the processes of the demo run; args are a role and the demo's
// folder. It serves until its input ends, which it does when the parent says so or
// is gone in any way, and returns an exit code.
func Child(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// An interrupt at the terminal reaches every process of the demo. The parent
	// ends this one when it has read what it needs.
	signal.Ignore(os.Interrupt)
	if err := child(ctx, args, stdin, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

func child(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) != 2 {
		return errors.New("this command is started by placet demo, not by hand")
	}
	listener, err := inherited()
	if err != nil {
		return err
	}
	var handler http.Handler
	var end func() error
	var broken <-chan struct{}
	switch role, dir := args[0], args[1]; role {
	case roleHelpdesk:
		handler, end, err = newHelpdesk(dir)
	case roleGateway:
		var p *placet.Placet
		if p, err = openGateway(ctx, dir, stderr); err == nil {
			handler, end, broken = p.Handler(), p.Close, p.Broken()
		}
	default:
		err = fmt.Errorf("there is no role %q", role)
	}
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	return errors.Join(serve(handler, listener, broken, stdin, stdout), end())
}

// inherited is the listener that the parent opened. The parent keeps it open too,
// so that the port stays the demo's own while the gateway is dead.
func inherited() (net.Listener, error) {
	f := os.NewFile(listenerFD, "listener")
	if f == nil {
		return nil, errors.New("this command is started by placet demo, not by hand")
	}
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("take over the listener: %w", err)
	}
	return l, nil
}

// openGateway opens Placet as an embedding program does, with the development
// issuer: whoever sits at this machine may sign in at the console as one of the cast.
func openGateway(ctx context.Context, dir string, stderr io.Writer) (*placet.Placet, error) {
	c, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		return nil, err
	}
	local, err := identity.LoadLocal(filepath.Join(dir, issuerFile), rand.Reader, time.Now)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return placet.Open(ctx, placet.Options{Config: c, Local: local, Tenants: []string{tenant}, Users: cast(), Log: log, Version: "demo"})
}

// cast may sign in at the console: one who is asked, one who is not, one who reads.
func cast() *issuer.Directory {
	d := issuer.Cast()
	d.Users = nil
	for _, u := range []struct{ subject, name, group string }{
		{"lena", "Lena, leads support", leads}, {"anna", "Anna, support", "support"}, {"omar", "Omar, audits", auditors},
	} {
		d.Users = append(d.Users, yamlfile.Entry[issuer.User]{Key: u.subject,
			Value: issuer.User{Name: u.name, Tenant: tenant, Groups: []string{u.group}}})
	}
	return d
}

// serve serves until the input ends, the store is broken or serving fails.
func serve(h http.Handler, l net.Listener, broken <-chan struct{}, stdin io.Reader, stdout io.Writer) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, stdin) // an error ends the input as well
	}()
	if _, err := io.WriteString(stdout, readyLine); err != nil {
		return errors.Join(err, s.Close())
	}
	select {
	case err := <-served:
		return err
	case <-broken:
		return errors.Join(errors.New("the store is broken"), s.Close())
	case <-ended:
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		return s.Close() // a stream that stays open is no reason to wait
	}
	return nil
}
