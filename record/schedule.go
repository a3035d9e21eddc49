package record

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/placet-dev/placet/canon"
)

// ScheduleID is minted here, as the other IDs are.
type ScheduleID string

// ScheduleState is where a schedule stands.
type ScheduleState string

const (
	ScheduleActive  ScheduleState = "active"
	SchedulePaused  ScheduleState = "paused"  // until its owner resumes it
	ScheduleEnded   ScheduleState = "ended"   // it has fired for the last time
	ScheduleDeleted ScheduleState = "deleted" // by its owner
)

// MaxSchedules is how many a principal may have that are active or paused.
const MaxSchedules = 100

// SchedulePrefix begins the occurrences that firings name, and the labels of the runs
// that schedules hold.
const SchedulePrefix = "schedule:"

// Schedule has a tool called at set times, for its owner. It is no authority: its run
// holds a delegation, which is asked at every firing (rule C2), and each firing is a
// call that is decided as any other.
type Schedule struct {
	Owner
	ID        ScheduleID      `json:"id"`
	Run       RunID           `json:"run"` // of its own; it holds the delegation
	Tool      string          `json:"tool"`
	Pin       canon.Digest    `json:"pin"`       // what the tool's server offered when it was made or resumed
	Arguments json.RawMessage `json:"arguments"` // canonical
	Purpose   string          `json:"purpose,omitempty"`
	Cron      string          `json:"cron,omitempty"` // five fields; empty: once
	Zone      string          `json:"zone"`           // that the fields are read in
	Until     time.Time       `json:"until,omitzero"` // nothing fires after it; zero: no end
	State     ScheduleState   `json:"state"`
	Why       string          `json:"why,omitempty"` // it is paused
	Version   int64           `json:"version"`
	Next      time.Time       `json:"next,omitzero"` // the next firing; zero: none while it is not active
	Last      time.Time       `json:"last,omitzero"` // the last firing
	Call      CallID          `json:"call,omitempty"`
	Created   time.Time       `json:"created_at"`
	Changed   time.Time       `json:"changed_at"`
}

// Live reports whether a schedule fires, or may be resumed.
func (s Schedule) Live() bool { return s.State == ScheduleActive || s.State == SchedulePaused }

// RunLabel is the label of a schedule's run.
func (s Schedule) RunLabel() string { return SchedulePrefix + string(s.ID) }

// Occurrence names one firing: there is one call of it.
func (s Schedule) Occurrence() string {
	return SchedulePrefix + string(s.ID) + ":" + s.Next.UTC().Format(time.RFC3339)
}

// ScheduleMove inserts a schedule (From zero) or updates it if it still has version
// From, else RefusedConflict: whoever moves it first has the firing.
type ScheduleMove struct {
	From  int64
	After Schedule
}

// Marshal is the schedule's stored form. Its arguments stay byte for byte.
func (s Schedule) Marshal() (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(s)
	return b.String(), err
}

// count is the schedule's place among its principal's.
func (s Schedule) count() Charge {
	return Charge{Counter: CounterFor("schedules", s.Principal.Issuer, s.Principal.Subject), Amount: 1, Limit: MaxSchedules, Code: CodeLimitReached}
}

func (s Schedule) event(kind EventKind, who Who, at time.Time, why string) Event {
	return Event{At: at, Tenant: s.Tenant, Kind: kind, Run: s.Run, Who: who, Body: Body{Tool: s.Tool, Schedule: s.ID, Next: s.Next, Detail: why}.encode()}
}

// move changes a schedule and says so.
func (s Schedule) move(at time.Time, change func(*Schedule)) *ScheduleMove {
	after := s
	change(&after)
	after.Version, after.Changed = s.Version+1, at
	return &ScheduleMove{From: s.Version, After: after}
}

// NewSchedule makes a schedule with the run that holds its delegation.
func NewSchedule(s Schedule, run Run, at time.Time) Change {
	c := OpenRun(run, s.By())
	s.State, s.Created = ScheduleActive, at
	move := Schedule{}.move(at, func(after *Schedule) { *after = s })
	c.f.Schedule, c.f.Charges = move, []Charge{s.count()}
	c.f.Events = append(c.f.Events, move.After.event(EventScheduled, s.By(), at, ""))
	return c
}

// Fire opens the call of a schedule's next firing, in the queue, and sets the firing
// after it; zero: it was the last. Claiming the firing is this change.
func Fire(s Schedule, c Call, next time.Time, step Step) (Change, error) {
	if s.State != ScheduleActive || s.Next.IsZero() {
		return Change{}, Errorf(Conflict, "the schedule is %s", s.State)
	}
	call, _, err := walk(c, ByBoundary, step.At)
	if err != nil {
		return Change{}, err
	}
	call.Decision, call.Due = step.Decision, call.Expires
	call.queue(step)
	move := s.move(step.At, func(after *Schedule) {
		after.Last, after.Call, after.Next = s.Next, call.ID, next
		if next.IsZero() {
			after.State = ScheduleEnded
		}
	})
	fired := move.After.event(EventFired, Who{System: "clock"}, step.At, s.Next.UTC().Format(time.RFC3339))
	fired.Call = call.ID
	f := finish(c, call, step, []Event{fired, call.proposedEvent(step), call.queuedEvent(step)})
	f.Schedule = move
	if next.IsZero() {
		f.Release = append(f.Release, s.count())
	}
	return Change{f}, nil
}

// Skip passes over a schedule's next firing.
func Skip(s Schedule, next time.Time, why string, at time.Time) Change {
	move := s.move(at, func(after *Schedule) {
		if after.Next = next; next.IsZero() {
			after.State = ScheduleEnded
		}
	})
	f := Facts{At: at, Schedule: move, Events: []Event{move.After.event(EventSkipped, Who{System: "clock"}, at, why)}}
	if next.IsZero() {
		f.Release = []Charge{s.count()}
	}
	return Change{f}
}

// PauseSchedule stops an active schedule until its owner resumes it.
func PauseSchedule(s Schedule, why string, who Who, at time.Time) (Change, error) {
	if s.State != ScheduleActive {
		return Change{}, Errorf(Conflict, "the schedule is %s", s.State)
	}
	move := s.move(at, func(after *Schedule) { after.State, after.Why, after.Next = SchedulePaused, why, time.Time{} })
	return Change{Facts{At: at, Schedule: move, Events: []Event{move.After.event(EventSchedulePaused, who, at, why)}}}, nil
}

// ResumeSchedule lets a paused schedule fire again, from next on, with the tool as it is
// pinned now, under a delegation that its run, an ended one's successor, holds anew.
func ResumeSchedule(s Schedule, run Run, pin canon.Digest, next, at time.Time) (Change, error) {
	if s.State != SchedulePaused {
		return Change{}, Errorf(Conflict, "the schedule is %s", s.State)
	}
	var c Change
	if run.Version == 0 {
		c = OpenRun(run, s.By())
	} else {
		var err error
		if c, err = Delegate(run, *run.Delegation, false, s.By(), at); err != nil {
			return c, err
		}
	}
	c.f.Schedule = s.move(at, func(after *Schedule) {
		after.State, after.Why, after.Next, after.Pin, after.Run = ScheduleActive, "", next, pin, run.ID
	})
	c.f.Events = append(c.f.Events, c.f.Schedule.After.event(EventScheduleResumed, s.By(), at, ""))
	return c, nil
}

// DeleteSchedule ends a schedule and its run: what waits in it is canceled.
func DeleteSchedule(s Schedule, run Run, at time.Time) (Change, error) {
	if s.State == ScheduleDeleted {
		return Change{}, Errorf(Conflict, "the schedule is %s", s.State)
	}
	c := Change{Facts{At: at}}
	if run.Live() {
		var err error
		if c, err = EndRun(run, "its schedule was deleted", s.By(), at); err != nil {
			return c, err
		}
	}
	c.f.Schedule = s.move(at, func(after *Schedule) { after.State, after.Next = ScheduleDeleted, time.Time{} })
	if s.Live() {
		c.f.Release = append(c.f.Release, s.count())
	}
	c.f.Events = append(c.f.Events, c.f.Schedule.After.event(EventScheduleDeleted, s.By(), at, ""))
	return c, nil
}
