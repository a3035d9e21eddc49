package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/store/postgres"
)

const (
	changeCallers = 64
	everybodys    = "everybody's" // the counter that all callers share, where it is hot
)

// newChanges opens a store whose callers reserve calls: each change is the most that
// one does on the way of a call, with its premise, an effect's version, and two limits.
// what is "own" or "hot", which says whether one counter is everybody's, and where the
// database is.
func newChanges(ctx context.Context, what string) (*side, func() error, error) {
	kind, dsn, _ := strings.Cut(what, " ")
	store, err := postgres.Open(ctx, dsn, postgres.Options{})
	if err != nil {
		return nil, nil, err
	}
	runs := make([]record.Run, changeCallers)
	for i := range runs {
		if runs[i], err = openRun(ctx, store, i); err != nil {
			return nil, nil, errors.Join(err, store.Close())
		}
	}
	var serial atomic.Int64
	return &side{name: "placet", call: func(ctx context.Context, caller int) error {
		change, err := reservation(runs[caller], serial.Add(1), kind == "hot")
		if err != nil {
			return err
		}
		return store.Apply(ctx, change)
	}}, store.Close, nil
}

func openRun(ctx context.Context, store *postgres.Store, caller int) (record.Run, error) {
	now := time.Now()
	id, err := record.NewID("run", now, rand.Reader)
	if err != nil {
		return record.Run{}, err
	}
	lineage, err := record.NewID("lin", now, rand.Reader)
	if err != nil {
		return record.Run{}, err
	}
	o := record.Owner{Tenant: tenant, Principal: record.Principal{Issuer: "https://idp.example.com", Subject: fmt.Sprintf("user-%03d", caller)}, Agent: "bench"}
	open := record.OpenRun(record.Run{Owner: o, ID: record.RunID(id), Lineage: record.LineageID(lineage), Vouched: true, Turn: 1, Opened: now, Active: now}, o.By())
	return open.Facts().Run.After, store.Apply(ctx, open)
}

// reservation is one change: a call's row, two events, an effect's and two counters'.
func reservation(r record.Run, n int64, hot bool) (record.Change, error) {
	now := time.Now()
	id, err := record.NewID("call", now, rand.Reader)
	if err != nil {
		return record.Change{}, err
	}
	arguments := fmt.Appendf(nil, `{"customer":"c-%08d","run":%q,"table":"orders"}`, n, r.ID)
	c := record.Call{Owner: r.Owner, ID: record.CallID(id), Run: r.ID, Lineage: r.Lineage, Turn: r.Turn,
		Tool:      record.ToolRef{Name: toolName, Server: "desk", Version: canon.Of("version"), Pin: canon.Of("pin")},
		Arguments: arguments, Digest: record.ArgumentDigest(arguments, nil), Effect: record.NewEffectKey(r.Owner, toolName, arguments),
		Source: record.Direct, Route: record.RouteAPI, Attempts: 1, Proposed: now, Changed: now, Expires: now.Add(time.Hour)}
	of := func(name string) record.Counter { return record.CounterFor(name, string(r.ID)) }
	shared := of("tool")
	if hot {
		shared = everybodys
	}
	return record.Reserve(c, record.Step{At: now, Who: r.By(), Decision: record.Decision{Verdict: record.Allow, At: now},
		Premise: &record.Premise{Tenant: r.Tenant, Run: r.ID, Owner: r.Owner, Turn: r.Turn, Seen: []record.Seen{{Key: c.Effect}}},
		Charges: []record.Charge{{Counter: shared, Amount: 1, Limit: 1 << 40}, {Counter: of("minute"), Amount: 1, Limit: 1 << 40, Window: time.Minute}},
	}, now.Add(time.Minute), nil, nil)
}
