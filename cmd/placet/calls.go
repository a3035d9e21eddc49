package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/record"
)

type callsCommand struct {
	List      callsList      `cmd:"" help:"List calls, newest first."`
	Queued    callsQueued    `cmd:"" help:"List queued calls that may still run, newest first."`
	Dead      callsDead      `cmd:"" help:"List queued calls that came to nothing, newest first."`
	Show      callsShow      `cmd:"" help:"Show a call."`
	Propose   callsPropose   `cmd:"" help:"Propose a call, and run it if it may run."`
	Dispatch  callsDispatch  `cmd:"" help:"Continue a call that waited."`
	Cancel    callsCancel    `cmd:"" help:"Cancel a call."`
	Reconcile callsReconcile `cmd:"" help:"Settle a call whose outcome is not known."`
	Redact    callsRedact    `cmd:"" help:"Remove the content of a call that has ended for good."`
}

type callsList struct {
	serverFlags
	State  string `help:"Only calls in this state." placeholder:"STATE"`
	RunID  string `name:"run" help:"Only calls of this run." placeholder:"RUN"`
	Before string `help:"Only calls before this one." placeholder:"CALL"`
	Limit  int    `default:"50" help:"How many (default: 50)."`
}

func (c callsList) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	q := query("state", c.State, "run", c.RunID, "before", c.Before, "limit", strconv.Itoa(c.Limit))
	return client.listCalls(ctx, p, q)
}

// queueFlags are those of the lists of the queue.
type queueFlags struct {
	serverFlags
	Before string `help:"Only calls before this one." placeholder:"CALL"`
	Limit  int    `default:"50" help:"How many (default: 50)."`
}

func (f queueFlags) list(ctx context.Context, p *program, which string) error {
	client, err := p.client(ctx, f.serverFlags)
	if err != nil {
		return err
	}
	return client.listCalls(ctx, p, query(which, "true", "before", f.Before, "limit", strconv.Itoa(f.Limit)))
}

type callsQueued struct{ queueFlags }

func (c callsQueued) Run(ctx context.Context, p *program) error { return c.list(ctx, p, "queued") }

type callsDead struct{ queueFlags }

func (c callsDead) Run(ctx context.Context, p *program) error { return c.list(ctx, p, "dead") }

func (c *client) listCalls(ctx context.Context, p *program, q url.Values) error {
	var page struct {
		Calls []api.CallView `json:"calls"`
	}
	if err := c.ask(ctx, http.MethodGet, "/v1/calls", q, nil, &page); err != nil {
		return err
	}
	return list(p, page.Calls, "No calls.", []string{"CALL", "TOOL", "STATE", "CODE", "PRINCIPAL", "AGENT", "PROPOSED"}, func(v api.CallView) []string {
		return []string{string(v.ID), v.Tool, string(v.State), string(v.Code), v.Principal.Subject, string(v.Agent), shortTime(v.Proposed)}
	})
}

type callsShow struct {
	serverFlags
	Call string `arg:"" help:"The call."`
}

func (c callsShow) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	path, err := id("call", c.Call)
	if err != nil {
		return err
	}
	var v api.ShownCall
	if err := client.ask(ctx, http.MethodGet, "/v1/calls/"+path, nil, nil, &v); err != nil {
		return err
	}
	return p.out(v, func() { p.call(v) })
}

// proposalFlags are what a proposal states.
type proposalFlags struct {
	Tool      string `arg:"" help:"The tool."`
	Arguments string `default:"{}" placeholder:"JSON" help:"Its arguments (default: {})."`
	RunID     string `name:"run" placeholder:"RUN" help:"A run of yours."`
	Label     string `help:"Your own name for a run, opened if need be."`
	Purpose   string `help:"Why; shown to approvers."`
}

// body is the request that API and explain take.
func (f proposalFlags) body() (map[string]any, error) {
	if !json.Valid([]byte(f.Arguments)) {
		return nil, record.Errorf(record.Invalid, "--arguments is not JSON")
	}
	b := map[string]any{"tool": f.Tool, "arguments": json.RawMessage(f.Arguments)}
	for name, value := range map[string]string{"run": f.RunID, "label": f.Label, "purpose": f.Purpose} {
		if value != "" {
			b[name] = value
		}
	}
	return b, nil
}

type callsPropose struct {
	serverFlags
	proposalFlags
	Occurrence string `help:"Makes two equal proposals two calls."`
	Hold       bool   `help:"Decide and record; do not run."`
}

func (c callsPropose) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	body, err := c.body()
	if err != nil {
		return err
	}
	if c.Hold {
		body["dispatch"] = false
	}
	header := http.Header{}
	if c.Occurrence != "" {
		header.Set("Idempotency-Key", c.Occurrence)
	}
	return client.act(ctx, p, "/v1/calls", nil, body, header)
}

// act posts what the boundary answers to, and prints its answer.
func (c *client) act(ctx context.Context, p *program, path string, q url.Values, body any, header http.Header) error {
	res, err := c.send(ctx, http.MethodPost, path, q, body, header)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var a api.Answer
	if err := json.NewDecoder(res.Body).Decode(&a); err != nil {
		return record.Because(record.Unavailable, err, "the answer of %s cannot be read; look at the call before you send it again", c.base)
	}
	return p.answered(a)
}

type callsDispatch struct {
	serverFlags
	Call string        `arg:"" help:"The call."`
	Wait time.Duration `default:"25s" help:"How long to wait for a person's answer (default: 25s)."`
}

func (c callsDispatch) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	path, err := id("call", c.Call)
	if err != nil {
		return err
	}
	wait := strconv.Itoa(int(min(c.Wait, time.Minute) / time.Second))
	return client.act(ctx, p, "/v1/calls/"+path+"/dispatch", query("wait", wait), nil, nil)
}

type callsCancel struct {
	serverFlags
	Call string `arg:"" help:"The call."`
}

func (c callsCancel) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	path, err := id("call", c.Call)
	if err != nil {
		return err
	}
	return client.act(ctx, p, "/v1/calls/"+path+"/cancel", nil, nil, nil)
}

type callsReconcile struct {
	serverFlags
	Call     string `arg:"" help:"The call."`
	Outcome  string `enum:"succeeded,failed," default:"" help:"What happened: succeeded or failed."`
	Evidence string `placeholder:"TEXT" help:"What it rests on, such as the tool's own entry."`
	Look     bool   `help:"Ask the reconciling tool that the registry names, in place of stating it."`
}

func (c callsReconcile) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	path, err := id("call", c.Call)
	switch {
	case err != nil:
		return err
	case c.Look && c.Outcome+c.Evidence == "":
		return c.look(ctx, p, client, path)
	case c.Look || c.Outcome == "" || c.Evidence == "":
		return record.Errorf(record.Invalid, "state --outcome and --evidence, or ask with --look alone")
	}
	var v api.CallView
	body := map[string]string{"outcome": c.Outcome, "evidence": c.Evidence}
	if err := client.ask(ctx, http.MethodPost, "/v1/calls/"+path+"/reconcile", nil, body, &v); err != nil {
		return err
	}
	return p.out(v, func() { p.callFields(v) })
}

func (c callsReconcile) look(ctx context.Context, p *program, client *client, path string) error {
	var v api.LookView
	if err := client.ask(ctx, http.MethodPost, "/v1/calls/"+path+"/look", nil, nil, &v); err != nil {
		return err
	}
	return p.out(v, func() {
		p.field("proof", string(v.Proof)+": "+v.Why)
		p.field("asked", strings.TrimSpace(v.Tool+" "+string(v.Asked)))
		if !v.Settled {
			p.field("settled", "no; \"nothing happened\" counts from "+shortTime(v.Counts)+" on")
		}
		p.callFields(v.Call)
	})
}

type callsRedact struct {
	serverFlags
	Call   string `arg:"" help:"The call."`
	Reason string `required:"" placeholder:"TEXT" help:"Why; for the record."`
}

func (c callsRedact) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	path, err := id("call", c.Call)
	if err != nil {
		return err
	}
	var v api.CallView
	if err := client.ask(ctx, http.MethodPost, "/v1/calls/"+path+"/redact", nil, map[string]string{"reason": c.Reason}, &v); err != nil {
		return err
	}
	return p.out(v, func() { p.callFields(v) })
}

type explainCommand struct {
	serverFlags
	proposalFlags
}

// Run says what a call would get. A denial is no failure: nothing was asked to run.
func (c explainCommand) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	body, err := c.body()
	if err != nil {
		return err
	}
	var e api.Explained
	if err := client.ask(ctx, http.MethodPost, "/v1/explain", nil, body, &e); err != nil {
		return err
	}
	return p.out(e, func() {
		p.field("verdict", string(e.Verdict)+code(e.Code))
		p.field("model's text", e.Text)
		for _, r := range e.Reasons {
			p.field("reason", reason(r))
		}
		p.field("open call", string(e.Existing))
		p.field("done already", string(e.Repeat))
		if e.RetryAfter != nil {
			p.field("retry after", shortTime(*e.RetryAfter))
		}
	})
}
