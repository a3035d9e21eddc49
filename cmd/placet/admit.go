package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	placet "github.com/placet-dev/placet"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/measure"
	"github.com/placet-dev/placet/yamlfile"
)

type toolsAdd struct {
	configFlag
	Server string   `arg:"" help:"The server, by its name in the registry."`
	Only   []string `sep:"none" placeholder:"NAME" help:"Only these tools, by their names at the server."`
}

type toolsLock struct {
	configFlag
	Server string   `arg:"" help:"The server, by its name in the registry."`
	Only   []string `sep:"none" placeholder:"NAME" help:"Only these tools, by their names in the registry."`
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

// draft is one registry file with its lock, while they are being written anew.
type draft struct {
	file, lockFile string
	text, lockText []byte // as they were read
	lock           *registry.Lock
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
		i := slices.IndexFunc(offers, func(o registry.Offer) bool { return o.Name == t.Upstream })
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
		i := slices.IndexFunc(offers, func(o registry.Offer) bool { return o.Name == n })
		if i < 0 {
			return nil, record.Errorf(record.NotFound, "server %s does not offer %q", server, n)
		}
		out = append(out, offers[i])
	}
	return out, nil
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
		i := slices.IndexFunc(offers, func(o registry.Offer) bool { return o.Name == t.Upstream })
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

// draftOf finds the registry file that names a server, and its lock.
func (b *bench) draftOf(s *registry.Server) (*draft, error) {
	for _, file := range b.cfg.Registry {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var f registry.File
		if ps := yamlfile.Decode(filepath.Base(file), text, &f); len(ps) > 0 {
			return nil, ps
		}
		if !slices.ContainsFunc(f.Servers, func(e yamlfile.Entry[registry.ServerEntry]) bool { return e.Key == s.Name }) {
			continue
		}
		d := &draft{file: file, lockFile: registry.LockPath(file), text: text}
		if d.lockText, err = os.ReadFile(d.lockFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		var ps yamlfile.Problems
		if d.lock, ps = registry.ReadLock(filepath.Base(d.lockFile), d.lockText); len(ps) > 0 {
			return nil, ps
		}
		return d, nil
	}
	return nil, record.Errorf(record.Conflict, "no registry file names server %q any longer", s.Name)
}

// save writes lock and file, once it is known that they load. The lock comes
// first: an entry without its pin is quarantined, a pin without its entry is nothing.
func (p *program) save(ctx context.Context, b *bench, d *draft, text []byte) error {
	lock, err := d.lock.Write()
	if err != nil {
		return err
	}
	o := p.options(b.cfg)
	o.ReadFile = func(path string) ([]byte, error) {
		switch path {
		case d.file:
			return text, nil
		case d.lockFile:
			return lock, nil
		}
		return os.ReadFile(path)
	}
	if err := p.loads(ctx, o); err != nil {
		return fmt.Errorf("nothing was written, since the result would not load: %w", err)
	}
	if err := replace(d.lockFile, d.lockText, lock); err != nil {
		return err
	}
	return replace(d.file, d.text, text)
}

// loads checks options as a start would.
func (p *program) loads(ctx context.Context, o placet.Options) error {
	o.Log = nil
	if err := devIdentity(&o, []string{"dev"}); err != nil {
		return err
	}
	_, err := placet.Check(ctx, o)
	return err
}

// replace writes a file in the place of what was read from it, whole or not at
// all. Somebody's change meanwhile is not written over.
func replace(path string, was, text []byte) error {
	if bytes.Equal(was, text) {
		return nil
	}
	mode := fs.FileMode(0o644)
	switch now, err := os.ReadFile(path); {
	case errors.Is(err, fs.ErrNotExist) && len(was) == 0:
	case err != nil:
		return err
	case !bytes.Equal(now, was):
		return record.Errorf(record.Conflict, "%s has changed meanwhile; nothing was written to it, run the command again", path)
	default:
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already when all went well
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}
