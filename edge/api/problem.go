package api

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/danielgtaylor/huma/v2"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// problemBase is put before a code to make a problem's type.
const problemBase = "https://placet.dev/problems/"

// doorName is this door's name in addresses.
const doorName = "v1"

// Problem is a refusal after RFC 9457. For a denial, Detail is the text that a
// model reads, and the members from Verdict on are what programs read.
type Problem struct {
	Type       string         `json:"type" doc:"https://placet.dev/problems/ and the code."`
	Title      string         `json:"title" doc:"The same for every problem of this status."`
	Status     int            `json:"status" doc:"The HTTP status."`
	Detail     string         `json:"detail" doc:"What is wrong, whether anything ran, and what to do. Holds no value of the request."`
	Code       string         `json:"code" doc:"A kind of error (docs/errors.md), or the code of a denial."`
	Verdict    record.Verdict `json:"verdict,omitempty" doc:"For a decided call: deny."`
	State      record.State   `json:"state,omitempty" doc:"The call's state."`
	Call       record.CallID  `json:"call,omitempty" doc:"The call, where there is one."`
	RetryAfter *time.Time     `json:"retry_after,omitempty" doc:"When asking again may help; the Retry-After header says it in seconds."`
	Errors     []Misfit       `json:"errors,omitempty" nullable:"false" doc:"What does not fit, for an invalid request."`

	headers http.Header
}

// Misfit is one thing in a request that does not fit.
type Misfit struct {
	Location string `json:"location" doc:"Such as body.tool or query.limit."`
	Message  string `json:"message" doc:"Which rule it breaks."`
}

func (p *Problem) Error() string           { return p.Detail }
func (p *Problem) GetStatus() int          { return p.Status }
func (p *Problem) GetHeaders() http.Header { return p.headers }

// ContentType is asked by huma.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

func problem(status int, code, detail string) *Problem {
	return &Problem{Type: problemBase + code, Title: http.StatusText(status), Status: status, Detail: detail, Code: code, headers: http.Header{}}
}

func (p *Problem) header(name, value string) *Problem {
	p.headers.Set(name, value)
	return p
}

// refusal turns an error into a problem. Its cause goes to the log and no further.
func (d *door) refusal(err error) error {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	kind := record.KindOf(err)
	status := record.SurfaceOf(kind).HTTP
	if kind == record.Internal || kind == record.Unavailable {
		d.log.Error("request failed", "kind", string(kind), "error", err)
	}
	p = problem(status, string(kind), record.PublicMessage(err))
	if lack, ok := identity.LackOf(err); ok {
		p.header("WWW-Authenticate", d.oauth.Insufficient(doorName, string(lack.Permission), "a permission of this server, which its operator gives"))
	}
	switch kind {
	case record.Unauthenticated:
		p.header("WWW-Authenticate", d.challenge(err))
	case record.Limited, record.Unavailable:
		p.header("Retry-After", "1")
	}
	return p
}

// absent is what a missing object answers, and somebody else's (rule I3). The
// text is ours alone, so that no store and no check can make a difference.
func absent(what string) error {
	return record.Errorf(record.NotFound, "there is no such %s, or it is not yours", what)
}

// hidden passes an error on, with every not-found made the same.
func hidden(err error, what string) error {
	if err != nil && record.KindOf(err) == record.NotFound {
		return absent(what)
	}
	return err
}

// invalid refuses one part of a request.
func invalid(location, format string, args ...any) error {
	p := problem(http.StatusBadRequest, string(record.Invalid), "the request does not fit; see errors")
	p.Errors = []Misfit{{Location: location, Message: fmt.Sprintf(format, args...)}}
	return p
}

// transform makes huma's own errors ours. They hold the values they complain of
// and list statuses that our table of kinds does not have.
func transform(_ huma.Context, status string, v any) (any, error) {
	e, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	given, err := strconv.Atoi(status)
	if err != nil {
		given = e.Status
	}
	code, detail := meaning(given)
	p := problem(statusOf(given), code, detail)
	for _, part := range e.Errors {
		if part != nil && len(p.Errors) < maxMisfits && given < 500 {
			p.Errors = append(p.Errors, Misfit{Location: clean(part.Location), Message: clean(part.Message)})
		}
	}
	return p, nil
}

const maxMisfits = 10

// statusOf folds huma's statuses into those of the table of kinds.
func statusOf(given int) int {
	switch given {
	case http.StatusUnprocessableEntity, http.StatusRequestTimeout:
		return http.StatusBadRequest
	default:
		return given
	}
}

func meaning(status int) (code, detail string) {
	switch status {
	case http.StatusRequestEntityTooLarge:
		return string(record.TooLarge), "the body is larger than this server accepts"
	case http.StatusUnsupportedMediaType:
		return "unsupported_media_type", "the body must be application/json"
	case http.StatusNotAcceptable:
		return "not_acceptable", "this server answers with application/json only"
	case http.StatusRequestTimeout:
		return string(record.Invalid), "the body did not arrive in time"
	}
	if status >= 500 {
		return string(record.Internal), record.PublicMessage(errors.New(""))
	}
	return string(record.Invalid), "the request does not fit; see errors"
}

// clean makes a text that may hold names from the request fit to be shown.
func clean(s string) string {
	n := 0
	return strings.Map(func(r rune) rune {
		if n++; n > 200 {
			return -1
		}
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}
