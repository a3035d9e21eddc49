package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// maxTimeline is how many calls of a run its page lists, and a quarter of its events.
const maxTimeline = 30

// runView is the run's page.
type runView struct {
	Run         record.Run
	Calls       []callRow
	Events      []eventRow
	More        bool         // there is more than is listed
	Partly      bool         // calls that this person is not asked about are left out
	Children    []record.Run // for readers
	Waiting     []row
	WaitingMore bool // than are listed
	All         []dispatch.Shown
}

type callRow struct {
	ID     record.CallID
	Tool   string
	For    string
	Agent  string
	Effect folded
	State  record.State
	Code   record.Code
	At     time.Time
}

func callRowOf(c record.Call) callRow {
	first, _, _ := strings.Cut(c.EffectText, "\n")
	return callRow{c.ID, c.Tool.Name, c.Principal.Subject, string(c.Agent), foldAs(first, 200, 0, sentence), c.State, c.Decision.Code, c.Proposed}
}

// eventRow is an event without operators' texts.
type eventRow struct {
	At   time.Time
	Kind string
	Call record.CallID
	Code record.Code
	Who  string // for readers
	Note folded
}

// run shows the calls and events of a run: all to a reader, to an approver those
// of the calls they are asked about. Who is asked about none knows no such run.
func (c *Console) run(w http.ResponseWriter, r *http.Request, v viewer) error {
	id, tenant := record.RunID(r.PathValue("id")), v.person.Tenant()
	if !record.ValidID("run", string(id)) {
		return absent()
	}
	run, err := c.o.Reader.Run(r.Context(), tenant, id)
	if err != nil {
		return hide(err)
	}
	calls, err := c.o.Reader.Calls(r.Context(), dispatch.CallQuery{Tenant: tenant, Run: id, Limit: maxTimeline})
	if err != nil {
		return err
	}
	view := runView{Run: run, More: len(calls) == maxTimeline, Partly: !v.Reads()}
	visible := map[record.CallID]bool{}
	ids := []record.CallID{}
	for _, call := range calls {
		ids = append(ids, call.ID)
		ok := v.Reads()
		if !ok && call.Approval != "" {
			l, err := c.o.Reader.Call(r.Context(), tenant, call.ID)
			if err != nil && record.KindOf(err) != record.NotFound {
				return err
			}
			ok = err == nil && v.sees(l)
		}
		if ok {
			visible[call.ID] = true
			view.Calls = append(view.Calls, callRowOf(call))
		}
	}
	if len(visible) == 0 && !v.Reads() || run.Tenant != tenant {
		return absent()
	}
	if view.Events, err = c.eventsOf(r, v, dispatch.EventQuery{Tenant: tenant, Run: id, Of: ids, Limit: 4 * maxTimeline}, visible); err != nil {
		return err
	}
	if v.Reads() {
		if view.Children, err = c.o.Reader.Children(r.Context(), tenant, id, maxTimeline); err != nil {
			return err
		}
	}
	if run.Live() {
		waiting, more, err := c.waitingIn(r.Context(), v, id)
		if err != nil {
			return err
		}
		view.WaitingMore = more
		now := c.o.Clock()
		for _, l := range waiting {
			view.Waiting = append(view.Waiting, c.rowOf(v, l, now))
			view.All = append(view.All, dispatch.Shown{ID: l.Approval.ID, Binding: l.Approval.Binding})
		}
	}
	p := page{Title: "A run", Body: view}
	if run.Live() {
		p.Live = url.Values{"run": {string(id)}, "seen": {runVersion(run, calls)}}.Encode()
	}
	return c.showTo(w, r, http.StatusOK, "run", p, v)
}

func runVersion(run record.Run, calls []record.Call) string {
	list := []dispatch.Loaded{{Call: record.Call{ID: record.CallID(run.ID), Version: run.Version}}}
	for _, call := range calls {
		list = append(list, dispatch.Loaded{Call: call})
	}
	return versionOf(list)
}

// eventsOf lists events: a reader's whole, an approver's those of visible calls.
func (c *Console) eventsOf(r *http.Request, v viewer, q dispatch.EventQuery, visible map[record.CallID]bool) ([]eventRow, error) {
	events, err := c.o.Reader.Events(r.Context(), q)
	if err != nil {
		return nil, err
	}
	return rowsOf(events, v, func(e record.Event) bool { return v.Reads() || visible[e.Call] })
}

// rowsOf shows events of the viewer's tenant; operators' texts to readers only.
func rowsOf(events []record.Event, v viewer, shown func(record.Event) bool) ([]eventRow, error) {
	var out []eventRow
	for _, e := range events {
		if e.Tenant != v.person.Tenant() || !shown(e) || !v.Reads() && e.Kind.Internal() {
			continue
		}
		var b record.Body
		if err := json.Unmarshal(e.Body, &b); err != nil {
			return nil, record.Because(record.Internal, err, "an event cannot be read")
		}
		row := eventRow{At: e.At, Kind: strings.ReplaceAll(string(e.Kind), "_", " "), Call: e.Call, Code: b.Code}
		if v.Reads() {
			row.Who, row.Note = whoText(e.Who), fold(b.Note, 200, 2000)
			if b.Note == "" {
				row.Note = fold(b.Detail+b.Evidence, 200, 2000)
			}
		}
		out = append(out, row)
	}
	return out, nil
}

func whoText(w record.Who) string {
	switch {
	case w.Principal != nil && w.Agent != "":
		return w.Principal.Subject + " by " + string(w.Agent)
	case w.Principal != nil:
		return w.Principal.Subject
	case w.Workload != "":
		return w.Workload
	}
	return w.System
}
