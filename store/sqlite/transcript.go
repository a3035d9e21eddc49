package sqlite

import (
	"context"
	"errors"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const (
	transcriptFields = `tenant, id, issuer, subject, agent, label, format, digest, size, messages, version, imported, changed`
	insertTranscript = `INSERT INTO transcripts (` + transcriptFields + `, items) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)`
	updateTranscript = `UPDATE transcripts SET version = ?, changed = ?, items = ? WHERE tenant = ? AND id = ?`
	deleteTranscript = `DELETE FROM transcripts WHERE tenant = ? AND id = ?`
	selectVersion    = `SELECT version FROM transcripts WHERE tenant = ? AND id = ?`
	selectTranscript = `SELECT ` + transcriptFields + `, items FROM transcripts WHERE tenant = ? AND id = ?`
	countTranscripts = `SELECT count(*) FROM transcripts INDEXED BY transcripts_owner WHERE tenant = ? AND issuer = ? AND subject = ? AND agent = ?`

	shareFields = `tenant, id, issuer, subject, agent, to_issuer, to_subject, run, transcript, given, until, ended`
	insertShare = `INSERT INTO shares (` + shareFields + `) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)`
	endShare    = `UPDATE shares SET ended = ? WHERE tenant = ? AND id = ?`
	selectShare = `SELECT ` + shareFields + ` FROM shares WHERE tenant = ? AND id = ?`
	countShares = `SELECT count(*) FROM shares INDEXED BY shares_by WHERE tenant = ? AND issuer = ? AND subject = ? AND agent = ? AND ended = 0 AND until > ?`
)

func scanTranscript(stmt *sqlite.Stmt) (record.Transcript, *columns) {
	col := &columns{stmt: stmt}
	t := record.Transcript{}
	t.Tenant, t.ID = record.TenantID(col.text()), record.TranscriptID(col.text())
	t.Principal = record.Principal{Issuer: col.text(), Subject: col.text()}
	t.Agent, t.Label, t.Format, t.Digest = record.AgentID(col.text()), col.text(), col.text(), col.digest()
	t.Size, t.Messages, t.Version = col.int(), int(col.int()), col.int()
	t.Imported, t.Changed = col.time(), col.time()
	return t, col
}

func scanShare(stmt *sqlite.Stmt) (record.Share, error) {
	col := &columns{stmt: stmt}
	s := record.Share{}
	s.By.Tenant, s.ID = record.TenantID(col.text()), record.ShareID(col.text())
	s.By.Principal = record.Principal{Issuer: col.text(), Subject: col.text()}
	s.By.Agent = record.AgentID(col.text())
	s.To = record.Principal{Issuer: col.text(), Subject: col.text()}
	s.Run, s.Transcript = record.RunID(col.text()), record.TranscriptID(col.text())
	s.Given, s.Until, s.Ended = col.time(), col.time(), col.time()
	return s, col.err
}

// Transcript implements dispatch.Transcripts.
func (s *Store) Transcript(ctx context.Context, tenant record.TenantID, id record.TranscriptID) (t record.Transcript, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		var bad error
		found, err := row(conn, selectTranscript, func(s *sqlite.Stmt) {
			var col *columns
			t, col = scanTranscript(s)
			col.json(&t.Items)
			bad = col.err
		}, tenant, id)
		switch {
		case err != nil:
			return err
		case !found:
			return notFound("transcript", string(id))
		}
		return bad
	})
	return t, err
}

// ListTranscripts implements dispatch.Transcripts.
func (s *Store) ListTranscripts(ctx context.Context, q dispatch.TranscriptQuery) (out []record.Transcript, err error) {
	w := &where{}
	w.and("tenant = ?", q.Tenant)
	w.owner(q.Owner)
	if q.Before != "" {
		w.and("id < ?", q.Before)
	}
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return each(conn, `SELECT `+transcriptFields+` FROM transcripts WHERE `+w.sql.String()+` ORDER BY id DESC LIMIT ?`,
			collect(&out, func(stmt *sqlite.Stmt) (record.Transcript, error) {
				t, col := scanTranscript(stmt)
				return t, col.err
			}), append(w.args, w.limit(q.Limit))...)
	})
	return out, err
}

// Share implements dispatch.Transcripts.
func (s *Store) Share(ctx context.Context, tenant record.TenantID, id record.ShareID) (share record.Share, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		var bad error
		found, err := row(conn, selectShare, func(s *sqlite.Stmt) { share, bad = scanShare(s) }, tenant, id)
		switch {
		case err != nil:
			return err
		case !found:
			return notFound("share", string(id))
		}
		return bad
	})
	return share, err
}

// ListShares implements dispatch.Transcripts.
func (s *Store) ListShares(ctx context.Context, q dispatch.ShareQuery) (out []record.Share, err error) {
	w := &where{}
	w.and("tenant = ?", q.Tenant)
	switch {
	case q.By != nil && q.To != nil:
		w.and("(issuer = ? AND subject = ? AND agent = ? OR to_issuer = ? AND to_subject = ?)",
			q.By.Principal.Issuer, q.By.Principal.Subject, q.By.Agent, q.To.Issuer, q.To.Subject)
	case q.By != nil:
		w.owner(q.By)
	case q.To != nil:
		w.and("to_issuer = ? AND to_subject = ?", q.To.Issuer, q.To.Subject)
	}
	if q.Before != "" {
		w.and("id < ?", q.Before)
	}
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return each(conn, `SELECT `+shareFields+` FROM shares WHERE `+w.sql.String()+` ORDER BY id DESC LIMIT ?`, collect(&out, scanShare),
			append(w.args, w.limit(q.Limit))...)
	})
	return out, err
}

// mayTranscript checks what a move of a transcript needs, before anything is written.
func (w *writer) mayTranscript(m *record.TranscriptMove) error {
	if m == nil {
		return nil
	}
	var version int64
	found, err := w.row(selectVersion, func(s *sqlite.Stmt) { version = s.ColumnInt64(0) }, m.After.Tenant, m.After.ID)
	switch {
	case err != nil:
		return err
	case m.From == 0 && found, m.From != 0 && (!found || version != m.From):
		return &record.Refusal{Kind: record.RefusedConflict, What: "the transcript has changed"}
	case m.From != 0:
		return nil
	}
	o := m.After.Owner
	return w.atMost(record.MaxTranscripts, "the owner has too many transcripts", countTranscripts, o.Tenant, o.Principal.Issuer, o.Principal.Subject, o.Agent)
}

// mayShare checks what a move of a share needs.
func (w *writer) mayShare(m *record.ShareMove, at time.Time) error {
	if m == nil {
		return nil
	}
	var now record.Share
	var bad error
	found, err := w.row(selectShare, func(s *sqlite.Stmt) { now, bad = scanShare(s) }, m.After.By.Tenant, m.After.ID)
	switch {
	case err != nil || bad != nil:
		return errors.Join(err, bad)
	case m.End == !found, m.End && !now.Ended.IsZero():
		return &record.Refusal{Kind: record.RefusedConflict, What: "the share has changed"}
	case m.End:
		return nil
	}
	o := m.After.By
	return w.atMost(record.MaxShares, "the owner has too many shares", countShares, o.Tenant, o.Principal.Issuer, o.Principal.Subject, o.Agent, micro(at))
}

// atMost refuses one more where there are n.
func (w *writer) atMost(n int64, what, count string, args ...any) error {
	var have int64
	if _, err := w.row(count, func(s *sqlite.Stmt) { have = s.ColumnInt64(0) }, args...); err != nil {
		return err
	}
	if have >= n {
		return &record.Refusal{Kind: record.RefusedLimit, What: what}
	}
	return nil
}

func (w *writer) putTranscript(m *record.TranscriptMove) error {
	switch {
	case m == nil:
		return nil
	case m.Delete:
		return w.run(deleteTranscript, m.After.Tenant, m.After.ID)
	case m.From != 0:
		return w.run(updateTranscript, m.After.Version, micro(m.After.Changed), encode(m.After.Items), m.After.Tenant, m.After.ID)
	}
	t := m.After
	return w.run(insertTranscript, t.Tenant, t.ID, t.Principal.Issuer, t.Principal.Subject, t.Agent, t.Label, t.Format, t.Digest[:], t.Size,
		int64(t.Messages), t.Version, micro(t.Imported), micro(t.Changed), encode(t.Items))
}

func (w *writer) putShare(m *record.ShareMove) error {
	switch {
	case m == nil:
		return nil
	case m.End:
		return w.run(endShare, micro(m.After.Ended), m.After.By.Tenant, m.After.ID)
	}
	s := m.After
	return w.run(insertShare, s.By.Tenant, s.ID, s.By.Principal.Issuer, s.By.Principal.Subject, s.By.Agent, s.To.Issuer, s.To.Subject, s.Run, s.Transcript,
		micro(s.Given), micro(s.Until), micro(s.Ended))
}
