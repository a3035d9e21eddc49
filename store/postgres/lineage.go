package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/placet-dev/placet/record"
)

const (
	selectLineage   = `SELECT tenant, id, version, seq, salt, marks, paid, hold FROM lineages WHERE tenant = $1 AND id = $2`
	selectHeld      = `SELECT tenant, id, version, seq, salt, marks, paid, hold FROM lineages WHERE tenant = $1 AND hold <> '' AND id > $2 ORDER BY id LIMIT $3`
	selectMaterials = `SELECT seq, kind, at, call, body FROM materials WHERE tenant = $1 AND lineage = $2 AND seq > $3 AND at >= $4 ORDER BY seq LIMIT $5`

	selectEpoch    = `SELECT epoch FROM standing WHERE tenant = $1 AND issuer = $2 AND subject = $3 AND agent = $4`
	selectStanding = `SELECT agent, epoch, since,
			(SELECT count(*) FROM runs WHERE runs.tenant = s.tenant AND runs.issuer = s.issuer AND runs.subject = s.subject
				AND runs.agent = s.agent AND runs.state <> 'terminated' AND NOT runs.vouched AND runs.parent = ''),
			(SELECT count(*) FROM rejections WHERE rejections.tenant = s.tenant AND rejections.lineage = s.lineage)
		FROM standing AS s WHERE tenant = $1 AND issuer = $2 AND subject = $3 ORDER BY agent`
	selectLive = `SELECT ` + runFields + ` FROM runs WHERE tenant = $1 AND issuer = $2 AND subject = $3 AND agent = $4
		AND state <> 'terminated' AND NOT vouched AND parent = ''`

	passkeyFields  = `tenant, issuer, subject, id, public_key, name, rp_id, added, seal, count, used`
	selectPasskeys = `SELECT ` + passkeyFields + ` FROM passkeys WHERE tenant = $1 AND issuer = $2 AND subject = $3 ORDER BY added, id`
)

func scanLineage(col *columns) (record.Lineage, error) {
	l := record.Lineage{Tenant: record.TenantID(col.text()), ID: record.LineageID(col.text()), Version: col.int(), Seq: col.int(), Salt: col.blob()}
	col.json(&l.Marks)
	col.json(&l.Paid)
	if held := col.text(); held != "" {
		l.Hold = &record.Held{}
		if json.Unmarshal([]byte(held), l.Hold) != nil {
			l.Hold = &record.Held{} // what cannot be read still holds
		}
	}
	return l, col.err
}

// Held implements dispatch.Reader.
func (s *Store) Held(ctx context.Context, tenant record.TenantID, after record.LineageID, n int) (out []record.Lineage, err error) {
	err = s.read(ctx, only(tenant), ask(collect(&out, scanLineage), selectHeld, string(tenant), string(after), int64(n)))
	return out, err
}

// Lineage implements dispatch.Store.
func (s *Store) Lineage(ctx context.Context, tenant record.TenantID, id record.LineageID) (l record.Lineage, err error) {
	err = s.read(ctx, only(tenant), ask(func(c *columns) (err error) { l, err = scanLineage(c); return err }, selectLineage, string(tenant), string(id)))
	return l, err
}

// Materials implements dispatch.Store.
func (s *Store) Materials(ctx context.Context, tenant record.TenantID, id record.LineageID, after int64, since time.Time, n int) (out []record.Material, err error) {
	err = s.read(ctx, only(tenant), ask(collect(&out, func(col *columns) (record.Material, error) {
		return record.Material{Seq: col.int(), Kind: col.text(), At: col.time(), Call: record.CallID(col.text()), Body: json.RawMessage(col.blob())}, col.err
	}), selectMaterials, string(tenant), string(id), after, micro(since), int64(n)))
	return out, err
}

// Epoch implements dispatch.Store.
func (s *Store) Epoch(ctx context.Context, o record.Owner) (epoch int64, err error) {
	err = s.read(ctx, only(o.Tenant), ask(func(c *columns) error { epoch = c.int(); return nil }, selectEpoch,
		string(o.Tenant), o.Principal.Issuer, o.Principal.Subject, string(o.Agent)))
	return epoch, err
}

// Standing implements dispatch.Store.
func (s *Store) Standing(ctx context.Context, tenant record.TenantID, p record.Principal) (out []record.Standing, err error) {
	err = s.read(ctx, only(tenant), ask(collect(&out, func(col *columns) (record.Standing, error) {
		return record.Standing{Agent: record.AgentID(col.text()), Epoch: col.int(), Since: col.time(), Runs: int(col.int()), Rejections: int(col.int())}, col.err
	}), selectStanding, string(tenant), p.Issuer, p.Subject))
	return out, err
}

// LiveRuns implements dispatch.Store.
func (s *Store) LiveRuns(ctx context.Context, o record.Owner) (out []record.Run, err error) {
	err = s.read(ctx, only(o.Tenant), ask(collect(&out, scanRun), selectLive, string(o.Tenant), o.Principal.Issuer, o.Principal.Subject, string(o.Agent)))
	return out, err
}

// Passkeys implements dispatch.Store.
func (s *Store) Passkeys(ctx context.Context, tenant record.TenantID, person record.Principal) (out []record.Passkey, err error) {
	err = s.read(ctx, only(tenant), ask(collect(&out, func(col *columns) (record.Passkey, error) {
		return record.Passkey{Tenant: record.TenantID(col.text()), Person: record.Principal{Issuer: col.text(), Subject: col.text()},
			ID: col.blob(), Public: col.blob(), Name: col.text(), RPID: col.text(), Added: col.time(), Seal: col.blob(),
			Count: uint32(col.int()), Used: col.time()}, col.err
	}), selectPasskeys, string(tenant), person.Issuer, person.Subject))
	return out, err
}
