package console

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
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
	limit(t.PerTenant.PerMinute, "%d a minute in the tenant")
	limit(t.PerTenant.Concurrent, "%d at once in the tenant")
	if l := t.AutonomousLimit; l != nil {
		row.Limits = append(row.Limits, fmt.Sprintf("alone up to %v (%s)", l.Max, l.Argument))
		if l.PerTarget.Given() {
			row.Limits = append(row.Limits, fmt.Sprintf("alone %v in all for the same targets, within %v", l.PerTarget, l.Within))
		}
		if l.Count > 0 {
			row.Limits = append(row.Limits, fmt.Sprintf("alone %d times within %v", l.Count, l.Within))
		}
	}
	if t.Cost != nil {
		row.Limits = append(row.Limits, "costs "+t.Cost.String())
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
	Used                 []useRow
	More                 bool // there are more counters than are looked at
	At                   time.Time
}

// useRow is a limit of which something is used.
type useRow struct {
	Limit, For, Used, Most string
}

// mostCounters bounds how many counters one page looks at.
const mostCounters = 500

func useRowOf(u dispatch.Use) useRow {
	write := func(n int64) string {
		if u.Currency != "" || u.Target != "" {
			return strings.TrimSpace(record.MicrosText(n) + " " + u.Currency)
		}
		return strconv.FormatInt(n, 10)
	}
	row := useRow{Limit: u.Limit, Used: write(u.Used), Most: "no limit"}
	if u.Bounded {
		row.Most = write(u.Most)
	}
	for _, part := range []string{u.Tool, subjectOf(u.Principal), string(u.Lineage), string(u.Run), turnOf(u.Turn), u.Target} {
		if part != "" {
			row.For = strings.TrimPrefix(row.For+", "+part, ", ")
		}
	}
	return row
}

func turnOf(turn string) string {
	if turn == "" {
		return ""
	}
	return "turn " + turn
}

func subjectOf(p *record.Principal) string {
	if p == nil {
		return ""
	}
	return p.Subject + "@" + p.Issuer
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
		counted, err := c.o.Reader.Counters(r.Context(), v.person.Tenant(), "", mostCounters)
		if err != nil {
			return err
		}
		view.More = len(counted) == mostCounters
		for _, u := range c.o.Boundary.Used(counted) {
			view.Used = append(view.Used, useRowOf(u))
		}
	}
	return c.showTo(w, r, http.StatusOK, "limits", page{Title: "Limits and overrides", Body: view}, v)
}
