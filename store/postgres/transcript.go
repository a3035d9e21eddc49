package postgres

import (
	"context"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const (
	transcriptFields = `tenant, id, issuer, subject, agent, label, format, digest, size, messages, version, imported, changed`
	insertTranscript = `INSERT INTO transcripts (` + transcriptFields + `, items) VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14)`
	updateTranscript = `WITH u AS (UPDATE transcripts SET version = $1, changed = $2, items = $3 WHERE tenant = $4 AND id = $5 AND version = $6 RETURNING 1)
		SELECT held((SELECT count(*) FROM u), 1)`
	deleteTranscript = `DELETE FROM transcripts WHERE tenant = $1 AND id = $2`
	selectTranscript = `SELECT ` + transcriptFields + `, items FROM transcripts WHERE tenant = $1 AND id = $2`
	readTranscripts  = `SELECT tenant, id, version FROM unnest($1::text[], $2::text[]) AS k (t, i) JOIN transcripts ON transcripts.tenant = k.t AND transcripts.id = k.i`
	countTranscripts = `SELECT count(*) FROM transcripts WHERE tenant = $1 AND issuer = $2 AND subject = $3 AND agent = $4`

	shareFields = `tenant, id, issuer, subject, agent, to_issuer, to_subject, run, transcript, given, until, ended`
	insertShare = `INSERT INTO shares (` + shareFields + `) VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12)`
	endShare    = `UPDATE shares SET ended = $1 WHERE tenant = $2 AND id = $3`
	selectShare = `SELECT ` + shareFields + ` FROM shares WHERE tenant = $1 AND id = $2`
	readShares  = `SELECT ` + shareFields + ` FROM unnest($1::text[], $2::text[]) AS k (t, i) JOIN shares ON shares.tenant = k.t AND shares.id = k.i`
	countShares = `SELECT count(*) FROM shares WHERE tenant = $1 AND issuer = $2 AND subject = $3 AND agent = $4 AND ended = 0 AND until > $5`
)

// scanTranscript reads all but the items.
func scanTranscript(col *columns) (record.Transcript, error) {
	var t record.Transcript
	t.Tenant, t.ID = record.TenantID(col.text()), record.TranscriptID(col.text())
	t.Principal = record.Principal{Issuer: col.text(), Subject: col.text()}
	t.Agent, t.Label, t.Format, t.Digest = record.AgentID(col.text()), col.text(), col.text(), col.digest()
	t.Size, t.Messages, t.Version = col.int(), int(col.int()), col.int()
	t.Imported, t.Changed = col.time(), col.time()
	return t, col.err
}

func scanShare(col *columns) (record.Share, error) {
	var s record.Share
	s.By.Tenant, s.ID = record.TenantID(col.text()), record.ShareID(col.text())
	s.By.Principal = record.Principal{Issuer: col.text(), Subject: col.text()}
	s.By.Agent = record.AgentID(col.text())
	s.To = record.Principal{Issuer: col.text(), Subject: col.text()}
	s.Run, s.Transcript = record.RunID(col.text()), record.TranscriptID(col.text())
	s.Given, s.Until, s.Ended = col.time(), col.time(), col.time()
	return s, col.err
}

// Transcript implements dispatch.Transcripts.
func (s *Store) Transcript(ctx context.Context, tenant record.TenantID, id record.TranscriptID) (record.Transcript, error) {
	var t *record.Transcript
	err := s.read(ctx, only(tenant), ask(func(c *columns) error {
		found, err := scanTranscript(c)
		c.json(&found.Items)
		t = &found
		return err
	}, selectTranscript, string(tenant), string(id)))
	if err == nil && t == nil {
		err = notFound("transcript", string(id))
	}
	if err != nil {
		return record.Transcript{}, err
	}
	return *t, nil
}

// ListTranscripts implements dispatch.Transcripts.
func (s *Store) ListTranscripts(ctx context.Context, q dispatch.TranscriptQuery) (out []record.Transcript, err error) {
	var w where
	w.and("tenant = ?", string(q.Tenant))
	w.owner(q.Owner)
	if q.Before != "" {
		w.and("id < ?", string(q.Before))
	}
	sql := `SELECT ` + transcriptFields + ` FROM transcripts WHERE ` + w.end("id DESC", q.Limit)
	err = s.read(ctx, only(q.Tenant), ask(collect(&out, scanTranscript), sql, w.args...))
	return out, err
}

// Share implements dispatch.Transcripts.
func (s *Store) Share(ctx context.Context, tenant record.TenantID, id record.ShareID) (record.Share, error) {
	var share *record.Share
	err := s.read(ctx, only(tenant), ask(one(&share, scanShare), selectShare, string(tenant), string(id)))
	if err == nil && share == nil {
		err = notFound("share", string(id))
	}
	if err != nil {
		return record.Share{}, err
	}
	return *share, nil
}

// ListShares implements dispatch.Transcripts.
func (s *Store) ListShares(ctx context.Context, q dispatch.ShareQuery) (out []record.Share, err error) {
	var w where
	w.and("tenant = ?", string(q.Tenant))
	switch {
	case q.By != nil && q.To != nil:
		w.and("(issuer = ? AND subject = ? AND agent = ? OR to_issuer = ? AND to_subject = ?)",
			q.By.Principal.Issuer, q.By.Principal.Subject, string(q.By.Agent), q.To.Issuer, q.To.Subject)
	case q.By != nil:
		w.owner(q.By)
	case q.To != nil:
		w.and("to_issuer = ? AND to_subject = ?", q.To.Issuer, q.To.Subject)
	}
	if q.Before != "" {
		w.and("id < ?", string(q.Before))
	}
	sql := `SELECT ` + shareFields + ` FROM shares WHERE ` + w.end("id DESC", q.Limit)
	err = s.read(ctx, only(q.Tenant), ask(collect(&out, scanShare), sql, w.args...))
	return out, err
}

// transcript locks a transcript and, for a new one, how many its owner has.
func (w *wants) transcript(m *record.TranscriptMove) {
	if m == nil {
		return
	}
	t := m.After
	w.tenants[t.Tenant] = true
	w.locks.own(lockName, "transcript", string(t.Tenant), string(t.ID))
	w.transcripts[transcriptKey{t.Tenant, t.ID}] = true
	if m.From == 0 {
		w.locks.own(lockName, "transcripts", string(t.Tenant), t.Principal.Issuer, t.Principal.Subject, string(t.Agent))
		w.keepers[t.Owner] = true
	}
}

// share locks a share and, for a new one, how many its giver has.
func (w *wants) share(f record.Facts) {
	if f.Share == nil {
		return
	}
	s := f.Share.After
	w.tenants[s.By.Tenant] = true
	w.locks.own(lockName, "share", string(s.By.Tenant), string(s.ID))
	w.shares[shareKey{s.By.Tenant, s.ID}] = true
	if !f.Share.End {
		w.locks.own(lockName, "shares", string(s.By.Tenant), s.By.Principal.Issuer, s.By.Principal.Subject, string(s.By.Agent))
		w.givers[s.By] = f.At
	}
}

func (t *truth) readTranscripts(queue func(int, func(*columns) error, string, ...any), w *wants) {
	transcripts := keysOf(w.transcripts)
	queue(len(transcripts), func(c *columns) error {
		t.transcripts[transcriptKey{record.TenantID(c.text()), record.TranscriptID(c.text())}] = c.int()
		return nil
	}, readTranscripts, texts(transcripts, func(k transcriptKey) string { return string(k.tenant) }), texts(transcripts, func(k transcriptKey) string { return string(k.id) }))
	for o := range w.keepers {
		queue(1, func(c *columns) error { t.kept[o] = c.int(); return nil }, countTranscripts,
			string(o.Tenant), o.Principal.Issuer, o.Principal.Subject, string(o.Agent))
	}
	shares := keysOf(w.shares)
	queue(len(shares), func(c *columns) error {
		s, err := scanShare(c)
		t.shares[shareKey{s.By.Tenant, s.ID}] = s
		return err
	}, readShares, texts(shares, func(k shareKey) string { return string(k.tenant) }), texts(shares, func(k shareKey) string { return string(k.id) }))
	for o, at := range w.givers {
		queue(1, func(c *columns) error { t.given[o] = c.int(); return nil }, countShares,
			string(o.Tenant), o.Principal.Issuer, o.Principal.Subject, string(o.Agent), micro(at))
	}
}

func (t *truth) mayTranscript(m *record.TranscriptMove) error {
	if m == nil {
		return nil
	}
	version, found := t.transcripts[transcriptKey{m.After.Tenant, m.After.ID}]
	switch {
	case m.From == 0 && found, m.From != 0 && (!found || version != m.From):
		return conflict("the transcript has changed")
	case m.From == 0 && t.kept[m.After.Owner] >= record.MaxTranscripts:
		return &record.Refusal{Kind: record.RefusedLimit, What: "the owner has too many transcripts"}
	}
	return nil
}

func (t *truth) mayShare(m *record.ShareMove) error {
	if m == nil {
		return nil
	}
	now, found := t.shares[shareKey{m.After.By.Tenant, m.After.ID}]
	switch {
	case m.End == !found, m.End && !now.Ended.IsZero():
		return conflict("the share has changed")
	case !m.End && t.given[m.After.By] >= record.MaxShares:
		return &record.Refusal{Kind: record.RefusedLimit, What: "the owner has too many shares"}
	}
	return nil
}

func (t *truth) putTranscript(m *record.TranscriptMove, w *writes) {
	if m == nil {
		return
	}
	a := m.After
	k := transcriptKey{a.Tenant, a.ID}
	switch {
	case m.Delete:
		delete(t.transcripts, k)
		t.kept[a.Owner]--
		w.queue(deleteTranscript, string(a.Tenant), string(a.ID))
	case m.From != 0:
		t.transcripts[k] = a.Version
		w.queue(updateTranscript, a.Version, micro(a.Changed), encode(a.Items), string(a.Tenant), string(a.ID), m.From)
	default:
		t.transcripts[k] = a.Version
		t.kept[a.Owner]++
		w.queue(insertTranscript, string(a.Tenant), string(a.ID), a.Principal.Issuer, a.Principal.Subject, string(a.Agent), a.Label, a.Format, a.Digest[:], a.Size,
			int64(a.Messages), a.Version, micro(a.Imported), micro(a.Changed), encode(a.Items))
	}
}

func (t *truth) putShare(m *record.ShareMove, w *writes) {
	if m == nil {
		return
	}
	s := m.After
	t.shares[shareKey{s.By.Tenant, s.ID}] = s
	if m.End {
		w.queue(endShare, micro(s.Ended), string(s.By.Tenant), string(s.ID))
		return
	}
	t.given[s.By]++
	w.queue(insertShare, string(s.By.Tenant), string(s.ID), s.By.Principal.Issuer, s.By.Principal.Subject, string(s.By.Agent), s.To.Issuer, s.To.Subject,
		string(s.Run), string(s.Transcript), micro(s.Given), micro(s.Until), micro(s.Ended))
}
