package dispatch_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

func (s *scene) schedules(tool, fields string) record.Schedule {
	s.t.Helper()
	made, a, err := s.Schedule(s.ctx, s.caller(anna), dispatch.Wanted{Timetable: dispatch.Timetable{Cron: fields}, Tool: tool, Arguments: json.RawMessage(`{"order":"o1"}`)})
	if err != nil || made.State != record.ScheduleActive {
		s.t.Fatalf("scheduled: %+v %+v %v", made, a, err)
	}
	return made
}

func (s *scene) scheduleNow(id record.ScheduleID) record.Schedule {
	s.t.Helper()
	now, err := s.store.Schedule(s.ctx, "acme", id)
	if err != nil {
		s.t.Fatal(err)
	}
	return now
}

// A schedule fires at its times, one call each, with the route schedule; a pause of the
// server costs all that it missed but one.
func TestRule_C2_AScheduleFiresOnceEachTime(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
		made := s.schedules("timed", "*/15 * * * *") // the clock stands at 12:00
		pass(10 * time.Minute)
		s.ran(0)
		pass(6 * time.Minute)
		pass(time.Minute)
		s.ran(1)
		pass(14 * time.Minute)
		s.ran(2)
		pass(10 * time.Hour)
		s.ran(3) // one for all that was missed
		pass(15 * time.Minute)
		s.ran(4)
		if d.asked != 4 {
			t.Errorf("the live source was asked %d times", d.asked)
		}
		now := s.scheduleNow(made.ID)
		if now.Call == "" || !now.Next.After(s.clock.Now()) || now.Next.Minute()%15 != 0 {
			t.Errorf("it stands at %+v", now)
		}
		events, err := s.store.Events(s.ctx, dispatch.EventQuery{Tenant: "acme", Kinds: []record.EventKind{record.EventExecuting}, Limit: 10})
		if err != nil || len(events) != 4 || !contains(events[0].Body, `"route":"schedule"`) {
			t.Fatalf("the events do not say by which route: %v %+v", err, events)
		}
	})
}

// Who lost access is not called for, and the schedule says why until its owner is back.
func TestRule_P4_AScheduleIsPausedWithItsPrincipal(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*directory)
		why    string
	}{
		"dismissed":        {func(d *directory) { delete(d.people, "anna") }, "revoked"},
		"lost the scope":   {func(d *directory) { d.people["anna"] = []string{"read"} }, "missing_scope"},
		"nothing happened": {func(*directory) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
				made := s.schedules("timed", "0 * * * *")
				d.set(c.change)
				pass(61 * time.Minute)
				pass(time.Minute)
				now := s.scheduleNow(made.ID)
				if c.why == "" {
					s.ran(1)
					return
				}
				s.ran(0)
				if now.State != record.SchedulePaused || !strings.Contains(now.Why, c.why) || !now.Next.IsZero() {
					t.Fatalf("it is %s, for %q, next %s", now.State, now.Why, now.Next)
				}
				pass(3 * time.Hour)
				s.ran(0)
				d.set(func(d *directory) { d.people["anna"] = anna.scopes })
				resumed, _, err := s.ResumeSchedule(s.ctx, s.caller(anna), made.ID)
				if err != nil || resumed.State != record.ScheduleActive {
					t.Fatalf("resumed: %+v %v", resumed, err)
				}
				pass(61 * time.Minute)
				pass(time.Minute)
				s.ran(1)
			})
		})
	}
}

// What an operator revokes by the schedule's name does not fire, and nothing else stops.
func TestRule_C3_ARevokedScheduleDoesNotFire(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, _ *directory, pass func(time.Duration)) {
		revoked, other := s.schedules("timed", "0 * * * *"), s.schedules("timed", "30 * * * *")
		pass(61 * time.Minute)
		pass(time.Minute)
		s.ran(2) // 12:30 and 13:00
		s.revoke(dispatch.RevokeOrder{Kind: record.RevokedSchedule, Name: string(revoked.ID)})
		pass(2 * time.Hour)
		pass(time.Minute)
		s.ran(3) // one of the other
		if now := s.scheduleNow(revoked.ID); now.State != record.SchedulePaused || !strings.Contains(now.Why, "revoked") {
			t.Errorf("the revoked one is %s, for %q", now.State, now.Why)
		}
		if now := s.scheduleNow(other.ID); now.State != record.ScheduleActive {
			t.Errorf("the other one is %s, for %q", now.State, now.Why)
		}
	})
}

// A firing may ask people, as any call.
func TestRule_C2_AFiringAsks(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
		made := s.schedules("timed_asks", "0 * * * *")
		pass(61 * time.Minute)
		pass(time.Minute)
		s.ran(0)
		now := s.scheduleNow(made.ID)
		a := dispatch.Answer{Call: &record.Call{Owner: made.Owner, ID: now.Call}}
		if l := s.state(a); l.Call.State != record.ApprovalPending {
			t.Fatalf("the firing's call is %s", l.Call.State)
		}
		s.reply(a, "lena", record.Yes, "leads")
		pass(time.Minute)
		s.ran(1)
	})
}

// A schedule is its agent's: no other agent or principal can see, stop or end it.
func TestPromise_P7_SchedulesBelongToTheirAgent(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
		made := s.schedules("timed", "0 * * * *")
		for _, w := range []who{{"acme", "anna", "other", anna.scopes, false}, {"acme", "bert", "bot", anna.scopes, false}, {"globex", "anna", "bot", anna.scopes, false}} {
			c := s.caller(w)
			_, show := s.OwnSchedule(s.ctx, c, made.ID)
			_, pause := s.PauseSchedule(s.ctx, c, made.ID)
			_, _, resume := s.ResumeSchedule(s.ctx, c, made.ID)
			_, remove := s.DeleteSchedule(s.ctx, c, made.ID)
			for _, err := range []error{show, pause, resume, remove} {
				if record.KindOf(err) != record.NotFound {
					t.Errorf("%+v: %v", w, err)
				}
			}
		}
		pass(61 * time.Minute)
		pass(time.Minute)
		s.ran(1)
		if _, err := s.PauseSchedule(s.ctx, s.caller(anna), made.ID); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Hour)
		s.ran(1)
		if _, err := s.DeleteSchedule(s.ctx, s.caller(anna), made.ID); err != nil || len(d.valid) != 0 {
			t.Fatalf("deleted: %v; the source still takes %v", err, d.valid)
		}
		if _, _, err := s.ResumeSchedule(s.ctx, s.caller(anna), made.ID); record.KindOf(err) != record.Conflict {
			t.Errorf("a deleted schedule is resumed: %v", err)
		}
	})
}

// A schedule that fires once ends, and its run and delegation with its call.
func TestRule_C2_AScheduleThatFiresOnce(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
		at := s.clock.Now().Add(20 * time.Minute)
		made, _, err := s.Schedule(s.ctx, s.caller(anna), dispatch.Wanted{Timetable: dispatch.Timetable{At: at}, Tool: "timed", Arguments: json.RawMessage(`{"order":"o1"}`)})
		if err != nil {
			t.Fatal(err)
		}
		pass(21 * time.Minute)
		pass(time.Minute)
		s.ran(1)
		run, err := s.store.Run(s.ctx, "acme", made.Run)
		if now := s.scheduleNow(made.ID); err != nil || now.State != record.ScheduleEnded || run.Live() || len(d.valid) != 0 {
			t.Fatalf("it is %s, its run %s, and the source takes %v: %v", now.State, run.State, d.valid, err)
		}
	})
}

func TestRule_C2_WhatCannotBeScheduled(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
		hourly := dispatch.Timetable{Cron: "0 * * * *"}
		for name, c := range map[string]struct {
			who  who
			want dispatch.Wanted
			kind record.Kind
			code record.Code
		}{
			"a tool that does not allow it": {anna, dispatch.Wanted{Timetable: hourly, Tool: "later"}, record.Forbidden, ""},
			"no such tool":                  {anna, dispatch.Wanted{Timetable: hourly, Tool: "nothing"}, "", record.CodeNotAvailable},
			"no scope":                      {who{"acme", "anna", "bot", []string{"read"}, false}, dispatch.Wanted{Timetable: hourly, Tool: "timed"}, "", record.CodeMissingScope},
			"wrong arguments":               {anna, dispatch.Wanted{Timetable: hourly, Tool: "timed", Arguments: json.RawMessage(`{"order":1}`)}, "", record.CodeInvalidArguments},
			"six fields":                    {anna, dispatch.Wanted{Timetable: dispatch.Timetable{Cron: "* 0 * * * *"}, Tool: "timed"}, record.Invalid, ""},
			"a zone in the fields":          {anna, dispatch.Wanted{Timetable: dispatch.Timetable{Cron: "TZ=UTC"}, Tool: "timed"}, record.Invalid, ""},
			"a date that never comes":       {anna, dispatch.Wanted{Timetable: dispatch.Timetable{Cron: "0 0 30 2 *"}, Tool: "timed"}, record.Invalid, ""},
			"a zone that is none":           {anna, dispatch.Wanted{Timetable: dispatch.Timetable{Cron: "0 * * * *", Zone: "../etc/passwd"}, Tool: "timed"}, record.Invalid, ""},
			"the past":                      {anna, dispatch.Wanted{Timetable: dispatch.Timetable{At: s.clock.Now().Add(-time.Hour)}, Tool: "timed"}, record.Invalid, ""},
			"neither":                       {anna, dispatch.Wanted{Tool: "timed"}, record.Invalid, ""},
		} {
			_, a, err := s.Schedule(s.ctx, s.caller(c.who), c.want)
			if c.kind != "" && record.KindOf(err) != c.kind || c.kind == "" && (err != nil || a.Verdict != record.Deny || a.Code != c.code) {
				t.Errorf("%s: %+v %v", name, a, err)
			}
		}
		if list, err := s.store.Schedules(s.ctx, dispatch.ScheduleQuery{Tenant: "acme", Over: true, Limit: 10}); err != nil || len(list) != 0 || len(d.valid) != 0 {
			t.Fatalf("there are %+v: %v", list, err)
		}
		if made := s.schedules("timed", "30 9 * * 1-5"); slices.Contains([]time.Weekday{time.Saturday, time.Sunday}, made.Next.Weekday()) || made.Next.Hour() != 9 {
			t.Fatalf("next is %s", made.Next)
		}
	})
}

// FuzzTimetable: whatever a caller sends as times, the answer is a firing in the future
// or a refusal, soon.
func FuzzTimetable(f *testing.F) {
	for _, seed := range []string{"* * * * *", "0 0 30 2 *", "*/0 * * * *", "TZ=", "@every 1s", "0-59/7 1,2 L * mon", "59 23 31 12 7"} {
		f.Add(seed, "Europe/Berlin")
	}
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, fields, zone string) {
		if at, err := dispatch.FirstFiring(dispatch.Timetable{Cron: fields, Zone: zone}, now); err == nil && !at.After(now) {
			t.Fatalf("%q fires at %s", fields, at)
		}
	})
}
