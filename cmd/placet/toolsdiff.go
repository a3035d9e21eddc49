package main

import (
	"context"
	"errors"

	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

type toolsDiff struct {
	configFlag
	Servers []string `arg:"" optional:"" name:"server" help:"Servers to ask (default: all)."`
}

func (c toolsDiff) Run(ctx context.Context, p *program) error {
	b, err := p.bench(ctx, c.configFlag)
	if err != nil {
		return err
	}
	defer b.close()
	servers, err := b.chosen(c.Servers)
	if err != nil {
		return err
	}
	var views []toolView
	var failed error
	for _, s := range servers {
		found, err := b.diff(ctx, s)
		views, failed = append(views, found...), errors.Join(failed, err)
	}
	if err := p.tools(views); len(views) > 0 && err != nil {
		return err
	}
	switch {
	case failed != nil:
		return record.Errorf(record.Unavailable, "%w", failed)
	case len(views) > 0:
		return &verdict{code: exitNo, message: "servers offer something else than what is pinned; review it, then: placet tools lock SERVER"}
	}
	p.say("Servers offer what is pinned.")
	return nil
}

func (b *bench) chosen(names []string) ([]*registry.Server, error) {
	var out []*registry.Server
	if len(names) == 0 {
		for s := range b.checked.Registry().Servers() {
			if !s.Inproc {
				out = append(out, s)
			}
		}
		return out, nil
	}
	for _, n := range names {
		s, err := b.server(n)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// diff compares one server with what is pinned of it.
func (b *bench) diff(ctx context.Context, s *registry.Server) ([]toolView, error) {
	var out []toolView
	if why := commandDrift(ctx, s); why != "" {
		out = append(out, toolView{Status: statusQuarantined, Server: s.Name, Place: s.Place, Why: why})
	}
	offers, err := b.offers(ctx, s)
	if err != nil {
		return out, err
	}
	for _, t := range b.toolsOf(s.Name) {
		if why, lines := drift(t, offers); why != "" {
			out = append(out, toolView{Status: statusQuarantined, Tool: t.Name, Server: s.Name, Marks: marks(t), Place: t.Place, Why: why, Diff: lines})
		}
	}
	return out, nil
}

// toolsOf lists a server's tools that the registry names, callable or not.
func (b *bench) toolsOf(server string) []*registry.Tool {
	var out []*registry.Tool
	r := b.checked.Registry()
	for t := range r.Tools() {
		if t.Server == server {
			out = append(out, t)
		}
	}
	for _, q := range r.Quarantined() {
		if q.Tool.Server == server {
			out = append(out, q.Tool)
		}
	}
	return out
}
