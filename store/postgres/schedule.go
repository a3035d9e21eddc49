package postgres

import (
	"context"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const (
	insertSchedule = `INSERT INTO schedules (tenant, id, issuer, subject, agent, state, version, next, body) VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9)`
	updateSchedule = `WITH u AS (UPDATE schedules SET state = $1, version = $2, next = $3, body = $4 WHERE tenant = $5 AND id = $6 AND version = $7 RETURNING 1)
		SELECT held((SELECT count(*) FROM u), 1)`
	readSchedules    = `SELECT tenant, id, version FROM unnest($1::text[], $2::text[]) AS k (t, i) JOIN schedules ON schedules.tenant = k.t AND schedules.id = k.i`
	selectSchedule   = `SELECT body FROM schedules WHERE tenant = $1 AND id = $2`
	selectFiring     = `SELECT body FROM schedules WHERE next IS NOT NULL AND next <= $1 ORDER BY next LIMIT $2`
	selectNextFiring = `SELECT next FROM schedules WHERE next IS NOT NULL AND next > $1 ORDER BY next LIMIT 1`
)

type scheduleKey struct {
	tenant record.TenantID
	id     record.ScheduleID
}

func scanSchedule(c *columns) (s record.Schedule, err error) {
	c.json(&s)
	return s, c.err
}

// Schedule implements dispatch.Store.
func (s *Store) Schedule(ctx context.Context, tenant record.TenantID, id record.ScheduleID) (record.Schedule, error) {
	var found *record.Schedule
	err := s.read(ctx, only(tenant), ask(one(&found, scanSchedule), selectSchedule, string(tenant), string(id)))
	if err == nil && found == nil {
		err = notFound("schedule", string(id))
	}
	if err != nil {
		return record.Schedule{}, err
	}
	return *found, nil
}

// Firing implements dispatch.Store.
func (s *Store) Firing(ctx context.Context, now time.Time, n int) (out []record.Schedule, next time.Time, err error) {
	err = s.read(ctx, everyone, ask(collect(&out, scanSchedule), selectFiring, micro(now), int64(n)),
		ask(func(c *columns) error { next = c.time(); return c.err }, selectNextFiring, micro(now)))
	return out, next, err
}

// Schedules implements dispatch.Reader.
func (s *Store) Schedules(ctx context.Context, q dispatch.ScheduleQuery) (out []record.Schedule, err error) {
	var w where
	w.and("tenant = ?", string(q.Tenant))
	w.owner(q.Owner)
	if !q.Over {
		w.and("state IN ('active', 'paused')")
	}
	if q.Before != "" {
		w.and("id < ?", string(q.Before))
	}
	sql := `SELECT body FROM schedules WHERE ` + w.end("id DESC", q.Limit)
	err = s.read(ctx, only(q.Tenant), ask(collect(&out, scanSchedule), sql, w.args...))
	return out, err
}

// schedule locks a schedule: whoever moves it first has the firing.
func (w *wants) schedule(m *record.ScheduleMove) {
	if m == nil {
		return
	}
	s := m.After
	w.fence(s.Tenant)
	w.locks.own(lockName, "schedule", string(s.Tenant), string(s.ID))
	w.schedules[scheduleKey{s.Tenant, s.ID}] = true
}

func (t *truth) readSchedules(queue func(int, func(*columns) error, string, ...any), w *wants) {
	keys := keysOf(w.schedules)
	queue(len(keys), func(c *columns) error {
		t.schedules[scheduleKey{record.TenantID(c.text()), record.ScheduleID(c.text())}] = c.int()
		return c.err
	}, readSchedules, texts(keys, func(k scheduleKey) string { return string(k.tenant) }), texts(keys, func(k scheduleKey) string { return string(k.id) }))
}

func (t *truth) maySchedule(m *record.ScheduleMove) error {
	if m == nil {
		return nil
	}
	if version, found := t.schedules[scheduleKey{m.After.Tenant, m.After.ID}]; found != (m.From != 0) || version != m.From {
		return conflict("the schedule has changed")
	}
	return nil
}

func (t *truth) putSchedule(m *record.ScheduleMove, w *writes) {
	if m == nil {
		return
	}
	s := m.After
	body, err := s.Marshal()
	if err != nil {
		body = "" // text, times and canonical JSON always marshal; what cannot be read never fires
	}
	t.schedules[scheduleKey{s.Tenant, s.ID}] = s.Version
	if m.From == 0 {
		w.queue(insertSchedule, string(s.Tenant), string(s.ID), s.Principal.Issuer, s.Principal.Subject, string(s.Agent), string(s.State), s.Version, due(s.Next), body)
		return
	}
	w.queue(updateSchedule, string(s.State), s.Version, due(s.Next), body, string(s.Tenant), string(s.ID), m.From)
}
