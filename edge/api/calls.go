package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/edge/feed"
	"github.com/placet-dev/placet/edge/question"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

func (d *door) registerCalls() {
	add(d, d.operation("propose", http.MethodPost, "/v1/calls", "Propose a call, and run it if it may run", d.asCaller, tag("calls"),
		describe("Decides and records the call; with dispatch true (the default) an allowed call runs at once. An equal proposal finds the open call, and its outcome."),
		d.answers, d.noting), d.propose)
	add(d, d.operation("list-calls", http.MethodGet, "/v1/calls", "List calls", d.asViewer, tag("calls")), d.listCalls)
	add(d, d.operation("show-call", http.MethodGet, "/v1/calls/{id}", "Show a call", d.asViewer, tag("calls"),
		describe("With wait, the request is held while the call and its question are what version says, or without version until they move.")), d.showCall)
	add(d, d.operation("dispatch", http.MethodPost, "/v1/calls/{id}/dispatch", "Continue a call", d.asCaller, tag("calls"),
		describe("Runs the call if it may run now; a call that waits for a person is held for the seconds given."),
		d.answers), d.dispatch)
	add(d, d.operation("cancel", http.MethodPost, "/v1/calls/{id}/cancel", "Cancel a call", d.asCaller, tag("calls"), d.answers), d.cancel)
}

// answers documents the statuses of [surface].
func (d *door) answers(op *huma.Operation) {
	op.Responses["202"] = &huma.Response{Description: "Waiting for approval, running, or its outcome is not known. Nothing needs to be sent again.",
		Content: map[string]*huma.MediaType{"application/json": {Schema: d.schema(Answer{}, "Answer")}}}
	for status, text := range map[string]string{
		"400": "The request or the arguments do not fit.", "403": "Denied. Nothing ran.", "404": "No such call or run, or not yours.",
		"409": "The call has ended.", "429": "Held back by a limit; see Retry-After.", "502": "The tool gave no result.",
		"503": "The check could not be completed. Nothing ran.",
	} {
		op.Responses[status] = d.problemResponse(text)
	}
}

type proposeInput struct {
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" doc:"Makes two equal proposals two occurrences; without it the second finds the first."`
	Body           proposeBody
}

// proposeBody is shared by propose and explain.
type proposeBody struct {
	Run       record.RunID    `json:"run,omitempty" maxLength:"64" doc:"A run you opened. Not together with label."`
	Label     string          `json:"label,omitempty" maxLength:"200" doc:"Your own name for a run, which is opened if need be."`
	Tool      string          `json:"tool" minLength:"1" maxLength:"64" doc:"The tool's name."`
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"An object; absent means {}."`
	Input     json.RawMessage `json:"input,omitempty" doc:"Answers to a server's own questions."`
	Purpose   string          `json:"purpose,omitempty" maxLength:"2000" doc:"Why, in the agent's words; shown to approvers."`
	Vouch     *vouchBody      `json:"vouch,omitempty" doc:"Counts only from a workload that vouches."`
	Edits     record.CallID   `json:"edits,omitempty" maxLength:"64" doc:"The call whose arguments this one edits."`
	Dispatch  *bool           `json:"dispatch,omitempty" doc:"False: decide and record, do not run. Default true."`
}

type vouchBody struct {
	Turn     record.Turn `json:"turn" minimum:"1" doc:"The turn in which the model made the proposal."`
	Response string      `json:"response" minLength:"1" maxLength:"255" doc:"The provider's ID of the model's response."`
	Position int         `json:"position" minimum:"0" maximum:"100000" doc:"The place of the tool call in it."`
}

func (d *door) propose(ctx context.Context, in *proposeInput) (*answerOutput, error) {
	p, err := d.proposal(ctx, in)
	if err != nil {
		return nil, d.refusal(err)
	}
	entered(ctx)
	if in.Body.Dispatch != nil && !*in.Body.Dispatch {
		return d.answered(d.boundary.Propose(ctx, p))
	}
	return d.answered(d.boundary.Do(unhurried(ctx), p))
}

// proposal translates, and lets a proposal name no call but the caller's own as
// the one that it edits.
func (d *door) proposal(ctx context.Context, in *proposeInput) (dispatch.Proposal, error) {
	p, err := proposal(caller(ctx), in)
	if err != nil || p.Edits == "" {
		return p, err
	}
	_, err = d.boundary.Show(ctx, p.Caller, p.Edits)
	return p, hidden(err, "call")
}

// proposal translates. Tool, arguments and purpose are judged by the boundary;
// here only what no later reader could tell apart is refused.
func proposal(c identity.Caller, in *proposeInput) (dispatch.Proposal, error) {
	b := in.Body
	switch {
	case b.Run != "" && b.Label != "":
		return dispatch.Proposal{}, invalid("body.run", "state run or label, not both")
	case b.Run != "" && !record.ValidID("run", string(b.Run)):
		return dispatch.Proposal{}, absent("run")
	case b.Edits != "" && !record.ValidID("call", string(b.Edits)):
		return dispatch.Proposal{}, absent("call")
	case !printable(b.Label):
		return dispatch.Proposal{}, invalid("body.label", "it holds a control character")
	case !printable(in.IdempotencyKey):
		return dispatch.Proposal{}, invalid("header.Idempotency-Key", "it holds a control character")
	}
	p := dispatch.Proposal{Caller: c, Run: b.Run, RunLabel: b.Label, Tool: b.Tool, Arguments: b.Arguments, Input: b.Input,
		Purpose: b.Purpose, Occurrence: in.IdempotencyKey, Edits: b.Edits}
	if b.Vouch != nil {
		p.Vouch = &dispatch.Vouch{Turn: b.Vouch.Turn, Response: b.Vouch.Response, Position: b.Vouch.Position}
		if c.Vouches() {
			p.Turn = b.Vouch.Turn
		}
	}
	return p, nil
}

// CallPath is the path of a call. It is exported for huma, which reads no other embedded struct.
type CallPath struct {
	ID string `path:"id" maxLength:"64" doc:"The call."`
}

type dispatchInput struct {
	CallPath
	Wait int `query:"wait" minimum:"0" maximum:"60" doc:"Seconds to hold the request while a person is asked."`
}

func (d *door) dispatch(ctx context.Context, in *dispatchInput) (*answerOutput, error) {
	id, c := record.CallID(in.ID), caller(ctx)
	if !record.ValidID("call", in.ID) {
		return nil, d.refusal(absent("call"))
	}
	if in.Wait > 0 {
		var err error
		if c, err = d.hold(ctx, c, id, time.Duration(in.Wait)*time.Second); err != nil {
			return nil, d.refusal(hidden(err, "call"))
		}
	}
	return d.answered(d.boundary.Dispatch(unhurried(ctx), c, id, nil))
}

// unhurried outlives the connection. A caller that is gone has not canceled: a
// call that began runs to its end or its time-out, and whoever asks again gets
// its outcome instead of an unknown one.
func unhurried(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// hold waits until the question of the caller's own call is answered. Who waited
// is verified again before anything runs (rule C2).
func (d *door) hold(ctx context.Context, c identity.Caller, id record.CallID, wait time.Duration) (identity.Caller, error) {
	a, err := d.boundary.Show(ctx, c, id)
	if err != nil {
		return c, err
	}
	if a.State() != record.ApprovalPending || !d.boundary.Await(ctx, c.Owner().Tenant, id, min(wait, d.wait)) {
		return c, nil
	}
	again, err := d.verifier.Caller(ctx, credentials(ctx))
	if err != nil {
		return c, err
	}
	if again.Owner() != c.Owner() {
		return c, nobody()
	}
	return again, nil
}

func (d *door) cancel(ctx context.Context, in *CallPath) (*answerOutput, error) {
	if !record.ValidID("call", in.ID) {
		return nil, d.refusal(absent("call"))
	}
	a, err := d.boundary.Cancel(ctx, caller(ctx), record.CallID(in.ID))
	if err == nil && a.State() == record.Canceled {
		// What was asked for has happened; it is no refusal.
		return &answerOutput{Status: http.StatusOK, Body: d.describe(a)}, nil
	}
	return d.answered(a, err)
}

// stateParam is the state of a call as a parameter; its list is record's.
type stateParam string

// Schema is asked by huma.
func (stateParam) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, state := range record.States() {
		if state != record.None {
			s.Enum = append(s.Enum, string(state))
		}
	}
	return s
}

type listCallsInput struct {
	State  stateParam `query:"state" doc:"Only calls in this state."`
	Run    string     `query:"run" maxLength:"64" doc:"Only calls of this run."`
	Queued bool       `query:"queued" doc:"Only queued calls that may still run: those that wait, for a person too, and those that run."`
	Dead   bool       `query:"dead" doc:"Only queued calls that came to nothing: failed, denied or expired while they waited, or of unknown outcome with no attempt left."`
	Before string     `query:"before" maxLength:"64" doc:"The next of an earlier page."`
	Limit  int        `query:"limit" minimum:"1" maximum:"500" default:"50"`
}

type callsOutput struct {
	Body struct {
		Calls []CallView    `json:"calls" nullable:"false" doc:"Newest first."`
		Next  record.CallID `json:"next,omitempty" doc:"Send it as before for the next page."`
	}
}

func (d *door) listCalls(ctx context.Context, in *listCallsInput) (*callsOutput, error) {
	v := watcher(ctx)
	if v.person.Valid() {
		return nil, d.refusal(approversOnly())
	}
	q := dispatch.CallQuery{Tenant: v.tenant(), Owner: v.owner(), Run: record.RunID(in.Run), Queued: in.Queued, Dead: in.Dead, Before: record.CallID(in.Before), Limit: in.Limit}
	if in.State != "" {
		q.States = []record.State{record.State(in.State)}
	}
	calls, err := d.reader.Calls(ctx, q)
	if err != nil {
		return nil, d.refusal(err)
	}
	out := &callsOutput{}
	out.Body.Calls = []CallView{}
	for _, c := range calls {
		out.Body.Calls = append(out.Body.Calls, d.callView(c, v))
	}
	if len(calls) == in.Limit {
		out.Body.Next = calls[len(calls)-1].ID
	}
	return out, nil
}

// ShownCall is a call with what a model may be told of it.
type ShownCall struct {
	CallView
	Text   string          `json:"text,omitempty" doc:"What a model may be told; only for the caller."`
	Result json.RawMessage `json:"result,omitempty" doc:"The recorded result, byte for byte; only for the caller."`

	Version string `json:"version" doc:"Differs when the call or its question has moved. Send it back with wait."`
}

// apart keeps the result away from the encoder.
func (s ShownCall) apart() (any, string, json.RawMessage) {
	raw := s.Result
	s.Result = nil
	return s, "result", raw
}

type showCallOutput struct{ Body ShownCall }

type showCallInput struct {
	CallPath
	WaitQuery
}

func (d *door) showCall(ctx context.Context, in *showCallInput) (*showCallOutput, error) {
	v, id := watcher(ctx), record.CallID(in.ID)
	if !record.ValidID("call", in.ID) {
		return nil, d.refusal(absent("call"))
	}
	out, err := d.shownCall(ctx, v, id)
	if err != nil || in.Wait == 0 {
		return out, err
	}
	w, leave, err := d.listen(ctx, v, id)
	if err != nil {
		return nil, err
	}
	defer leave()
	was := cmp.Or(in.Version, out.Body.Version)
	if out, err = d.shownCall(ctx, v, id); err != nil || out.Body.Version != was {
		return out, err
	}
	v, err = d.poll(ctx, v, w, in.Wait, func([]feed.Item) bool {
		out, err = d.shownCall(context.WithoutCancel(ctx), v, id)
		return err != nil || out.Body.Version != was
	})
	if err != nil {
		return nil, err
	}
	return d.shownCall(context.WithoutCancel(ctx), v, id)
}

func (d *door) shownCall(ctx context.Context, v viewer, id record.CallID) (*showCallOutput, error) {
	if v.caller.Valid() {
		a, err := d.boundary.Show(ctx, v.caller, id)
		if err == nil && a.Call == nil {
			err = absent("call")
		}
		if err != nil {
			return nil, d.refusal(hidden(err, "call"))
		}
		return &showCallOutput{Body: ShownCall{CallView: d.callView(*a.Call, v), Text: a.Text(), Result: a.Result,
			Version: question.Version(dispatch.Loaded{Call: *a.Call, Approval: a.Approval})}}, nil
	}
	l, err := d.reader.Call(ctx, v.tenant(), id)
	if err == nil && !v.sees(l) {
		err = absent("call")
	}
	if err != nil {
		return nil, d.refusal(hidden(err, "call"))
	}
	return &showCallOutput{Body: ShownCall{CallView: d.callView(l.Call, v), Version: question.Version(l)}}, nil
}
