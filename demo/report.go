package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// report shows the scene while it is played.
type report interface {
	begin(gateway, helpdesk, console string) error
	asked(pending) error
	step(line) error
	overrides([]registry.Override) error
	summary(*summary) error
}

// line is one step. What is absent is nil.
type line struct {
	Step      string          `json:"step"`
	Tool      *string         `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Verdict   *record.Verdict `json:"verdict"`
	State     *record.State   `json:"state"`
	Code      *record.Code    `json:"code"`
	Effects   int             `json:"ledger_effects"`
	Calls     int             `json:"calls,omitempty"`       // where a step is several like the one it shows
	Origin    string          `json:"origin,omitempty"`      // the tool whose result the target stood in
	Retry     *time.Time      `json:"retry_after,omitempty"` // when the held-back call may run

	show string // the call, for people
	ran  bool
	note string
}

// lines is the report for programs.
type lines struct{ w io.Writer }

func (l *lines) begin(_, _, _ string) error          { return nil }
func (l *lines) asked(q pending) error               { return l.write(map[string]pending{"question": q}) }
func (l *lines) overrides([]registry.Override) error { return nil }
func (l *lines) step(v line) error                   { return l.write(v) }
func (l *lines) summary(s *summary) error            { return l.write(map[string]*summary{"summary": s}) }

func (l *lines) write(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = l.w.Write(append(text, '\n'))
	return err
}

// pending is a question that waits for a person at the console.
type pending struct {
	Step   string `json:"step"`
	URL    string `json:"url"`
	SignIn string `json:"sign_in_as"`

	show string // the call, for people
}

// screen is the report for people.
type screen struct {
	w           io.Writer
	interactive bool
}

const columns = "%-2s %-41s %-18s %-4s %s"

func (s *screen) begin(gateway, helpdesk, console string) error {
	if err := s.print("placet demo   gateway " + gateway + ", help desk " + helpdesk + " with its own ledger. Nothing leaves this machine."); err != nil {
		return err
	}
	if s.interactive {
		console += ", where you decide c and e as lena"
	} else {
		console += ", while this runs; with --interactive you decide c and e there"
	}
	if err := s.print("   console    " + console); err != nil {
		return err
	}
	return s.print(fmt.Sprintf(columns, "", "call", "verdict", "ran", "ledger"))
}

func (s *screen) step(v line) error {
	letter, digit := v.Step[:1], v.Step[1:]
	if digit == "2" || letter == "h" && digit != "1" {
		letter = ""
	}
	effects := fmt.Sprint(v.Effects)
	if v.note != "" {
		effects += "   " + v.note
	}
	if v.Verdict == nil {
		return s.print(fmt.Sprintf("%-2s %-54s %-10s %s", letter, v.show, "(no call)", effects))
	}
	verdict, ran := string(*v.Verdict), "no"
	if v.ran {
		ran = "yes"
	}
	if v.Code != nil && *v.Code == record.CodeAlreadyDone {
		verdict = "(already done)"
	}
	return s.print(fmt.Sprintf(columns, letter, v.show, verdict, ran, effects))
}

// asked stands before its step: a person reads it while the demo waits.
func (s *screen) asked(q pending) error {
	in := "sign in"
	if q.Step != "c" {
		in = "sign in again" // the gateway was killed, and sessions with it
	}
	return s.print(fmt.Sprintf("%-2s %s\n   waits for you: open %s and %s as %s. Ctrl-c ends the demo.", q.Step, q.show, q.URL, in, q.SignIn))
}

// overrides names what the demo's registry weakens.
func (s *screen) overrides(all []registry.Override) error {
	var settings []string
	subjects := map[string][]string{}
	for _, o := range all {
		if !slices.Contains(settings, o.Setting) {
			settings = append(settings, o.Setting)
		}
		subjects[o.Setting] = append(subjects[o.Setting], strings.TrimPrefix(o.Subject, "tool "))
	}
	var parts []string
	for _, name := range settings {
		parts = append(parts, name+" of "+strings.Join(subjects[name], ", "))
	}
	return s.print("Weakened for this demo, as placet overrides lists it: " + strings.Join(parts, "; ") + ".")
}

func (s *screen) summary(v *summary) error {
	if len(v.Decided) > 0 {
		var parts []string
		for _, d := range v.Decided {
			parts = append(parts, d.Step+" "+d.how())
		}
		if err := s.print("Decided at the console: " + strings.Join(parts, ", ") + "."); err != nil {
			return err
		}
	}
	word := "Verified."
	if !v.Verified {
		word = "NOT verified."
	}
	return s.print(fmt.Sprintf("Ledger, read from the help desk's own file: %d effects, %d expected. %s %s",
		len(v.Effects), v.Expected, word, seconds(v.took)))
}

func (s *screen) print(text string) error {
	_, err := fmt.Fprintln(s.w, strings.TrimRight(text, " "))
	return err
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
