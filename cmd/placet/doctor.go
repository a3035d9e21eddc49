package main

import (
	"context"

	placet "github.com/placet-dev/placet"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	toolmcp "github.com/placet-dev/placet/tool/mcp"
)

type doctorCommand struct {
	configFlag
	Bypass bool `help:"Call each tool server past Placet, for a tool that it does not have and without a dispatch token, and name those that answer."`
}

// probeView is one server as it was probed.
type probeView struct {
	Server string `json:"server"`
	Status string `json:"status"` // refuses, answers or unreachable
	Token  bool   `json:"dispatch_token"`
	Place  string `json:"place"`
	Why    string `json:"why"`
}

func (c doctorCommand) Run(ctx context.Context, p *program) error {
	if !c.Bypass {
		return c.examine(ctx, p)
	}
	b, err := p.bench(ctx, c.configFlag)
	if err != nil {
		return err
	}
	defer b.close()
	var views []probeView
	answered, silent := 0, 0
	for s := range b.checked.Registry().Servers() {
		if s.URL == "" {
			continue // Placet starts it itself: nobody else has its other end
		}
		v := probeView{Server: s.Name, Token: s.DispatchToken, Place: s.Place}
		got, err := b.probe(ctx, s)
		switch {
		case err != nil:
			silent++
			v.Status, v.Why = statusUnreachable, err.Error()
		case got == toolmcp.ProbeRefuses:
			v.Status, v.Why = string(got), "it looks at no call that was not dispatched"
		case s.DispatchToken:
			answered++
			v.Status, v.Why = string(got), "it gets tokens and does not demand them before it looks at a call"
		default:
			answered++
			v.Status, v.Why = string(got), "whoever reaches it can call it past Placet; see dispatch_token"
		}
		views = append(views, v)
	}
	err = list(p, views, "No server of the registry is reached over HTTP.", []string{"SERVER", "STATUS", "TOKEN", "WHY"}, func(v probeView) []string {
		token := "no"
		if v.Token {
			token = "yes"
		}
		return []string{v.Server, v.Status, token, v.Why}
	})
	switch {
	case err != nil:
		return err
	case answered > 0:
		return &verdict{code: exitNo, message: "some tool servers answer calls that did not come through Placet; see above"}
	case silent > 0:
		return &verdict{code: record.SurfaceOf(record.Unavailable).Exit, message: "some servers did not answer; see above"}
	}
	return nil
}

// examine looks at what a server rests on. It ends with 1 if something fails.
func (c doctorCommand) examine(ctx context.Context, p *program) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	o := p.options(cfg)
	o.Log = nil
	if err := devIdentity(&o, []string{"dev"}); err != nil {
		return err
	}
	found := placet.Examine(ctx, o)
	err = list(p, found, "", []string{"CHECK", "STATUS", "FOUND", "WHAT TO DO"}, func(f placet.Finding) []string {
		return []string{f.Check, string(f.Status), f.Says, f.Do}
	})
	if err == nil && placet.Worst(found) == placet.Fails {
		err = no("something fails; see above")
	}
	return err
}

// probe asks a server what it does with a call that nobody dispatched. No tool is called.
func (b *bench) probe(ctx context.Context, s *registry.Server) (toolmcp.Probed, error) {
	ctx, cancel := context.WithTimeout(ctx, contactLimit)
	defer cancel()
	return b.servers.MCP.Probe(ctx, s)
}
