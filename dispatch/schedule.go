package dispatch

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// Timetable says when a schedule fires: at the times of five cron fields, or once.
type Timetable struct {
	Cron  string    // minute, hour, day of month, month, day of week
	At    time.Time // once; not together with Cron
	Zone  string    // that the fields are read in; empty: UTC
	Until time.Time // nothing fires after it; zero: no end
}

// Wanted is a schedule as its owner asks for it.
type Wanted struct {
	Timetable
	Tool      string
	Arguments json.RawMessage
	Purpose   string
}

// cronFields reads five fields, and no others: no seconds, no names of schedules.
var cronFields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// maxFields bounds the text of a cron expression.
const maxFields = 200

// nextFiring is the first firing after a time; zero: there is none.
func nextFiring(fields, zone string, until, after time.Time) (time.Time, error) {
	if fields == "" {
		return time.Time{}, nil
	}
	if len(fields) > maxFields || strings.ContainsAny(fields, "=@") {
		return time.Time{}, record.Errorf(record.Invalid, "the cron expression has five fields: minute, hour, day of month, month, day of week")
	}
	times, err := cronFields.Parse(fields)
	if err != nil {
		return time.Time{}, record.Errorf(record.Invalid, "the cron expression has five fields: minute, hour, day of month, month, day of week")
	}
	place, err := location(zone)
	if err != nil {
		return time.Time{}, err
	}
	at := times.Next(after.In(place)).UTC()
	if at.IsZero() || at.Year() < 2 || !until.IsZero() && at.After(until) {
		return time.Time{}, nil
	}
	return at, nil
}

func location(zone string) (*time.Location, error) {
	if zone == "" {
		return time.UTC, nil
	}
	place, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return nil, record.Errorf(record.Invalid, "the time zone is one of the IANA database, such as Europe/Berlin")
	}
	return place, nil
}

// first checks a timetable and returns its first firing.
func (t Timetable) first(now time.Time) (time.Time, error) {
	switch {
	case (t.Cron == "") == t.At.IsZero():
		return time.Time{}, record.Errorf(record.Invalid, "a schedule has a cron expression or a time, and not both")
	case !t.Until.IsZero() && !t.Until.After(now):
		return time.Time{}, record.Errorf(record.Invalid, "a schedule ends in the future")
	}
	if _, err := location(t.Zone); err != nil {
		return time.Time{}, err
	}
	at := t.At.UTC().Truncate(time.Second)
	if t.Cron != "" {
		var err error
		if at, err = nextFiring(t.Cron, t.Zone, t.Until, now); err != nil {
			return at, err
		}
	}
	if at.IsZero() || !at.After(now) || at.Sub(now) > 5*365*24*time.Hour || !t.Until.IsZero() && at.After(t.Until) {
		return at, record.Errorf(record.Invalid, "the schedule would never fire, or not within five years")
	}
	return at, nil
}

// Schedule has a tool called at set times for the caller, under a delegation of theirs.
// It is decided now as a proposal would be, and again at every firing; a denial makes
// none.
func (b *Boundary) Schedule(ctx context.Context, c identity.Caller, w Wanted) (record.Schedule, Answer, error) {
	if !c.Valid() {
		return record.Schedule{}, Answer{}, record.Errorf(record.Unauthenticated, "no verified identity came with this request")
	}
	now := b.clock()
	at, err := w.first(now)
	if err != nil {
		return record.Schedule{}, Answer{}, err
	}
	tool, arguments, a, err := b.schedulable(ctx, c, w)
	if err != nil || a.Verdict == record.Deny {
		return record.Schedule{}, a, err
	}
	id, err := record.NewID("sch", now, b.random)
	if err != nil {
		return record.Schedule{}, a, record.Because(record.Unavailable, err, "no schedule ID could be made")
	}
	s := record.Schedule{Owner: c.Owner(), ID: record.ScheduleID(id), Tool: tool.Name, Pin: tool.Pin.Digest, Arguments: arguments, Purpose: w.Purpose,
		Cron: w.Cron, Zone: w.Zone, Until: w.Until.UTC().Truncate(time.Second), Next: at}
	run, err := b.standingRun(ctx, c, s, now)
	if err != nil {
		return s, a, err
	}
	s.Run = run.ID
	change := record.NewSchedule(s, run, now)
	if err := b.apply(ctx, change); err != nil {
		b.withdraw(ctx, run.Delegation)
		if r := refusal(err); r != nil && r.Kind == record.RefusedLimit {
			err = record.Errorf(record.Limited, "a principal has at most %d schedules; delete one", record.MaxSchedules)
		}
		return s, a, err
	}
	return change.Facts().Schedule.After, a, nil
}

// schedulable decides on a call that a schedule would make, and records a denial.
func (b *Boundary) schedulable(ctx context.Context, c identity.Caller, w Wanted) (*registry.Tool, json.RawMessage, Answer, error) {
	p := Proposal{Caller: c, Tool: w.Tool, Arguments: w.Arguments, Purpose: w.Purpose, Route: record.RouteSchedule}
	x, err := b.Explain(ctx, p)
	if err != nil {
		return nil, nil, x.Answer, err
	}
	if a := x.Answer; a.Verdict == record.Deny {
		refused, err := b.Refuse(ctx, c, w.Tool, a.Code, "a schedule: "+a.Note)
		refused.Scope, refused.Instead, refused.Note = a.Scope, a.Instead, a.Note
		return nil, nil, refused, err
	}
	tool, ok := b.now.Load().Registry.Tool(w.Tool)
	if !ok || !tool.Scheduled || tool.Pin == nil {
		return nil, nil, x.Answer, record.Errorf(record.Forbidden, "this tool may not be scheduled; its entry would have to say schedules: allowed")
	}
	arguments, _, err := canon.Object(w.Arguments, canon.Limits{Bytes: b.limits.ArgumentBytes})
	return tool, arguments, x.Answer, err
}

// standingRun is a run for a schedule, with a delegation of its owner's. It is not
// recorded yet.
func (b *Boundary) standingRun(ctx context.Context, c identity.Caller, s record.Schedule, now time.Time) (record.Run, error) {
	d, err := b.standingDelegation(ctx, c, s, now)
	if err != nil {
		return record.Run{}, err
	}
	id, err := b.newRun(now)
	if err == nil {
		var epoch int64
		if epoch, err = b.store.Epoch(ctx, c.Owner()); err == nil {
			return record.Run{Owner: c.Owner(), ID: id, Lineage: record.UnvouchedLineage(c.Owner(), epoch), Label: s.RunLabel(),
				Turn: 1, Opened: now, Active: now, Delegation: d}, nil
		}
	}
	b.withdraw(ctx, d)
	return record.Run{}, record.Because(record.Unavailable, err, "no run could be opened")
}

// standingDelegation lasts as long as it may: to the schedule's end, at most 30 days.
func (b *Boundary) standingDelegation(ctx context.Context, c identity.Caller, s record.Schedule, now time.Time) (*record.Delegation, error) {
	if b.delegations == nil {
		return nil, record.Errorf(record.Invalid, "this server has no live source to ask about callers who are away; configure delegation for the issuer")
	}
	until := now.Add(longestAway)
	if end := s.Until.Add(b.limits.CallExpires); !s.Until.IsZero() && end.Before(until) {
		until = end // the last call has its time
	}
	d, err := b.delegations.Grant(ctx, c, until)
	if err != nil {
		return nil, err
	}
	d.Granted, d.Until = now, earliest(d.Until, until)
	return &d, nil
}

// OwnSchedule loads a schedule for its owner; for anybody else there is no such schedule.
func (b *Boundary) OwnSchedule(ctx context.Context, c identity.Caller, id record.ScheduleID) (record.Schedule, error) {
	if !c.Valid() {
		return record.Schedule{}, record.Errorf(record.Unauthenticated, "no verified identity came with this request")
	}
	if !record.ValidID("sch", string(id)) {
		return record.Schedule{}, record.Errorf(record.NotFound, "there is no such schedule here")
	}
	s, err := b.store.Schedule(ctx, c.Owner().Tenant, id)
	if err == nil && s.Owner != c.Owner() {
		b.foreign(ctx, c, "schedule "+string(id))
		err = record.Errorf(record.NotFound, "there is no schedule %q here", id)
	}
	if err != nil {
		return record.Schedule{}, err
	}
	return s, nil
}

// moveSchedule changes a schedule of the caller, starting over while it moves.
func (b *Boundary) moveSchedule(ctx context.Context, c identity.Caller, id record.ScheduleID, change func(record.Schedule) (record.Change, error)) (record.Schedule, error) {
	for range maxConflicts {
		s, err := b.OwnSchedule(ctx, c, id)
		if err != nil {
			return s, err
		}
		moved, err := change(s)
		if err != nil {
			return s, err
		}
		if err = b.apply(ctx, moved); err == nil {
			return moved.Facts().Schedule.After, nil
		}
		if refusal(err) == nil {
			return s, err
		}
	}
	return record.Schedule{}, record.Errorf(record.Conflict, "the schedule kept changing; try again")
}

// PauseSchedule stops a schedule of the caller; ResumeSchedule lets it fire again.
func (b *Boundary) PauseSchedule(ctx context.Context, c identity.Caller, id record.ScheduleID) (record.Schedule, error) {
	return b.moveSchedule(ctx, c, id, func(s record.Schedule) (record.Change, error) {
		return record.PauseSchedule(s, "by its owner", s.By(), b.clock())
	})
}

// ResumeSchedule lets a paused schedule of the caller fire again, under a new delegation
// and decided anew; a denial leaves it paused.
func (b *Boundary) ResumeSchedule(ctx context.Context, c identity.Caller, id record.ScheduleID) (record.Schedule, Answer, error) {
	s, err := b.OwnSchedule(ctx, c, id)
	if err != nil {
		return s, Answer{}, err
	}
	if s.State != record.SchedulePaused {
		return s, Answer{}, record.Errorf(record.Conflict, "the schedule is %s", s.State)
	}
	tool, _, a, err := b.schedulable(ctx, c, Wanted{Tool: s.Tool, Arguments: s.Arguments, Purpose: s.Purpose})
	if err != nil || a.Verdict == record.Deny {
		return s, a, err
	}
	var had *record.Delegation
	var granted *record.Delegation
	s, err = b.moveSchedule(ctx, c, id, func(s record.Schedule) (record.Change, error) {
		b.withdraw(ctx, granted) // of a try before this one
		now := b.clock()
		at, err := nextFiring(s.Cron, s.Zone, s.Until, now)
		if err != nil {
			return record.Change{}, err
		}
		if at.IsZero() {
			return record.Change{}, record.Errorf(record.Conflict, "the schedule's time is over; make another")
		}
		run, err := b.store.Run(ctx, s.Tenant, s.Run)
		if err != nil {
			return record.Change{}, err
		}
		if had = nil; run.Live() {
			had = run.Delegation
			run.Delegation, err = b.standingDelegation(ctx, c, s, now)
		} else {
			run, err = b.standingRun(ctx, c, s, now)
		}
		if err != nil {
			return record.Change{}, err
		}
		granted = run.Delegation
		return record.ResumeSchedule(s, run, tool.Pin.Digest, at, now)
	})
	if err != nil {
		b.withdraw(ctx, granted)
		return s, a, err
	}
	b.withdraw(ctx, had)
	return s, a, nil
}

// DeleteSchedule ends a schedule of the caller. What it opened and has not run is canceled.
func (b *Boundary) DeleteSchedule(ctx context.Context, c identity.Caller, id record.ScheduleID) (record.Schedule, error) {
	var run record.Run
	s, err := b.moveSchedule(ctx, c, id, func(s record.Schedule) (record.Change, error) {
		var err error
		if run, err = b.store.Run(ctx, s.Tenant, s.Run); err != nil {
			return record.Change{}, err
		}
		return record.DeleteSchedule(s, run, b.clock())
	})
	if err == nil {
		b.stopRunning(ctx, run)
		b.withdraw(ctx, run.Delegation)
	}
	return s, err
}

// fireSchedules opens the calls of all firings that have come, and returns when the next
// does. Whoever changes the schedule first has the firing: the others get the conflict.
func (b *Boundary) fireSchedules(ctx context.Context) time.Time {
	if b.delegations == nil {
		return time.Time{}
	}
	for ctx.Err() == nil {
		now := b.clock()
		due, next, err := b.store.Firing(ctx, now, dueBatch)
		if err != nil {
			b.log.Error("dispatch: cannot read which schedules fire", "error", err)
			return now.Add(time.Second)
		}
		fired := 0
		for _, s := range due {
			if err := b.fire(ctx, s, now); err == nil {
				fired++
			} else if refusal(err) == nil {
				b.log.Error("dispatch: a schedule did not fire", "schedule", s.ID, "error", err)
			}
		}
		switch {
		case fired < len(due):
			return now.Add(time.Second) // somebody else moved them, or something moved under them
		case len(due) < dueBatch:
			return next
		}
	}
	return time.Time{}
}

// fire opens the call of one firing, in the queue, where the schedule still stands on
// something; if not, it is paused.
func (b *Boundary) fire(ctx context.Context, s record.Schedule, now time.Time) error {
	a := b.now.Load()
	if a == nil {
		return record.Errorf(record.Unavailable, "nothing is active")
	}
	run, err := b.store.Run(ctx, s.Tenant, s.Run)
	if err != nil {
		return err
	}
	tool, listed := a.Registry.Tool(s.Tool)
	why := ""
	switch {
	case !run.Live():
		why = "its run has ended"
	case !run.Delegation.Live(now):
		why = "its delegation has ended"
	case !listed || !tool.Scheduled || tool.Pin == nil:
		why = "the tool may not be scheduled any more"
	case tool.Pin.Digest != s.Pin:
		why = "the tool was pinned anew since"
	}
	if why != "" {
		return b.pause(ctx, s, why)
	}
	after, err := nextFiring(s.Cron, s.Zone, s.Until, now)
	if err != nil {
		return b.pause(ctx, s, "its times cannot be read")
	}
	e, err := b.firing(ctx, a, s, run, tool, now)
	if err != nil {
		return err
	}
	step := e.step(record.Decision{At: now, Generation: a.generation})
	step.Premise.Delegated, step.Again = true, now
	change, err := record.Fire(s, e.call, after, step)
	if err != nil {
		return err
	}
	err = b.apply(ctx, change)
	if r := refusal(err); r != nil && r.Kind == record.RefusedLimit {
		return b.apply(ctx, record.Skip(s, after, "too many calls wait already", now))
	}
	return err
}

// firing is the call of a schedule's next firing, as it is proposed.
func (b *Boundary) firing(ctx context.Context, a *active, s record.Schedule, run record.Run, tool *registry.Tool, now time.Time) (*evaluation, error) {
	arguments, _, err := canon.Object(s.Arguments, canon.Limits{Bytes: b.limits.ArgumentBytes})
	if err != nil {
		return nil, err
	}
	id, salt, err := b.newCall(now)
	if err != nil {
		return nil, err
	}
	e := &evaluation{b: b, a: a, now: now, run: run}
	e.call = record.Call{Owner: s.Owner, ID: id, Salt: salt, Run: run.ID, Lineage: run.Lineage, Turn: run.Turn, Tool: record.ToolRef{Name: s.Tool},
		Arguments: arguments, Digest: record.ArgumentDigest(arguments, nil), Occurrence: s.Occurrence(), Source: record.Direct, Route: record.RouteSchedule,
		Purpose: s.Purpose, Attempts: 1, Queued: true, Proposed: now, Changed: now, Expires: now.Add(b.limits.CallExpires)}
	e.normalise(tool)
	e.identify(tool)
	if !tool.Read {
		if e.prior, err = b.store.Prior(ctx, e.call.Tenant, e.call.Lineage, e.call.Effect, e.call.Occurrence); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (b *Boundary) pause(ctx context.Context, s record.Schedule, why string) error {
	change, err := record.PauseSchedule(s, why, record.Who{System: "clock"}, b.clock())
	if err != nil {
		return err
	}
	return b.apply(ctx, change)
}

// fired looks at a schedule after a call of it was tried. It is paused when its principal
// lost access; one that fires no more ends its run with its last call.
func (b *Boundary) fired(ctx context.Context, c record.Call, run record.Run, code record.Code) {
	id, ok := strings.CutPrefix(run.Label, record.SchedulePrefix)
	if c.Route != record.RouteSchedule || !ok || ctx.Err() != nil {
		return
	}
	for range maxConflicts {
		s, err := b.store.Schedule(ctx, c.Tenant, record.ScheduleID(id))
		if err != nil || s.Run != run.ID || s.Owner != run.Owner {
			return
		}
		switch lost := code == record.CodeMissingScope || code == record.CodeNotAvailable || code == record.CodeRevoked; {
		case lost && s.State == record.ScheduleActive:
			if err := b.pause(ctx, s, "its principal has no access any more: "+string(code)); refusal(err) != nil {
				continue
			}
		case s.State == record.ScheduleEnded:
			b.endStanding(ctx, run)
		}
		return
	}
}

// endStanding ends the run of a schedule that fires no more, if nothing of it is open.
func (b *Boundary) endStanding(ctx context.Context, run record.Run) {
	open, err := b.store.OpenCalls(ctx, run.Tenant, run.ID, 1)
	if err != nil || len(open) > 0 {
		return // its delegation ends by itself
	}
	load := func() (record.Run, error) { return b.store.Run(ctx, run.Tenant, run.ID) }
	if _, err := b.endRun(ctx, load, "its schedule has ended", record.Who{System: "clock"}); err != nil {
		b.log.Error("dispatch: the run of a schedule did not end", "run", run.ID, "error", err)
	}
}
