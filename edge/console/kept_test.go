package console

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"testing"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/store/postgres"
	"github.com/placet-dev/placet/store/postgres/pgtest"
)

// A browser that signed in at one server is signed in at the others, and signed out at
// all of them; a nonce is used up everywhere; the database alone shows no token, and what
// it is made to say is nobody's session.
func TestSessionsOfSeveralServers(t *testing.T) {
	server := pgtest.Start(t)
	database := server.Database(t)
	ctx, now := t.Context(), time.Now()
	key := bytes.Repeat([]byte{7}, 32)
	at := func(key []byte) (*Console, *sessions) {
		store, err := postgres.Open(ctx, server.DSN("owner", database), postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		k, err := newKeep(store, key, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		s := &sessions{keep: k, random: rand.Reader, held: map[canon.Digest]*session{}}
		return &Console{o: Options{Clock: func() time.Time { return now }}, sessions: s}, s
	}
	ca, a := at(key)
	cb, b := at(key)
	_, other := at(bytes.Repeat([]byte{8}, 32))
	lena := record.Principal{Issuer: "https://idp", Subject: "lena"}
	name, err := a.open(ctx, &session{owner: lena, access: "secret-access", refresh: "secret-refresh", asked: now}, now)
	if err != nil {
		t.Fatal(err)
	}
	find := func(s *sessions, name string) *session {
		t.Helper()
		found, err := s.find(ctx, name, now, true)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	atB := find(b, name)
	if atB == nil || atB.owner != lena || atB.access != "secret-access" || !atB.sent(find(a, name).form) {
		t.Fatalf("at the other server: %+v", atB)
	}
	if find(b, name+"x") != nil || find(other, name) != nil {
		t.Error("another name, or another key, finds a session")
	}

	// The token that one server renewed is the other's.
	if err := a.keep.change(ctx, find(a, name), now, func() error { a.held[keyOf(name)].access = "renewed"; return nil }); err != nil {
		t.Fatal(err)
	}
	if got := find(b, name).access; got != "renewed" {
		t.Errorf("the other server has %q", got)
	}
	nonce, err := ca.ceremony(ctx, find(a, name))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := cb.ceremony(ctx, find(b, name)); err != nil || !bytes.Equal(again, nonce) {
		t.Errorf("two pages, two nonces: %x %x %v", nonce, again, err)
	}
	use := func(c *Console, s *session) (used []byte) {
		t.Helper()
		if err := c.sessions.keep.change(context.Background(), s, now, func() error { used, s.nonce = s.nonce, nil; return nil }); err != nil {
			t.Fatal(err)
		}
		return used
	}
	if first, second := use(cb, find(b, name)), use(ca, find(a, name)); !bytes.Equal(first, nonce) || second != nil {
		t.Errorf("a nonce was used as %x and %x", first, second)
	}

	if rows := server.Do(t, database, "SELECT string_agg(encode(sealed, 'escape') || encode(name, 'hex') || encode(owner, 'hex'), '') FROM placet.sessions"); rows == "" ||
		bytes.Contains([]byte(rows), []byte("secret")) || bytes.Contains([]byte(rows), []byte("lena")) {
		t.Errorf("the database shows %q", rows)
	}
	digest := ownerDigest(lena)
	owner := hex.EncodeToString(digest[:])
	second, err := a.open(ctx, &session{owner: record.Principal{Issuer: "https://idp", Subject: "mallory"}, access: "mallory's"}, now)
	if err != nil {
		t.Fatal(err)
	}
	server.Do(t, database, "UPDATE placet.sessions SET version = 100, sealed = (SELECT sealed FROM placet.sessions WHERE owner = '\\x"+owner+"') WHERE owner <> '\\x"+owner+"'")
	if find(b, second) != nil {
		t.Error("a session moved to another name is one")
	}
	if err := b.drop(ctx, name); err != nil {
		t.Fatal(err)
	}
	if find(a, name) != nil {
		t.Error("who signed out at one server is signed in at another")
	}
}
