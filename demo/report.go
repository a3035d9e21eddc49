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
	begin(gateway, helpdesk string) error
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

	show string // the call, for people
	ran  bool
	note string
}

// lines is the report for programs.
type lines struct{ w io.Writer }

func (l *lines) begin(string, string) error          { return nil }
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

// screen is the report for people.
type screen struct{ w io.Writer }

const columns = "%-2s %-41s %-18s %-4s %s"

func (s *screen) begin(gateway, helpdesk string) error {
	if err := s.print("placet demo   gateway " + gateway + ", help desk " + helpdesk + " with its own ledger. Nothing leaves this machine."); err != nil {
		return err
	}
	return s.print(fmt.Sprintf(columns, "", "call", "verdict", "ran", "ledger"))
}

func (s *screen) step(v line) error {
	letter, digit := v.Step[:1], v.Step[1:]
	if digit == "2" {
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
