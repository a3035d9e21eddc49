package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/edge/question"
	"github.com/placet-dev/placet/record"
	"golang.org/x/term"
)

type approvalsCommand struct {
	List    approvalsList  `cmd:"" help:"List questions, oldest first."`
	Watch   approvalsWatch `cmd:"" help:"Print questions as they come, until interrupted."`
	Show    approvalsShow  `cmd:"" help:"Show a question with all that an answer binds."`
	Approve approvalsYes   `cmd:"" help:"Approve a call."`
	Reject  approvalsNo    `cmd:"" help:"Reject a call."`
	Void    approvalsVoid  `cmd:"" help:"Take back a person's answers that no call has used."`

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
	client, err := p.client(ctx, c.serverFlags)
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
		return []string{string(a.ID), string(a.State), a.Call.Tool, cell(a.Call.Effect), a.Call.Principal.Subject, string(a.Call.Agent), left(a)}
	})
}

func left(a api.ApprovalView) string {
	if a.State != record.Pending && a.State != record.Approved {
		return ""
	}
	return strings.TrimSuffix(question.Left(time.Duration(a.Remaining)*time.Second), " left")
}

// approvalFlags name a question.
type approvalFlags struct {
	serverFlags
	ID string `arg:"" help:"The question."`
}

func (f approvalFlags) get(ctx context.Context, p *program) (*client, api.ShownApproval, error) {
	var a api.ShownApproval
	client, err := p.client(ctx, f.serverFlags)
	if err != nil {
		return nil, a, err
	}
	path, err := id("apr", f.ID)
	if err != nil {
		return nil, a, err
	}
	return client, a, client.ask(ctx, http.MethodGet, "/v1/approvals/"+path, nil, nil, &a)
}

type approvalsShow struct {
	approvalFlags
	Arguments bool `help:"Print the exact arguments alone, every byte, as JSON."`
}

func (c approvalsShow) Run(ctx context.Context, p *program) error {
	_, a, err := c.get(ctx, p)
	if err != nil {
		return err
	}
	if c.Arguments {
		_, err := io.WriteString(p.stdout, escapeJSON(string(a.Call.Arguments))+"\n")
		return err
	}
	return p.out(a, func() { p.question(a) })
}

type answerFlags struct {
	approvalFlags
	Binding string `placeholder:"sha256:…" help:"The binding as it was shown. Without it, the question is shown on a terminal and must be confirmed."`
	Yes     bool   `help:"Ask nothing: for scripts, with --binding."`
	Note    string `help:"For the record; with a rejection the agent is told."`
	Wait    bool   `help:"Follow the call until it ran or can run no more."`
}

type approvalsYes struct{ answerFlags }

func (c approvalsYes) Run(ctx context.Context, p *program) error {
	return c.answer(ctx, p, record.Yes)
}

type approvalsNo struct{ answerFlags }

func (c approvalsNo) Run(ctx context.Context, p *program) error {
	return c.answer(ctx, p, record.No)
}

// answer sends exactly the binding that was shown: by whoever names it, or here.
func (c answerFlags) answer(ctx context.Context, p *program, word record.Word) error {
	switch {
	case c.Binding == "" && c.Yes:
		return record.Errorf(record.Invalid, "--yes needs --binding: say what you answer, as placet approvals show %s prints it", safe(c.ID))
	case c.Binding == "" && !p.terminal():
		return record.Errorf(record.Invalid, "name what you answer: --binding, as placet approvals show %s prints it", safe(c.ID))
	case c.Binding == "" && c.Token == "-":
		return record.Errorf(record.Invalid, "a token on standard input leaves none to confirm on; set PLACET_TOKEN, or give --binding")
	}
	verb, ask := "approve", "Approve this call?"
	if word == record.No {
		verb, ask = "reject", "Reject this call?"
	}
	client, a, err := c.get(ctx, p)
	if err != nil {
		return err
	}
	if c.Binding == "" {
		if p.question(a); a.State != record.Pending {
			return record.Errorf(record.Conflict, "there is nothing to answer: the question is %s", question.State(a.State))
		}
	}
	if a.Passkey && word == record.Yes && a.State == record.Pending {
		return record.Errorf(record.Forbidden, "a yes to this question needs a passkey; open its page: %s", a.Link)
	}
	if c.Binding == "" {
		if !p.confirm(ask) {
			return no("nothing was answered")
		}
		c.Binding = a.Binding
	}
	body := map[string]string{"binding": c.Binding}
	if c.Note != "" {
		body["note"] = c.Note
	}
	var after api.ApprovalView
	err = client.ask(ctx, http.MethodPost, "/v1/approvals/"+string(a.ID)+"/"+verb, nil, body, &after)
	var r *refused
	if errors.As(err, &r) && r.Code == string(record.Conflict) {
		return fmt.Errorf("%w. Your answer was not recorded: placet approvals show %s", err, a.ID)
	}
	if err != nil {
		return err
	}
	if err := p.out(after, func() { p.answeredBy(after) }); err != nil || !c.Wait {
		return err
	}
	return client.untilSettled(ctx, p, after)
}

// answeredBy says what an answer came to.
func (p *program) answeredBy(a api.ApprovalView) {
	p.say("%s: %s", a.State, cell(firstOf(a.Call.Effect, a.Call.Tool)))
	if a.State == record.Pending {
		missing := 0
		for _, part := range a.Rule {
			missing = max(missing, part.Quorum-part.Yes)
		}
		p.say("Your yes is recorded. It waits for %d more.", missing)
	}
	if a.Outcome != "" {
		p.say("%s", a.Outcome)
	}
}

// heldFor is how many seconds one request waits for news.
const heldFor = 50

// untilSettled follows a question until its call ran or can run no more.
func (c *client) untilSettled(ctx context.Context, p *program, a api.ApprovalView) error {
	for !a.Settled && a.Call.State != record.Unknown {
		before := a
		q := query("wait", strconv.Itoa(heldFor), "version", a.Version)
		a = api.ApprovalView{}
		if err := c.ask(ctx, http.MethodGet, "/v1/approvals/"+string(before.ID), q, nil, &a); err != nil {
			return err
		}
		if a.Version == before.Version || a.Outcome == before.Outcome {
			continue
		}
		if err := p.out(a, func() { p.say("%s", a.Outcome) }); err != nil {
			return err
		}
	}
	switch {
	case a.State == record.Rejected || a.Call.State == record.Succeeded:
		return nil
	case a.Call.State == record.Unknown:
		return &verdict{code: exitWaiting, quiet: true}
	}
	return &verdict{code: exitNo, quiet: true}
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
