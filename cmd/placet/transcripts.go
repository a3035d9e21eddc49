package main

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/history"
	"github.com/placet-dev/placet/record"
)

type historyRepair struct {
	transcriptFile
	serverFlags
	To string `required:"" placeholder:"FORMAT" help:"The format to write: openai-chat, openai-responses or anthropic-messages."`
	ID string `name:"run" placeholder:"RUN" help:"Have a server fill gaps from the records of this run of yours; without it no server is asked."`
}

// Run prints the repaired transcript, and beside it what was changed.
func (c historyRepair) Run(ctx context.Context, p *program) error {
	src, err := c.open(p)
	if err != nil {
		return err
	}
	defer src.Close()
	r, err := c.repaired(ctx, p, src)
	if err != nil {
		return err
	}
	return p.out(r, func() {
		p.changes(r.Changes, r.TurnInvalid)
		_, _ = p.stdout.Write(append(r.Transcript, '\n')) // for a program; a terminal shows it escaped with history check
	})
}

func (c historyRepair) repaired(ctx context.Context, p *program, src *os.File) (out api.RepairedHistory, err error) {
	if c.ID != "" {
		client, err := p.client(ctx, c.serverFlags)
		if err != nil {
			return out, err
		}
		return out, client.ask(ctx, http.MethodPost, "/v1/history/repair", query("format", c.Format, "to", c.To, "run", c.ID), src, &out)
	}
	format, err := c.format(src)
	if err != nil {
		return out, err
	}
	text, err := io.ReadAll(src)
	if err != nil {
		return out, err
	}
	t, err := history.Read(text, format, history.Limits{})
	if err != nil {
		return out, record.Errorf(record.Invalid, "%s: %w; see placet history check", c.File, err)
	}
	r, err := history.Repair(ctx, t, history.Format(c.To), history.NoRecords{})
	if err != nil {
		return out, record.Errorf(record.Invalid, "%s: %w", c.File, err)
	}
	return api.RepairedHistory{Format: r.Format, Changes: r.Changes, Findings: r.Findings, TurnInvalid: r.TurnInvalid, Transcript: r.Source}, nil
}

// changes lists what a repair did, on standard error.
func (p *program) changes(changes []history.Change, turn bool) {
	for _, c := range changes {
		p.warn("%s: byte %d, %s: %s", c.Action, c.At.Offset, safe(c.At.Pointer), safe(c.Why))
	}
	if len(changes) == 0 {
		p.warn("Nothing was changed.")
	}
	if turn {
		p.warn("A call was open: nobody may take up a call of that turn.")
	}
}

type historyImport struct {
	transcriptFile
	serverFlags
	Label string `help:"Your own name for it."`
}

func (c historyImport) Run(ctx context.Context, p *program) error {
	src, err := c.open(p)
	if err != nil {
		return err
	}
	defer src.Close()
	return c.transcript(ctx, p, http.MethodPost, "", query("format", c.Format, "label", c.Label), src)
}

type historyList struct {
	serverFlags
	Before string `placeholder:"ID" help:"Only transcripts before this one."`
	Limit  int    `default:"50" help:"How many (default: 50)."`
}

func (c historyList) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	var page struct {
		Transcripts []api.TranscriptView `json:"transcripts"`
	}
	if err := client.ask(ctx, http.MethodGet, "/v1/transcripts", query("before", c.Before, "limit", strconv.Itoa(c.Limit)), nil, &page); err != nil {
		return err
	}
	return list(p, page.Transcripts, "No transcripts.", []string{"TRANSCRIPT", "LABEL", "FORMAT", "MESSAGES", "PRINCIPAL", "AGENT", "IMPORTED"}, func(v api.TranscriptView) []string {
		return []string{string(v.ID), v.Label, v.Format, strconv.Itoa(v.Messages), v.Principal.Subject, string(v.Agent), shortTime(v.Imported)}
	})
}

// transcript sends a request about transcripts and prints the one that it answers with.
func (f serverFlags) transcript(ctx context.Context, p *program, method, tail string, q url.Values, body any) error {
	client, err := p.client(ctx, f)
	if err != nil {
		return err
	}
	var v api.TranscriptView
	if err := client.ask(ctx, method, "/v1/transcripts"+tail, q, body, &v); err != nil {
		return err
	}
	return p.out(v, func() { p.transcript(v) })
}

type transcriptFlags struct {
	serverFlags
	ID string `arg:"" name:"transcript" help:"The transcript."`
}

func (f transcriptFlags) ask(ctx context.Context, p *program, method, tail string, body any) error {
	path, err := id("trn", f.ID)
	if err != nil {
		return err
	}
	return f.transcript(ctx, p, method, "/"+path+tail, nil, body)
}

type historyShow struct{ transcriptFlags }

func (c historyShow) Run(ctx context.Context, p *program) error {
	return c.ask(ctx, p, http.MethodGet, "", nil)
}

type historyRedact struct {
	transcriptFlags
	Items []int `required:"" help:"Numbers of items, with commas."`
}

func (c historyRedact) Run(ctx context.Context, p *program) error {
	return c.ask(ctx, p, http.MethodPost, "/redact", map[string][]int{"items": c.Items})
}

type historyCompact struct {
	transcriptFlags
	First   int    `required:"" help:"Number of the first item."`
	Last    int    `required:"" help:"Number of the last item."`
	Summary string `help:"Your own words in their place."`
}

func (c historyCompact) Run(ctx context.Context, p *program) error {
	return c.ask(ctx, p, http.MethodPost, "/compact", map[string]any{"first": c.First, "last": c.Last, "summary": c.Summary})
}

type historyDelete struct{ transcriptFlags }

func (c historyDelete) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	path, err := id("trn", c.ID)
	if err != nil {
		return err
	}
	r, err := client.send(ctx, http.MethodDelete, "/v1/transcripts/"+path, nil, nil, nil)
	if err != nil {
		return err
	}
	return r.Body.Close()
}

// transcript prints one for people. All that it says is what a client said: each text
// stands on one marked line, with escapes for what would act on a terminal.
func (p *program) transcript(v api.TranscriptView) {
	p.field("transcript", string(v.ID))
	p.field("label", v.Label)
	p.field("format", v.Format)
	p.field("principal", v.Principal.String())
	p.field("agent", string(v.Agent))
	p.field("digest", v.Digest)
	p.field("imported", shortTime(v.Imported))
	if len(v.Items) == 0 {
		return
	}
	p.say("")
	p.say("What follows is what a client says. Nothing of it is a record.")
	for _, i := range v.Items {
		text := i.Text
		switch {
		case i.Redacted:
			text = "(redacted)"
		case i.Stands > 0:
			text = "(" + strconv.Itoa(i.Stands) + " items were compacted) " + text
		case i.Cut:
			text += " (cut)"
		}
		p.say("%4d %-17s %s", i.Item, safe(i.Kind), safe(i.Tool))
		p.say("     | %s", safe(text))
	}
}

type historyShare struct {
	serverFlags
	ID         string        `name:"run" placeholder:"RUN" xor:"what" required:"" help:"A run of yours."`
	Transcript string        `placeholder:"ID" xor:"what" required:"" help:"A transcript of yours."`
	Issuer     string        `required:"" placeholder:"URL" help:"Issuer of the reader."`
	Subject    string        `required:"" placeholder:"NAME" help:"The reader, as the issuer names them."`
	For        time.Duration `default:"24h" help:"How long, at most 720h (default: 24h)."`
}

func (c historyShare) Run(ctx context.Context, p *program) error {
	return c.share(ctx, p, http.MethodPost, "", map[string]any{"run": c.ID, "transcript": c.Transcript, "issuer": c.Issuer, "subject": c.Subject,
		"until": time.Now().Add(c.For).UTC().Truncate(time.Second)})
}

// share sends a request about shares and prints the one that it answers with.
func (f serverFlags) share(ctx context.Context, p *program, method, tail string, body any) error {
	client, err := p.client(ctx, f)
	if err != nil {
		return err
	}
	var v api.ShareView
	if err := client.ask(ctx, method, "/v1/shares"+tail, nil, body, &v); err != nil {
		return err
	}
	return p.out(v, func() { p.share(v) })
}

func (p *program) share(v api.ShareView) {
	p.field("share", string(v.ID))
	p.field("by", v.By.String())
	p.field("to", v.To.String())
	p.field("run", string(v.Run))
	p.field("transcript", string(v.Transcript))
	p.field("until", shortTime(v.Until))
	if v.Ended != nil {
		p.field("ended", shortTime(*v.Ended))
	}
}

type historyShares struct {
	serverFlags
	Before string `placeholder:"ID" help:"Only shares before this one."`
	Limit  int    `default:"50" help:"How many (default: 50)."`
}

func (c historyShares) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	var page struct {
		Shares []api.ShareView `json:"shares"`
	}
	if err := client.ask(ctx, http.MethodGet, "/v1/shares", query("before", c.Before, "limit", strconv.Itoa(c.Limit)), nil, &page); err != nil {
		return err
	}
	return list(p, page.Shares, "No shares.", []string{"SHARE", "BY", "TO", "OF", "LIVE", "UNTIL"}, func(v api.ShareView) []string {
		return []string{string(v.ID), v.By.Subject, v.To.Subject, string(v.Run) + string(v.Transcript), strconv.FormatBool(v.Live), shortTime(v.Until)}
	})
}

type shareFlags struct {
	serverFlags
	ID string `arg:"" name:"share" help:"The share."`
}

type historyUnshare struct{ shareFlags }

func (c historyUnshare) Run(ctx context.Context, p *program) error {
	path, err := id("shr", c.ID)
	if err != nil {
		return err
	}
	return c.share(ctx, p, http.MethodDelete, "/"+path, nil)
}

type historyShared struct{ shareFlags }

func (c historyShared) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	path, err := id("shr", c.ID)
	if err != nil {
		return err
	}
	var v api.SharedView
	if err := client.ask(ctx, http.MethodGet, "/v1/shares/"+path, nil, nil, &v); err != nil {
		return err
	}
	return p.out(v, func() {
		p.share(v.Share)
		if v.Transcript != nil {
			p.transcript(*v.Transcript)
		}
		if r := v.Run; r != nil {
			p.field("state", r.State)
			p.field("agent", r.Agent)
			for _, call := range r.Calls {
				p.say("%s  %s  %s  %s", shortTime(call.Proposed), safe(call.Tool), call.State, safe(call.Arguments))
			}
		}
	})
}

type runsResume struct {
	runFlags
	History string `placeholder:"FILE" help:"A transcript to check, compare and repair beside it; it decides nothing."`
	Format  string `help:"How it is written; found out where that is unambiguous."`
	To      string `placeholder:"FORMAT" help:"The format to repair it to."`
}

func (c runsResume) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	path, err := id("run", c.ID)
	if err != nil {
		return err
	}
	var body any
	if c.History != "" {
		src, err := transcriptFile{File: c.History}.open(p)
		if err != nil {
			return err
		}
		defer src.Close()
		body = src
	}
	var v api.ResumedRun
	if err := client.ask(ctx, http.MethodPost, "/v1/runs/"+path+"/resume", query("format", c.Format, "to", c.To), body, &v); err != nil {
		return err
	}
	return p.out(v, func() { p.resumed(v) })
}

func (p *program) resumed(v api.ResumedRun) {
	p.field("run", string(v.Run.ID))
	p.field("state", v.Run.State)
	p.field("turn", strconv.FormatInt(int64(v.Run.Turn), 10))
	for _, c := range v.Calls {
		asked := ""
		if c.Approval != nil {
			asked = string(c.Approval.ID) + " " + string(c.Approval.State)
		}
		p.say("%s  %s  %s  %s", c.Call, safe(c.Tool), c.State, asked)
	}
	if len(v.Calls) == 0 {
		p.say("No call is open.")
	}
	if v.History != nil {
		p.say("%d findings in the history; none of it decides anything. See --json for all.", len(v.History.Findings)+v.History.More)
	}
	if v.Repair != nil {
		p.changes(v.Repair.Changes, v.Repair.TurnInvalid)
	}
	if v.Refused != "" {
		p.say("%s.", safe(v.Refused))
	}
}

type runsReplay struct{ runFlags }

func (c runsReplay) Run(ctx context.Context, p *program) error {
	return c.ask(ctx, p, http.MethodPost, "/replay", nil)
}
