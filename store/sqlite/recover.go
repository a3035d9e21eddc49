package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/placet-dev/placet/record"
)

const (
	selectStoreEpoch = `SELECT coalesce(max(epoch), 1) FROM epochs`
	insertStoreEpoch = `INSERT INTO epochs (epoch, at, who, why) VALUES (?,?,?,?)`
	selectUnended    = `SELECT tenant, id FROM calls INDEXED BY calls_run WHERE ` + isOpen + ` AND state <> 'unknown' ORDER BY id`
	selectDelegated  = `SELECT ` + runFields + ` FROM runs INDEXED BY runs_delegated WHERE delegation <> '' ORDER BY id`
)

func storeEpoch(conn *sqlite.Conn) (epoch int64, err error) {
	_, err = row(conn, selectStoreEpoch, func(s *sqlite.Stmt) { epoch = s.ColumnInt64(0) })
	return epoch, err
}

// StoreEpoch implements audit.Log.
func (s *Store) StoreEpoch(ctx context.Context) (epoch int64, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error { epoch, err = storeEpoch(conn); return err })
	return epoch, err
}

func (w *writer) mayRecover(r *record.Recovery) error {
	if r == nil {
		return nil
	}
	epoch, err := storeEpoch(w.conn)
	if err == nil && epoch != r.From {
		err = &record.Refusal{Kind: record.RefusedConflict, What: "another epoch was opened"}
	}
	return err
}

// recover moves everything that the old epoch left open. It was read in this
// transaction and nothing else writes, so its guards hold.
func (w *writer) recover(r record.Recovery) error {
	if err := w.run(insertStoreEpoch, r.To, micro(r.At), encode(r.Who), r.Why); err != nil {
		return err
	}
	type ref struct {
		tenant record.TenantID
		id     record.CallID
	}
	var calls []ref
	if err := each(w.conn, selectUnended, func(s *sqlite.Stmt) error {
		calls = append(calls, ref{record.TenantID(s.ColumnText(0)), record.CallID(s.ColumnText(1))})
		return nil
	}); err != nil {
		return err
	}
	for _, c := range calls {
		l, err := load(w.conn, c.tenant, c.id)
		if err != nil {
			return err
		}
		change, err := r.Of(l.Call, l.Approval)
		if err != nil {
			return err
		}
		if err := w.within(change); err != nil {
			return err
		}
	}
	var runs []record.Run
	if err := each(w.conn, selectDelegated, func(s *sqlite.Stmt) error { runs = append(runs, scanRun(s)); return nil }); err != nil {
		return err
	}
	for _, run := range runs {
		if err := w.within(r.OfRun(run)); err != nil {
			return err
		}
	}
	return nil
}
