package main

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

type toolsAdd struct {
	configFlag
	Server string   `arg:"" help:"The server, by its name in the registry."`
	Only   []string `sep:"none" placeholder:"NAME" help:"Only these tools, by their names at the server."`
	All    bool     `help:"Resources, resource templates and prompts too; name one with --only by its URI, its template or its name."`
}

// admitted is what a command did about one tool or server.
type admitted struct {
	Step   string   `json:"step"` // drafted, pinned, unchanged or gone
	Server string   `json:"server"`
	Tool   string   `json:"tool,omitempty"`
	File   string   `json:"file,omitempty"`
	YAML   string   `json:"yaml,omitempty"`
	Diff   []string `json:"diff,omitempty"`
}

// Run asks a server once for its tools, calls none, drafts entries for those that
// nobody named, and pins what it saw. What is pinned already is left alone: that
// is for tools lock, after a review.
func (c toolsAdd) Run(ctx context.Context, p *program) error {
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
	// The program is measured before it is started: what is pinned is what ran.
	switch {
	case len(s.Command) == 0:
	case s.Pin != nil:
		if why := commandDrift(ctx, s); why != "" {
			return record.Errorf(record.Conflict, "server %s: %s; look at it with: placet tools diff %s, then pin it with: placet tools lock %s", s.Name, why, s.Name, s.Name)
		}
	default:
		pin, err := measureServer(ctx, s)
		if err != nil {
			return err
		}
		d.lock.Servers[s.Name] = pin
		done = append(done, admitted{Step: "pinned", Server: s.Name, File: d.lockFile})
	}
	offers, err := b.offers(ctx, s)
	if err != nil {
		return err
	}
	if !c.All && len(c.Only) == 0 {
		offers = slices.DeleteFunc(offers, func(o registry.Offer) bool {
			_, named := b.checked.Registry().ByUpstream(s.Name, o.Key())
			return o.Method != registry.MethodTool && !named
		})
	}
	if offers, err = only(offers, c.Only, s.Name); err != nil {
		return err
	}
	more, text, err := b.admit(d, s, offers)
	if err != nil {
		return err
	}
	if done = append(done, more...); len(done) == 0 {
		p.say("Every tool of %s is named and pinned already.", s.Name)
		return nil
	}
	if err := p.save(ctx, b, d, text); err != nil {
		return err
	}
	return p.admitted(done, "Review the entries in "+filepath.Base(d.file)+", then: placet check, and placet reload.")
}

// admit drafts entries for offers that nobody named and pins those that are not
// pinned yet.
func (b *bench) admit(d *draft, s *registry.Server, offers []registry.Offer) (done []admitted, text []byte, err error) {
	pin := func(name string, o registry.Offer) error {
		p, err := registry.PinOf(o)
		if err != nil {
			return record.Errorf(record.Invalid, "%s: %s %w", s.Name, o.Name, err)
		}
		d.lock.Tools[name] = registry.LockedTool{Server: s.Name, Pin: p}
		return nil
	}
	drafts := registry.Draft(s.Name, b.checked.Registry().Unlisted(s.Name, offers), b.taken())
	for _, e := range drafts {
		if err := pin(e.Name, e.Offer); err != nil {
			return nil, nil, err
		}
		done = append(done, admitted{Step: "drafted", Server: s.Name, Tool: e.Name, File: d.file, YAML: e.YAML})
	}
	for _, t := range b.toolsOf(s.Name) {
		i := slices.IndexFunc(offers, func(o registry.Offer) bool { return o.Key() == t.Offered() })
		if _, has := d.lock.Tools[t.Name]; has || i < 0 {
			continue
		}
		if err := pin(t.Name, offers[i]); err != nil {
			return nil, nil, err
		}
		done = append(done, admitted{Step: "pinned", Server: s.Name, Tool: t.Name, File: d.lockFile})
	}
	text = d.text
	if len(drafts) > 0 {
		text, err = registry.AddDrafts(d.file, d.text, drafts)
	}
	return done, text, err
}

// only keeps the offers that are asked for.
func only(offers []registry.Offer, names []string, server string) ([]registry.Offer, error) {
	if len(names) == 0 {
		return offers, nil
	}
	var out []registry.Offer
	for _, n := range names {
		named := slices.DeleteFunc(slices.Clone(offers), func(o registry.Offer) bool { return o.Name != n })
		if len(named) == 0 {
			return nil, record.Errorf(record.NotFound, "server %s does not offer %q", server, n)
		}
		out = append(out, named...) // a tool and a prompt may have one name
	}
	return out, nil
}

// admitted prints what was done.
func (p *program) admitted(done []admitted, next string) error {
	if len(done) == 0 {
		p.say("Nothing has changed.")
		return nil
	}
	for _, a := range done {
		err := p.out(a, func() {
			switch {
			case a.Step == "drafted":
				p.say("drafted %s in %s:\n%s", safe(a.Tool), a.File, a.YAML)
			case a.Step == "gone":
				p.say("gone    %s: %s does not offer it any longer; its pin stays", safe(a.Tool), a.Server)
			case a.Tool == "":
				p.say("pinned  the command of %s in %s", a.Server, a.File)
			default:
				p.say("pinned  %s in %s", safe(a.Tool), a.File)
			}
			for _, l := range a.Diff {
				p.say("  %s", safe(l))
			}
		})
		if err != nil {
			return err
		}
	}
	p.say("%s", next)
	return nil
}
