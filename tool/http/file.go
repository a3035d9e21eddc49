package http

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/placet-dev/placet/mcphttp"
	"github.com/placet-dev/placet/yamlfile"
)

// File is the shape of a file of operations.
type File struct {
	Version    int                         `yaml:"version,required" doc:"Version of this file's format: 1."`
	Base       string                      `yaml:"base,required" doc:"Where the service is: https, a host and perhaps a path."`
	Networks   []netip.Prefix              `yaml:"networks" doc:"Private networks that may be reached; without it, public addresses only."`
	Operations yamlfile.Entries[Operation] `yaml:"operations,required" doc:"Each is a tool of the server, by its name there."`
}

// Operation is one request that may be made.
type Operation struct {
	Description       string                      `yaml:"description,required" doc:"What it does, for the model."`
	Method            Method                      `yaml:"method,required" doc:"HTTP method."`
	Path              string                      `yaml:"path,required" doc:"Path below base; {name} stands for the path parameter of that name."`
	Parameters        yamlfile.Entries[Parameter] `yaml:"parameters" doc:"What the caller gives, by name."`
	Headers           yamlfile.Entries[string]    `yaml:"headers" doc:"Headers with fixed values, in which {tenant} and {principal} stand for the caller's."`
	IdempotencyHeader string                      `yaml:"idempotency_header" doc:"Header that carries the call's idempotency key."`
	Result            []string                    `yaml:"result" doc:"Fields of the answer that come back, with dots into objects and arrays; without it, the status alone."`
}

// Parameter is one value that the caller gives.
type Parameter struct {
	In          Where    `yaml:"in,required" doc:"Where it goes."`
	Type        Type     `yaml:"type" default:"string" doc:"What it is."`
	Pattern     string   `yaml:"pattern" doc:"RE2 that the whole text must match."`
	MaxLength   int      `yaml:"max_length" default:"256" doc:"Most characters of a text."`
	Minimum     Number   `yaml:"minimum" doc:"Smallest number. Default: what a double holds exactly."`
	Maximum     Number   `yaml:"maximum" doc:"Largest number. Default: what a double holds exactly."`
	Enum        []string `yaml:"enum" doc:"The texts that it may be."`
	Optional    bool     `yaml:"optional" doc:"It may be left out."`
	Description string   `yaml:"description" doc:"What it means, for the model."`
}

// Method is an HTTP method that an operation may have.
type Method string

// Choices implements yamlfile.Choice.
func (Method) Choices() []string { return []string{"GET", "POST", "PUT", "PATCH", "DELETE"} }

// hasBody reports whether a request of this method carries one (RFC 9110, section 9.3).
func (m Method) hasBody() bool { return m == "POST" || m == "PUT" || m == "PATCH" }

// Where is the part of a request that a parameter goes to.
type Where string

const (
	inPath   Where = "path"
	inQuery  Where = "query"
	inHeader Where = "header"
	inBody   Where = "body"
)

// Choices implements yamlfile.Choice.
func (Where) Choices() []string { return []string{"path", "query", "header", "body"} }

// Type is what a parameter's value is.
type Type string

// Choices implements yamlfile.Choice.
func (Type) Choices() []string { return []string{"string", "integer", "number", "boolean"} }

func (t Type) isNumber() bool { return t == "integer" || t == "number" }

// Number is a bound, with the characters of the file.
type Number string

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *Number) UnmarshalText(text []byte) error {
	if !regexp.MustCompile(`^-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,9})?$`).Match(text) {
		return errors.New("wants a number such as -5 or 99.50")
	}
	*n = Number(text)
	return nil
}

// YAMLNumber lets a file write it without quotes.
func (*Number) YAMLNumber() {}

var (
	operationName = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,63}$`)
	parameterName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)
	fieldName     = regexp.MustCompile(`^[^.\s]+(\.[^.\s]+)*$`)
)

// Check holds the rules of the file as a whole.
func (f *File) Check(fail func(key, message string)) {
	if f.Version != 1 {
		fail("version", "is not known to this program; it reads version 1")
	}
	if _, err := f.base(); err != nil {
		fail("base", err.Error())
	}
	if len(f.Operations) == 0 {
		fail("operations", "names no operation")
	}
	for _, o := range f.Operations {
		if !operationName.MatchString(o.Key) {
			fail("operations."+o.Key, "an operation's name is lower-case letters, digits and _ . -, and starts with a letter")
		}
	}
}

// base reads the address of the service. Plain HTTP can be read and changed by
// anyone on the way, so it stays within declared networks.
func (f *File) base() (*url.URL, error) {
	u, err := url.Parse(f.Base)
	switch {
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "", u.Opaque != "", u.User != nil, strings.ContainsAny(f.Base, "?#"):
		return nil, errors.New("wants an https URL with a host, and without user, query or fragment")
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	if segments, err := parsePath(u.EscapedPath() + "/"); err != nil || slices.ContainsFunc(segments, func(s segment) bool { return s.parameter != "" }) {
		return nil, errors.New("has a path that is not plain")
	}
	if u.Scheme == "http" {
		a, err := netip.ParseAddr(u.Hostname())
		if named := err != nil; named && len(f.Networks) == 0 || !named && !within(a, f.Networks) {
			return nil, errors.New("is plain HTTP, which may only reach the networks that networks names")
		}
	}
	return u, nil
}

func within(a netip.Addr, networks []netip.Prefix) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(a.Unmap()) })
}

// Check holds the rules of one operation.
func (o *Operation) Check(fail func(key, message string)) {
	segments, err := parsePath(o.Path)
	if err != nil {
		fail("path", err.Error())
	}
	o.checkPlaces(segments, fail)
	o.checkHeaders(fail)
	if _, err := fieldsOf(o.Result); err != nil {
		fail("result", err.Error())
	}
}

func (o *Operation) checkPlaces(segments []segment, fail func(key, message string)) {
	inTemplate := map[string]bool{}
	for _, s := range segments {
		if inTemplate[s.parameter] && s.parameter != "" {
			fail("path", "names a parameter twice")
		}
		inTemplate[s.parameter] = true
	}
	for _, p := range o.Parameters {
		key := "parameters." + p.Key
		switch {
		case !parameterName.MatchString(p.Key):
			fail(key, "a parameter's name is letters, digits and _ . -, and starts with a letter")
		case (p.Value.In == inPath) != inTemplate[p.Key]:
			fail(key, "a parameter with in: path stands in the path as {"+p.Key+"}, and no other does")
		case p.Value.In == inBody && !o.Method.hasBody():
			fail(key, "a "+string(o.Method)+" has no body")
		}
		delete(inTemplate, p.Key)
	}
	for name := range inTemplate {
		if name != "" {
			fail("path", "names {"+name+"}, which is no parameter")
		}
	}
}

// checkHeaders refuses a header that has two sources, or that is not the file's to set.
func (o *Operation) checkHeaders(fail func(key, message string)) {
	seen := map[string]bool{}
	take := func(key, name string) {
		lower := strings.ToLower(name)
		switch {
		case !mcphttp.IsToken(name) || len(name) > 64:
			fail(key, "is not the name of a header")
		case reserved(lower):
			fail(key, "is a header that Placet or the connection sets; a secret belongs in a credential profile")
		case seen[lower]:
			fail(key, "is a header that is given twice")
		}
		seen[lower] = true
	}
	for _, h := range o.Headers {
		take("headers."+h.Key, h.Key)
		if plain := callers.Replace(h.Value); !sendable(plain) || strings.ContainsAny(plain, "{}") {
			fail("headers."+h.Key, "wants plain visible characters, and knows {tenant} and {principal} only")
		}
	}
	if o.IdempotencyHeader != "" {
		take("idempotency_header", o.IdempotencyHeader)
	}
	for _, p := range o.Parameters {
		if p.Value.In == inHeader {
			take("parameters."+p.Key, p.Key)
		}
	}
}

// callers are the placeholders of headers, with something that stands for each.
var callers = strings.NewReplacer("{tenant}", "t", "{principal}", "p")

// reserved lists the headers, in lower case, that say how the message is framed,
// who sends it and on whose behalf, or that some servers take for another method,
// host or path.
func reserved(name string) bool {
	if strings.HasPrefix(name, "x-forwarded-") || strings.HasPrefix(name, "proxy-") || strings.HasPrefix(name, "placet-") {
		return true
	}
	switch name {
	case "host", "content-length", "content-type", "content-encoding", "transfer-encoding", "connection", "keep-alive", "te", "trailer",
		"upgrade", "expect", "accept", "accept-encoding", "authorization", "cookie", "forwarded", "via", "x-real-ip", "x-http-method",
		"x-http-method-override", "x-method-override", "x-original-url", "x-original-host", "x-rewrite-url":
		return true
	}
	return false
}

// Check holds the rules of one parameter.
func (p *Parameter) Check(fail func(key, message string)) {
	if _, err := regexp.Compile(p.Pattern); err != nil {
		fail("pattern", "is no RE2 pattern")
	}
	if p.Type != "string" && (p.Pattern != "" || len(p.Enum) > 0) {
		fail("type", "pattern and enum are for texts")
	}
	if !p.Type.isNumber() && p.Minimum+p.Maximum != "" {
		fail("type", "minimum and maximum are for numbers")
	}
	if p.Type.isNumber() && compare(p.lowest(), p.highest()) > 0 {
		fail("minimum", "is above the maximum")
	}
	if p.Type == "integer" && strings.Contains(string(p.Minimum+p.Maximum), ".") {
		fail("type", "an integer has whole bounds")
	}
	if p.In == inPath && p.Optional {
		fail("optional", "cannot be said of a part of the path")
	}
	if most := p.most(); p.MaxLength < 1 || p.MaxLength > most {
		fail("max_length", fmt.Sprintf("wants 1 to %d here", most))
	}
}

// most is the longest text that a place takes.
func (p *Parameter) most() int {
	if p.In == inBody {
		return 1 << 20
	}
	return 1024
}

// Parse reads a file of operations. name is what problems call it.
func Parse(name string, text []byte) (*File, error) {
	var f File
	if ps := yamlfile.Decode(name, text, &f); len(ps) > 0 {
		return nil, ps
	}
	return &f, nil
}
