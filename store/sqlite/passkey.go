package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/placet-dev/placet/record"
)

const (
	passkeyFields  = `tenant, issuer, subject, id, public_key, name, rp_id, added, seal, count, used`
	insertPasskey  = `INSERT INTO passkeys (` + passkeyFields + `) VALUES (?,?,?,?,?,?,?,?,?,?,?)`
	deletePasskey  = `DELETE FROM passkeys WHERE tenant = ? AND issuer = ? AND subject = ? AND id = ?`
	usePasskey     = `UPDATE passkeys SET count = ?, used = ? WHERE tenant = ? AND issuer = ? AND subject = ? AND id = ?`
	selectCount    = `SELECT count FROM passkeys WHERE tenant = ? AND issuer = ? AND subject = ? AND id = ?`
	selectID       = `SELECT 1 FROM passkeys WHERE id = ?`
	countPasskeys  = `SELECT COUNT(*) FROM passkeys WHERE tenant = ? AND issuer = ? AND subject = ?`
	selectPasskeys = `SELECT ` + passkeyFields + ` FROM passkeys WHERE tenant = ? AND issuer = ? AND subject = ? ORDER BY added, id`
)

// Passkeys implements dispatch.Store.
func (s *Store) Passkeys(ctx context.Context, tenant record.TenantID, person record.Principal) (out []record.Passkey, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return each(conn, selectPasskeys, func(stmt *sqlite.Stmt) error {
			col := &columns{stmt: stmt}
			p := record.Passkey{Tenant: record.TenantID(col.text()), Person: record.Principal{Issuer: col.text(), Subject: col.text()},
				ID: col.blob(), Public: col.blob(), Name: col.text(), RPID: col.text(), Added: col.time(), Seal: col.blob(),
				Count: uint32(col.int()), Used: col.time()}
			out = append(out, p)
			return col.err
		}, tenant, person.Issuer, person.Subject)
	})
	return out, err
}

// seen reads how far a passkey's counter has come.
func (w *writer) seen(r record.PasskeyRef) (count uint32, enrolled bool, err error) {
	enrolled, err = w.row(selectCount, func(s *sqlite.Stmt) { count = uint32(s.ColumnInt64(0)) },
		r.Tenant, r.Person.Issuer, r.Person.Subject, r.ID)
	return count, enrolled, err
}

// mayPasskey checks what a move of a passkey needs, before anything is written.
func (w *writer) mayPasskey(m *record.PasskeyMove) error {
	if m == nil {
		return nil
	}
	conflict := func(what string) error { return &record.Refusal{Kind: record.RefusedConflict, What: what} }
	switch {
	case m.Add != nil:
		taken, err := w.row(selectID, func(*sqlite.Stmt) {}, m.Add.ID)
		if err != nil {
			return err
		}
		if taken {
			return conflict("the passkey is enrolled")
		}
		var have int64
		_, err = w.row(countPasskeys, func(s *sqlite.Stmt) { have = s.ColumnInt64(0) }, m.Add.Tenant, m.Add.Person.Issuer, m.Add.Person.Subject)
		if err == nil && have >= record.MaxPasskeys {
			err = conflict("the person has too many passkeys")
		}
		return err
	case m.Remove != nil:
		_, ok, err := w.seen(*m.Remove)
		if err == nil && !ok {
			err = conflict("the passkey is not enrolled")
		}
		return err
	case m.Used != nil:
		count, ok, err := w.seen(m.Used.PasskeyRef)
		if err == nil && (!ok || !record.Rises(count, m.Used.Count)) {
			err = conflict("the passkey is not enrolled, or its counter did not rise")
		}
		return err
	}
	return nil
}

// passkeysStay checks that what an approval rests on is still enrolled.
func (w *writer) passkeysStay(refs []record.PasskeyRef) error {
	for _, r := range refs {
		_, ok, err := w.seen(r)
		if err != nil {
			return err
		}
		if !ok {
			return &record.Refusal{Kind: record.RefusedPremise, What: "a passkey was removed"}
		}
	}
	return nil
}

func (w *writer) putPasskey(m *record.PasskeyMove) error {
	switch {
	case m == nil:
		return nil
	case m.Add != nil:
		p := m.Add
		return w.run(insertPasskey, p.Tenant, p.Person.Issuer, p.Person.Subject, p.ID, p.Public, p.Name, p.RPID, micro(p.Added),
			p.Seal, int64(p.Count), micro(p.Used))
	case m.Remove != nil:
		return w.run(deletePasskey, m.Remove.Tenant, m.Remove.Person.Issuer, m.Remove.Person.Subject, m.Remove.ID)
	case m.Used != nil:
		u := m.Used
		return w.run(usePasskey, int64(u.Count), micro(u.At), u.Tenant, u.Person.Issuer, u.Person.Subject, u.ID)
	}
	return nil
}

// proof is a signed answer as it is stored.
func proof(p *record.Proof) text {
	if p == nil {
		return text("")
	}
	return encode(p)
}
