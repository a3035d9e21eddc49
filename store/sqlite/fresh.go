package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/placet-dev/placet/record"
)

const (
	selectEpoch    = `SELECT epoch FROM standing WHERE tenant = ? AND issuer = ? AND subject = ? AND agent = ?`
	upsertStanding = `INSERT INTO standing (tenant, issuer, subject, agent, epoch, since, lineage) VALUES (?,?,?,?,?,?,?)
		ON CONFLICT (tenant, issuer, subject, agent) DO UPDATE SET epoch = excluded.epoch, lineage = excluded.lineage,
		since = CASE WHEN since = 0 OR epoch <> excluded.epoch THEN excluded.since ELSE since END`
	selectStanding = `SELECT agent, epoch, since,
			(SELECT count(*) FROM runs INDEXED BY runs_owner WHERE runs.tenant = s.tenant AND runs.issuer = s.issuer AND runs.subject = s.subject
				AND runs.agent = s.agent AND runs.state <> 'terminated' AND runs.vouched = 0 AND runs.parent = ''),
			(SELECT count(*) FROM rejections WHERE rejections.tenant = s.tenant AND rejections.lineage = s.lineage)
		FROM standing AS s WHERE tenant = ? AND issuer = ? AND subject = ? ORDER BY agent`
	selectLive = `SELECT ` + runFields + ` FROM runs INDEXED BY runs_owner WHERE tenant = ? AND issuer = ? AND subject = ? AND agent = ?
		AND state <> 'terminated' AND vouched = 0 AND parent = '' ORDER BY id`
)

func epochOf(conn *sqlite.Conn, o record.Owner) (epoch int64, err error) {
	_, err = row(conn, selectEpoch, func(s *sqlite.Stmt) { epoch = s.ColumnInt64(0) }, o.Tenant, o.Principal.Issuer, o.Principal.Subject, o.Agent)
	return epoch, err
}

// Epoch implements dispatch.Store.
func (s *Store) Epoch(ctx context.Context, o record.Owner) (epoch int64, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error { epoch, err = epochOf(conn, o); return err })
	return epoch, err
}

// Standing implements dispatch.Store.
func (s *Store) Standing(ctx context.Context, tenant record.TenantID, p record.Principal) (out []record.Standing, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return each(conn, selectStanding, func(s *sqlite.Stmt) error {
			col := &columns{stmt: s}
			out = append(out, record.Standing{Agent: record.AgentID(col.text()), Epoch: col.int(), Since: col.time(), Runs: int(col.int()), Rejections: int(col.int())})
			return col.err
		}, tenant, p.Issuer, p.Subject)
	})
	return out, err
}

// LiveRuns implements dispatch.Store.
func (s *Store) LiveRuns(ctx context.Context, o record.Owner) (out []record.Run, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error { out, err = liveRuns(conn, o); return err })
	return out, err
}

func liveRuns(conn *sqlite.Conn, o record.Owner) (out []record.Run, err error) {
	err = each(conn, selectLive, func(s *sqlite.Stmt) error { out = append(out, scanRun(s)); return nil },
		o.Tenant, o.Principal.Issuer, o.Principal.Subject, o.Agent)
	return out, err
}

// opens guards a run that is opened without vouch: its lineage is the owner's present one.
func (w *writer) opens(r record.Run) error {
	if r.Vouched || r.Parent != "" {
		return nil
	}
	epoch, err := epochOf(w.conn, r.Owner)
	if err == nil && epoch > 0 && r.Lineage != record.UnvouchedLineage(r.Owner, epoch) {
		return &record.Refusal{Kind: record.RefusedPremise, What: "the person started fresh"}
	}
	return err
}

// opened notes an owner's lineage with its first run.
func (w *writer) opened(r record.Run) error {
	if r.Vouched || r.Parent != "" {
		return nil
	}
	epoch, err := epochOf(w.conn, r.Owner)
	if err != nil {
		return err
	}
	return w.run(upsertStanding, r.Tenant, r.Principal.Issuer, r.Principal.Subject, r.Agent, epoch, micro(r.Opened), r.Lineage)
}

// startFresh ends an owner's live runs and raises their epoch.
func (w *writer) startFresh(f record.Fresh) error {
	runs, err := liveRuns(w.conn, f.Owner)
	if err != nil {
		return err
	}
	for _, run := range runs {
		c, err := f.Of(run)
		if err != nil {
			return err
		}
		if err := w.within(c); err != nil {
			return err
		}
	}
	o := f.Owner
	return w.run(upsertStanding, o.Tenant, o.Principal.Issuer, o.Principal.Subject, o.Agent, f.From+1, int64(0), record.UnvouchedLineage(o, f.From+1))
}
