package console

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Kept keeps sign-ins for several servers, so that each serves a browser that signed
// in at another. What it keeps is sealed; names and owners are digests. An unknown
// name answers with record.NotFound.
type Kept interface {
	// Session returns a session, its version, and when it was used.
	Session(ctx context.Context, name canon.Digest) (sealed []byte, version int64, used time.Time, err error)
	// PutSession keeps what follows a version; 1 is a new session. It answers with
	// record.Conflict when that version is not the one that is kept.
	PutSession(ctx context.Context, name, owner canon.Digest, sealed []byte, version int64, now time.Time) error
	// UseSession notes that a session was used.
	UseSession(ctx context.Context, name canon.Digest, now time.Time) error
	DropSession(ctx context.Context, name canon.Digest) error
	// TrimSessions removes those that were not used since, or began before, and of an
	// owner all but the newest.
	TrimSessions(ctx context.Context, owner canon.Digest, newest int, unused, began time.Time) error
}

// useStep is how exactly it is kept when a session was used.
const useStep = time.Minute

// keptSession is what is sealed.
type keptSession struct {
	Form    string           `json:"form"`
	Owner   record.Principal `json:"owner"`
	Since   time.Time        `json:"since"`
	Asked   time.Time        `json:"asked"`
	Access  string           `json:"access"`
	Refresh string           `json:"refresh"`
	ID      string           `json:"id"`
	Nonce   []byte           `json:"nonce"`
	Until   time.Time        `json:"until"`
}

// keep is where sessions are kept beside this process's memory; the zero value keeps
// nothing.
type keep struct {
	Kept
	aead   cipher.AEAD
	random io.Reader
}

func newKeep(k Kept, key []byte, random io.Reader) (keep, error) {
	if k == nil {
		return keep{}, nil
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return keep{}, fmt.Errorf("key of sessions: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	return keep{k, aead, random}, err
}

func ownerDigest(p record.Principal) canon.Digest {
	return canon.Of("placet/session-owner/1", []byte(p.Issuer), []byte(p.Subject))
}

// save keeps a session as it is now. Its lock is held. When another server changed it
// meanwhile, that is what counts, and record.Conflict says so.
func (k keep) save(ctx context.Context, s *session, now time.Time) error {
	if k.Kept == nil {
		return nil
	}
	text, err := json.Marshal(keptSession{s.form, s.owner, s.since, s.asked, s.access, s.refresh, s.id, s.nonce, s.until})
	if err != nil {
		return fmt.Errorf("keep a session: %w", err)
	}
	nonce := make([]byte, k.aead.NonceSize())
	if _, err := io.ReadFull(k.random, nonce); err != nil {
		return fmt.Errorf("read randomness for a session: %w", err)
	}
	sealed := k.aead.Seal(nonce, nonce, text, s.key[:])
	if err := k.PutSession(ctx, s.key, ownerDigest(s.owner), sealed, s.version+1, now); err != nil {
		return err
	}
	s.version++
	return nil
}

// load makes a session what is kept of it, and reports whether that was something new.
// Its lock is held. record.NotFound: it is over, or is none of ours.
func (k keep) load(ctx context.Context, s *session) (changed bool, err error) {
	if k.Kept == nil {
		return false, nil
	}
	sealed, version, used, err := k.Session(ctx, s.key)
	if err != nil {
		return false, err
	}
	s.used.Store(used.UnixNano())
	if version == s.version {
		return false, nil
	}
	n := k.aead.NonceSize()
	var in keptSession
	if len(sealed) < n {
		return false, errOver
	}
	text, err := k.aead.Open(nil, sealed[:n], sealed[n:], s.key[:])
	if err == nil {
		err = json.Unmarshal(text, &in)
	}
	if err != nil {
		return false, errOver
	}
	if s.version == 0 { // these never change, and are read without the lock
		s.form, s.owner, s.since, s.asked = in.Form, in.Owner, in.Since, in.Asked
	}
	s.access, s.refresh, s.id, s.nonce, s.until, s.version = in.Access, in.Refresh, in.ID, in.Nonce, in.Until, version
	return true, nil
}

var errOver = record.Errorf(record.NotFound, "there is no such session")

func isOver(err error) bool { return err != nil && record.KindOf(err) == record.NotFound }

func conflicts(err error) bool { return err != nil && record.KindOf(err) == record.Conflict }

// change changes a session as it is kept, whichever server changed it last.
func (k keep) change(ctx context.Context, s *session, now time.Time, f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range 5 {
		if _, err := k.load(ctx, s); err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
		err := k.save(ctx, s, now)
		if !conflicts(err) {
			return err
		}
	}
	return errors.New("a session kept changing")
}
