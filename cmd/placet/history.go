package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/placet-dev/placet/history"
	"github.com/placet-dev/placet/record"
)

type historyCommand struct {
	Check historyCheck `cmd:"" help:"Say what is wrong with a transcript; nothing of it runs."`
}

type historyCheck struct {
	File   string `arg:"" help:"Transcript as JSON; - reads standard input."`
	Format string `help:"How it is written; found out where that is unambiguous."`
}

// Help lists the formats.
func (historyCheck) Help() string {
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
}

// Run checks a file as it lies there. It reads it three times, for its format, its
// grammar and the lines to show, so that a large one needs no memory.
func (c historyCheck) Run(_ context.Context, p *program) error {
	src, err := c.open(p)
	if err != nil {
		return err
	}
	defer src.Close()
	format := history.Format(c.Format)
	if format == "" {
		if format, err = history.Detect(src, history.Limits{}); err != nil {
			return fmt.Errorf("%s: %w", c.File, err)
		}
		if _, err := src.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	report, err := history.Check(src, format, history.Limits{})
	if err != nil {
		return err
	}
	v := historyView{Report: report, File: c.File, OK: report.OK(), Forged: report.Forged()}
	if v.Findings, err = excerpts(src, report.Findings); err != nil {
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

// open opens the file; standard input is copied to one first.
func (c historyCheck) open(p *program) (*os.File, error) {
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
