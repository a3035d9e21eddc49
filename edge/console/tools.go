package console

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/placet-dev/placet/registry"
)

// toolRow is a tool as its operator set it up.
type toolRow struct {
	Name, Server, Title, Scope, Marks, Asks, Place string
	Limits                                         []string
}

func toolRowOf(t *registry.Tool) toolRow {
	row := toolRow{Name: t.Name, Server: t.Server, Scope: t.Scope, Place: t.Place}
	if t.Pin != nil {
		row.Title = t.Pin.Title
	}
	row.Marks = strings.Join(marksOf(t), ", ")
	row.Asks = strings.ReplaceAll(fmt.Sprint(t.Approval.When), "_", " ")
	if len(t.Approval.Approvers) > 0 {
		row.Asks += ": " + strings.Join(t.Approval.Approvers, ", ")
	}
	limit := func(n int, text string) {
		if n > 0 {
			row.Limits = append(row.Limits, fmt.Sprintf(text, n))
		}
	}
	limit(t.PerMinute, "%d a minute")
	limit(t.PerRun, "%d a run")
	limit(t.Concurrent, "%d at once")
	if l := t.AutonomousLimit; l != nil {
		row.Limits = append(row.Limits, fmt.Sprintf("alone up to %v (%s)", l.Max, l.Argument))
	}
	return row
}

// marksOf is what a tool does, as its entry says.
func marksOf(t *registry.Tool) (marks []string) {
	for _, m := range []struct {
		is   bool
		word string
	}{{t.Read, "read"}, {t.Write, "write"}, {t.Destructive, "destructive"}, {t.Financial, "financial"}, {t.Sink, "sends out"}} {
		if m.is {
			marks = append(marks, m.word)
		}
	}
	return marks
}

// tools lists the registry, for readers: what it says is the operator's, and
// approvers are asked about calls, not about tools.
func (c *Console) tools(w http.ResponseWriter, r *http.Request, v viewer) error {
	if !v.Reads() {
		return absent()
	}
	var rows []toolRow
	if active := c.o.Boundary.Current(); active != nil {
		for t := range active.Registry.Tools() {
			rows = append(rows, toolRowOf(t))
		}
	}
	return c.showTo(w, r, http.StatusOK, "tools", page{Title: "Tools", Body: rows}, v)
}

type limitsView struct {
	Environment, Version string
	Overrides            []registry.Override
	Tools                []toolRow
	Quarantined          []registry.Quarantine
	At                   time.Time
}

// limits lists what holds calls back, and every setting that weakens a default.
func (c *Console) limits(w http.ResponseWriter, r *http.Request, v viewer) error {
	if !v.Reads() {
		return absent()
	}
	view := limitsView{At: c.o.Clock()}
	if active := c.o.Boundary.Current(); active != nil {
		view.Environment, view.Version, view.Overrides = active.Environment, active.Digest, active.Overrides
		view.Quarantined = active.Registry.Quarantined()
		for t := range active.Registry.Tools() {
			if row := toolRowOf(t); len(row.Limits) > 0 {
				view.Tools = append(view.Tools, row)
			}
		}
	}
	return c.showTo(w, r, http.StatusOK, "limits", page{Title: "Limits and overrides", Body: view}, v)
}
