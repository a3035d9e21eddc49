package sqlite

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/placet-dev/placet/record"
)

const (
	selectLineage = `SELECT version, seq, salt, marks, paid, hold FROM lineages WHERE tenant = ? AND id = ?`
	upsertLineage = `INSERT INTO lineages (tenant, id, version, seq, salt, marks, paid, hold) VALUES (?,?,?,?,?,?,?,?)
		ON CONFLICT (tenant, id) DO UPDATE SET version = excluded.version, seq = excluded.seq, salt = excluded.salt,
		marks = excluded.marks, paid = excluded.paid, hold = excluded.hold`
	selectHeld      = `SELECT id FROM lineages INDEXED BY lineages_held WHERE tenant = ? AND hold <> '' AND id > ? ORDER BY id LIMIT ?`
	insertMaterial  = `INSERT INTO materials (tenant, lineage, seq, kind, at, call, body) VALUES (?,?,?,?,?,?,?)`
	selectMaterials = `SELECT seq, kind, at, call, body FROM materials WHERE tenant = ? AND lineage = ? AND seq > ? AND at >= ? ORDER BY seq LIMIT ?`
)

type lineageKey struct {
	tenant record.TenantID
	id     record.LineageID
}

// lineageCache holds committed lineages for readers, those without a row
// included: most have none, and every decision asks.
type lineageCache struct {
	mu    sync.RWMutex
	byID  map[lineageKey]record.Lineage
	drops int64 // how often it was emptied: what was read before that is not put in
}

const lineageCacheMax = 50_000

func newLineageCache() *lineageCache {
	return &lineageCache{byID: map[lineageKey]record.Lineage{}}
}

func (c *lineageCache) get(k lineageKey) (l record.Lineage, ok bool, drops int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	l, ok = c.byID[k]
	return l, ok, c.drops
}

func (c *lineageCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byID = map[lineageKey]record.Lineage{}
	c.drops++
}

// read puts in what a reader found, unless something newer is or was there.
func (c *lineageCache) read(k lineageKey, l record.Lineage, drops int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byID[k]; !ok && c.drops == drops {
		c.put(k, l)
	}
}

// committed puts in what a commit made true.
func (c *lineageCache) committed(k lineageKey, l record.Lineage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(k, l)
}

func (c *lineageCache) put(k lineageKey, l record.Lineage) {
	if len(c.byID) >= lineageCacheMax {
		c.byID = map[lineageKey]record.Lineage{}
		c.drops++
	}
	c.byID[k] = l
}

func readLineage(conn *sqlite.Conn, k lineageKey) (l record.Lineage, err error) {
	var scanErr error
	_, err = row(conn, selectLineage, func(s *sqlite.Stmt) {
		col := &columns{stmt: s}
		l = record.Lineage{Tenant: k.tenant, ID: k.id, Version: col.int(), Seq: col.int(), Salt: col.blob()}
		col.json(&l.Marks)
		col.json(&l.Paid)
		if held := col.text(); held != "" {
			l.Hold = &record.Held{}
			if json.Unmarshal([]byte(held), l.Hold) != nil {
				l.Hold = &record.Held{} // what cannot be read still holds
			}
		}
		scanErr = col.err
	}, k.tenant, k.id)
	if err == nil {
		err = scanErr
	}
	return l, err
}

// Lineage implements dispatch.Store.
func (s *Store) Lineage(ctx context.Context, tenant record.TenantID, id record.LineageID) (record.Lineage, error) {
	k := lineageKey{tenant, id}
	l, ok, drops := s.lineages.get(k)
	if ok {
		return l, nil
	}
	err := s.read(ctx, func(conn *sqlite.Conn) (err error) { l, err = readLineage(conn, k); return err })
	if err == nil {
		s.lineages.read(k, l, drops)
	}
	return l, err
}

// Materials implements dispatch.Store.
func (s *Store) Materials(ctx context.Context, tenant record.TenantID, id record.LineageID, after int64, since time.Time, n int) (out []record.Material, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return each(conn, selectMaterials, func(s *sqlite.Stmt) error {
			col := &columns{stmt: s}
			m := record.Material{Seq: col.int(), Kind: col.text(), At: col.time(), Call: record.CallID(col.text()), Body: json.RawMessage(col.blob())}
			out = append(out, m)
			return col.err
		}, tenant, id, after, micro(since), int64(n))
	})
	return out, err
}

// lineage is a lineage as the open transaction sees it.
func (w *writer) lineage(k lineageKey) (record.Lineage, error) {
	if l, ok := w.freshLineages[k]; ok {
		return l, nil
	}
	if l, ok, _ := w.lineages.get(k); ok {
		return l, nil
	}
	l, err := readLineage(w.conn, k)
	if err == nil {
		// Nothing else writes: what this connection reads is the committed state.
		w.lineages.committed(k, l)
	}
	return l, err
}

// putLineage adds to a lineage what a change brings.
func (w *writer) putLineage(m record.LineageMove) error {
	k := lineageKey{m.Tenant, m.ID}
	was, err := w.lineage(k)
	if err != nil {
		return err
	}
	now := was.Apply(m)
	for i, material := range m.Material {
		err := w.run(insertMaterial, m.Tenant, m.ID, was.Seq+int64(i)+1, material.Kind, micro(material.At), material.Call, text(material.Body))
		if err != nil {
			return err
		}
	}
	w.freshLineages[k] = now
	return w.run(upsertLineage, m.Tenant, m.ID, now.Version, now.Seq, now.Salt, encode(now.Marks), encode(now.Paid), hold(now.Hold))
}

func hold(h *record.Held) text {
	if h == nil {
		return text("")
	}
	return encode(h)
}

// Held implements dispatch.Reader.
func (s *Store) Held(ctx context.Context, tenant record.TenantID, after record.LineageID, n int) (out []record.Lineage, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		var ids []record.LineageID
		err := each(conn, selectHeld, func(s *sqlite.Stmt) error {
			ids = append(ids, record.LineageID(s.ColumnText(0)))
			return nil
		}, tenant, string(after), int64(n))
		if err != nil {
			return err
		}
		for _, id := range ids {
			l, err := readLineage(conn, lineageKey{tenant, id})
			if err != nil {
				return err
			}
			out = append(out, l)
		}
		return nil
	})
	return out, err
}
