package main

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/record"
)

type schedulesCommand struct {
	List   schedulesList   `cmd:"" help:"List schedules, newest first."`
	Show   schedulesShow   `cmd:"" help:"Show a schedule."`
	Add    schedulesAdd    `cmd:"" help:"Have a tool called at set times."`
	Pause  schedulesPause  `cmd:"" help:"Pause a schedule."`
	Resume schedulesResume `cmd:"" help:"Resume a paused schedule."`
	Delete schedulesDelete `cmd:"" help:"Delete a schedule; what it opened and has not run is canceled."`
}

type schedulesList struct {
	serverFlags
	Over   bool   `help:"Also those that have ended or were deleted."`
	Before string `help:"Only schedules before this one." placeholder:"SCHEDULE"`
	Limit  int    `default:"50" help:"How many (default: 50)."`
}

func (c schedulesList) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	over := ""
	if c.Over {
		over = "true"
	}
	var page struct {
		Schedules []api.ScheduleView `json:"schedules"`
	}
	if err := client.ask(ctx, http.MethodGet, "/v1/schedules", query("over", over, "before", c.Before, "limit", strconv.Itoa(c.Limit)), nil, &page); err != nil {
		return err
	}
	return list(p, page.Schedules, "No schedules.", []string{"SCHEDULE", "TOOL", "WHEN", "STATE", "NEXT", "PRINCIPAL", "AGENT"}, func(v api.ScheduleView) []string {
		return []string{string(v.ID), v.Tool, cmp.Or(v.Cron, "once"), string(v.State), nextTime(v), v.Principal.Subject, string(v.Agent)}
	})
}

func nextTime(v api.ScheduleView) string {
	if v.Next == nil {
		return "-"
	}
	return shortTime(*v.Next)
}

type schedulesShow struct {
	serverFlags
	Schedule string `arg:"" help:"The schedule."`
}

func (c schedulesShow) Run(ctx context.Context, p *program) error {
	return c.serverFlags.schedule(ctx, p, http.MethodGet, c.Schedule, "")
}

type schedulesAdd struct {
	serverFlags
	Tool      string    `arg:"" help:"The tool. Its entry must allow schedules."`
	Arguments string    `default:"{}" placeholder:"JSON" help:"Its arguments (default: {})."`
	Purpose   string    `help:"Why; shown to approvers."`
	Cron      string    `xor:"when" required:"" placeholder:"FIELDS" help:"Minute, hour, day of month, month, day of week."`
	At        time.Time `xor:"when" required:"" placeholder:"TIME" help:"Once, at this time, such as 2026-12-24T08:00:00Z."`
	Zone      string    `placeholder:"ZONE" help:"The time zone of --cron, such as Europe/Berlin (default: UTC)."`
	Until     time.Time `placeholder:"TIME" help:"Nothing fires after it."`
}

func (c schedulesAdd) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	if !json.Valid([]byte(c.Arguments)) {
		return record.Errorf(record.Invalid, "--arguments is not JSON")
	}
	body := map[string]any{"tool": c.Tool, "arguments": json.RawMessage(c.Arguments)}
	for name, value := range map[string]string{"purpose": c.Purpose, "cron": c.Cron, "zone": c.Zone} {
		if value != "" {
			body[name] = value
		}
	}
	for name, at := range map[string]time.Time{"at": c.At, "until": c.Until} {
		if !at.IsZero() {
			body[name] = at
		}
	}
	var v api.ScheduleView
	if err := client.ask(ctx, http.MethodPost, "/v1/schedules", nil, body, &v); err != nil {
		return err
	}
	return p.out(v, func() { p.schedule(v) })
}

type schedulesPause struct {
	serverFlags
	Schedule string `arg:"" help:"The schedule."`
}

func (c schedulesPause) Run(ctx context.Context, p *program) error {
	return c.serverFlags.schedule(ctx, p, http.MethodPost, c.Schedule, "/pause")
}

type schedulesResume struct {
	serverFlags
	Schedule string `arg:"" help:"The schedule."`
}

func (c schedulesResume) Run(ctx context.Context, p *program) error {
	return c.serverFlags.schedule(ctx, p, http.MethodPost, c.Schedule, "/resume")
}

type schedulesDelete struct {
	serverFlags
	Schedule string `arg:"" help:"The schedule."`
}

func (c schedulesDelete) Run(ctx context.Context, p *program) error {
	return c.serverFlags.schedule(ctx, p, http.MethodDelete, c.Schedule, "")
}

// schedule asks something of a schedule, and prints it.
func (f serverFlags) schedule(ctx context.Context, p *program, method, name, what string) error {
	client, err := p.client(ctx, f)
	if err != nil {
		return err
	}
	path, err := id("sch", name)
	if err != nil {
		return err
	}
	var v api.ScheduleView
	if err := client.ask(ctx, method, "/v1/schedules/"+path+what, nil, nil, &v); err != nil {
		return err
	}
	return p.out(v, func() { p.schedule(v) })
}

func (p *program) schedule(v api.ScheduleView) {
	p.field("schedule", string(v.ID))
	p.field("state", string(v.State))
	p.field("why", v.Why)
	p.field("tool", v.Tool)
	p.field("arguments", string(v.Arguments))
	p.field("purpose", quoted(v.Purpose))
	p.field("when", cmp.Or(v.Cron, "once"))
	p.field("zone", v.Zone)
	p.field("next", nextTime(v))
	if v.Until != nil {
		p.field("until", shortTime(*v.Until))
	}
	if v.Last != nil {
		p.field("last", shortTime(*v.Last)+", "+string(v.Call))
	}
	p.field("principal", v.Principal.String())
	p.field("agent", string(v.Agent))
	p.field("run", string(v.Run))
}
