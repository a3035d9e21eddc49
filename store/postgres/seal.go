package postgres

import (
	"context"

	"github.com/placet-dev/placet/record"
)

const (
	checkpointFields  = `size, seq, epoch, at, salt, note`
	insertCheckpoint  = `INSERT INTO checkpoints (` + checkpointFields + `) VALUES ($1,$2,$3,$4,$5,$6)`
	selectHead        = `SELECT ` + checkpointFields + ` FROM checkpoints ORDER BY size DESC LIMIT 1`
	selectCheckpoints = `SELECT ` + checkpointFields + ` FROM checkpoints WHERE size > $1 ORDER BY size LIMIT $2`
	selectSealed      = `SELECT ` + checkpointFields + ` FROM checkpoints WHERE seq >= $1 ORDER BY seq LIMIT 1`
	selectUnder       = `SELECT ` + checkpointFields + ` FROM checkpoints WHERE seq < $1 ORDER BY seq DESC LIMIT 1`
	selectLogged      = `SELECT ` + eventFields + ` FROM events WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3`
	upsertTile        = `INSERT INTO log_tiles (level, n, data) VALUES ($1,$2,$3) ON CONFLICT (level, n) DO UPDATE SET data = excluded.data`
	selectTiles       = `SELECT level, n, data FROM unnest($1::bigint[], $2::bigint[]) AS k (l, i) JOIN log_tiles ON log_tiles.level = k.l AND log_tiles.n = k.i`
)

func scanCheckpoint(c *columns) (record.Checkpoint, error) {
	out := record.Checkpoint{Size: c.int(), Seq: c.int(), Epoch: c.int(), At: c.time(), Salt: c.blob(), Note: c.text()}
	return out, c.err
}

// seal wants the head for itself.
func (w *wants) seal(m *record.SealMove) {
	if m != nil {
		w.head = true
		w.locks.own(lockName, "checkpoints")
	}
}

func (t *truth) readHead(queue func(int, func(*columns) error, string, ...any), w *wants) {
	if w.head {
		queue(1, func(c *columns) (err error) { t.head, err = scanCheckpoint(c); return err }, selectHead)
	}
}

// maySeal checks that a checkpoint follows the newest.
func (t *truth) maySeal(m *record.SealMove) error {
	if m != nil && !m.Follows(t.head) {
		return conflict("another checkpoint was made")
	}
	return nil
}

func (t *truth) putSeal(m *record.SealMove, w *writes) {
	if m == nil {
		return
	}
	t.head = m.To
	for _, tile := range m.Tiles {
		w.queue(upsertTile, int64(tile.Level), tile.N, tile.Data)
	}
	c := m.To
	w.queue(insertCheckpoint, c.Size, c.Seq, c.Epoch, micro(c.At), c.Salt, c.Note)
}

// Head implements audit.Log.
func (s *Store) Head(ctx context.Context) (c record.Checkpoint, err error) {
	err = s.read(ctx, everyone, ask(func(col *columns) (err error) { c, err = scanCheckpoint(col); return err }, selectHead))
	return c, err
}

// Checkpoints implements audit.Log.
func (s *Store) Checkpoints(ctx context.Context, size int64, n int) (out []record.Checkpoint, err error) {
	err = s.read(ctx, everyone, ask(collect(&out, scanCheckpoint), selectCheckpoints, size, int64(n)))
	return out, err
}

// Sealed implements audit.Log.
func (s *Store) Sealed(ctx context.Context, seq int64) (before, with record.Checkpoint, found bool, err error) {
	err = s.read(ctx, everyone,
		ask(func(col *columns) (err error) { found = true; with, err = scanCheckpoint(col); return err }, selectSealed, seq),
		ask(func(col *columns) (err error) { before, err = scanCheckpoint(col); return err }, selectUnder, seq))
	return before, with, found, err
}

// Logged implements audit.Log. Numbers are given under the log's lock, so that whatever
// is seen here is all there ever will be below its highest.
func (s *Store) Logged(ctx context.Context, after, through int64, n int) (out []record.Event, err error) {
	err = s.read(ctx, everyone, ask(collect(&out, scanEvent), selectLogged, after, through, int64(n)))
	return out, err
}

// Tiles implements audit.Log.
func (s *Store) Tiles(ctx context.Context, refs []record.Tile) ([]record.Tile, error) {
	type key struct{ level, n int64 }
	levels, numbers := make([]int64, len(refs)), make([]int64, len(refs))
	for i, r := range refs {
		levels[i], numbers[i] = int64(r.Level), r.N
	}
	found := map[key][]byte{}
	err := s.read(ctx, everyone, ask(func(c *columns) error {
		k := key{c.int(), c.int()}
		found[k] = c.blob()
		return c.err
	}, selectTiles, levels, numbers))
	out := make([]record.Tile, len(refs))
	for i, r := range refs {
		out[i] = record.Tile{Level: r.Level, N: r.N, Data: found[key{int64(r.Level), r.N}]}
	}
	return out, err
}
