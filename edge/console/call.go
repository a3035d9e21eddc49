package console

import (
	"net/http"
	"net/url"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// callView is the call's page: to an approver what they were asked about, to a
// reader the decision and the evidence as well.
type callView struct {
	Call      record.Call
	Approval  *record.Approval
	Effect    folded
	Arguments node
	Purpose   folded
	Reads     bool
	Reasons   []record.Reason
	Answers   []given
	Result    *node
	Events    []eventRow
	Undo      string // the tool that undoes it, for readers
	Settle    bool   // the viewer may say what happened
}

func (c *Console) loadCall(r *http.Request, v viewer) (dispatch.Loaded, error) {
	id := r.PathValue("id")
	if !record.ValidID("call", id) {
		return dispatch.Loaded{}, absent()
	}
	l, err := c.o.Reader.Call(r.Context(), v.person.Tenant(), record.CallID(id))
	if err == nil && !v.sees(l) {
		err = absent()
	}
	return l, hide(err)
}

func (c *Console) call(w http.ResponseWriter, r *http.Request, v viewer) error {
	l, err := c.loadCall(r, v)
	if err != nil {
		return err
	}
	effect, _ := effectOf(l.Call)
	view := callView{Call: l.Call, Approval: l.Approval, Effect: effect, Arguments: valueOf(l.Call.Arguments), Purpose: fold(l.Call.Purpose, 300, 2000), Reads: v.Reads()}
	for _, reason := range l.Call.Decision.Reasons {
		if v.Reads() || !reason.Observe {
			view.Reasons = append(view.Reasons, reason)
		}
	}
	if v.Reads() {
		view.Undo = c.o.Boundary.Current().Compensation(l.Call)
	}
	view.Settle = l.Call.State == record.Unknown && v.person.Operates()
	if l.Approval != nil {
		for _, a := range l.Approval.Answers {
			view.Answers = append(view.Answers, givenOf(a, v))
		}
	}
	if o := l.Call.Outcome; o != nil && v.Reads() && len(o.Result) > 0 {
		result := (&budget{nodes: 200, chars: 20_000}).value(o.Result, 0)
		view.Result = &result
	}
	view.Events, err = c.eventsOf(r, v, dispatch.EventQuery{Tenant: v.person.Tenant(), Call: l.Call.ID, Limit: 2 * maxTimeline}, map[record.CallID]bool{l.Call.ID: true})
	if err != nil {
		return err
	}
	p := page{Title: "A call: " + stateWord(l.Call.State), Body: view}
	if !l.Call.State.Terminal() {
		p.Live, p.Again = url.Values{"call": {string(l.Call.ID)}, "seen": {version(l)}}.Encode(), 10
	}
	return c.showTo(w, r, http.StatusOK, "call", p, v)
}

func (c *Console) callArguments(w http.ResponseWriter, r *http.Request, v viewer) error {
	l, err := c.loadCall(r, v)
	if err != nil {
		return err
	}
	return download(w, "arguments-"+string(l.Call.ID), l.Call.Arguments)
}

type callsView struct {
	Rows []callRow
	Next record.CallID
}

// calls lists the tenant's calls, for readers.
func (c *Console) calls(w http.ResponseWriter, r *http.Request, v viewer) error {
	if !v.Reads() {
		return absent()
	}
	q := dispatch.CallQuery{Tenant: v.person.Tenant(), Limit: pageRows}
	if before := r.URL.Query().Get("before"); record.ValidID("call", before) {
		q.Before = record.CallID(before)
	}
	list, err := c.o.Reader.Calls(r.Context(), q)
	if err != nil {
		return err
	}
	var view callsView
	for _, call := range list {
		if call.Tenant == v.person.Tenant() {
			view.Rows = append(view.Rows, callRowOf(call))
		}
	}
	if len(list) == pageRows {
		view.Next = list[pageRows-1].ID
	}
	return c.showTo(w, r, http.StatusOK, "calls", page{Title: "Calls", Body: view}, v)
}
