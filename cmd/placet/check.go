package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"strings"
	"time"

	placet "github.com/placet-dev/placet"
	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

type checkCommand struct {
	configFlag
	Token   string   `placeholder:"-" help:"Read a token from standard input and explain it; only - is accepted."`
	Tenants []string `default:"dev" hidden:"" help:"Tenants of the development issuer."`
}

// checkView is what a check found.
type checkView struct {
	Config      string        `json:"config"`
	Environment string        `json:"environment"`
	URL         string        `json:"url"`
	Tools       int           `json:"tools"`
	Quarantined int           `json:"quarantined"`
	Servers     int           `json:"servers"`
	Layers      []string      `json:"layers"`
	Issuers     int           `json:"issuers"`
	Overrides   int           `json:"overrides"`
	Warnings    []problemView `json:"warnings"`
}

func (c checkCommand) Run(ctx context.Context, p *program) error {
	if c.Token != "" && c.Token != "-" {
		return record.Errorf(record.Invalid, "a token on the command line shows in the list of processes; write --token - and give it on standard input")
	}
	cfg, err := c.load()
	if err != nil {
		return err
	}
	checked, err := p.check(ctx, cfg, c.Tenants)
	if err != nil {
		return err
	}
	if _, err := certificates(cfg); err != nil {
		return err
	}
	if c.Token == "-" {
		return c.explain(ctx, p, checked)
	}
	v := checkView{Config: cfg.File(), Environment: cfg.Environment, URL: cfg.PublicURL, Tools: checked.Registry().Len(),
		Quarantined: len(checked.Registry().Quarantined()), Layers: []string{}, Issuers: len(cfg.Issuers),
		Overrides: len(checked.Overrides()), Warnings: problemViews(checked.Warnings())}
	for range checked.Registry().Servers() {
		v.Servers++
	}
	for _, l := range cfg.Policy.Layers {
		v.Layers = append(v.Layers, l.Name)
	}
	return p.out(v, func() {
		p.say("%s is valid: %d servers, %d tools, %d quarantined, %d policy layers, %d issuers, %d overrides.",
			v.Config, v.Servers, v.Tools, v.Quarantined, len(v.Layers), v.Issuers, v.Overrides)
		for _, w := range checked.Warnings() {
			p.say("warning: %s", safe(w.String()))
		}
	})
}

// check takes the way of a start, without a store and without a listener. A
// configuration without issuers is checked as placet dev would run it.
func (p *program) check(ctx context.Context, cfg *config.Config, tenants []string) (*placet.Checked, error) {
	o := p.options(cfg)
	o.Log = nil
	if err := devIdentity(&o, tenants); err != nil {
		return nil, err
	}
	return placet.Check(ctx, o)
}

// devIdentity gives a configuration without issuers the development issuer, or,
// where there is none yet, one that nobody has tokens of.
func devIdentity(o *placet.Options, tenants []string) (err error) {
	if len(o.Config.Issuers) > 0 {
		return nil
	}
	o.Tenants = tenants
	o.Local, err = identity.LoadLocal(issuerFile(o.Config), rand.Reader, time.Now)
	if errors.Is(err, fs.ErrNotExist) {
		o.Local, err = identity.NewLocal(placet.LocalIssuer, rand.Reader, time.Now)
	}
	return err
}

// tokenReport is what is said of a token.
type tokenReport struct {
	identity.Explanation
	Tools []placet.Listed `json:"tools"`
}

func (c checkCommand) explain(ctx context.Context, p *program, checked *placet.Checked) error {
	text, err := io.ReadAll(io.LimitReader(p.stdin, 64<<10))
	if err != nil {
		return err
	}
	r := tokenReport{Explanation: checked.Verifier().Explain(ctx, identity.Credentials{Bearer: strings.TrimSpace(string(text))}), Tools: []placet.Listed{}}
	if r.As == "caller" {
		r.Tools = checked.Listed(r.Caller)
	}
	if err := p.out(r, func() { p.token(r) }); err != nil {
		return err
	}
	if r.Problem != "" {
		return &verdict{code: record.SurfaceOf(record.Kind(r.Kind)).Exit, quiet: true}
	}
	return nil
}

// token prints a report for people.
func (p *program) token(r tokenReport) {
	if r.Problem != "" {
		p.say("This token is refused: %s", safe(r.Problem))
	} else {
		p.say("This token is accepted as a %s's.", r.As)
	}
	for _, c := range r.Checks {
		mark := "passed"
		if !c.Passed {
			mark = "FAILED"
		}
		p.say("  %s  %s", mark, c.Name)
	}
	row := func(name, value string) {
		if value != "" {
			p.say("%-10s %s", name, safe(value))
		}
	}
	row("issuer", r.Issuer)
	row("tenant", string(r.Tenant))
	row("principal", r.Subject.Subject)
	row("agent", string(r.Agent))
	if len(r.Actors) > 1 {
		row("actors", strings.Join(r.Actors, " < "))
	}
	row("scopes", strings.Join(r.Scopes, " "))
	var groups []string
	for _, g := range r.Groups {
		groups = append(groups, g.Name)
	}
	row("groups", strings.Join(groups, " "))
	row("audience", strings.Join(r.Audience, " "))
	if !r.Expires.IsZero() {
		row("expires", r.Expires.UTC().Format(time.RFC3339))
	}
	if r.Operates {
		row("may", "operate")
	} else if r.Reads {
		row("may", "read")
	}
	if len(r.Tools) == 0 {
		return
	}
	p.say("")
	t := &table{head: []string{"TOOL", "LISTED", "WHY NOT"}}
	for _, l := range r.Tools {
		t.add(l.Tool, yesNo(l.Listed), l.Why)
	}
	_ = t.write(p.stdout)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
