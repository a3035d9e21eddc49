package ingress

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// Window is how long refusals of one caller are gathered before they are told.
const Window = time.Minute

// most bounds how many callers are remembered. Those whose rate is unused are
// forgotten first, which gives them nothing.
const most = 100_000

// Options are what a limit is made of. Clock is required.
type Options struct {
	PerSecond int // 0: no limit
	Burst     int
	Clock     func() time.Time
	// Refused is told how many requests of a caller were refused in a window.
	Refused func(owner record.Owner, n int64)
}

// Limit is the rates of all callers. The zero value has no limit.
type Limit struct {
	o       Options
	mu      sync.Mutex
	callers map[record.Owner]*caller
}

type caller struct {
	rate    *rate.Limiter
	refused int64
	timer   *time.Timer
}

// New makes a limit; nil where there is none.
func New(o Options) *Limit {
	if o.PerSecond <= 0 {
		return nil
	}
	if o.Refused == nil {
		o.Refused = func(record.Owner, int64) {}
	}
	o.Burst = max(o.Burst, 1)
	return &Limit{o: o, callers: map[record.Owner]*caller{}}
}

// Admit counts a request of a caller, and refuses it as record.Limited beyond the
// caller's rate.
func (l *Limit) Admit(_ context.Context, who identity.Caller) error {
	if l == nil || !who.Valid() {
		return nil
	}
	now, owner := l.o.Clock(), who.Owner()
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.callers[owner]
	if c == nil {
		if len(l.callers) >= most {
			l.forget(now)
		}
		c = &caller{rate: rate.NewLimiter(rate.Limit(l.o.PerSecond), l.o.Burst)}
		l.callers[owner] = c
	}
	if c.rate.AllowN(now, 1) {
		return nil
	}
	if c.refused++; c.refused == 1 {
		c.timer = time.AfterFunc(Window, func() { l.tell(owner, c) })
	}
	return record.Errorf(record.Limited, "too many requests of this user and agent; send at most %d a second", l.o.PerSecond)
}

// forget drops callers whose rate is unused, and when there are none, all that have
// no refusals to tell.
func (l *Limit) forget(now time.Time) {
	for _, unused := range []bool{true, false} {
		for owner, c := range l.callers {
			if c.refused == 0 && (!unused || c.rate.TokensAt(now) >= float64(l.o.Burst)) {
				delete(l.callers, owner)
			}
		}
		if len(l.callers) < most {
			return
		}
	}
}

func (l *Limit) tell(owner record.Owner, c *caller) {
	l.mu.Lock()
	n := c.refused
	c.refused = 0
	l.mu.Unlock()
	if n > 0 {
		l.o.Refused(owner, n)
	}
}

// Close tells what was not told yet.
func (l *Limit) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	left := map[record.Owner]*caller{}
	for owner, c := range l.callers {
		if c.timer != nil && c.timer.Stop() {
			left[owner] = c
		}
	}
	l.mu.Unlock()
	for owner, c := range left {
		l.tell(owner, c)
	}
}
