package dispatch

import "time"

// FirstFiring is for the tests.
func FirstFiring(t Timetable, now time.Time) (time.Time, error) { return t.first(now) }
