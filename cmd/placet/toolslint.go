package main

import (
	"context"
	"fmt"
	"strconv"

	placet "github.com/placet-dev/placet"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

type toolsLint struct {
	configFlag
	Tools []string `arg:"" optional:"" name:"tool" help:"Tools to look at (default: all)."`
}

// Run warns of arguments that let more pass than an operator may want. It asks no
// server: it reads what is pinned.
func (c toolsLint) Run(ctx context.Context, p *program) error {
	b, err := p.bench(ctx, c.configFlag)
	if err != nil {
		return err
	}
	defer b.close()
	tools, err := b.tools(c.Tools)
	if err != nil {
		return err
	}
	var found []registry.Finding
	for _, t := range tools {
		found = append(found, t.Lint()...)
	}
	err = list(p, found, "Nothing to warn of.", []string{"TOOL", "ARGUMENT", "KIND", "ADVICE", "PLACE"}, func(f registry.Finding) []string {
		return []string{f.Tool, f.Argument, f.Kind, f.Advice, f.Place}
	})
	if err != nil || len(found) == 0 {
		return err
	}
	return no("%d things to review", len(found))
}

// tools finds tools by name, callable or not; without names, all.
func (b *bench) tools(names []string) ([]*registry.Tool, error) {
	all := map[string]*registry.Tool{}
	var out []*registry.Tool
	for s := range b.checked.Registry().Servers() {
		for _, t := range b.toolsOf(s.Name) {
			all[t.Name] = t
			out = append(out, t)
		}
	}
	if len(names) == 0 {
		return out, nil
	}
	out = nil
	for _, n := range names {
		t, ok := all[n]
		if !ok {
			return nil, record.Errorf(record.NotFound, "the registry names no tool %q here", n)
		}
		out = append(out, t)
	}
	return out, nil
}

type toolsProbe struct {
	configFlag
	Tool   string `arg:"" name:"tool" help:"The tool to try."`
	Tenant string `help:"Tenant whose root is filled in." default:"probe"`
}

// Run tries the hostile corpus on one tool's arguments, then hostile results on the
// calls that they lead to, and reports what passes.
func (c toolsProbe) Run(ctx context.Context, p *program) error {
	b, err := p.bench(ctx, c.configFlag)
	if err != nil {
		return err
	}
	defer b.close()
	tools, err := b.tools([]string{c.Tool})
	if err != nil {
		return err
	}
	owner := record.Owner{Tenant: record.TenantID(c.Tenant), Principal: record.Principal{Issuer: "urn:placet:probe", Subject: "probe"}, Agent: "probe"}
	probed := tools[0].Probe(owner)
	passed := 0
	err = list(p, probed, "No argument of this tool has a guard, or a name that one is for.", []string{"ARGUMENT", "GUARD", "ABUSE", "REFUSED", "PASSES"}, func(r registry.Probed) []string {
		of := string(r.Guard)
		if of == "" {
			of = "none"
		}
		return []string{r.Argument, of, r.Kind, fmt.Sprintf("%d of %d", r.Refused, r.Tried), strconv.Itoa(len(r.Passed))}
	})
	for _, r := range probed {
		passed += len(r.Passed)
		if len(r.Passed) > 0 && !p.json {
			p.say("\npasses %s (%s), for example: %s", r.Argument, r.Kind, safe(string(r.Passed[0])))
		}
	}
	if err != nil {
		return err
	}
	harmed, err := c.plant(ctx, p, b)
	switch {
	case err != nil:
		return err
	case passed+harmed == 0:
		return nil
	case harmed == 0:
		return no("%d hostile values pass; see above", passed)
	default:
		return no("%d hostile values pass, and %d calls run that a hostile text led to; see above", passed, harmed)
	}
}

// plant tries hostile results, and returns how many calls ran that they led to.
func (c toolsProbe) plant(ctx context.Context, p *program, b *bench) (harmed int, err error) {
	o := p.options(b.cfg)
	o.Log = nil
	if err := devIdentity(&o, []string{"dev"}); err != nil {
		return 0, err
	}
	planted, err := placet.Plant(ctx, o, c.Tool, record.TenantID(c.Tenant))
	if err != nil {
		return 0, err
	}
	p.say("")
	err = list(p, planted, "Hostile results are tried with tools that can be called: this one is quarantined.",
		[]string{"HOSTILE RESULT", "ARGUMENT", "READ FROM", "THE CALL", "CODE", "ASKED BY THE USER"}, func(r placet.Planted) []string {
			fate := string(r.Fate)
			if r.Fate == placet.FateRuns && !r.Harm {
				fate = "runs (only reads)"
			}
			return []string{r.Kind, r.Argument, r.Source, fate, string(r.Code), string(r.Asked)}
		})
	for _, r := range planted {
		if r.Harm {
			harmed++
		}
	}
	return harmed, err
}
