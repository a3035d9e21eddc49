package sqlite

import (
	"context"
	"encoding/json"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const (
	upsertSchedule = `INSERT INTO schedules (tenant, id, issuer, subject, agent, state, version, next, body) VALUES (?,?,?,?,?,?,?,?,?)
		ON CONFLICT (tenant, id) DO UPDATE SET state = excluded.state, version = excluded.version, next = excluded.next, body = excluded.body`
	selectScheduleVersion = `SELECT version FROM schedules WHERE tenant = ? AND id = ?`
	selectSchedule        = `SELECT body FROM schedules WHERE tenant = ? AND id = ?`
	selectFiring          = `SELECT body FROM schedules INDEXED BY schedules_next WHERE next IS NOT NULL AND next <= ? ORDER BY next LIMIT ?`
	selectNextFiring      = `SELECT next FROM schedules INDEXED BY schedules_next WHERE next IS NOT NULL AND next > ? ORDER BY next LIMIT 1`
)

func scanSchedule(stmt *sqlite.Stmt) (s record.Schedule, err error) {
	err = json.Unmarshal([]byte(stmt.ColumnText(0)), &s)
	return s, err
}

// Schedule implements dispatch.Store.
func (s *Store) Schedule(ctx context.Context, tenant record.TenantID, id record.ScheduleID) (out record.Schedule, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		var bad error
		found, err := row(conn, selectSchedule, func(stmt *sqlite.Stmt) { out, bad = scanSchedule(stmt) }, tenant, id)
		switch {
		case err != nil:
			return err
		case !found:
			return notFound("schedule", string(id))
		}
		return bad
	})
	return out, err
}

// Firing implements dispatch.Store.
func (s *Store) Firing(ctx context.Context, now time.Time, n int) (out []record.Schedule, next time.Time, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		if err := each(conn, selectFiring, collect(&out, scanSchedule), micro(now), int64(n)); err != nil {
			return err
		}
		_, err := row(conn, selectNextFiring, func(stmt *sqlite.Stmt) { next = moment(stmt.ColumnInt64(0)) }, micro(now))
		return err
	})
	return out, next, err
}

// Schedules implements dispatch.Reader.
func (s *Store) Schedules(ctx context.Context, q dispatch.ScheduleQuery) (out []record.Schedule, err error) {
	var w where
	w.and("tenant = ?", q.Tenant)
	w.owner(q.Owner)
	if !q.Over {
		w.and("(state = 'active' OR state = 'paused')")
	}
	if q.Before != "" {
		w.and("id < ?", q.Before)
	}
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return each(conn, `SELECT body FROM schedules WHERE `+w.sql.String()+` ORDER BY id DESC LIMIT ?`, collect(&out, scanSchedule), append(w.args, w.limit(q.Limit))...)
	})
	return out, err
}

// maySchedule checks what a move of a schedule needs, before anything is written.
func (w *writer) maySchedule(m *record.ScheduleMove) error {
	if m == nil {
		return nil
	}
	var version int64
	found, err := w.row(selectScheduleVersion, func(stmt *sqlite.Stmt) { version = stmt.ColumnInt64(0) }, m.After.Tenant, m.After.ID)
	if err == nil && (found != (m.From != 0) || version != m.From) {
		err = &record.Refusal{Kind: record.RefusedConflict, What: "the schedule has changed"}
	}
	return err
}

func (w *writer) putSchedule(m *record.ScheduleMove) error {
	if m == nil {
		return nil
	}
	s := m.After
	body, err := s.Marshal()
	if err != nil {
		return err
	}
	return w.run(upsertSchedule, s.Tenant, s.ID, s.Principal.Issuer, s.Principal.Subject, s.Agent, string(s.State), s.Version, due(s.Next), body)
}
