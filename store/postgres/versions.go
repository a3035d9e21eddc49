package postgres

import (
	"context"
	"math"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const (
	insertActivation = `INSERT INTO activations (generation, digest, who, at, origin, plan, sum) VALUES ($1,$2,$3,$4,$5,$6,$7)`
	// What a digest stands for never changes: the first to store it is right.
	insertVersion     = `INSERT INTO versions (digest, content, sum, parts, needs, who, at) VALUES ($1,$2,$3,$4,$5,$6,$7) ON CONFLICT (digest) DO NOTHING`
	selectFiles       = `SELECT digest, content, sum, parts, needs, who, at FROM versions WHERE digest = $1`
	selectActivations = `SELECT generation, digest, who, at, origin, plan, sum FROM activations WHERE generation < $1 ORDER BY generation DESC LIMIT $2`
	selectUnconsumed  = `SELECT tenant, id FROM approvals WHERE state = 'approved' AND id > $1 ORDER BY id LIMIT $2`
)

func (t *truth) activate(a *record.Activation, w *writes) {
	if a == nil {
		return
	}
	t.generation = a.To
	var sum []byte
	if !a.Sum.IsZero() {
		sum = a.Sum[:]
	}
	w.queue(insertActivation, a.To, a.Digest, encode(a.Who), micro(a.At), string(a.Files), encode(a.Plan), sum)
}

func (t *truth) keepVersion(v *record.Version, w *writes) {
	if v != nil {
		w.queue(insertVersion, v.Digest, v.Content, v.Sum[:], encode(v.Parts), encode(v.Needs), encode(v.Who), micro(v.At))
	}
}

// Version implements dispatch.Versions.
func (s *Store) Version(ctx context.Context, digest string) (v record.Version, err error) {
	found := false
	err = s.read(ctx, only(), ask(func(c *columns) error {
		found = true
		v = record.Version{Digest: c.text(), Content: c.blob(), Sum: c.digest()}
		c.json(&v.Parts)
		c.json(&v.Needs)
		c.json(&v.Who)
		v.At = c.time()
		return c.err
	}, selectFiles, digest))
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
	err = s.read(ctx, only(), ask(func(c *columns) error {
		a := record.Activation{To: c.int(), Digest: c.text()}
		a.From = a.To - 1
		c.json(&a.Who)
		a.At, a.Files = c.time(), record.FilesFrom(c.text())
		c.json(&a.Plan)
		a.Sum = c.holder()
		out = append(out, a)
		return c.err
	}, selectActivations, before, int64(limit(n))))
	return out, err
}

// Unconsumed implements dispatch.Versions.
func (s *Store) Unconsumed(ctx context.Context, after record.ApprovalID, n int) ([]dispatch.Loaded, error) {
	return s.questions(ctx, selectUnconsumed, after, n)
}
