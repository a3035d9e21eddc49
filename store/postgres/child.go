package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/placet-dev/placet/record"
)

const (
	selectChildren = `SELECT ` + runFields + ` FROM runs WHERE tenant = $1 AND parent = $2 AND parent <> '' ORDER BY id DESC LIMIT $3`
	selectBelow    = `SELECT ` + runFields + ` FROM runs WHERE tenant = $1 AND parent = ANY ($2::text[]) AND parent <> '' AND state <> 'terminated' ORDER BY id`
	selectOver     = `SELECT ` + runFields + ` FROM runs WHERE until > 0 AND state <> 'terminated' AND until <= $1 ORDER BY until LIMIT $2`
	selectNextEnd  = `SELECT coalesce(min(until), 0) FROM runs WHERE until > 0 AND state <> 'terminated' AND until > $1`
)

// grantText is how what a child run was given is stored.
func grantText(g *record.Grant) string {
	if g == nil {
		return ""
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
// Who ends one holds its lineage alone, and the change shares it.
func (t *truth) above(run record.Run, now time.Time) error {
	if run.Over(now) {
		return refusePremise("the run's time is over")
	}
	for depth := 0; run.Parent != ""; depth++ {
		parent, ok := t.runs[runKey{run.Tenant, run.Parent}]
		switch {
		case depth > record.MaxDepth:
			return refusePremise("the run lies too deep")
		case !ok || !parent.Live() || parent.Over(now):
			return refusePremise("a run above has ended")
		}
		run = parent
	}
	return nil
}

// below adds the live runs below those whose calls are swept, level by level, and
// makes the changes that end them. The lineage is held: nobody opens one meanwhile.
func (c *committer) below(ctx context.Context, b *pgx.Batch, sweeps *[]record.Sweep, want *wants, add func(record.Change, error) (record.Facts, error)) (*pgx.Batch, error) {
	keys, own := want.locks.upTo(lockLineage)
	b.Queue(takeLocks, keys, own)
	for level := *sweeps; len(level) > 0; {
		of := map[record.RunID]record.Sweep{}
		for _, s := range level {
			of[s.Run] = s
		}
		var runs []record.Run
		b.Queue(selectBelow, string(level[0].Tenant), texts(level, func(s record.Sweep) string { return string(s.Run) })).Query(each(collect(&runs, scanRun)))
		if err := c.conn.SendBatch(ctx, b).Close(); err != nil {
			return nil, err
		}
		b, level = &pgx.Batch{}, nil
		for _, r := range runs {
			above := of[r.Parent]
			f, err := add(above.Below(r))
			if err != nil {
				return nil, err
			}
			level = append(level, *f.Sweep)
		}
		*sweeps = append(*sweeps, level...)
	}
	return b, nil
}

// Children implements dispatch.Store.
func (s *Store) Children(ctx context.Context, tenant record.TenantID, run record.RunID, n int) (out []record.Run, err error) {
	err = s.read(ctx, only(tenant), ask(collect(&out, scanRun), selectChildren, string(tenant), string(run), int64(n)))
	return out, err
}

// RunsOver implements dispatch.Store.
func (s *Store) RunsOver(ctx context.Context, now time.Time, n int) (out []record.Run, next time.Time, err error) {
	err = s.read(ctx, everyone, ask(collect(&out, scanRun), selectOver, micro(now), int64(n)),
		ask(func(c *columns) error { next = moment(c.int()); return nil }, selectNextEnd, micro(now)))
	return out, next, err
}
