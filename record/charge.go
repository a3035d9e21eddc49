package record

import (
	"strconv"
	"strings"
	"time"
)

// Counter names a counter of one tenant: what is counted, then for whom.
type Counter string

// CounterFor joins what is counted with for whom, escaping the separator, so
// that no two lists of parts name the same counter.
func CounterFor(what string, parts ...string) Counter {
	var b strings.Builder
	b.WriteString(what)
	for _, p := range parts {
		b.WriteByte('|')
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(p, `\`, `\\`), "|", `\|`))
	}
	return Counter(b.String())
}

// Parts are what CounterFor joined.
func (c Counter) Parts() (what string, parts []string) {
	var b strings.Builder
	var out []string
	for i := 0; i < len(c); i++ {
		switch {
		case c[i] == '\\' && i+1 < len(c):
			i++
			b.WriteByte(c[i])
		case c[i] == '|':
			out = append(out, b.String())
			b.Reset()
		default:
			b.WriteByte(c[i])
		}
	}
	out = append(out, b.String())
	return out[0], out[1:]
}

// Charge adds to a counter in the change that carries it, which is refused as a
// whole where the sum would pass the limit (rule C4: a guarded update, never a
// count of rows).
//
// With a window the counter forgets: what was charged in any span of that length
// never passes the limit. Time is counted in sixtieths of the window, rounded so
// that a charge is never forgotten early.
type Charge struct {
	Counter Counter       `json:"counter"`
	Amount  int64         `json:"amount"`
	Limit   int64         `json:"limit"`
	Window  time.Duration `json:"window,omitempty"`
	Code    Code          `json:"code,omitempty"` // what the caller is told when it is refused
	Hold    bool          `json:"hold,omitempty"` // given back by the change that settles the call

	// Proof says that it is given back only by proof that nothing happened (rule E4):
	// an attempt whose outcome is not known keeps it. With Cost, what a result reports
	// takes its place.
	Proof bool      `json:"proof,omitempty"`
	Cost  bool      `json:"cost,omitempty"`
	At    time.Time `json:"at,omitzero"` // when it was charged, for the change that gives it back
}

// slots is the resolution of a window.
const slots = 60

// Level is a counter's stored value. The zero value has counted nothing.
type Level struct {
	Sum  int64  // what a counter without a window holds
	Ring []Slot // with a window: oldest first, at most slots+1
}

// Slot is what was charged in one sixtieth of the window.
type Slot struct {
	At     int64 // in units of window/slots since the epoch
	Amount int64
}

// Add charges c at now. It returns the new level, and when it refuses the
// unchanged one with the time from which the same charge may succeed; that is
// zero where no waiting helps.
func (l Level) Add(c Charge, now time.Time) (after Level, ok bool, retry time.Time) {
	if c.Window <= 0 {
		if c.Amount > 0 && l.Sum+c.Amount > c.Limit {
			return l, false, time.Time{}
		}
		return Level{Sum: max(l.Sum+c.Amount, 0)}, true, time.Time{}
	}
	unit := int64(c.Window) / slots
	if unit <= 0 {
		unit = 1
	}
	at := now.UnixNano() / unit
	// A slot is forgotten once its last instant is a whole window ago.
	ring := l.Ring
	for len(ring) > 0 && ring[0].At+slots < at {
		ring = ring[1:]
	}
	var sum int64
	for _, s := range ring {
		sum += s.Amount
	}
	if sum+c.Amount > c.Limit {
		if c.Amount > c.Limit {
			return l, false, time.Time{}
		}
		for _, s := range ring {
			sum -= s.Amount
			if sum+c.Amount <= c.Limit {
				return l, false, time.Unix(0, (s.At+slots+1)*unit).UTC()
			}
		}
		return l, false, time.Time{}
	}
	next := make([]Slot, len(ring), len(ring)+1)
	copy(next, ring)
	if n := len(next); n > 0 && next[n-1].At >= at {
		next[n-1].Amount += c.Amount // a clock that stepped back counts into the newest slot
	} else {
		next = append(next, Slot{At: at, Amount: c.Amount})
	}
	return Level{Ring: next}, true, time.Time{}
}

// Give takes back what c charged. Of a window only what has not been forgotten can
// be given back, and the oldest of it goes first, so that nothing that stays counted
// is forgotten early.
func (l Level) Give(c Charge, now time.Time) Level {
	if c.Window <= 0 {
		return Level{Sum: max(l.Sum-c.Amount, 0)}
	}
	unit := max(int64(c.Window)/slots, 1)
	if c.At.UnixNano()/unit+slots < now.UnixNano()/unit {
		return l
	}
	left := c.Amount
	var ring []Slot
	for _, s := range l.Ring {
		gone := s.At+slots < now.UnixNano()/unit
		if take := min(left, s.Amount); !gone && take > 0 {
			s.Amount -= take
			left -= take
		}
		if s.Amount != 0 && !gone {
			ring = append(ring, s)
		}
	}
	return Level{Ring: ring}
}

// Used is what the level holds at now, over a window where there is one.
func (l Level) Used(window time.Duration, now time.Time) int64 {
	if window <= 0 {
		return l.Sum
	}
	unit := max(int64(window)/slots, 1)
	var sum int64
	for _, s := range l.Ring {
		if s.At+slots >= now.UnixNano()/unit {
			sum += s.Amount
		}
	}
	return sum
}

// Marshal is the stored form: "sum" or "at:amount,at:amount…".
func (l Level) Marshal() string {
	if len(l.Ring) == 0 {
		return strconv.FormatInt(l.Sum, 10)
	}
	b := make([]byte, 0, 24*len(l.Ring))
	for i, s := range l.Ring {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, s.At, 10)
		b = append(b, ':')
		b = strconv.AppendInt(b, s.Amount, 10)
	}
	return string(b)
}

// ParseLevel reads what Marshal wrote. Anything else is an error: a counter that
// cannot be read refuses, it does not start anew.
func ParseLevel(text string) (Level, error) {
	if !strings.Contains(text, ":") {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return Level{}, Errorf(Internal, "a stored counter is unreadable")
		}
		return Level{Sum: n}, nil
	}
	var l Level
	for part := range strings.SplitSeq(text, ",") {
		at, amount, _ := strings.Cut(part, ":")
		a, err1 := strconv.ParseInt(at, 10, 64)
		n, err2 := strconv.ParseInt(amount, 10, 64)
		if err1 != nil || err2 != nil {
			return Level{}, Errorf(Internal, "a stored counter is unreadable")
		}
		l.Ring = append(l.Ring, Slot{At: a, Amount: n})
	}
	return l, nil
}
