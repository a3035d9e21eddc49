package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/yamlfile"
)

// Exit codes beside those of record's kinds of error.
const (
	exitOK      = 0
	exitNo      = 1  // the answer is no: a denial, a failed test, something quarantined
	exitWaiting = 11 // not finished: a person is asked, or the outcome is not known
)

// exitRow is one line of the table of exit codes.
type exitRow struct {
	code    int
	meaning string
}

// exits is the one table of exit codes: in the help, and checked against
// docs/cli.md.
func exits() []exitRow {
	rows := []exitRow{
		{exitOK, "done"},
		{exitNo, "the answer is no: a denial, a test that fails, something that needs review"},
	}
	meanings := map[record.Kind]string{
		record.Invalid: "the command, a file or the request is not valid", record.Unauthenticated: "no valid credential",
		record.Forbidden: "the credential does not give this right", record.NotFound: "no such file, call or run, or not yours",
		record.Conflict: "it has changed, or is there already", record.Limited: "held back by a limit; later it may work",
		record.Unsupported: "not supported yet", record.Unavailable: "a server, the store or a file cannot be used now",
		record.Internal: "a defect of placet",
	}
	for _, k := range record.Kinds() {
		if m, ok := meanings[k]; ok {
			rows = append(rows, exitRow{record.SurfaceOf(k).Exit, m})
		}
	}
	return append(rows, exitRow{exitWaiting, "not finished: a person is asked, or the outcome is not known"})
}

// verdict is the error of a command that worked and whose answer is not yes.
type verdict struct {
	code    int
	message string
	quiet   bool // what was printed says it already
}

func (v *verdict) Error() string { return v.message }

// no ends a command whose output says what is wrong.
func no(format string, args ...any) error {
	return &verdict{code: exitNo, message: fmt.Sprintf(format, args...)}
}

// exitOf is the exit code of an error.
func exitOf(err error) int {
	var v *verdict
	var r *refused
	switch {
	case errors.As(err, &v):
		return v.code
	case errors.As(err, &r):
		return r.exit()
	}
	return record.SurfaceOf(kindOf(err)).Exit
}

// kindOf classifies what a command of this machine meets beside record's errors.
func kindOf(err error) record.Kind {
	var e *record.Error
	var ps yamlfile.Problems
	switch {
	case errors.As(err, &e):
		return e.Kind
	case errors.As(err, &ps):
		return record.Invalid
	case errors.Is(err, fs.ErrNotExist):
		return record.NotFound
	case errors.Is(err, fs.ErrPermission):
		return record.Forbidden
	case errors.Is(err, fs.ErrExist):
		return record.Conflict
	}
	return record.Internal
}

// shown is an error as --json prints it.
type shown struct {
	Kind     string         `json:"kind"`
	Message  string         `json:"message"`
	Exit     int            `json:"exit"`
	Problems []problemView  `json:"problems,omitempty"`
	Errors   []api.Misfit   `json:"errors,omitempty"`
	Verdict  record.Verdict `json:"verdict,omitempty"`
	State    record.State   `json:"state,omitempty"`
	Call     record.CallID  `json:"call,omitempty"`
}

// problemView is a place in a file and what is wrong there.
type problemView struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
}

func problemViews(ps yamlfile.Problems) []problemView {
	var out []problemView
	for _, p := range ps {
		out = append(out, problemView(p))
	}
	return out
}

// fail prints an error and returns its exit code.
func (p *program) fail(err error) int {
	code := exitOf(err)
	var v *verdict
	isVerdict := errors.As(err, &v)
	if isVerdict && v.quiet {
		return code
	}
	if !p.json {
		for line := range strings.SplitSeq(strings.TrimRight(err.Error(), "\n"), "\n") {
			fmt.Fprintln(p.stderr, "placet: "+safe(line))
		}
		var refused *refused
		if errors.As(err, &refused) {
			for _, m := range refused.Errors {
				fmt.Fprintln(p.stderr, "placet:   "+safe(m.Location+": "+m.Message))
			}
		}
		return code
	}
	s := shown{Kind: string(kindOf(err)), Message: err.Error(), Exit: code}
	if isVerdict {
		s.Kind = "no"
	}
	var ps yamlfile.Problems
	if errors.As(err, &ps) {
		s.Problems = problemViews(ps)
	}
	var r *refused
	if errors.As(err, &r) {
		s.Kind, s.Errors, s.Verdict, s.State, s.Call = r.Code, r.Errors, r.Verdict, r.State, r.Call
	}
	_ = writeJSON(p.stderr, struct { // there is nobody left to tell
		Error shown `json:"error"`
	}{s})
	return code
}

// help adds the exit codes to kong's own text.
func help(o kong.HelpOptions, ctx *kong.Context) error {
	if err := kong.DefaultHelpPrinter(o, ctx); err != nil {
		return err
	}
	_, err := io.WriteString(ctx.Stdout, exitTable())
	return err
}

func exitTable() string {
	var b strings.Builder
	b.WriteString("\nExit codes:\n")
	for _, r := range exits() {
		fmt.Fprintf(&b, "  %2d  %s\n", r.code, r.meaning)
	}
	return b.String()
}
