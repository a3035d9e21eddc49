package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/placet-dev/placet"
	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/store/postgres/pgtest"
	"github.com/placet-dev/placet/tool/local"
)

// callers call at the same time, each a principal of its own.
const callers = 16

// Limits are on and counted, and too wide to be met.
const configText = `version: 1
environment: production
store: %q
registry: [tools.yaml]
runs: {calls_per_run: 1000000000, proposals_open: 1000000, proposals_open_turn: 1000000, proposals_open_principal: 1000000}
quota: {events: 1000000000}
telemetry: {log: error}
`

// filled is a store of a size, open.
type filled struct {
	n       int
	placet  *placet.Placet
	issuer  *identity.Local
	callers []identity.Caller
	ran     atomic.Int64  // what the tool itself counted
	called  atomic.Int64  // arguments, so that no two calls are equal
	opening time.Duration // how long the program took to open it
	costs   []float64     // µs a call, by round
}

// fill makes a store, has it record one call, and copies that.
func (s *scale) fill(ctx context.Context, dir string, server *pgtest.Server, n int) (*filled, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	store, name := "sqlite:state.db", filepath.Base(dir)
	variables := map[string]string{}
	if server != nil {
		store, variables["SCALE_STORE"] = "env:SCALE_STORE", server.DSN("owner", name)
		if _, err := server.Query("postgres", "CREATE DATABASE "+name); err != nil {
			return nil, err
		}
	}
	for name, text := range map[string]string{"placet.yaml": fmt.Sprintf(configText, store), "tools.yaml": "version: 1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	f := &filled{n: n}
	var err error
	if f.issuer, err = identity.NewLocal(placet.LocalIssuer, rand.Reader, time.Now); err != nil {
		return nil, err
	}
	if err := f.open(ctx, dir, variables); err != nil {
		return nil, err
	}
	if err := errors.Join(f.drive(ctx, 1, 1), f.close()); err != nil {
		return nil, err
	}
	var db database
	if server == nil {
		db, err = openFile(ctx, dir)
	} else {
		db, err = openShared(ctx, server, name)
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(multiply(ctx, db, n), db.close(ctx)); err != nil {
		return nil, err
	}
	began := time.Now()
	err = f.open(ctx, dir, variables)
	f.opening = time.Since(began)
	return f, err
}

// open opens Placet as an embedding program does, with a tool that does nothing but count.
func (f *filled) open(ctx context.Context, dir string, variables map[string]string) error {
	c, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		return err
	}
	none := 0
	tool := placet.Tool{Name: "act", Description: "Acts.", InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`),
		Entry: registry.Entry{Scope: "act", Write: true, Sources: []registry.SourceName{"direct"}, Approval: registry.Asking{When: registry.Asked},
			PerMinute: &none, Concurrent: &none},
		Handler: func(context.Context, local.Call) (json.RawMessage, error) {
			f.ran.Add(1)
			return json.RawMessage(`{"content":[]}`), nil
		}}
	f.placet, err = placet.Open(ctx, placet.Options{Config: c, Local: f.issuer, Tenants: []string{"acme"}, Tools: []placet.Tool{tool}, Version: "scale",
		LookupEnv: func(name string) (string, bool) { v, ok := variables[name]; return v, ok }})
	if err != nil {
		return err
	}
	f.callers = nil
	for i := range callers {
		bearer, err := f.issuer.Sign(identity.TokenSpec{Audience: c.Audience(), Subject: fmt.Sprintf("user-%02d", i), Tenant: "acme", Agent: "scale", Scopes: []string{"act"}, TTL: 24 * time.Hour})
		if err != nil {
			return err
		}
		caller, err := f.placet.Verifier().Caller(ctx, identity.Credentials{Bearer: bearer})
		if err != nil {
			return err
		}
		f.callers = append(f.callers, caller)
	}
	return nil
}

func (f *filled) close() error {
	if f.placet == nil {
		return nil
	}
	return f.placet.Close()
}

// drive has callers make calls in all, each of which must run.
func (f *filled) drive(ctx context.Context, callers, calls int) error {
	var left atomic.Int64
	left.Store(int64(calls))
	before := f.ran.Load()
	failed := make([]error, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for left.Add(-1) >= 0 && failed[i] == nil {
				a, err := f.placet.Do(ctx, dispatch.Proposal{Caller: f.callers[i], Tool: "act", Arguments: fmt.Appendf(nil, `{"n":%d}`, f.called.Add(1))})
				if err == nil && a.State() != record.Succeeded {
					err = fmt.Errorf("a call that is allowed ended %s: %s", a.State(), a.Text())
				}
				failed[i] = err
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	if ran := f.ran.Load() - before; ran != int64(calls) {
		return fmt.Errorf("%d calls were answered, and the tool ran %d times", calls, ran)
	}
	return nil
}

// measure drives the stores in turn, there and back, so that what disturbs the machine
// disturbs neighbours alike.
func (s *scale) measure(ctx context.Context, stores []*filled) error {
	for _, f := range stores {
		if err := f.drive(ctx, callers, s.calls); err != nil { // what is warm afterwards is warm for all
			return err
		}
		f.costs = make([]float64, s.rounds)
	}
	for round := range s.rounds {
		order := slices.Clone(stores)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, f := range order {
			began := time.Now()
			if err := f.drive(ctx, callers, s.calls); err != nil {
				return err
			}
			f.costs[round] = float64(time.Since(began).Microseconds()) / float64(s.calls)
		}
	}
	return nil
}
