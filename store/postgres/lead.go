package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Lead runs work in one process at a time, for what is to be done once however many
// there are, such as telling people: while this process leads, until ctx ends. The
// context of work ends when the lead is lost; two may then overlap for a moment, so
// work says for itself what it has done.
func (s *Store) Lead(ctx context.Context, work func(context.Context)) {
	for away := false; ctx.Err() == nil; pause(ctx, s.poll) {
		led, err := s.lead(ctx, work)
		if err == nil || ctx.Err() != nil {
			return
		}
		if led || !away {
			s.log.Warn("store: what one server does for all is not done here now", "error", plain(err))
		}
		away = true
	}
}

// lead waits on a connection of its own for the lock of who leads, and works while it
// has it. The lock ends with the connection.
func (s *Store) lead(ctx context.Context, work func(context.Context)) (led bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, s.waiting)
	if err != nil {
		return false, err
	}
	defer drop(conn)
	for !led {
		if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, lockLead).Scan(&led); err != nil {
			return false, err
		}
		if !led && !pause(ctx, s.poll) {
			return false, nil
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); work(ctx) }()
	defer func() { <-done }() // before the lock goes with its connection
	defer cancel()
	for pause(ctx, s.poll) {
		ask, stop := context.WithTimeout(ctx, answers)
		err := conn.Ping(ask)
		stop()
		if err != nil {
			return true, err
		}
	}
	return true, nil
}

// pause waits, and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
