package sqlite

import (
	"context"
	"errors"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const (
	emissionFields  = `tenant, id, issuer, subject, agent, run, lineage, turn, provider, request, response, position, label, tool, digest, occurrence, state, call, at`
	insertEmission  = `INSERT INTO emissions (` + emissionFields + `) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`
	consumeEmission = `UPDATE emissions SET state = 'consumed', call = ? WHERE tenant = ? AND id = ?`
	retireEmission  = `UPDATE emissions SET state = 'retired' WHERE tenant = ? AND id = ? AND state = 'open'`
	selectEmission  = `SELECT ` + emissionFields + ` FROM emissions WHERE tenant = ? AND id = ?`
	selectMatching  = `SELECT ` + emissionFields + ` FROM emissions INDEXED BY emissions_match
		WHERE tenant = ? AND lineage = ? AND tool = ? AND digest = ? AND at > ? AND state = 'open'
		AND EXISTS (SELECT 1 FROM runs WHERE runs.tenant = emissions.tenant AND runs.id = emissions.run AND runs.turn = emissions.turn AND runs.state <> 'terminated')
		ORDER BY at, position, id LIMIT 1`
	selectOpenEmissions = `SELECT ` + emissionFields + ` FROM emissions INDEXED BY emissions_run WHERE tenant = ? AND run = ? AND state = 'open' ORDER BY at, position, id LIMIT ?`
	selectLabelled      = `SELECT ` + emissionFields + ` FROM emissions INDEXED BY emissions_label WHERE tenant = ? AND lineage = ? AND label = ? AND label <> '' ORDER BY at, position, id LIMIT ?`
	countEmissions      = `SELECT EXISTS (SELECT 1 FROM emissions)`

	upsertModelRequest = `INSERT INTO model_requests (tenant, run, digest, id, provider, at) VALUES (?,?,?,?,?,?)
		ON CONFLICT (tenant, run, digest) DO UPDATE SET id = excluded.id, provider = excluded.provider, at = excluded.at`
	selectNewestRequest = `SELECT id, provider, digest, at FROM model_requests INDEXED BY model_requests_newest WHERE tenant = ? AND run = ? ORDER BY at DESC, id DESC LIMIT 1`
	selectEqualRequest  = `SELECT id, provider, digest, at FROM model_requests WHERE tenant = ? AND run = ? AND digest = ?`
	insertModelObject   = `INSERT INTO model_objects (tenant, provider, id, run) VALUES (?,?,?,?) ON CONFLICT DO NOTHING`
	selectModelObject   = `SELECT run FROM model_objects WHERE tenant = ? AND provider = ? AND id = ?`
)

func scanEmission(s *sqlite.Stmt) (record.Emission, error) {
	col := &columns{stmt: s}
	e := record.Emission{Owner: record.Owner{Tenant: record.TenantID(col.text())}, ID: record.EmissionID(col.text())}
	e.Principal = record.Principal{Issuer: col.text(), Subject: col.text()}
	e.Agent, e.Run, e.Lineage, e.Turn = record.AgentID(col.text()), record.RunID(col.text()), record.LineageID(col.text()), record.Turn(col.int())
	e.Provider, e.Request, e.Response, e.Position = col.text(), col.digest(), col.text(), int(col.int())
	e.Label, e.Tool, e.Digest, e.Occurrence = col.text(), col.text(), col.digest(), col.text()
	e.State, e.Call, e.At = record.EmissionState(col.text()), record.CallID(col.text()), col.time()
	return e, col.err
}

// Emission implements dispatch.Store.
func (s *Store) Emission(ctx context.Context, tenant record.TenantID, lineage record.LineageID, tool string, digest canon.Digest, since time.Time) (e *record.Emission, err error) {
	if !s.writer.emitted.Load() {
		return nil, nil
	}
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return each(conn, selectMatching, func(s *sqlite.Stmt) error {
			found, err := scanEmission(s)
			e = &found
			return err
		}, tenant, lineage, tool, digest[:], micro(since))
	})
	return e, err
}

// OpenEmissions implements dispatch.Store.
func (s *Store) OpenEmissions(ctx context.Context, tenant record.TenantID, run record.RunID, n int) ([]record.Emission, error) {
	return s.emissions(ctx, selectOpenEmissions, tenant, run, int64(n))
}

// labels returns the emissions under a label, oldest first.
func (s *Store) labels(ctx context.Context, tenant record.TenantID, lineage record.LineageID, label string, n int) ([]record.Emission, error) {
	if label == "" || !s.writer.emitted.Load() {
		return nil, nil
	}
	return s.emissions(ctx, selectLabelled, tenant, lineage, label, int64(n))
}

func (s *Store) emissions(ctx context.Context, query string, args ...any) (out []record.Emission, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return each(conn, query, func(s *sqlite.Stmt) error {
			e, err := scanEmission(s)
			out = append(out, e)
			return err
		}, args...)
	})
	return out, err
}

// Requests implements dispatch.Store.
func (s *Store) Requests(ctx context.Context, tenant record.TenantID, run record.RunID, digest canon.Digest) (newest, equal record.ModelRequest, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		one := func(into *record.ModelRequest, query string, args ...any) error {
			return each(conn, query, func(s *sqlite.Stmt) error {
				col := &columns{stmt: s}
				*into = record.ModelRequest{Tenant: tenant, Run: run, ID: col.text(), Provider: col.text(), Digest: col.digest(), At: col.time()}
				return col.err
			}, args...)
		}
		return errors.Join(one(&newest, selectNewestRequest, tenant, run), one(&equal, selectEqualRequest, tenant, run, digest[:]))
	})
	return newest, equal, err
}

// KeptFor implements dispatch.Store.
func (s *Store) KeptFor(ctx context.Context, tenant record.TenantID, provider, id string) (run record.RunID, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error { run, err = keptFor(conn, tenant, provider, id); return err })
	return run, err
}

func keptFor(conn *sqlite.Conn, tenant record.TenantID, provider, id string) (run record.RunID, err error) {
	_, err = row(conn, selectModelObject, func(s *sqlite.Stmt) { run = record.RunID(s.ColumnText(0)) }, tenant, provider, id)
	return run, err
}

// Labelled implements dispatch.Store.
func (s *Store) Labelled(ctx context.Context, tenant record.TenantID, lineage record.LineageID, label string, n int) (out []dispatch.Labelled, err error) {
	emitted, err := s.labels(ctx, tenant, lineage, label, n)
	if err != nil {
		return nil, err
	}
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		seen := map[record.CallID]bool{}
		for i := range emitted {
			told := dispatch.Labelled{Emission: &emitted[i]}
			if id := emitted[i].Call; id != "" {
				l, err := loadCall(conn, tenant, id)
				if err != nil {
					return err
				}
				told.Call, seen[id] = &l.Call, true
			}
			run, ok, err := selectRun(conn, runKey{tenant, emitted[i].Run})
			if err != nil {
				return err
			}
			if ok {
				told.Run = run
			}
			out = append(out, told)
		}
		var named *record.Call
		err := each(conn, selectSame, func(s *sqlite.Stmt) error {
			c, err := scanCall(s)
			named = &c
			return err
		}, tenant, lineage, label)
		if err != nil {
			return err
		}
		if named == nil && record.ValidID("call", label) {
			switch l, err := loadCall(conn, tenant, record.CallID(label)); {
			case err == nil:
				named = &l.Call
			case record.KindOf(err) != record.NotFound:
				return err
			}
		}
		if named != nil && named.Lineage == lineage && !seen[named.ID] {
			out = append(out, dispatch.Labelled{Call: named})
		}
		return nil
	})
	return out, err
}

// mayEmit checks what a move of emissions needs, before anything is written.
func (w *writer) mayEmit(m *record.EmissionMove) error {
	if m == nil {
		return nil
	}
	conflict := func(what string) error { return &record.Refusal{Kind: record.RefusedConflict, What: what} }
	if use := m.Consume; use != nil {
		var e record.Emission
		var scan error
		found, err := w.row(selectEmission, func(s *sqlite.Stmt) { e, scan = scanEmission(s) }, use.Tenant, string(use.ID))
		switch {
		case err != nil || scan != nil:
			return errors.Join(err, scan)
		case !found:
			return conflict("there is no such emission")
		}
		run, ok, err := w.loadRun(runKey{e.Tenant, e.Run})
		switch {
		case err != nil:
			return err
		case !ok || !run.Live() || run.Turn != e.Turn || e.State != record.EmissionOpen:
			return conflict("the emission counts no longer")
		}
	}
	for _, o := range m.Objects {
		run, err := keptFor(w.conn, o.Tenant, o.Provider, o.ID)
		if err != nil {
			return err
		}
		if run != "" && run != o.Run {
			return conflict("the provider's object is another run's")
		}
	}
	return nil
}

func (w *writer) putEmissions(m *record.EmissionMove) error {
	if m == nil {
		return nil
	}
	for _, e := range m.Add {
		w.emitted.Store(true) // before the commit: too early reads the table for nothing
		if err := w.run(insertEmission, e.Tenant, string(e.ID), e.Principal.Issuer, e.Principal.Subject, e.Agent, e.Run, e.Lineage, int64(e.Turn),
			e.Provider, e.Request[:], e.Response, int64(e.Position), e.Label, e.Tool, e.Digest[:], e.Occurrence, string(e.State), e.Call, micro(e.At)); err != nil {
			return err
		}
	}
	for _, r := range m.Retire {
		if err := w.run(retireEmission, r.Tenant, string(r.ID)); err != nil {
			return err
		}
	}
	if use := m.Consume; use != nil {
		if err := w.run(consumeEmission, use.Call, use.Tenant, string(use.ID)); err != nil {
			return err
		}
	}
	for _, o := range m.Objects {
		if err := w.run(insertModelObject, o.Tenant, o.Provider, o.ID, o.Run); err != nil {
			return err
		}
	}
	if a := m.Asked; a != nil {
		return w.run(upsertModelRequest, a.Tenant, a.Run, a.Digest[:], a.ID, a.Provider, micro(a.At))
	}
	return nil
}
