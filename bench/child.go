package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// The roles of the processes that the gateway measurement starts.
const (
	childRole    = "bench-child"
	roleUpstream = "upstream" // a go-sdk server with one tool, which counts
	roleProxy    = "proxy"    // a bare go-sdk pass-through before it, as Go runs it
	roleTuned    = "tuned"    // the same with Placet's setting of the garbage collector
	rolePlacet   = "placet"   // Placet before it, as placet serve runs it
)

const (
	listenerFD = 3
	readyLine  = "ready\n"
	startWait  = 30 * time.Second
)

// child serves one role until its input ends. args are the role, its argument and
// the folder for a profile, which may be empty.
func child(ctx context.Context, args []string) error {
	signal.Ignore(os.Interrupt) // the parent ends this one
	if len(args) != 3 {
		return errors.New("this is started by the benchmark, not by hand")
	}
	if slices.Contains([]string{roleCalls, roleRows, roleChanges}, args[0]) {
		stop, err := profileTo(args[2], args[0])
		if err != nil {
			return err
		}
		return errors.Join(drives(ctx, args[0], args[1], os.Stdin, os.Stdout), stop())
	}
	l, err := net.FileListener(os.NewFile(listenerFD, "listener"))
	if err != nil {
		return err
	}
	handler, end, err := roleHandler(ctx, args[0], args[1])
	if err != nil {
		return errors.Join(err, l.Close())
	}
	stop, err := profileTo(args[2], args[0])
	if err != nil {
		return errors.Join(err, l.Close(), end())
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	if _, err := io.WriteString(os.Stdout, readyLine); err != nil {
		return err
	}
	select {
	case err = <-served:
	case <-ended:
	}
	return errors.Join(err, stop(), s.Close(), end())
}

func roleHandler(ctx context.Context, role, argument string) (http.Handler, func() error, error) {
	none := func() error { return nil }
	switch role {
	case roleUpstream:
		return newUpstream(), none, nil
	case roleProxy, roleTuned:
		if role == roleProxy {
			debug.SetGCPercent(100)
		}
		h, err := newProxy(ctx, argument)
		return h, none, err
	case rolePlacet, roleWaiting:
		p, _, err := open(ctx, argument, nil)
		if err != nil {
			return nil, nil, err
		}
		handler := p.Handler()
		if role == roleWaiting {
			handler = withGoroutines(handler)
		}
		return handler, p.Close, nil
	}
	return nil, nil, fmt.Errorf("there is no role %q", role)
}

// process is a child that serves.
type process struct {
	address string
	cmd     *exec.Cmd
	input   io.Closer
}

// listen opens a port that a child will serve.
func listen() (*net.TCPListener, error) {
	return net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
}

// start runs this program again in a role, on the listener, and waits until it serves.
func (b *bench) start(role, argument string, l *net.TCPListener) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	file, err := l.File()
	if err != nil {
		return nil, err
	}
	p := &process{address: l.Addr().String(), cmd: exec.Command(self, childRole, role, argument, b.profile)}
	if err := errors.Join(l.Close()); err != nil {
		return nil, err
	}
	defer file.Close()
	p.cmd.ExtraFiles = []*os.File{file}
	var said strings.Builder
	p.cmd.Stderr = &said
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	timeout := time.AfterFunc(startWait, func() { _ = p.cmd.Process.Kill() })
	defer timeout.Stop()
	line := make([]byte, len(readyLine))
	if _, err := io.ReadFull(out, line); err != nil {
		_ = p.stop()
		return nil, fmt.Errorf("the %s does not serve: %s", role, strings.TrimSpace(said.String()))
	}
	return p, nil
}

// stop ends the child and waits for it.
func (p *process) stop() error {
	if p == nil {
		return nil
	}
	return errors.Join(p.input.Close(), p.cmd.Wait())
}
