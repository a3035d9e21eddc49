package http

import (
	"context"
	"fmt"
	nethttp "net/http"
	"net/url"
	"strings"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
)

// refused is an error that the caller may read, of a request that was not made. It
// holds no value.
type refused struct{ text string }

func (r refused) Error() string { return r.text }

func refuse(format string, args ...any) error { return refused{fmt.Sprintf(format, args...)} }

// filled is a request before it has somewhere to go: each argument in its place.
type filled struct {
	path, sentPath string
	query          url.Values
	header         nethttp.Header
	body           []byte // nil: none
}

// fill puts the canonical arguments into their places. An argument that was not
// declared, and a declared one that is missing, are refused: the schema has done
// so already, and here it fails closed.
func (o *operation) fill(arguments []byte) (filled, error) {
	out := filled{query: url.Values{}, header: nethttp.Header{}}
	paths, body, hasBody := map[string]string{}, []byte{'{'}, false
	given := map[string]bool{}
	for name, value := range canon.Members(arguments) {
		p, declared := o.parameters[name]
		text, scalar := textOf(value)
		if !declared || !scalar {
			return out, refuse("the argument %s is not one that this operation takes", name)
		}
		given[name] = true
		switch p.In {
		case inPath:
			paths[name] = text
		case inQuery:
			out.query.Set(name, text)
		case inHeader:
			if !sendable(text) {
				return out, refuse("the argument %s cannot stand in a header: it wants visible ASCII characters, without spaces around them", name)
			}
			out.header[nethttp.CanonicalHeaderKey(name)] = []string{text}
		case inBody:
			body = append(append(append(canon.AppendText(body, name), ':'), value...), ',')
		}
	}
	for _, p := range o.Parameters {
		hasBody = hasBody || p.Value.In == inBody
		if !p.Value.Optional && !given[p.Key] {
			return out, refuse("the argument %s is missing", p.Key)
		}
	}
	if hasBody {
		if body[len(body)-1] == ',' {
			body = body[:len(body)-1]
		}
		out.body = append(body, '}')
	}
	var err error
	out.path, out.sentPath, err = fill(o.segments, func(name string) (string, error) { return paths[name], nil })
	return out, err
}

// textOf is a scalar as it stands in a path, query or header.
func textOf(value []byte) (string, bool) {
	if len(value) == 0 {
		return "", false
	}
	switch value[0] {
	case '"':
		return canon.Text(value)
	case '{', '[', 'n':
		return "", false
	}
	return string(value), true
}

// sendable reports whether a text arrives as it is in a header's value: visible
// ASCII and spaces between (RFC 9110, section 5.5).
func sendable(text string) bool {
	for i := range len(text) {
		if text[i] < 0x20 || text[i] > 0x7e {
			return false
		}
	}
	return text != "" && strings.TrimSpace(text) == text
}

// request is the HTTP request of one call, without its credential.
func (o *operation) request(ctx context.Context, w dispatch.Work, version string) (*nethttp.Request, []byte, error) {
	f, err := o.fill(w.Arguments)
	if err != nil {
		return nil, nil, err
	}
	u := *o.base
	u.Path, u.RawPath, u.RawQuery = o.base.Path+f.path, o.base.EscapedPath()+f.sentPath, f.query.Encode()
	if u.EscapedPath() != o.base.EscapedPath()+f.sentPath {
		return nil, nil, refuse("the arguments cannot stand in the path")
	}
	h := f.header
	for _, e := range o.Headers {
		value := strings.NewReplacer("{tenant}", string(w.Owner.Tenant), "{principal}", w.Owner.Principal.String()).Replace(e.Value)
		if !sendable(value) {
			return nil, nil, refuse("the caller's identity cannot stand in the header %s", e.Key)
		}
		h[nethttp.CanonicalHeaderKey(e.Key)] = []string{value}
	}
	if o.IdempotencyHeader != "" && w.Key != "" {
		h[nethttp.CanonicalHeaderKey(o.IdempotencyHeader)] = []string{w.Key}
	}
	h["Accept"] = []string{"application/json"}
	if h.Get("User-Agent") == "" {
		h["User-Agent"] = []string{"placet/" + version}
	}
	if f.body != nil {
		h["Content-Type"] = []string{"application/json"}
	}
	req := &nethttp.Request{Method: string(o.Method), URL: &u, Host: u.Host, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	return req.WithContext(ctx), f.body, nil
}
