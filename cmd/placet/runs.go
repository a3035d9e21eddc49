package main

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/record"
)

type runsCommand struct {
	List runsList `cmd:"" help:"List runs, newest first."`
	Show runsShow `cmd:"" help:"Show a run."`
	End  runsEnd  `cmd:"" help:"End a run: its waiting calls are canceled."`

	Child    runsChild    `cmd:"" help:"Open a run below a run, which may do less."`
	Transfer runsTransfer `cmd:"" help:"Give a run to another principal or agent: its waiting calls are canceled."`
	Delegate runsDelegate `cmd:"" help:"Let a run act while its caller is away."`
	Held     runsHeld     `cmd:"" help:"List lineages that an alert holds."`
	Lift     runsLift     `cmd:"" help:"Lift the hold from a run's lineage."`
	Withdraw runsWithdraw `cmd:"" help:"End a run's delegation."`

	Resume runsResume `cmd:"" help:"Say where a run stands, from records; dispatches nothing."`
	Replay runsReplay `cmd:"" help:"Open a new run in the place of an old one; executes nothing of it."`
}

type runsList struct {
	serverFlags
	Live   bool   `help:"Only runs that may hold calls."`
	Before string `placeholder:"RUN" help:"Only runs before this one."`
	Limit  int    `default:"50" help:"How many (default: 50)."`
}

func (c runsList) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	var page struct {
		Runs []api.RunView `json:"runs"`
	}
	q := query("live", strconv.FormatBool(c.Live), "before", c.Before, "limit", strconv.Itoa(c.Limit))
	if err := client.ask(ctx, http.MethodGet, "/v1/runs", q, nil, &page); err != nil {
		return err
	}
	return list(p, page.Runs, "No runs.", []string{"RUN", "PARENT", "STATE", "TURN", "LABEL", "PRINCIPAL", "AGENT", "OPENED"}, func(v api.RunView) []string {
		return []string{string(v.ID), string(v.Parent), v.State, strconv.FormatInt(int64(v.Turn), 10), v.Label, v.Principal.Subject, string(v.Agent), shortTime(v.Opened)}
	})
}

type runFlags struct {
	serverFlags
	ID string `arg:"" name:"run" help:"The run."`
}

func (f runFlags) ask(ctx context.Context, p *program, method, tail string, body any) error {
	client, err := p.client(ctx, f.serverFlags)
	if err != nil {
		return err
	}
	path, err := id("run", f.ID)
	if err != nil {
		return err
	}
	var v api.RunView
	if err := client.ask(ctx, method, "/v1/runs/"+path+tail, nil, body, &v); err != nil {
		return err
	}
	return p.out(v, func() {
		p.field("run", string(v.ID))
		p.field("state", v.State)
		p.field("label", v.Label)
		p.field("turn", strconv.FormatInt(int64(v.Turn), 10))
		p.field("principal", v.Principal.String())
		p.field("agent", string(v.Agent))
		p.field("lineage", string(v.Lineage))
		p.field("parent", string(v.Parent))
		if g := v.Grant; g != nil {
			p.field("tools", strings.Join(g.Tools, ", "))
			p.field("calls", strconv.FormatInt(g.Calls, 10))
			for _, currency := range slices.Sorted(maps.Keys(g.Money)) {
				p.field("money", g.Money[currency]+" "+currency)
			}
			p.field("until", shortTime(g.Until))
		}
		for _, child := range v.Children {
			p.field("child", string(child))
		}
		p.field("replays", string(v.Replays))
		if v.Delegated != nil {
			p.field("delegated", "until "+shortTime(*v.Delegated))
		}
		p.field("opened", shortTime(v.Opened))
		p.field("active", shortTime(v.Active))
		if v.Ended != nil {
			p.field("ended", shortTime(*v.Ended)+" "+quoted(v.Why))
		}
	})
}

type runsShow struct{ runFlags }

func (c runsShow) Run(ctx context.Context, p *program) error {
	return c.ask(ctx, p, http.MethodGet, "", nil)
}

type runsEnd struct {
	runFlags
	Why string `help:"For the record."`
}

func (c runsEnd) Run(ctx context.Context, p *program) error {
	return c.ask(ctx, p, http.MethodPost, "/end", map[string]string{"why": c.Why})
}

type runsChild struct {
	runFlags
	Agent   string            `placeholder:"NAME" help:"Who acts in it, for the same user (default: the agent that opens it)."`
	Label   string            `help:"A name for it; no credential."`
	Tools   []string          `required:"" placeholder:"NAME,…" help:"What it may call, by exact name."`
	Calls   int64             `required:"" placeholder:"N" help:"How many calls it may make."`
	For     time.Duration     `default:"1h" help:"How long it lasts at most (default: 1h)."`
	Scopes  []string          `placeholder:"SCOPE,…" help:"Of yours; without it, those that the tools need."`
	Targets string            `placeholder:"JSON" help:"For an argument the only values that it may have, such as {\"site\": [\"docs.example.com\"]}."`
	Money   map[string]string `mapsep:"," placeholder:"CUR=AMOUNT,…" help:"What it may spend, by currency; without it, nothing."`
}

func (c runsChild) Run(ctx context.Context, p *program) error {
	body := map[string]any{"tools": c.Tools, "calls": c.Calls, "until": time.Now().Add(c.For).UTC().Truncate(time.Second)}
	for name, value := range map[string]string{"agent": c.Agent, "label": c.Label} {
		if value != "" {
			body[name] = value
		}
	}
	if len(c.Scopes) > 0 {
		body["scopes"] = c.Scopes
	}
	if len(c.Money) > 0 {
		body["money"] = c.Money
	}
	if c.Targets != "" {
		if !json.Valid([]byte(c.Targets)) {
			return record.Errorf(record.Invalid, "--targets is not JSON")
		}
		body["targets"] = json.RawMessage(c.Targets)
	}
	return c.ask(ctx, p, http.MethodPost, "/children", body)
}

type runsTransfer struct {
	runFlags
	Issuer  string `required:"" placeholder:"URL" help:"Issuer of the new principal."`
	Subject string `required:"" placeholder:"NAME" help:"The new principal, as the issuer names them."`
	Agent   string `required:"" placeholder:"NAME" help:"The new agent."`
}

func (c runsTransfer) Run(ctx context.Context, p *program) error {
	return c.ask(ctx, p, http.MethodPost, "/transfer", map[string]string{"issuer": c.Issuer, "subject": c.Subject, "agent": c.Agent})
}

type runsDelegate struct {
	runFlags
	For time.Duration `default:"8h" help:"How long at most (default: 8h)."`
}

func (c runsDelegate) Run(ctx context.Context, p *program) error {
	return c.ask(ctx, p, http.MethodPost, "/delegation", map[string]time.Time{"until": time.Now().Add(c.For).UTC().Truncate(time.Second)})
}

type runsWithdraw struct{ runFlags }

func (c runsWithdraw) Run(ctx context.Context, p *program) error {
	return c.ask(ctx, p, http.MethodDelete, "/delegation", nil)
}
