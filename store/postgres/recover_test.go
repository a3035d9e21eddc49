package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/placet-dev/placet/record"
)

// TestRule_J2_AnotherPlace: a database that is not where it was is refused until a new
// epoch is opened there, unless a synchronous standby had every commit; and replicas of
// the older epoch change nothing afterwards.
func TestRule_J2_AnotherPlace(t *testing.T) {
	dsn, _, _ := runtimeRole(t)
	s, older := open(t, dsn, nil), open(t, dsn, nil)
	for range 2 {
		if err := s.Moved(t.Context()); err != nil {
			t.Fatalf("where it was: %v", err)
		}
	}
	write := func(s *Store) error {
		return s.Apply(t.Context(), record.Raise(record.Alert{Rule: record.AlertRefusals, Subject: "x", Text: "x"}, "acme", "", "", time.Now()))
	}
	if err := write(older); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(t.Context(), s.committer.config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	was := func(place string, synchronous bool) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), `INSERT INTO places (place, synchronous) VALUES ($1, $2)`, place, synchronous); err != nil {
			t.Fatal(err)
		}
	}
	was("1/00000001", true)
	if err := s.Moved(t.Context()); err != nil {
		t.Fatalf("with a synchronous standby: %v", err)
	}
	was("1/00000001", false)
	if err := s.Moved(t.Context()); record.KindOf(err) != record.Conflict {
		t.Fatalf("another timeline: %v", err)
	}
	change, err := record.Recover(record.Recovery{From: 1, To: 2, Why: "restored", Who: record.Who{System: "recovery"}, At: time.Now()}, "")
	if err == nil {
		err = s.Apply(t.Context(), change)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Moved(t.Context()); err != nil {
		t.Fatalf("after the recovery: %v", err)
	}
	if err := write(s); err != nil {
		t.Fatalf("in the new epoch: %v", err)
	}
	var refused *record.Refusal
	if err := write(older); !errors.As(err, &refused) || refused.Kind != record.RefusedPremise {
		t.Fatalf("a replica of the older epoch: %v", err)
	}
}
