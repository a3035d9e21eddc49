package postgres

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/placet-dev/placet/record"
)

// While one batch is decided and written, the next is gathered, read, and committed if
// nothing that it wants is held.
func TestABatchDoesNotWaitForAnother(t *testing.T) {
	dsn, _, _ := runtimeRole(t)
	var first atomic.Bool
	reached, release := make(chan struct{}), make(chan struct{})
	s := open(t, dsn, func() {
		if first.CompareAndSwap(true, false) {
			close(reached)
			<-release
		}
	})
	bert := anna // limits on what waits are a principal's
	bert.Principal.Subject = "bert"
	a, b := openRun(t, s, anna), openRun(t, s, bert)
	change := func(r record.Run, arguments string) record.Change {
		c, err := record.Authorize(proposal(t, r, arguments), stepOf(r, 0))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first.Store(true)
	held := make(chan error, 1)
	one, two := change(a, `{"n":1}`), change(b, `{"n":2}`)
	go func() { held <- s.Apply(t.Context(), one) }()
	<-reached
	passed := make(chan error, 1)
	go func() { passed <- s.Apply(t.Context(), two) }()
	select {
	case err := <-passed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("a change of another run waited")
	}
	select {
	case err := <-held:
		t.Errorf("who waits is answered before the commit: %v", err)
	default:
	}
	close(release)
	if err := <-held; err != nil {
		t.Error(err)
	}
}

// What the batches of one server want both is given to one after the other, as between
// servers.
func TestOneServersBatchesShareLimitsAndReservations(t *testing.T) {
	dsn, _, _ := runtimeRole(t)
	s := replicasOf(t, dsn, 1, 2)[0]
	shareLimitsAndReservations(t, []*Store{s, s, s})
}
