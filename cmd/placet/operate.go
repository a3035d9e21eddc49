package main

import (
	"context"
	"net/http"
	"net/url"

	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/registry"
)

type reloadCommand struct {
	serverFlags
	Plan bool `help:"Only print what would change."`
}

// Run has a server read its registry and policy again: it prints the plan, and
// then activates exactly what was planned. On any error the version before stays.
func (c reloadCommand) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	var r api.Reloaded
	if err := client.ask(ctx, http.MethodPost, "/v1/reload", url.Values{"plan": {"true"}}, nil, &r); err != nil {
		return err
	}
	p.plan("planned", r.Generation, r.Changed, r.Plan)
	if c.Plan {
		return nil
	}
	if err := client.ask(ctx, http.MethodPost, "/v1/reload", url.Values{"version": {r.Version}}, nil, &r); err != nil {
		return err
	}
	p.plan("active", r.Generation, r.Changed, nil)
	return nil
}

type overridesCommand struct{ serverFlags }

func (c overridesCommand) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	var page struct {
		Overrides []registry.Override `json:"overrides"`
	}
	if err := client.ask(ctx, http.MethodGet, "/v1/overrides", nil, nil, &page); err != nil {
		return err
	}
	return list(p, page.Overrides, "No setting weakens a default.", []string{"SUBJECT", "SETTING", "MEANS", "PLACE"}, func(o registry.Override) []string {
		return []string{o.Subject, o.Setting, o.Detail, o.Place}
	})
}
