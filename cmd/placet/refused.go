package main

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/record"
)

// refused is a problem that the server answered with (RFC 9457).
type refused struct{ api.Problem }

func (r *refused) Error() string { return r.Detail }

func trimURL(u string) string { return strings.TrimSuffix(u, "/") }

// unreachable leaves out what url.Error quotes of the request.
func unreachable(method, base string, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var dial *net.OpError
	if method == http.MethodPost && !(errors.As(err, &dial) && dial.Op == "dial") {
		return record.Because(record.Unavailable, err, "%s gave no answer; what was asked may have happened, so look before you ask again", base)
	}
	return record.Because(record.Unavailable, err, "%s does not answer; is the server running", base)
}

// problemOf reads a refusal.
func problemOf(base string, res *http.Response) error {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	r := &refused{}
	if err != nil || kind != "application/problem+json" || json.Unmarshal(text, &r.Problem) != nil || r.Detail == "" {
		return record.Errorf(record.Unavailable, "%s answers with status %d and no reason; is it a Placet server", base, res.StatusCode)
	}
	return r
}

// exit is the exit code of a refusal: that of its kind, or that of a denial.
func (r *refused) exit() int {
	if r.Verdict != "" {
		return exitNo
	}
	if slices.Contains(record.Kinds(), record.Kind(r.Code)) {
		return record.SurfaceOf(record.Kind(r.Code)).Exit
	}
	for _, k := range record.Kinds() {
		if record.SurfaceOf(k).HTTP == r.Status {
			return record.SurfaceOf(k).Exit
		}
	}
	return record.SurfaceOf(record.Invalid).Exit
}
