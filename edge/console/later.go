package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/edge/question"
	"github.com/placet-dev/placet/record"
)

// laterRows is how long a list of later work is: each row is looked up.
const laterRows = 30

// laterView is one list of what runs later: the queue, what of it came to nothing, or
// the schedules.
type laterView struct {
	List      string
	Calls     []queuedRow
	Schedules []scheduleRow
	Operates  bool
	Next      string
}

// queuedRow is a call of the queue.
type queuedRow struct {
	callRow
	Run     record.RunID
	Tries   string
	Again   time.Time // zero: no time is set
	Waits   string    // for what, then
	Trouble string    // what came of it last, in words and without a value of it
	When    time.Time
	Settle  bool // the viewer may say what happened

	Arguments node // some of them; empty: they are not there any more
}

// later lists what the clock or the agents' return will run, for readers. What people may
// do here is what the API lets them: a schedule and a queued call are their agent's.
func (c *Console) later(w http.ResponseWriter, r *http.Request, v viewer) error {
	if !v.Reads() {
		return absent()
	}
	view := laterView{List: r.URL.Query().Get("list"), Operates: v.person.Operates()}
	before := r.URL.Query().Get("before")
	var err error
	var last string
	switch view.List {
	case "schedules":
		last, err = c.schedulesOf(r.Context(), v, before, &view)
	case "dead":
		last, err = c.queuedOf(r.Context(), v, dispatch.CallQuery{Dead: true}, before, &view)
	default:
		view.List = "queue"
		last, err = c.queuedOf(r.Context(), v, dispatch.CallQuery{Queued: true}, before, &view)
	}
	if err != nil {
		return err
	}
	if last != "" {
		view.Next = home + "/later?" + url.Values{"list": {view.List}, "before": {last}}.Encode()
	}
	return c.showTo(w, r, http.StatusOK, "later", page{Title: "Later", Again: 60, Body: view}, v)
}

func (c *Console) queuedOf(ctx context.Context, v viewer, q dispatch.CallQuery, before string, view *laterView) (last string, err error) {
	q.Tenant, q.Limit = v.person.Tenant(), laterRows
	if record.ValidID("call", before) {
		q.Before = record.CallID(before)
	}
	list, err := c.o.Reader.Calls(ctx, q)
	if err != nil {
		return "", err
	}
	for _, call := range list {
		if call.Tenant != q.Tenant {
			continue
		}
		row := queuedRow{callRow: callRowOf(call), Run: call.Run, Tries: triesOf(call), Settle: call.State == record.Unknown && v.person.Operates()}
		if len(call.Arguments) > 0 {
			row.Arguments = (&budget{nodes: 40, chars: 2_000}).value(call.Arguments, 0)
		}
		if call.InQueue() {
			if row.Again = call.Again; row.Again.IsZero() {
				row.Waits = "it waits for its agent"
			}
		}
		if row.Trouble, row.When, err = c.troubleOf(ctx, call); err != nil {
			return "", err
		}
		view.Calls = append(view.Calls, row)
	}
	if len(list) == laterRows {
		last = string(list[laterRows-1].ID)
	}
	return last, nil
}

func triesOf(call record.Call) string {
	if call.Attempt == 0 {
		return "not tried yet"
	}
	return fmt.Sprintf("attempt %d of %d", call.Attempt, max(call.Attempts, call.Attempt))
}

// troubleOf is what of a queued call went wrong last, and when.
func (c *Console) troubleOf(ctx context.Context, call record.Call) (string, time.Time, error) {
	events, err := c.o.Reader.Events(ctx, dispatch.EventQuery{Tenant: call.Tenant, Call: call.ID, Newest: true, Limit: 1,
		Kinds: []record.EventKind{record.EventLimited, record.EventParked, record.EventUnknown, record.EventFailed, record.EventDenied, record.EventExpired}})
	if err != nil || len(events) == 0 || events[0].Tenant != call.Tenant {
		return "", time.Time{}, err
	}
	var b record.Body
	if err := json.Unmarshal(events[0].Body, &b); err != nil {
		return "", time.Time{}, record.Because(record.Internal, err, "an event cannot be read")
	}
	return question.Trouble(events[0].Kind, b.Code), events[0].At, nil
}

// scheduleRow is a schedule, with what of its authority is on record.
type scheduleRow struct {
	record.Schedule
	For, By   string
	When      string
	Arguments node
	Purpose   folded
	Delegated time.Time // until when; zero: its run holds no delegation
	Over      bool      // that time is past
	Revoked   record.RevocationID
}

func (c *Console) schedulesOf(ctx context.Context, v viewer, before string, view *laterView) (last string, err error) {
	q := dispatch.ScheduleQuery{Tenant: v.person.Tenant(), Limit: laterRows}
	if record.ValidID("sch", before) {
		q.Before = record.ScheduleID(before)
	}
	list, err := c.o.Reader.Schedules(ctx, q)
	if err != nil {
		return "", err
	}
	revoked, err := c.o.Boundary.Revocations(ctx, q.Tenant)
	if err != nil {
		return "", err
	}
	now := c.o.Clock()
	for _, s := range list {
		if s.Tenant != q.Tenant {
			continue
		}
		row := scheduleRow{Schedule: s, For: s.Principal.Subject, By: string(s.Agent), When: whenOf(s), Purpose: fold(s.Purpose, 200, len(s.Purpose)),
			Arguments: (&budget{nodes: 100, chars: 5_000}).value(s.Arguments, 0)}
		run, err := c.o.Reader.Run(ctx, q.Tenant, s.Run)
		if err != nil {
			return "", err
		}
		if d := run.Delegation; d != nil {
			row.Delegated, row.Over = d.Until, !d.Live(now)
		}
		for _, r := range revoked {
			if r.Kind == record.RevokedSchedule && r.Name == string(s.ID) {
				row.Revoked = r.ID
			}
		}
		view.Schedules = append(view.Schedules, row)
	}
	if len(list) == laterRows {
		last = string(list[laterRows-1].ID)
	}
	return last, nil
}

// scheduleArguments is a schedule's exact arguments as a file.
func (c *Console) scheduleArguments(w http.ResponseWriter, r *http.Request, v viewer) error {
	id := record.ScheduleID(r.PathValue("id"))
	if !v.Reads() || !record.ValidID("sch", string(id)) {
		return absent()
	}
	s, err := c.o.Reader.Schedule(r.Context(), v.person.Tenant(), id)
	if err != nil {
		return hide(err)
	}
	return download(w, "arguments-"+string(s.ID), s.Arguments)
}

func whenOf(s record.Schedule) string {
	if s.Cron == "" {
		return "once"
	}
	if s.Zone == "" {
		return s.Cron + " (UTC)"
	}
	return s.Cron + " (" + s.Zone + ")"
}

// settlement is what the form that settles a call carries.
type settlement struct {
	Form string
	Call record.CallID
}

func settling(form string, call record.CallID) settlement { return settlement{form, call} }

// settle records what happened of an unknown call, with evidence, for a person who operates.
func (c *Console) settle(w http.ResponseWriter, r *http.Request, v viewer) error {
	id := record.CallID(r.PathValue("id"))
	if !v.person.Operates() || !record.ValidID("call", string(id)) {
		return absent()
	}
	evidence := strings.TrimSpace(r.PostForm.Get("evidence"))
	if _, err := c.o.Boundary.Reconcile(r.Context(), v.person.Operator(), v.person.Tenant(), id, record.State(r.PostForm.Get("outcome")), evidence); err != nil {
		return hide(err)
	}
	http.Redirect(w, r, home+"/calls/"+string(id), http.StatusSeeOther)
	return nil
}
