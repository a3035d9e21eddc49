package main

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/record"
)

type revokeCommand struct {
	Target revokeTarget `cmd:"" default:"withargs" help:"Revoke something, or undo it (the default; see placet revoke target --help)."`
	List   revokeList   `cmd:"" help:"List what is revoked."`
	Show   revokeShow   `cmd:"" help:"Show a revocation, and what became of the calls that ran."`
}

type revokeTarget struct {
	serverFlags
	Target     string        `arg:"" optional:"" placeholder:"TARGET" help:"tool:NAME, tool:NAME@VERSION, server:NAME, credential:NAME, tenant:NAME, principal:SUBJECT@ISSUER, agent:NAME, run:ID, schedule:ID, session:ID, or all."`
	Reason     string        `required:"" help:"Why; for people, and for the record."`
	For        time.Duration `placeholder:"TIME" help:"How long, such as 1h. Without it: until it is undone."`
	Tenant     string        `help:"Where it holds, with operate_all. Without it: in your own tenant."`
	Everywhere bool          `help:"In every tenant, with operate_all."`
	Undo       string        `placeholder:"ID" help:"Undo this revocation."`
	Wait       time.Duration `default:"10s" help:"How long to watch calls that still run (default: 10s)."`
}

// Run revokes, and watches what ran until it has ended or the time is over. Once the
// server has answered, nothing more starts.
func (c revokeTarget) Run(ctx context.Context, p *program) error {
	if (c.Target == "") == (c.Undo == "") {
		return record.Errorf(record.Invalid, "say what to revoke, or which revocation to --undo")
	}
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	if c.Undo != "" {
		return c.undo(ctx, p, client)
	}
	body := map[string]any{"target": c.Target, "reason": c.Reason}
	if c.For != 0 {
		body["for"] = c.For.String()
	}
	if c.Tenant != "" {
		body["tenant"] = c.Tenant
	}
	if c.Everywhere {
		body["everywhere"] = true
	}
	var v api.RevocationView
	if err := client.ask(ctx, http.MethodPost, "/v1/revocations", nil, body, &v); err != nil {
		return err
	}
	if !p.json {
		p.say("Revoked: %s, as %s. Nothing more starts.", v.Target, v.ID)
		p.say("Ended: %d calls that waited, %d runs; asked anew: %d questions; running: %d.", v.Ended, v.Runs, v.Questions, v.Running)
	}
	if v, err = watchCaught(ctx, client, v, v.Tenant, c.Wait); err != nil {
		return err
	}
	return p.out(v, func() { p.caught(v) })
}

func (c revokeTarget) undo(ctx context.Context, p *program, client *client) error {
	path, err := id("rev", c.Undo)
	if err != nil {
		return err
	}
	body := map[string]string{"reason": c.Reason}
	if c.Tenant != "" {
		body["tenant"] = c.Tenant
	}
	var v api.RevocationView
	if err := client.ask(ctx, http.MethodPost, "/v1/revocations/"+path+"/undo", nil, body, &v); err != nil {
		return err
	}
	return p.out(v, func() { p.say("Undone: %s. What it ended stays ended.", v.Target) })
}

// watchCaught looks again until nothing runs any more, or the time is over.
func watchCaught(ctx context.Context, client *client, v api.RevocationView, tenant record.TenantID, wait time.Duration) (api.RevocationView, error) {
	end, stop := context.WithTimeout(ctx, wait)
	defer stop()
	for stillRuns(v) > 0 {
		select {
		case <-end.Done():
			return v, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
		var next api.RevocationView
		if err := client.ask(ctx, http.MethodGet, "/v1/revocations/"+url.PathEscape(string(v.ID)), query("tenant", string(tenant)), nil, &next); err != nil {
			return v, err
		}
		v = next
	}
	return v, nil
}

func stillRuns(v api.RevocationView) (n int) {
	for _, c := range v.Calls {
		if c.State == record.Executing {
			n++
		}
	}
	return n
}

// caught prints how the calls that ran have ended.
func (p *program) caught(v api.RevocationView) {
	for _, c := range v.Calls {
		p.say("%s  %s  %s", c.Call, c.Tool, c.State)
	}
	if n := stillRuns(v); n > 0 {
		p.say("%d still run: placet revoke show %s", n, v.ID)
	}
}

type revokeList struct {
	serverFlags
	Tenant string `help:"Where they hold, with operate_all."`
	Ended  bool   `help:"Those that were undone or have expired, too."`
	Before string `placeholder:"ID" help:"Only those before this one."`
	Limit  int    `default:"50" help:"How many (default: 50)."`
}

// Run lists what is revoked.
func (c revokeList) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	var page struct {
		Revocations []api.RevocationView `json:"revocations"`
	}
	q := query("tenant", c.Tenant, "ended", strconv.FormatBool(c.Ended), "before", c.Before, "limit", strconv.Itoa(c.Limit))
	if err := client.ask(ctx, http.MethodGet, "/v1/revocations", q, nil, &page); err != nil {
		return err
	}
	return list(p, page.Revocations, "Nothing is revoked.", []string{"ID", "TARGET", "WHERE", "SINCE", "UNTIL", "BY", "REASON"}, func(v api.RevocationView) []string {
		return []string{string(v.ID), v.Target, where(v), shortTime(v.At), until(v), v.By, v.Reason}
	})
}

func where(v api.RevocationView) string {
	if v.Everywhere {
		return "everywhere"
	}
	return string(v.Tenant)
}

func until(v api.RevocationView) string {
	switch {
	case v.Undone != nil:
		return "undone " + shortTime(*v.Undone)
	case v.Expires != nil:
		return shortTime(*v.Expires)
	}
	return "undone"
}

type revokeShow struct {
	serverFlags
	ID     string `arg:"" help:"The revocation's ID."`
	Tenant string `help:"Where it holds, with operate_all."`
}

// Run shows a revocation.
func (c revokeShow) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	path, err := id("rev", c.ID)
	if err != nil {
		return err
	}
	var v api.RevocationView
	if err := client.ask(ctx, http.MethodGet, "/v1/revocations/"+path, query("tenant", c.Tenant), nil, &v); err != nil {
		return err
	}
	return p.out(v, func() {
		p.say("%s: %s, %s, since %s, until %s, by %s: %s", v.ID, v.Target, where(v), shortTime(v.At), until(v), v.By, v.Reason)
		p.say("Ended: %d calls that waited, %d runs; asked anew: %d questions; ran: %d.", v.Ended, v.Runs, v.Questions, v.Running)
		p.caught(v)
	})
}
