package main

import (
	"context"
	"net/http"
	"strconv"

	"github.com/placet-dev/placet/edge/api"
)

type runsHeld struct {
	serverFlags
	After string `placeholder:"LINEAGE" help:"Only lineages after this one."`
	Limit int    `default:"50" help:"How many (default: 50)."`
}

// Run lists the lineages that an alert holds.
func (c runsHeld) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	var page struct {
		Held []api.HeldView `json:"held"`
	}
	q := query("after", c.After, "limit", strconv.Itoa(c.Limit))
	if err := client.ask(ctx, http.MethodGet, "/v1/held", q, nil, &page); err != nil {
		return err
	}
	return list(p, page.Held, "Nothing is held.", []string{"RUN", "RULE", "SINCE", "ALERT"}, func(v api.HeldView) []string {
		return []string{string(v.Run), string(v.Rule), shortTime(v.At), v.Text}
	})
}

type runsLift struct {
	runFlags
	Reason string `required:"" help:"Why; for the record."`
}

// Run lifts the hold from the lineage of a run.
func (c runsLift) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	path, err := id("run", c.ID)
	if err != nil {
		return err
	}
	var v api.HeldView
	if err := client.ask(ctx, http.MethodPost, "/v1/runs/"+path+"/lift", nil, map[string]string{"reason": c.Reason}, &v); err != nil {
		return err
	}
	return p.out(v, func() {
		p.say("The lineage of %s is no longer held; what waited runs when its agent asks again.", v.Run)
	})
}
