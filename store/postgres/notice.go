package postgres

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

var _ dispatch.Peers = (*Store)(nil)

// Notices go by NOTIFY, in the transaction of the batch that they tell of: who hears
// one finds what it tells of. They name calls, and nothing of what is in them.
const (
	notify = `SELECT pg_notify('placet', $1)`
	listen = `LISTEN placet`
)

// What a notice says of the calls that it names.
const (
	movedWord = "moved" // they did, and the log is longer
	allWord   = "all"   // more moved than are named
	stopWord  = "stop"  // they are to stop
)

// mostNamed bounds a notice: the server takes less than 8,000 bytes.
const mostNamed = 150

// notice writes one: who says it, what it says, and of which calls.
func notice(origin, word string, calls []record.CallID) string {
	var b strings.Builder
	b.WriteString(origin + " " + word)
	for _, id := range calls {
		b.WriteByte(' ')
		b.WriteString(string(id))
	}
	return b.String()
}

// readNotice reads what another process wrote; its own is none. Of what this program
// does not know, a newer one's, it makes that anything may have moved.
func readNotice(text, origin string) (n dispatch.Notice, other bool) {
	words := strings.Split(text, " ")
	if words[0] == origin {
		return n, false
	}
	var calls []record.CallID
	for _, id := range words[min(2, len(words)):] {
		if !record.ValidID("call", id) {
			return dispatch.Notice{Anything: true}, true
		}
		calls = append(calls, record.CallID(id))
	}
	switch {
	case len(words) > 1 && words[1] == stopWord:
		n.Stop = calls
	case len(words) > 1 && words[1] == movedWord:
		n.Moved = calls
	default:
		n.Anything = true
	}
	return n, true
}

// newOrigin tells this process's notices from those of others.
func newOrigin(random io.Reader) (string, error) {
	var b [8]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("read randomness for a store: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// told is what a batch's notice names: the calls that its changes moved, or whose
// questions did.
func (w *writes) told(f record.Facts) {
	if f.Call != nil {
		w.moved = append(w.moved, f.Call.After.ID)
	}
	for _, m := range f.Approvals {
		w.moved = append(w.moved, m.After.Call)
	}
}

func (w *writes) notify(b *pgx.Batch, origin string) {
	slices.Sort(w.moved)
	calls, word := slices.Compact(w.moved), movedWord
	if len(calls) > mostNamed {
		calls, word = nil, allWord
	}
	b.Queue(notify, notice(origin, word, calls))
}

// Stop implements dispatch.Peers.
func (s *Store) Stop(ctx context.Context, calls ...record.CallID) error {
	for part := range slices.Chunk(calls, mostNamed) {
		say := query{sql: notify, args: []any{notice(s.origin, stopWord, part)}, scan: func(rows pgx.Rows) error { rows.Close(); return rows.Err() }}
		if err := s.read(ctx, only(), say); err != nil {
			return err
		}
	}
	return nil
}

// Listen implements dispatch.Peers. While its connection is away, who waits looks by
// the clock.
func (s *Store) Listen(ctx context.Context, heard func(dispatch.Notice)) {
	anything := func() { heard(dispatch.Notice{Anything: true}) }
	for away := false; ctx.Err() == nil; {
		err := s.hear(ctx, heard, func() { away = false; anything() })
		if ctx.Err() != nil {
			return
		}
		if !away {
			s.log.Warn("store: other servers cannot be heard; who waits here looks by the clock meanwhile", "error", plain(err))
		}
		away = true
		if pause(ctx, s.poll) {
			anything()
		}
	}
}

// hear listens on a connection of its own until that breaks. began is called when
// nothing is missed any more: what was missed before, it has looked for.
func (s *Store) hear(ctx context.Context, heard func(dispatch.Notice), began func()) error {
	conn, err := pgx.ConnectConfig(ctx, s.waiting)
	if err != nil {
		return err
	}
	defer drop(conn)
	if _, err := conn.Exec(ctx, listen); err != nil {
		return err
	}
	began()
	for quiet := time.Now(); ; {
		n, err := next(ctx, conn, s.poll)
		if err != nil {
			return err
		}
		if out, other := readNotice(n, s.origin); n != "" && other {
			heard(out)
		}
		if time.Since(quiet) >= 10*s.poll {
			// By the clock all the same: whether notices reach us is not ours to decide.
			heard(dispatch.Notice{Anything: true})
			quiet = time.Now()
		}
	}
}

// next is the next notice, or "" after a while without one, in which the connection
// was found alive.
func next(ctx context.Context, conn *pgx.Conn, d time.Duration) (string, error) {
	wait, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	n, err := conn.WaitForNotification(wait)
	if n != nil {
		return n.Payload, nil
	}
	if err != nil && wait.Err() != nil && ctx.Err() == nil {
		ask, cancel := context.WithTimeout(ctx, answers)
		defer cancel()
		return "", conn.Ping(ask)
	}
	return "", err
}

// answers is how long a connection may take to show that it lives.
const answers = 10 * time.Second

// drop closes a connection of which it does not matter what it does.
func drop(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
