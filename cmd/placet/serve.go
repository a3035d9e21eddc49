package main

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	placet "github.com/placet-dev/placet"
	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/record"
)

type serveCommand struct {
	configFlag
}

func (c serveCommand) Run(ctx context.Context, p *program) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	return p.serve(ctx, cfg, p.options(cfg))
}

// listening is the line that says where the server answers.
type listening struct {
	Listening string `json:"listening"`
	URL       string `json:"url"`
	MCP       string `json:"mcp"`
	SignIn    string `json:"sign_in,omitempty"` // the development issuer
	Console   string `json:"console,omitempty"` // where people answer, if they can sign in
	Metrics   string `json:"metrics,omitempty"` // for Prometheus
}

func (l listening) say(p *program) {
	p.say("listening on %s", l.URL)
	if l.Console != "" {
		p.say("console at %s", l.Console)
	}
	if l.Metrics != "" {
		p.say("metrics at %s", l.Metrics)
	}
	if l.SignIn != "" {
		p.say("sign in at %s (development only: whoever opens it may be anybody there)", l.SignIn)
	}
}

// serve runs a server until ctx ends or the store breaks. The listener comes
// first: with port 0 the audience of tokens depends on it.
func (p *program) serve(ctx context.Context, cfg *config.Config, o placet.Options) (err error) {
	certificates, err := certificates(cfg)
	if err != nil {
		return err
	}
	l, err := listen(cfg)
	if err != nil {
		return err
	}
	defer func() {
		if closed := l.Close(); err == nil && !errors.Is(closed, net.ErrClosed) {
			err = closed
		}
	}()
	open, err := placet.Open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, open.Close()) }()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	s := newHost(certificates, open.Handler(), o.Log)
	s.finish, s.leave = cfg.Stop.Finish, open.Leave
	failed := make(chan error, 2)
	go func() { failed <- s.run(l) }()
	at := listening{Listening: cfg.Listen, URL: cfg.PublicURL, MCP: cfg.Audience()}
	if cfg.Telemetry.Metrics != "" {
		m, address, err := metrics(cfg.Telemetry.Metrics, open.Metrics(), o.Log, failed)
		if err != nil {
			return errors.Join(err, s.stop())
		}
		defer m.Close()
		at.Metrics = "http://" + address + "/metrics"
	}
	if i := open.Issuer(); i != nil {
		at.SignIn = i.URL() + "/"
	}
	if at.SignIn != "" || cfg.Console != nil {
		at.Console = cfg.ConsoleAudience()
	}
	if err := p.out(at, func() { at.say(p) }); err != nil {
		return errors.Join(err, s.stop())
	}
	for {
		select {
		case <-ctx.Done():
			o.Log.Info("stopping", "announced_for", cfg.Stop.Announce, "finish_within", cfg.Stop.Finish)
			open.Announce()
			s.server.SetKeepAlivesEnabled(false)
			select {
			case <-time.After(cfg.Stop.Announce):
			case <-open.Broken():
			}
			return s.stop()
		case <-open.Broken():
			return errors.Join(record.Errorf(record.Unavailable, "the store can no longer tell what is recorded; this process ends, start it again"), s.stop())
		case err := <-failed:
			return errors.Join(record.Because(record.Unavailable, err, "the server stopped"), s.stop())
		case <-hangup:
			p.hangup(ctx, open, o.Log)
		}
	}
}

// metrics serves them on a listener of their own.
func metrics(address string, h http.Handler, log *slog.Logger, failed chan<- error) (*http.Server, string, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, "", record.Because(record.Invalid, err, "telemetry.metrics: cannot listen on %s", address)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", h)
	s := &http.Server{Handler: mux, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	}()
	return s, l.Addr().String(), nil
}

// hangup prints what reading the files again would change, and then activates it.
// On any error the version before stays.
func (p *program) hangup(ctx context.Context, open *placet.Placet, log *slog.Logger) {
	plan, err := open.Plan(ctx)
	if err == nil {
		p.plan("planned", plan.Generation, plan.Changed, plan.Lines())
		plan, err = open.Reload(ctx, record.Who{System: "SIGHUP"}, plan.Version)
	}
	if err != nil {
		log.Error("not reloaded; the version before stays", "error", err)
		_ = p.out(planView{Step: "refused", Error: err.Error()}, func() { p.say("not reloaded, the version before stays: %s", err) })
		return
	}
	log.Info("reloaded", "generation", plan.Generation, "changed", plan.Changed)
	p.plan("active", plan.Generation, plan.Changed, nil)
}

// planView is a plan as it is printed.
type planView struct {
	Step       string   `json:"step"` // planned, active or refused
	Generation int64    `json:"generation,omitempty"`
	Changed    bool     `json:"changed"`
	Plan       []string `json:"plan,omitempty"`
	Error      string   `json:"error,omitempty"`
}

func (p *program) plan(step string, generation int64, changed bool, lines []string) {
	// A plan that cannot be printed is no reason to keep an old version.
	_ = p.out(planView{Step: step, Generation: generation, Changed: changed, Plan: lines}, func() {
		switch {
		case step == "active":
			p.say("active: version %d", generation)
		case !changed:
			p.say("plan: nothing changes")
		default:
			p.say("plan:")
			for _, line := range lines {
				p.say("  %s", safe(line))
			}
		}
	})
}

// host is the HTTP server.
type host struct {
	finish  time.Duration // how long requests under way may take when it stops
	leave   func()        // lets go who is held
	server  *http.Server
	streams context.Context // ends when the server stops
	end     context.CancelFunc
}

func newHost(certificates *tls.Config, h http.Handler, log *slog.Logger) *host {
	s := &host{}
	s.streams, s.end = context.WithCancel(context.Background())
	s.server = &http.Server{
		Handler: s.endStreams(h), TLSConfig: certificates, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		// No WriteTimeout: event streams and held calls write late.
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	return s
}

func (s *host) run(l net.Listener) error {
	if s.server.TLSConfig != nil {
		return s.server.ServeTLS(l, "", "")
	}
	return s.server.Serve(l)
}

// endStreams ends event streams, which would last for minutes, and requests that
// wait for news, when the server stops. Calls under way are not touched.
func (s *host) endStreams(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && (strings.Contains(r.Header.Get("Accept"), "text/event-stream") || strings.HasSuffix(r.URL.Path, "/stream") ||
			r.URL.Path == "/v1/approvals/events" || r.URL.Query().Has("wait")) {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(s.streams, cancel)()
			r = r.WithContext(ctx)
		}
		h.ServeHTTP(w, r)
	})
}

// stop takes no new requests, lets go who is held, gives what executes some time, and
// ends.
func (s *host) stop() error {
	s.leave()
	s.end()
	ctx, cancel := context.WithTimeout(context.Background(), s.finish)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		return s.server.Close()
	}
	return nil
}
