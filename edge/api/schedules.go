package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// ScheduleView is a schedule as its owner and readers see it.
type ScheduleView struct {
	ID        record.ScheduleID    `json:"id"`
	Run       record.RunID         `json:"run" doc:"Its own run, which holds its delegation and its calls."`
	Principal record.Principal     `json:"principal"`
	Agent     record.AgentID       `json:"agent"`
	Tool      string               `json:"tool"`
	Arguments json.RawMessage      `json:"arguments"`
	Purpose   string               `json:"purpose,omitempty" doc:"The agent's own words."`
	Cron      string               `json:"cron,omitempty" doc:"Minute, hour, day of month, month, day of week; without it, it fires once."`
	Zone      string               `json:"zone,omitempty" doc:"The time zone that the fields are read in; without it, UTC."`
	Until     *time.Time           `json:"until,omitempty" doc:"Nothing fires after it."`
	State     record.ScheduleState `json:"state" enum:"active,paused,ended,deleted"`
	Why       string               `json:"why,omitempty" doc:"Why it is paused."`
	Next      *time.Time           `json:"next,omitempty" doc:"The next firing."`
	Last      *time.Time           `json:"last,omitempty" doc:"The last firing."`
	Call      record.CallID        `json:"call,omitempty" doc:"The call of the last firing."`
	Created   time.Time            `json:"created_at"`
	Changed   time.Time            `json:"changed_at"`
}

func scheduleView(s record.Schedule) ScheduleView {
	return ScheduleView{ID: s.ID, Run: s.Run, Principal: s.Principal, Agent: s.Agent, Tool: s.Tool, Arguments: object(s.Arguments), Purpose: s.Purpose,
		Cron: s.Cron, Zone: s.Zone, Until: later(s.Until), State: s.State, Why: s.Why, Next: later(s.Next), Last: later(s.Last), Call: s.Call,
		Created: s.Created, Changed: s.Changed}
}

func (d *door) registerSchedules() {
	add(d, d.operation("create-schedule", http.MethodPost, "/v1/schedules", "Have a tool called at set times", d.asCaller, tag("schedules"), status(http.StatusCreated),
		describe("Decided now as a proposal would be, and again at every firing. The schedule holds a delegation, whose live source is asked each time.")), d.createSchedule)
	add(d, d.operation("list-schedules", http.MethodGet, "/v1/schedules", "List schedules", d.asViewer, tag("schedules")), d.listSchedules)
	add(d, d.operation("show-schedule", http.MethodGet, "/v1/schedules/{id}", "Show a schedule", d.asViewer, tag("schedules")), d.showSchedule)
	add(d, d.operation("pause-schedule", http.MethodPost, "/v1/schedules/{id}/pause", "Pause a schedule", d.asCaller, tag("schedules")), d.pauseSchedule)
	add(d, d.operation("resume-schedule", http.MethodPost, "/v1/schedules/{id}/resume", "Resume a paused schedule", d.asCaller, tag("schedules"),
		describe("Under a new delegation, and decided anew.")), d.resumeSchedule)
	add(d, d.operation("delete-schedule", http.MethodDelete, "/v1/schedules/{id}", "Delete a schedule", d.asCaller, tag("schedules"),
		describe("What it opened and has not run is canceled.")), d.deleteSchedule)
}

type scheduleOutput struct{ Body ScheduleView }

// SchedulePath is the path of a schedule.
type SchedulePath struct {
	ID string `path:"id" maxLength:"64" doc:"The schedule."`
}

type createScheduleInput struct {
	Body struct {
		Tool      string          `json:"tool" minLength:"1" maxLength:"64" doc:"The tool's name. Its entry must allow schedules."`
		Arguments json.RawMessage `json:"arguments,omitempty" doc:"An object; absent means {}."`
		Purpose   string          `json:"purpose,omitempty" maxLength:"2000" doc:"Why, in the agent's words; shown to approvers."`
		Cron      string          `json:"cron,omitempty" maxLength:"200" doc:"Minute, hour, day of month, month, day of week. Not together with at."`
		At        time.Time       `json:"at,omitempty" doc:"Once, at this time."`
		Zone      string          `json:"zone,omitempty" maxLength:"64" doc:"The time zone that cron is read in, such as Europe/Berlin; without it, UTC."`
		Until     time.Time       `json:"until,omitempty" doc:"Nothing fires after it."`
	}
}

func (d *door) createSchedule(ctx context.Context, in *createScheduleInput) (*scheduleOutput, error) {
	b := in.Body
	s, a, err := d.boundary.Schedule(ctx, caller(ctx), dispatch.Wanted{Tool: b.Tool, Arguments: b.Arguments, Purpose: b.Purpose,
		Timetable: dispatch.Timetable{Cron: b.Cron, At: b.At, Zone: b.Zone, Until: b.Until}})
	return d.decided(s, a, err)
}

// decided is a schedule that was decided on, or the denial.
func (d *door) decided(s record.Schedule, a dispatch.Answer, err error) (*scheduleOutput, error) {
	if err == nil && a.Verdict == record.Deny {
		return nil, d.denial(a, surface(a.Verdict, a.Code, !a.Retry.IsZero(), false))
	}
	return d.schedule(s, err)
}

func (d *door) schedule(s record.Schedule, err error) (*scheduleOutput, error) {
	if err != nil {
		return nil, d.refusal(hidden(err, "schedule"))
	}
	return &scheduleOutput{Body: scheduleView(s)}, nil
}

type listSchedulesInput struct {
	Over   bool   `query:"over" doc:"Also those that have ended or were deleted."`
	Before string `query:"before" maxLength:"64" doc:"The next of an earlier page."`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
}

type schedulesOutput struct {
	Body struct {
		Schedules []ScheduleView    `json:"schedules" nullable:"false" doc:"Newest first."`
		Next      record.ScheduleID `json:"next,omitempty" doc:"Send it as before for the next page."`
	}
}

func (d *door) listSchedules(ctx context.Context, in *listSchedulesInput) (*schedulesOutput, error) {
	v := watcher(ctx)
	if v.person.Valid() {
		return nil, d.refusal(approversOnly())
	}
	list, err := d.reader.Schedules(ctx, dispatch.ScheduleQuery{Tenant: v.tenant(), Owner: v.owner(), Over: in.Over, Before: record.ScheduleID(in.Before), Limit: in.Limit})
	if err != nil {
		return nil, d.refusal(err)
	}
	out := &schedulesOutput{}
	out.Body.Schedules = []ScheduleView{}
	for _, s := range list {
		out.Body.Schedules = append(out.Body.Schedules, scheduleView(s))
	}
	if len(list) == in.Limit {
		out.Body.Next = list[len(list)-1].ID
	}
	return out, nil
}

func (d *door) showSchedule(ctx context.Context, in *SchedulePath) (*scheduleOutput, error) {
	v, id := watcher(ctx), record.ScheduleID(in.ID)
	if !record.ValidID("sch", in.ID) || v.person.Valid() {
		return nil, d.refusal(absent("schedule"))
	}
	if v.caller.Valid() {
		return d.schedule(d.boundary.OwnSchedule(ctx, v.caller, id))
	}
	return d.schedule(d.reader.Schedule(ctx, v.tenant(), id))
}

func (d *door) pauseSchedule(ctx context.Context, in *SchedulePath) (*scheduleOutput, error) {
	if !record.ValidID("sch", in.ID) {
		return nil, d.refusal(absent("schedule"))
	}
	return d.schedule(d.boundary.PauseSchedule(ctx, caller(ctx), record.ScheduleID(in.ID)))
}

func (d *door) resumeSchedule(ctx context.Context, in *SchedulePath) (*scheduleOutput, error) {
	if !record.ValidID("sch", in.ID) {
		return nil, d.refusal(absent("schedule"))
	}
	s, a, err := d.boundary.ResumeSchedule(ctx, caller(ctx), record.ScheduleID(in.ID))
	return d.decided(s, a, err)
}

func (d *door) deleteSchedule(ctx context.Context, in *SchedulePath) (*scheduleOutput, error) {
	if !record.ValidID("sch", in.ID) {
		return nil, d.refusal(absent("schedule"))
	}
	return d.schedule(d.boundary.DeleteSchedule(ctx, caller(ctx), record.ScheduleID(in.ID)))
}
