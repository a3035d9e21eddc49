package main

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	placet "github.com/placet-dev/placet"
	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/record"
)

type policyVersions struct {
	serverFlags
	Limit int `default:"20" help:"How many, the newest (default: 20)."`
}

// Run lists what was activated, and says whether the server decides by the newest.
func (c policyVersions) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	var page struct {
		Versions []api.VersionView `json:"versions"`
		Here     api.StandingView  `json:"here"`
	}
	if err := client.ask(ctx, http.MethodGet, "/v1/versions", query("limit", strconv.Itoa(c.Limit)), nil, &page); err != nil {
		return err
	}
	err = list(p, page.Versions, "Nothing was activated.", []string{"GENERATION", "ACTIVE", "FILES", "STORED", "BY", "AT", "VERSION"}, func(v api.VersionView) []string {
		return []string{strconv.FormatInt(v.Generation, 10), yes(v.Active), v.Files, yes(v.Stored), v.By, shortTime(v.At), v.Version}
	})
	if err == nil && !page.Here.Ready && !p.json {
		p.say("This server decides nothing (its generation is %d): %s", page.Here.Generation, safe(page.Here.Why))
	}
	return err
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

type policyActivate struct {
	serverFlags
	Version    string `placeholder:"DIGEST" help:"Go back to a version by its digest."`
	Generation int64  `placeholder:"N" help:"Go back to the version of an activation."`
	Plan       bool   `help:"Only print what would change."`
}

// order is what the flags name: an earlier version, or the files of this machine.
func (c policyActivate) order() (api.VersionOrder, error) {
	switch {
	case c.Version != "" && c.Generation != 0:
		return api.VersionOrder{}, record.Errorf(record.Invalid, "name one of --version and --generation")
	case c.Version != "" || c.Generation != 0:
		return api.VersionOrder{Version: c.Version, Generation: c.Generation}, nil
	}
	return filesOf(c.configFlag)
}

// filesOf reads what a configuration of this machine names. It opens nothing, and reads
// no secret.
func filesOf(f configFlag) (api.VersionOrder, error) {
	cfg, err := f.load()
	if err != nil {
		return api.VersionOrder{}, err
	}
	files, err := placet.Pack(cfg)
	return api.VersionOrder{Files: files}, err
}

// Run prints the plan, and then activates exactly what was planned on what it was
// planned for.
func (c policyActivate) Run(ctx context.Context, p *program) error {
	order, err := c.order()
	if err != nil {
		return err
	}
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	type body struct {
		api.VersionOrder
		Plan    bool   `json:"plan,omitempty"`
		Planned string `json:"planned,omitempty"`
		After   int64  `json:"after,omitempty"`
	}
	var r api.Reloaded
	if err := client.ask(ctx, http.MethodPost, "/v1/versions/activate", nil, body{VersionOrder: order, Plan: true}, &r); err != nil {
		return err
	}
	p.plan("planned", r.Generation, r.Changed, r.Plan)
	if c.Plan {
		return nil
	}
	if err := client.ask(ctx, http.MethodPost, "/v1/versions/activate", nil, body{VersionOrder: order, Planned: r.Version, After: r.Generation}, &r); err != nil {
		return err
	}
	p.plan("active", r.Generation, r.Changed, nil)
	return nil
}

type policyReport struct {
	serverFlags
	Since time.Duration `default:"24h" help:"Calls of this long (default: 24h)."`
	Limit int           `default:"5000" help:"At most so many calls, the newest (default: 5000)."`
}

// Run says what rules that only observe would have done.
func (c policyReport) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	var page struct {
		Calls    int                `json:"calls"`
		More     bool               `json:"more"`
		Observed []api.ObservedView `json:"observed"`
	}
	q := query("since", since(c.Since), "limit", strconv.Itoa(c.Limit))
	if err := client.ask(ctx, http.MethodGet, "/v1/observed", q, nil, &page); err != nil {
		return err
	}
	err = list(p, page.Observed, "Nothing that observes would have denied or asked.", []string{"RULE", "TOOL", "WOULD HAVE DENIED", "ASKED", "EXAMPLES"}, func(o api.ObservedView) []string {
		return []string{o.Rule, o.Tool, strconv.Itoa(o.Denied), strconv.Itoa(o.Asked), callList(o.Examples)}
	})
	if err == nil && !p.json {
		p.say("%s", looked(page.Calls, page.More))
	}
	return err
}

func since(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339) }

func looked(calls int, more bool) string {
	text := strconv.Itoa(calls) + " calls were looked at"
	if more {
		text += "; there are older ones"
	}
	return text + "."
}

func callList(ids []record.CallID) string {
	var out []string
	for _, id := range ids {
		out = append(out, string(id))
	}
	return strings.Join(out, " ")
}

type policyDiff struct {
	serverFlags
	From  string        `arg:"" help:"A version: its digest, its generation, active, or files (those that --config names)."`
	To    string        `arg:"" optional:"" default:"files" help:"The other one (default: files)."`
	Since time.Duration `default:"24h" help:"Calls of this long (default: 24h)."`
	Limit int           `default:"2000" help:"At most so many calls, the newest (default: 2000)."`
}

// version is what a word names.
func (c policyDiff) version(word string) (api.VersionOrder, error) {
	if word == "files" {
		return filesOf(c.configFlag)
	}
	if n, err := strconv.ParseInt(word, 10, 64); err == nil && n > 0 {
		return api.VersionOrder{Generation: n}, nil
	}
	if !strings.HasPrefix(word, "sha256:") {
		return api.VersionOrder{}, record.Errorf(record.Invalid, "%q names no version: write a digest (sha256:…), a generation, active or files", word)
	}
	return api.VersionOrder{Version: word}, nil
}

// Run has recorded calls judged by two versions. It runs nothing.
func (c policyDiff) Run(ctx context.Context, p *program) error {
	var from, to api.VersionOrder
	var err error
	if c.From != "active" {
		if from, err = c.version(c.From); err != nil {
			return err
		}
	}
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	if c.To == "active" {
		if to, err = client.active(ctx); err != nil {
			return err
		}
	} else if to, err = c.version(c.To); err != nil {
		return err
	}
	var v api.ComparedView
	body := map[string]any{"from": from, "to": to, "since": since(c.Since), "limit": c.Limit}
	if err := client.ask(ctx, http.MethodPost, "/v1/versions/compare", nil, body, &v); err != nil {
		return err
	}
	return p.out(v, func() { p.compared(v) })
}

// active names the version that decides now.
func (c *client) active(ctx context.Context) (api.VersionOrder, error) {
	var page struct {
		Versions []api.VersionView `json:"versions"`
	}
	if err := c.ask(ctx, http.MethodGet, "/v1/versions", query("limit", "1"), nil, &page); err != nil {
		return api.VersionOrder{}, err
	}
	if len(page.Versions) == 0 {
		return api.VersionOrder{}, record.Errorf(record.NotFound, "nothing was activated")
	}
	return api.VersionOrder{Version: page.Versions[0].Version}, nil
}

// compared prints a comparison for people.
func (p *program) compared(v api.ComparedView) {
	p.say("%s %d get the same verdict.", looked(v.Calls, v.More), v.Same)
	for _, c := range v.Changed {
		rule := ""
		if c.Rule != "" {
			rule = " by " + c.Rule
		}
		p.say("%d of %s: %s becomes %s%s (%s)", c.Count, safe(c.Tool), c.From, c.To, safe(rule), callList(c.Examples))
	}
	for _, u := range v.Unknown {
		p.say("%d cannot be judged: %s (%s)", u.Count, safe(u.Why), callList(u.Examples))
	}
}
