package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/history"
	"github.com/placet-dev/placet/record"
)

type historyCommand struct {
	Check  historyCheck  `cmd:"" help:"Say what is wrong with a transcript; nothing of it runs."`
	Repair historyRepair `cmd:"" help:"Write a transcript so that every call has one result; nothing of it runs."`

	Import  historyImport  `cmd:"" help:"Keep a transcript on a server, to show it; nothing of it can run."`
	List    historyList    `cmd:"" help:"List imported transcripts, newest first."`
	Show    historyShow    `cmd:"" help:"Show an imported transcript."`
	Redact  historyRedact  `cmd:"" help:"Remove the text of items of an imported transcript for good."`
	Compact historyCompact `cmd:"" help:"Put a summary in the place of items of an imported transcript."`
	Delete  historyDelete  `cmd:"" help:"Delete an imported transcript."`

	Share   historyShare   `cmd:"" help:"Let somebody else of your tenant read a run or a transcript."`
	Shares  historyShares  `cmd:"" help:"List what you share and what is shared with you."`
	View    historyShared  `cmd:"" help:"Show what somebody shares with you."`
	Unshare historyUnshare `cmd:"" help:"Take a share back."`
}

// transcriptFile names a transcript of this machine.
type transcriptFile struct {
	File   string `arg:"" help:"Transcript as JSON; - reads standard input."`
	Format string `help:"How it is written; found out where that is unambiguous."`
}

type historyCheck struct {
	transcriptFile
	serverFlags
	ID string `name:"run" placeholder:"RUN" help:"Ask a server to compare it with the records of this run of yours; without it no server is asked."`
}

// Help lists the formats.
func (transcriptFile) Help() string {
	var out []string
	for _, f := range history.Formats() {
		out = append(out, string(f))
	}
	return "Formats: " + strings.Join(out, ", ") + "."
}

// findingView is a finding with the line it stands in.
type findingView struct {
	history.Finding
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Excerpt string `json:"excerpt,omitempty"`
}

// historyView is what a check found.
type historyView struct {
	history.Report
	File     string        `json:"file"`
	OK       bool          `json:"ok"`
	Forged   bool          `json:"forged"`
	Findings []findingView `json:"findings"`

	Classes []api.ItemClass `json:"classes,omitempty"` // of a run's server
}

// Run checks a file as it lies there. It reads it three times, for its format, its
// grammar and the lines to show, so that a large one needs no memory.
func (c historyCheck) Run(ctx context.Context, p *program) error {
	src, err := c.open(p)
	if err != nil {
		return err
	}
	defer src.Close()
	v, err := c.report(ctx, p, src)
	if err != nil {
		return err
	}
	if v.Findings, err = excerpts(src, v.Report.Findings); err != nil {
		return err
	}
	if err := p.out(v, func() { p.history(v) }); err != nil {
		return err
	}
	if !v.OK {
		return &verdict{code: exitNo, quiet: true}
	}
	return nil
}

// report asks the server of a run, or this program.
func (c historyCheck) report(ctx context.Context, p *program, src *os.File) (v historyView, err error) {
	v.File = c.File
	if c.ID == "" {
		format, err := c.format(src)
		if err != nil {
			return v, err
		}
		v.Report, err = history.Check(src, format, history.Limits{})
		v.OK, v.Forged = v.Report.OK(), v.Report.Forged()
		return v, err
	}
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return v, err
	}
	var told api.HistoryReport
	if err := client.ask(ctx, http.MethodPost, "/v1/history/check", query("format", c.Format, "run", c.ID), src, &told); err != nil {
		return v, err
	}
	v.Report = history.Report{Format: told.Format, Messages: told.Messages, Items: told.Items, Complete: told.Complete, Unseen: told.Unseen, Findings: told.Findings, More: told.More}
	v.OK, v.Forged, v.Classes = told.OK, told.Forged, told.Classes
	return v, nil
}

// format is the one named, or the one that the file shows.
func (c transcriptFile) format(src io.ReadSeeker) (history.Format, error) {
	if c.Format != "" {
		return history.Format(c.Format), nil
	}
	f, err := history.Detect(src, history.Limits{})
	if err != nil {
		return "", fmt.Errorf("%s: %w", c.File, err)
	}
	_, err = src.Seek(0, io.SeekStart)
	return f, err
}

// open opens the file; standard input is copied to one first.
func (c transcriptFile) open(p *program) (*os.File, error) {
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return nil, err
		}
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			return nil, errors.Join(err, f.Close(), record.Errorf(record.Invalid, "%s is not a regular file; write - and give it on standard input", c.File))
		}
		return f, nil
	}
	f, err := os.CreateTemp("", "placet-history-*")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name()) // open, and gone when it is closed
	if _, err := io.Copy(f, io.LimitReader(p.stdin, 1<<30)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, err
}

// shownBytes is how much of a finding's place is shown.
const shownBytes = 160

// excerpts finds the line and the beginning of what each finding is about, in one
// pass in order of offset.
func excerpts(src io.ReadSeeker, findings []history.Finding) ([]findingView, error) {
	out := make([]findingView, len(findings))
	order := make([]int, len(findings))
	for i, f := range findings {
		out[i].Finding, order[i] = f, i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(findings[a].At.Offset - findings[b].At.Offset) })
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(src, 64<<10)
	var at int64
	line, column := 1, 1
	for _, i := range order {
		v := &out[i]
		for ; at < v.At.Offset; at++ {
			b, err := r.ReadByte()
			if err == io.EOF {
				break
			}
			if err != nil {
				return nil, err
			}
			if column++; b == '\n' {
				line, column = line+1, 1
			}
		}
		n := int(min(max(v.At.End-v.At.Offset, 0), shownBytes))
		if n == 0 {
			n = 40
		}
		text, err := r.Peek(n)
		if err != nil && err != io.EOF {
			return nil, err
		}
		v.Line, v.Column, v.Excerpt = line, column, strings.ToValidUTF8(string(text), "\ufffd")
		if v.At.End-v.At.Offset > shownBytes {
			v.Excerpt += "…"
		}
	}
	return out, nil
}

// history prints a report for people. What comes from the transcript is data: each
// excerpt is marked, on one line, with escapes for what would act on a terminal.
func (p *program) history(v historyView) {
	p.say("%s: %s, %d messages, %d calls, %d results.", safe(v.File), v.Format, v.Messages, v.Items[history.Call], v.Items[history.Result])
	for _, f := range v.Findings {
		p.say("")
		p.say("line %d, column %d: %s (%s): %s", f.Line, f.Column, f.Code, f.Severity, f.Says)
		if f.Detail != "" {
			p.say("  which:   %s", safe(f.Detail))
		}
		p.say("  where:   %s", safe(f.At.Pointer))
		p.say("  text:    | %s", safe(f.Excerpt))
		p.say("  could:   %s", f.Could)
	}
	if len(v.Findings) > 0 {
		p.say("")
	}
	for _, c := range v.Classes {
		p.say("item %d: %s %s %s", c.Item, c.Class, c.Call, c.State)
	}
	if v.More > 0 {
		p.say("%d findings more are not shown.", v.More)
	}
	switch {
	case !v.Complete:
		p.say("It could not be read to its end.")
	case v.Forged:
		p.say("No honest client sends this.")
	case !v.OK:
		p.say("It needs review, or repair.")
	default:
		p.say("Nothing is wrong with it. None of it can make a tool run.")
	}
}
