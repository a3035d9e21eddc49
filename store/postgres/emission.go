package postgres

import (
	"context"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const (
	emissionFields = `tenant, id, issuer, subject, agent, run, lineage, turn, provider, request, response, position, label, tool, digest, occurrence, state, call, at`
	selectMatching = `SELECT ` + emissionFields + ` FROM emissions
		WHERE tenant = $1 AND lineage = $2 AND tool = $3 AND digest = $4 AND at > $5 AND state = 'open'
		AND EXISTS (SELECT 1 FROM runs WHERE runs.tenant = emissions.tenant AND runs.id = emissions.run AND runs.turn = emissions.turn AND runs.state <> 'terminated')
		ORDER BY at, position, id LIMIT 1`
	selectOpenEmissions = `SELECT ` + emissionFields + ` FROM emissions WHERE tenant = $1 AND run = $2 AND state = 'open' ORDER BY at, position, id LIMIT $3`
	selectLabelled      = `SELECT ` + emissionFields + ` FROM emissions WHERE tenant = $1 AND lineage = $2 AND label = $3 AND label <> '' ORDER BY at, position, id LIMIT $4`
	selectNewestRequest = `SELECT id, provider, digest, at FROM model_requests WHERE tenant = $1 AND run = $2 ORDER BY at DESC, id DESC LIMIT 1`
	selectEqualRequest  = `SELECT id, provider, digest, at FROM model_requests WHERE tenant = $1 AND run = $2 AND digest = $3`
	selectModelObject   = `SELECT run FROM model_objects WHERE tenant = $1 AND provider = $2 AND id = $3`
)

func scanEmission(col *columns) (record.Emission, error) {
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
	err = s.read(ctx, only(tenant), ask(one(&e, scanEmission), selectMatching, string(tenant), string(lineage), tool, digest[:], micro(since)))
	return e, err
}

// OpenEmissions implements dispatch.Store.
func (s *Store) OpenEmissions(ctx context.Context, tenant record.TenantID, run record.RunID, n int) (out []record.Emission, err error) {
	err = s.read(ctx, only(tenant), ask(collect(&out, scanEmission), selectOpenEmissions, string(tenant), string(run), int64(n)))
	return out, err
}

// Requests implements dispatch.Store.
func (s *Store) Requests(ctx context.Context, tenant record.TenantID, run record.RunID, digest canon.Digest) (newest, equal record.ModelRequest, err error) {
	into := func(r *record.ModelRequest) func(*columns) error {
		return func(col *columns) error {
			*r = record.ModelRequest{Tenant: tenant, Run: run, ID: col.text(), Provider: col.text(), Digest: col.digest(), At: col.time()}
			return nil
		}
	}
	err = s.read(ctx, only(tenant), ask(into(&newest), selectNewestRequest, string(tenant), string(run)),
		ask(into(&equal), selectEqualRequest, string(tenant), string(run), digest[:]))
	return newest, equal, err
}

// KeptFor implements dispatch.Store.
func (s *Store) KeptFor(ctx context.Context, tenant record.TenantID, provider, id string) (run record.RunID, err error) {
	err = s.read(ctx, only(tenant), ask(func(c *columns) error { run = record.RunID(c.text()); return nil }, selectModelObject, string(tenant), provider, id))
	return run, err
}

// Labelled implements dispatch.Store.
func (s *Store) Labelled(ctx context.Context, tenant record.TenantID, lineage record.LineageID, label string, n int) (out []dispatch.Labelled, err error) {
	t, l := string(tenant), string(lineage)
	err = s.look(ctx, only(tenant), func(v *view) error {
		var emitted []record.Emission
		var named *record.Call
		if err := v.all(ask(collect(&emitted, scanEmission), selectLabelled, t, l, label, int64(n)),
			ask(one(&named, scanCall), selectSame, t, l, label)); err != nil {
			return err
		}
		seen := map[record.CallID]bool{}
		for i := range emitted {
			told := dispatch.Labelled{Emission: &emitted[i]}
			if id := emitted[i].Call; id != "" {
				c, err := v.loadCall(tenant, id)
				if err != nil {
					return err
				}
				told.Call, seen[id] = &c, true
			}
			run, err := v.run(runKey{tenant, emitted[i].Run})
			if err != nil {
				return err
			}
			if run != nil {
				told.Run = *run
			}
			out = append(out, told)
		}
		if named == nil && record.ValidID("call", label) {
			switch c, err := v.loadCall(tenant, record.CallID(label)); {
			case err == nil:
				named = &c
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
