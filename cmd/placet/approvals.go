package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/record"
	"golang.org/x/term"
)

type approvalsCommand struct {
	List    approvalsList `cmd:"" help:"List questions, oldest first."`
	Show    approvalsShow `cmd:"" help:"Show a question with all that an answer binds."`
	Approve approvalsYes  `cmd:"" help:"Approve a call."`
	Reject  approvalsNo   `cmd:"" help:"Reject a call."`
	Void    approvalsVoid `cmd:"" help:"Take back a person's answers that no call has used."`

	Evidence approvalsEvidence `cmd:"" help:"Print what proves who approved a call, where passkeys are demanded."`
	Verify   approvalsVerify   `cmd:"" help:"Verify evidence from its file alone."`
}

type approvalsList struct {
	serverFlags
	State string `default:"pending" help:"Only questions in this state, or all (default: pending)."`
	After string `placeholder:"ID" help:"Only questions after this one."`
	Limit int    `default:"50" help:"How many (default: 50)."`
}

func (c approvalsList) Run(ctx context.Context, p *program) error {
	client, err := p.client(c.serverFlags)
	if err != nil {
		return err
	}
	if c.State == "all" {
		c.State = ""
	}
	var page struct {
		Approvals []api.ApprovalView `json:"approvals"`
	}
	q := query("state", c.State, "after", c.After, "limit", strconv.Itoa(c.Limit))
	if err := client.ask(ctx, http.MethodGet, "/v1/approvals", q, nil, &page); err != nil {
		return err
	}
	return list(p, page.Approvals, "No questions.", []string{"APPROVAL", "STATE", "TOOL", "EFFECT", "FOR", "BY", "LEFT"}, func(a api.ApprovalView) []string {
		return []string{string(a.ID), string(a.State), a.Call.Tool, a.Call.Effect, a.Call.Principal.Subject, string(a.Call.Agent), left(a)}
	})
}

func left(a api.ApprovalView) string {
	return (time.Duration(a.Remaining) * time.Second).String()
}

// approvalFlags name a question.
type approvalFlags struct {
	serverFlags
	ID string `arg:"" help:"The question."`
}

func (f approvalFlags) get(ctx context.Context, p *program) (*client, api.ApprovalView, error) {
	var a api.ApprovalView
	client, err := p.client(f.serverFlags)
	if err != nil {
		return nil, a, err
	}
	path, err := id("apr", f.ID)
	if err != nil {
		return nil, a, err
	}
	return client, a, client.ask(ctx, http.MethodGet, "/v1/approvals/"+path, nil, nil, &a)
}

type approvalsShow struct{ approvalFlags }

func (c approvalsShow) Run(ctx context.Context, p *program) error {
	_, a, err := c.get(ctx, p)
	if err != nil {
		return err
	}
	return p.out(a, func() { p.question(a) })
}

// question prints all that an answer binds: what runs is what is shown.
func (p *program) question(a api.ApprovalView) {
	p.effect(firstOf(a.Call.Effect, a.Call.Tool))
	p.field("for", a.Call.Principal.String()+", by "+string(a.Call.Agent))
	p.field("asked", string(a.Code)+", "+left(a)+" left")
	p.field("tool", a.Call.Tool)
	p.field("arguments", string(a.Call.Arguments))
	for _, t := range a.Targets {
		p.field("target", t.Argument+" "+string(t.Value))
	}
	p.field("purpose", quoted(a.Call.Purpose))
	p.field("source", string(a.Call.Source))
	p.field("call", string(a.Call.ID))
	p.field("run", string(a.Call.Run))
	for _, r := range a.Call.Reasons {
		p.field("reason", reason(r))
	}
	for _, part := range a.Rule {
		p.field("wanted", part.From+": "+strconv.Itoa(part.Quorum)+" of "+strings.Join(whoMay(part), ", "))
	}
	if a.Passkey != "" {
		p.field("signed", "a yes needs a passkey: /console/approvals/"+string(a.ID))
	}
	for _, r := range a.Answers {
		who := "somebody"
		if r.Person != nil {
			who = r.Person.String()
		}
		p.field("answer", string(r.Word)+" by "+who+" at "+shortTime(r.At)+" "+quoted(r.Note))
	}
	p.field("state", string(a.State))
	p.field("binding", a.Binding)
	p.field("runs", a.RunsWhen)
}

func whoMay(part api.PartView) []string {
	var out []string
	for _, g := range part.Groups {
		out = append(out, "group "+g.Name)
	}
	for _, who := range part.People {
		out = append(out, who.String())
	}
	if part.Principal {
		out = append(out, "the principal")
	}
	if len(out) == 0 {
		out = []string{"whoever is named"}
	}
	return out
}

type answerFlags struct {
	approvalFlags
	Binding string `placeholder:"sha256:…" help:"The binding as it was shown. Without it, the question is shown on a terminal and must be confirmed."`
	Note    string `help:"For the record; with a rejection the agent is told."`
}

type approvalsYes struct{ answerFlags }

func (c approvalsYes) Run(ctx context.Context, p *program) error {
	return c.answer(ctx, p, "approve", "Approve this call?")
}

type approvalsNo struct{ answerFlags }

func (c approvalsNo) Run(ctx context.Context, p *program) error {
	return c.answer(ctx, p, "reject", "Reject this call?")
}

// answer sends exactly the binding that was shown: by whoever names it, or here.
func (c answerFlags) answer(ctx context.Context, p *program, verb, ask string) error {
	if c.Binding == "" && !p.terminal() {
		return record.Errorf(record.Invalid, "name what you answer: --binding, as placet approvals show %s prints it", safe(c.ID))
	}
	if c.Binding == "" && c.Token == "-" {
		return record.Errorf(record.Invalid, "a token on standard input leaves none to confirm on; set PLACET_TOKEN, or give --binding")
	}
	client, a, err := c.get(ctx, p)
	if err != nil {
		return err
	}
	if c.Binding == "" {
		if p.question(a); !p.confirm(ask) {
			return no("nothing was answered")
		}
		c.Binding = a.Binding
	}
	body := map[string]string{"binding": c.Binding}
	if c.Note != "" {
		body["note"] = c.Note
	}
	var after api.ApprovalView
	if err := client.ask(ctx, http.MethodPost, "/v1/approvals/"+string(a.ID)+"/"+verb, nil, body, &after); err != nil {
		return err
	}
	return p.out(after, func() {
		p.say("%s: %s", after.State, safe(firstOf(after.Call.Effect, after.Call.Tool)))
		if after.RunsWhen != "" {
			p.say("%s", safe(after.RunsWhen))
		}
	})
}

// terminal reports whether a person sits before this program.
func (p *program) terminal() bool {
	in, isFile := p.stdin.(*os.File)
	return isFile && !p.json && term.IsTerminal(int(in.Fd()))
}

// confirm reads a whole word: a slip of the finger answers nothing.
func (p *program) confirm(ask string) bool {
	if _, err := io.WriteString(p.stdout, ask+" Type yes: "); err != nil {
		return false
	}
	line, err := bufio.NewReader(io.LimitReader(p.stdin, 64)).ReadString('\n')
	return err == nil && strings.TrimSpace(line) == "yes"
}
