package record_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/placet-dev/placet/record"
)

// TestWindowNeverPassesItsLimit: in any span of the window's length, what was
// charged never passes the limit; and a refusal that names a time tells the truth.
func TestWindowNeverPassesItsLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := time.Duration(rapid.Int64Range(1, 3600).Draw(t, "window")) * time.Second
		limit := rapid.Int64Range(1, 20).Draw(t, "limit")
		c := record.Charge{Counter: "c", Amount: 1, Limit: limit, Window: window}
		var level record.Level
		now := at
		var charged []time.Time
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(window)/3).Draw(t, "wait")))
			next, ok, retry := level.Add(c, now)
			if !ok {
				if retry.IsZero() || retry.Before(now) {
					t.Fatalf("refused at %s, try again at %s", now, retry)
				}
				if _, ok, _ := level.Add(c, retry); !ok {
					t.Fatalf("refused again at the time it named")
				}
				continue
			}
			level = next
			charged = append(charged, now)
			var in int64
			for _, c := range charged {
				if now.Sub(c) < window {
					in++
				}
			}
			if in > limit {
				t.Fatalf("%d charges within %s, the limit is %d", in, window, limit)
			}
			if len(level.Ring) > 61 {
				t.Fatalf("a counter of %d slots", len(level.Ring))
			}
			back, err := record.ParseLevel(level.Marshal())
			if err != nil || back.Marshal() != level.Marshal() {
				t.Fatalf("stored and read: %v", err)
			}
		}
	})
}

func TestPlainCounter(t *testing.T) {
	one := record.Charge{Counter: "c", Amount: 1, Limit: 2}
	var l record.Level
	for i, want := range []bool{true, true, false} {
		next, ok, retry := l.Add(one, at)
		if ok != want || !retry.IsZero() {
			t.Fatalf("charge %d: %t %s", i, ok, retry)
		}
		l = next
	}
	l, _, _ = l.Add(record.Charge{Counter: "c", Amount: -1}, at)
	if _, ok, _ := l.Add(one, at); !ok {
		t.Fatal("no room after one was given back")
	}
	l, _, _ = l.Add(record.Charge{Counter: "c", Amount: -5}, at)
	if l.Sum != 0 {
		t.Fatalf("gave back more than was taken: %d", l.Sum)
	}
}

func FuzzParseLevel(f *testing.F) {
	for _, s := range []string{"0", "12", "1:2", "1:2,3:4", "", ":", "a:b", "1:2,", "9223372036854775808"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := record.ParseLevel(s)
		if err == nil {
			if _, err := record.ParseLevel(l.Marshal()); err != nil {
				t.Fatalf("%q was read and cannot be written: %v", s, err)
			}
		}
	})
}

func TestCounterNamesDoNotRunTogether(t *testing.T) {
	a := record.CounterFor("minute", "a|b", "c")
	b := record.CounterFor("minute", "a", "b|c")
	c := record.CounterFor("minute", `a\`, "b", "c")
	if a == b || b == c || a == c {
		t.Fatalf("%s %s %s", a, b, c)
	}
}
