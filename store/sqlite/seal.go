package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/placet-dev/placet/record"
)

const (
	checkpointFields  = `size, seq, epoch, at, salt, note`
	insertCheckpoint  = `INSERT INTO checkpoints (` + checkpointFields + `) VALUES (?,?,?,?,?,?)`
	selectHead        = `SELECT ` + checkpointFields + ` FROM checkpoints ORDER BY size DESC LIMIT 1`
	selectCheckpoints = `SELECT ` + checkpointFields + ` FROM checkpoints WHERE size > ? ORDER BY size LIMIT ?`
	selectSealed      = `SELECT ` + checkpointFields + ` FROM checkpoints WHERE seq >= ? ORDER BY seq LIMIT 1`
	selectUnder       = `SELECT ` + checkpointFields + ` FROM checkpoints WHERE seq < ? ORDER BY seq DESC LIMIT 1`
	selectLogged      = `SELECT seq, at, tenant, kind, run, call, approval, who, body FROM events WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?`
	upsertTile        = `INSERT INTO log_tiles (level, n, data) VALUES (?,?,?) ON CONFLICT (level, n) DO UPDATE SET data = excluded.data`
	selectTile        = `SELECT data FROM log_tiles WHERE level = ? AND n = ?`
)

func checkpointOf(s *sqlite.Stmt) (record.Checkpoint, error) {
	col := &columns{stmt: s}
	c := record.Checkpoint{Size: col.int(), Seq: col.int(), Epoch: col.int(), At: col.time(), Salt: col.blob(), Note: col.text()}
	return c, col.err
}

// newest reads at most one checkpoint.
func newest(conn *sqlite.Conn, sql string, args ...any) (c record.Checkpoint, found bool, err error) {
	err = each(conn, sql, func(s *sqlite.Stmt) (err error) { found = true; c, err = checkpointOf(s); return err }, args...)
	return c, found, err
}

// maySeal checks that a checkpoint follows the newest.
func (w *writer) maySeal(m *record.SealMove) error {
	if m == nil {
		return nil
	}
	head, _, err := newest(w.conn, selectHead)
	if err == nil && !m.Follows(head) {
		err = &record.Refusal{Kind: record.RefusedConflict, What: "another checkpoint was made"}
	}
	return err
}

func (w *writer) putSeal(m *record.SealMove) error {
	if m == nil {
		return nil
	}
	for _, t := range m.Tiles {
		if err := w.run(upsertTile, int64(t.Level), t.N, t.Data); err != nil {
			return err
		}
	}
	c := m.To
	return w.run(insertCheckpoint, c.Size, c.Seq, c.Epoch, micro(c.At), c.Salt, c.Note)
}

// Head implements audit.Log.
func (s *Store) Head(ctx context.Context) (c record.Checkpoint, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error { c, _, err = newest(conn, selectHead); return err })
	return c, err
}

// Checkpoints implements audit.Log.
func (s *Store) Checkpoints(ctx context.Context, size int64, n int) (out []record.Checkpoint, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return each(conn, selectCheckpoints, collect(&out, checkpointOf), size, int64(n))
	})
	return out, err
}

// Sealed implements audit.Log.
func (s *Store) Sealed(ctx context.Context, seq int64) (before, with record.Checkpoint, found bool, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		if with, found, err = newest(conn, selectSealed, seq); err != nil {
			return err
		}
		before, _, err = newest(conn, selectUnder, seq)
		return err
	})
	return before, with, found, err
}

// Logged implements audit.Log.
func (s *Store) Logged(ctx context.Context, after, through int64, n int) (out []record.Event, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return each(conn, selectLogged, collect(&out, scanEvent), after, through, int64(n))
	})
	return out, err
}

// Tiles implements audit.Log.
func (s *Store) Tiles(ctx context.Context, refs []record.Tile) ([]record.Tile, error) {
	out := make([]record.Tile, len(refs))
	err := s.read(ctx, func(conn *sqlite.Conn) error {
		for i, r := range refs {
			out[i] = record.Tile{Level: r.Level, N: r.N}
			if err := each(conn, selectTile, func(s *sqlite.Stmt) error {
				col := &columns{stmt: s}
				out[i].Data = col.blob()
				return col.err
			}, int64(r.Level), r.N); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}
