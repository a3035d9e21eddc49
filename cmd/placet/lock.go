package main

import (
	"context"
	"slices"

	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/measure"
)

type toolsLock struct {
	configFlag
	Server string   `arg:"" help:"The server, by its name in the registry."`
	Only   []string `sep:"none" placeholder:"NAME" help:"Only these tools, by their names in the registry."`
}

// Run pins what a server offers now for the tools that the registry names.
func (c toolsLock) Run(ctx context.Context, p *program) error {
	b, err := p.bench(ctx, c.configFlag)
	if err != nil {
		return err
	}
	defer b.close()
	s, err := b.server(c.Server)
	if err != nil {
		return err
	}
	d, err := b.draftOf(s)
	if err != nil {
		return err
	}
	var done []admitted
	if len(s.Command) > 0 {
		pin, err := measureServer(ctx, s)
		if err != nil {
			return err
		}
		if s.Pin == nil || *s.Pin != pin {
			done = append(done, admitted{Step: "pinned", Server: s.Name, File: d.lockFile})
		}
		d.lock.Servers[s.Name] = pin
	}
	offers, err := b.offers(ctx, s)
	if err != nil {
		return err
	}
	more, err := b.repin(d, s, offers, c.Only)
	if err != nil {
		return err
	}
	done = append(done, more...)
	if err := p.save(ctx, b, d, d.text); err != nil {
		return err
	}
	return p.admitted(done, "Activate it with: placet reload.")
}

func (b *bench) repin(d *draft, s *registry.Server, offers []registry.Offer, names []string) ([]admitted, error) {
	var done []admitted
	known := map[string]bool{}
	for _, t := range b.toolsOf(s.Name) {
		known[t.Name] = true
		if len(names) > 0 && !slices.Contains(names, t.Name) {
			continue
		}
		i := slices.IndexFunc(offers, func(o registry.Offer) bool { return o.Key() == t.Offered() })
		if i < 0 {
			done = append(done, admitted{Step: "gone", Server: s.Name, Tool: t.Name})
			continue
		}
		pin, err := registry.PinOf(offers[i])
		if err != nil {
			return nil, record.Errorf(record.Invalid, "%s: %s %w", s.Name, t.Name, err)
		}
		was := d.lock.Tools[t.Name].Pin
		if was.Digest == pin.Digest {
			continue
		}
		d.lock.Tools[t.Name] = registry.LockedTool{Server: s.Name, Pin: pin}
		done = append(done, admitted{Step: "pinned", Server: s.Name, Tool: t.Name, File: d.lockFile, Diff: registry.Diff(was, offers[i])})
	}
	for _, n := range names {
		if !known[n] {
			return nil, record.Errorf(record.NotFound, "the registry names no tool %q of server %s", n, s.Name)
		}
	}
	return done, nil
}

// measureServer finds out what a server's command runs.
func measureServer(ctx context.Context, s *registry.Server) (registry.ServerPin, error) {
	pin, err := measure.Command(ctx, s.Command)
	if err != nil {
		return pin, record.Errorf(record.Unavailable, "server %s cannot be measured, and stays quarantined: %w", s.Name, err)
	}
	return pin, nil
}

// commandDrift says how a server's command departs from its pin; "" when it does
// not, and for servers that are no command.
func commandDrift(ctx context.Context, s *registry.Server) string {
	if len(s.Command) == 0 {
		return ""
	}
	if s.Pin == nil {
		return "its command is not in the lock"
	}
	now, err := measure.Command(ctx, s.Command)
	if err != nil {
		return "what its command would run cannot be measured: " + err.Error()
	}
	if err := s.Pin.Check(now); err != nil {
		return "its command " + err.Error()
	}
	return ""
}
