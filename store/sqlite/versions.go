package sqlite

import (
	"context"
	"math"

	"zombiezen.com/go/sqlite"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const (
	insertActivation = `INSERT INTO activations (generation, digest, who, at, origin, plan, sum) VALUES (?,?,?,?,?,?,?)`
	// What a digest stands for never changes: the first to store it is right.
	insertVersion     = `INSERT INTO versions (digest, content, sum, parts, needs, who, at) VALUES (?,?,?,?,?,?,?) ON CONFLICT (digest) DO NOTHING`
	selectFiles       = `SELECT digest, content, sum, parts, needs, who, at FROM versions WHERE digest = ?`
	selectActivations = `SELECT generation, digest, who, at, origin, plan, sum FROM activations WHERE generation < ? ORDER BY generation DESC LIMIT ?`
	selectUnconsumed  = `SELECT tenant, id FROM approvals INDEXED BY approvals_unused WHERE state = 'approved' AND id > ? ORDER BY id LIMIT ?`
)

func (w *writer) activate(a *record.Activation) error {
	if a == nil {
		return nil
	}
	var sum any
	if !a.Sum.IsZero() {
		sum = a.Sum[:]
	}
	if err := w.run(insertActivation, a.To, a.Digest, encode(a.Who), micro(a.At), string(a.Files), encode(a.Plan), sum); err != nil {
		return err
	}
	w.generation = a.To
	return nil
}

func (w *writer) keepVersion(v *record.Version) error {
	if v == nil {
		return nil
	}
	return w.run(insertVersion, v.Digest, v.Content, v.Sum[:], encode(v.Parts), encode(v.Needs), encode(v.Who), micro(v.At))
}

// Version implements dispatch.Versions.
func (s *Store) Version(ctx context.Context, digest string) (v record.Version, err error) {
	found := false
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return each(conn, selectFiles, func(stmt *sqlite.Stmt) error {
			col := &columns{stmt: stmt}
			found = true
			v = record.Version{Digest: col.text(), Content: col.blob(), Sum: col.digest()}
			col.json(&v.Parts)
			col.json(&v.Needs)
			col.json(&v.Who)
			v.At = col.time()
			return col.err
		}, digest)
	})
	if err == nil && !found {
		err = record.Errorf(record.NotFound, "there is no version %q in this store", digest)
	}
	return v, err
}

// Activations implements dispatch.Versions.
func (s *Store) Activations(ctx context.Context, before int64, n int) (out []record.Activation, err error) {
	if before <= 0 {
		before = math.MaxInt64
	}
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return each(conn, selectActivations, func(stmt *sqlite.Stmt) error {
			col := &columns{stmt: stmt}
			a := record.Activation{To: col.int(), Digest: col.text()}
			a.From = a.To - 1
			col.json(&a.Who)
			a.At, a.Files = col.time(), record.FilesFrom(col.text())
			col.json(&a.Plan)
			a.Sum = col.holder()
			out = append(out, a)
			return col.err
		}, before, (&where{}).limit(n))
	})
	return out, err
}

// Unconsumed implements dispatch.Versions.
func (s *Store) Unconsumed(ctx context.Context, after record.ApprovalID, n int) ([]dispatch.Loaded, error) {
	return s.questions(ctx, selectUnconsumed, after, n)
}
