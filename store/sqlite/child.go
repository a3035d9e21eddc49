package sqlite

import (
	"context"
	"encoding/json"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/placet-dev/placet/record"
)

const (
	selectChildren = `SELECT ` + runFields + ` FROM runs INDEXED BY runs_parent WHERE tenant = ? AND parent = ? AND parent <> '' ORDER BY id DESC LIMIT ?`
	selectBelow    = `SELECT ` + runFields + ` FROM runs INDEXED BY runs_parent WHERE tenant = ? AND parent = ? AND parent <> '' AND state <> 'terminated' ORDER BY id`
	selectOver     = `SELECT ` + runFields + ` FROM runs INDEXED BY runs_until WHERE until > 0 AND state <> 'terminated' AND until <= ? ORDER BY until LIMIT ?`
	selectNextEnd  = `SELECT min(until) FROM runs INDEXED BY runs_until WHERE until > 0 AND state <> 'terminated' AND until > ?`
)

// grantText is how what a child run was given is stored.
func grantText(g *record.Grant) text {
	if g == nil {
		return text("")
	}
	return encode(g)
}

func untilOf(g *record.Grant) int64 {
	if g == nil {
		return 0
	}
	return micro(g.Until)
}

// granted reads it. What cannot be read grants nothing: of a child run it is over.
func granted(stored string) *record.Grant {
	g := &record.Grant{}
	if stored == "" || json.Unmarshal([]byte(stored), g) != nil {
		return nil
	}
	return g
}

// above checks that neither a run nor one above it has ended, or its time (rule B4).
func (w *writer) above(run record.Run, now time.Time) error {
	refuse := func(what string) error { return &record.Refusal{Kind: record.RefusedPremise, What: what} }
	if run.Over(now) {
		return refuse("the run's time is over")
	}
	for depth := 0; run.Parent != ""; depth++ {
		parent, ok, err := w.loadRun(runKey{run.Tenant, run.Parent})
		switch {
		case err != nil:
			return err
		case depth > record.MaxDepth:
			return refuse("the run lies too deep")
		case !ok || !parent.Live() || parent.Over(now):
			return refuse("a run above has ended")
		}
		run = parent
	}
	return nil
}

// endBelow ends the live runs below the one whose calls were swept; each one's own
// sweep goes on from there.
func (w *writer) endBelow(s record.Sweep) error {
	var below []record.Run
	err := each(w.conn, selectBelow, func(stmt *sqlite.Stmt) error { below = append(below, scanRun(stmt)); return nil }, s.Tenant, s.Run)
	if err != nil {
		return err
	}
	for _, run := range below {
		c, err := s.Below(run)
		if err != nil {
			return err
		}
		if err := w.within(c); err != nil {
			return err
		}
	}
	return nil
}

// Children implements dispatch.Store.
func (s *Store) Children(ctx context.Context, tenant record.TenantID, run record.RunID, n int) (out []record.Run, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return each(conn, selectChildren, func(s *sqlite.Stmt) error { out = append(out, scanRun(s)); return nil }, tenant, run, int64(n))
	})
	return out, err
}

// RunsOver implements dispatch.Store.
func (s *Store) RunsOver(ctx context.Context, now time.Time, n int) (out []record.Run, next time.Time, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		if err := each(conn, selectOver, func(s *sqlite.Stmt) error { out = append(out, scanRun(s)); return nil }, micro(now), int64(n)); err != nil {
			return err
		}
		_, err := row(conn, selectNextEnd, func(s *sqlite.Stmt) { next = moment(s.ColumnInt64(0)) }, micro(now))
		return err
	})
	return out, next, err
}
