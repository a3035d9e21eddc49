package console

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const alertsPage = 50

// alertRow is an alert with its evidence.
type alertRow struct {
	At            time.Time
	Rule          string
	Subject, Text folded
	Count         int
	Calls         []record.CallID
	Run           record.RunID
	Seq           int64
	Events        string
}

type alertsView struct {
	Rows []alertRow
	Next int64
	Held []heldRow
	Lift bool // this person may lift holds

	Revoked int // revocations in force
}

// heldRow is a lineage that an alert holds.
type heldRow struct {
	Run  record.RunID
	Rule string
	Text folded
	At   time.Time
}

// mostHeld is how many held lineages a page lists.
const mostHeld = 100

func (c *Console) heldOf(ctx context.Context, v viewer) (out []heldRow, err error) {
	list, err := c.o.Reader.Held(ctx, v.person.Tenant(), "", mostHeld)
	for _, l := range list {
		out = append(out, heldRow{l.Hold.Run, strings.ReplaceAll(string(l.Hold.Rule), "_", " "), fold(l.Hold.Text, 200, 2000), l.Hold.At})
	}
	return out, err
}

// lift takes the hold from the lineage that the form names, for a person who operates.
func (c *Console) lift(w http.ResponseWriter, r *http.Request, v viewer) error {
	if !v.person.Operates() {
		return absent()
	}
	id := record.RunID(r.PathValue("id"))
	if !record.ValidID("run", string(id)) {
		return absent()
	}
	if _, err := c.o.Boundary.Lift(r.Context(), v.person.Operator(), id, strings.TrimSpace(r.PostForm.Get("reason"))); err != nil {
		return hide(err)
	}
	http.Redirect(w, r, home+"/alerts", http.StatusSeeOther)
	return nil
}

// alerts lists what the rules over the log found, for readers.
func (c *Console) alerts(w http.ResponseWriter, r *http.Request, v viewer) error {
	if !v.Reads() {
		return absent()
	}
	before, _ := strconv.ParseInt(r.URL.Query().Get("before"), 10, 64) // what is no number begins with the newest
	tenant := v.person.Tenant()
	events, err := c.o.Reader.Alerts(r.Context(), dispatch.AlertQuery{Tenant: tenant, Before: before, Limit: alertsPage})
	if err != nil {
		return err
	}
	view := alertsView{Lift: v.person.Operates()}
	if view.Held, err = c.heldOf(r.Context(), v); err != nil {
		return err
	}
	revoked, err := c.o.Boundary.Revocations(r.Context(), tenant)
	if err != nil {
		return err
	}
	view.Revoked = len(revoked)
	for _, e := range events {
		var b record.Body
		if err := json.Unmarshal(e.Body, &b); err != nil || b.Alert == nil || e.Tenant != tenant {
			return record.Errorf(record.Internal, "an alert cannot be read")
		}
		a := b.Alert
		numbers := make([]string, len(a.Events))
		for i, seq := range a.Events {
			numbers[i] = strconv.FormatInt(seq, 10)
		}
		view.Rows = append(view.Rows, alertRow{At: e.At, Rule: strings.ReplaceAll(string(a.Rule), "_", " "), Subject: fold(a.Subject, 200, 2000),
			Text: fold(a.Text, 200, 2000), Count: a.Count, Calls: a.Calls, Run: e.Run, Seq: e.Seq, Events: strings.Join(numbers, ", ")})
	}
	if len(events) == alertsPage {
		view.Next = events[len(events)-1].Seq
	}
	return c.showTo(w, r, http.StatusOK, "alerts", page{Title: "Alerts", Body: view}, v)
}
