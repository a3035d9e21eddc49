package api

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// Answer is what the boundary says of a call that was not refused.
type Answer struct {
	Verdict    record.Verdict    `json:"verdict"`
	State      record.State      `json:"state"`
	Code       record.Code       `json:"code" doc:"Empty when nothing needs saying; already_done: the recorded result."`
	Call       record.CallID     `json:"call"`
	Run        record.RunID      `json:"run,omitempty"`
	Approval   record.ApprovalID `json:"approval,omitempty" doc:"The open question."`
	Ran        bool              `json:"ran" doc:"This request reached the tool, or may have."`
	IsError    bool              `json:"is_error" doc:"The tool's own flag on its result."`
	Text       string            `json:"text" doc:"What a model may be told."`
	RetryAfter *time.Time        `json:"retry_after,omitempty" doc:"When asking again may help."`
	Expires    *time.Time        `json:"expires_at,omitempty"`
	Lease      *LeaseView        `json:"lease,omitempty" doc:"With leased: what you run yourself. It is told once."`
	Result     json.RawMessage   `json:"result,omitempty" doc:"The tool's result, byte for byte."`
}

// answerOutput is an [Answer] with its status.
type answerOutput struct {
	Status int
	Body   Answer
}

// apart keeps the result away from the encoder.
func (a Answer) apart() (any, string, json.RawMessage) {
	raw := a.Result
	a.Result = nil
	return a, "result", raw
}

// surface says how an answer leaves, by the call's code and verdict. docs/errors.md
// is checked against it.
//
// A denial is a 403: the request was understood and refused, and sending it again
// changes nothing. What may change by waiting is 429 or 503, what the caller wrote
// wrongly is 400, and what has ended is 409. A question and an open outcome are
// 202: accepted, and not finished.
func surface(verdict record.Verdict, code record.Code, retry, result bool) int {
	switch code {
	case record.CodeRateLimited, record.CodeHeld:
		return http.StatusTooManyRequests
	case record.CodeLimitReached:
		if retry {
			return http.StatusTooManyRequests
		}
		return http.StatusForbidden
	case record.CodeCannotDecide:
		return http.StatusServiceUnavailable
	case record.CodeInvalidArguments:
		return http.StatusBadRequest
	case record.CodeExpired, record.CodeCanceled, record.CodeRunEnded:
		return http.StatusConflict
	case record.CodeRevoked:
		return http.StatusForbidden
	case record.CodeOutcomeUnknown, record.CodeInProgress:
		return http.StatusAccepted
	case record.CodeFailed:
		if result {
			return http.StatusOK
		}
		return http.StatusBadGateway
	}
	switch {
	case verdict == record.Allow && code == record.CodeQueued:
		return http.StatusAccepted
	case verdict == record.Allow:
		return http.StatusOK
	case verdict == record.RequiresApproval:
		return http.StatusAccepted
	default:
		return http.StatusForbidden
	}
}

// answered turns the boundary's answer into a body, or into a problem.
func (d *door) answered(a dispatch.Answer, err error) (*answerOutput, error) {
	if err != nil {
		return nil, d.refusal(hidden(err, "call"))
	}
	status := surface(a.Verdict, a.Code, !a.Retry.IsZero(), len(a.Result) > 0)
	if status >= 400 {
		return nil, d.denial(a, status)
	}
	return &answerOutput{Status: status, Body: d.describe(a)}, nil
}

func (d *door) describe(a dispatch.Answer) Answer {
	b := Answer{Verdict: a.Verdict, State: a.State(), Code: a.Code, Ran: a.Ran, IsError: a.IsError,
		Text: a.Text(), RetryAfter: later(a.Retry), Lease: leaseView(a.Lease), Result: a.Result}
	if a.Call != nil {
		b.Call, b.Run = a.Call.ID, a.Call.Run
		if !a.Call.State.Terminal() {
			b.Expires = later(a.Call.Expires)
		}
	}
	if a.Approval != nil {
		b.Approval = a.Approval.ID
	}
	return b
}

// denial is the problem whose detail is the model's text.
func (d *door) denial(a dispatch.Answer, status int) *Problem {
	p := problem(status, string(a.Code), a.Text())
	p.Verdict, p.State = a.Verdict, a.State()
	if a.Call != nil {
		p.Call = a.Call.ID
	}
	p.RetryAfter = later(a.Retry)
	switch wait := d.seconds(a.Retry); {
	case wait > 0:
		p.header("Retry-After", strconv.FormatInt(wait, 10))
	case status == http.StatusServiceUnavailable:
		p.header("Retry-After", "60") // what its text says
	}
	if a.Code == record.CodeMissingScope {
		p.header("WWW-Authenticate", d.oauth.Insufficient(doorName, a.Scope, ""))
	}
	return p
}

// seconds until t, rounded up; 0 when t is not set or past.
func (d *door) seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	wait := t.Sub(d.now())
	if wait <= 0 {
		return 0
	}
	return int64((wait + time.Second - 1) / time.Second)
}
