package mcp

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/placet-dev/placet/canon"
)

// stateless is the first revision without sessions. Revisions are dates and sort
// as text.
const stateless = "2026-07-28"

const (
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	headerParam   = "Mcp-Param-"
	headerSession = "Mcp-Session-Id"
)

// modern reports whether a message belongs to the stateless era: its header or
// its body says so. When they differ, agree refuses it.
func modern(h http.Header, m meta) bool {
	return h.Get(headerVersion) >= stateless || m.version >= stateless
}

// agree checks that headers and body of a modern message say the same. What
// routes, filters or counts by header must not be led to see another call than
// the one that is decided (MCP 2026-07-28, Streamable HTTP, "Standard headers").
func agree(h http.Header, m message, mt meta) *refusal {
	for _, name := range []string{headerVersion, headerMethod, headerName} {
		if len(h.Values(name)) > 1 {
			return mismatch("%s occurs more than once", name)
		}
	}
	if f := agreeOnVersion(h, m, mt); f != nil {
		return f
	}
	switch got := h.Get(headerMethod); {
	case got == "":
		return mismatch("missing required %s header", headerMethod)
	case got != m.method:
		return mismatch("the %s header differs from the method in the body", headerMethod)
	}
	member := map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}[m.method]
	if member == "" {
		return nil
	}
	raw, _ := canon.Lookup(m.params, member)
	want, ok := canon.Text(raw)
	if !ok {
		return refuse(codeInvalidParams, "%s must be text", member)
	}
	got, ok := headerText(h.Get(headerName))
	switch {
	case h.Get(headerName) == "":
		return mismatch("missing required %s header", headerName)
	case !ok || got != want:
		return mismatch("the %s header differs from %s in the body", headerName, member)
	}
	return nil
}

func agreeOnVersion(h http.Header, m message, mt meta) *refusal {
	header := h.Get(headerVersion)
	if m.id == nil && mt.version == "" {
		return nil // _meta is optional on notifications
	}
	switch {
	case header == "":
		return mismatch("missing required %s header", headerVersion)
	case mt.version == "":
		return refuse(codeInvalidParams, "missing or invalid _meta field %q", metaVersion)
	case header != mt.version:
		return mismatch("the %s header differs from the version in the body", headerVersion)
	case mt.version != stateless:
		f := refuse(codeUnsupportedVersion, "unsupported protocol version")
		f.data = struct {
			Supported []string `json:"supported"`
			Requested string   `json:"requested"`
		}{sdk.SupportedProtocolVersions(), mt.version}
		return f
	case mt.capabilities == nil && m.id != nil:
		return refuse(codeInvalidParams, "missing or invalid _meta field %q", metaCapabilities)
	}
	return nil
}

func mismatch(format string, args ...any) *refusal {
	return refuse(codeHeaderMismatch, "header mismatch: "+format, args...)
}

const (
	base64Open  = "=?base64?"
	base64Close = "?="
)

// headerText undoes the base64 form in which headers carry what is not plain ASCII.
func headerText(value string) (string, bool) {
	inner, opened := strings.CutPrefix(value, base64Open)
	inner, closed := strings.CutSuffix(inner, base64Close)
	if !opened || !closed {
		return value, true
	}
	text, err := base64.StdEncoding.Strict().DecodeString(inner)
	return string(text), err == nil
}

// mirrored is an argument that the tool's schema mirrors into a header.
type mirrored struct {
	path   []string
	header string
}

// agreeOnParams checks the headers that mirror arguments.
func agreeOnParams(h http.Header, schema, arguments []byte) *refusal {
	for _, m := range mirroredIn(schema, nil, 0) {
		values := h.Values(headerParam + m.header)
		arg, given := argument(arguments, m.path)
		switch {
		case len(values) > 1:
			return mismatch("%s occurs more than once", headerParam+m.header)
		case !given && len(values) == 0:
			continue
		case !given:
			return mismatch("%s stands for an argument that is not there", headerParam+m.header)
		case len(values) == 0:
			return mismatch("missing required %s header", headerParam+m.header)
		}
		text, ok := headerText(values[0])
		if !ok || !sameValue(text, arg) {
			return mismatch("%s differs from the argument in the body", headerParam+m.header)
		}
	}
	return nil
}

// mirroredIn collects x-mcp-header annotations of nested properties. The schema
// is pinned and was bounded when it was.
func mirroredIn(schema []byte, path []string, depth int) []mirrored {
	if depth > 16 || !strings.Contains(string(schema), "x-mcp-header") {
		return nil
	}
	schema, _, err := canon.Object(schema, canon.Limits{})
	if err != nil {
		return nil
	}
	return collect(schema, path, depth)
}

func collect(schema []byte, path []string, depth int) []mirrored {
	if depth > 16 {
		return nil
	}
	properties, ok := canon.Lookup(schema, "properties")
	if !ok || properties[0] != '{' {
		return nil
	}
	var out []mirrored
	for name, property := range canon.Members(properties) {
		if property[0] != '{' {
			continue
		}
		here := append(path[:len(path):len(path)], name)
		raw, _ := canon.Lookup(property, "x-mcp-header")
		if header, ok := canon.Text(raw); ok && header != "" {
			out = append(out, mirrored{here, header})
		}
		out = append(out, collect(property, here, depth+1)...)
	}
	return out
}

// argument follows a path; null counts as absent.
func argument(arguments []byte, path []string) ([]byte, bool) {
	v := arguments
	for _, name := range path {
		var ok bool
		if len(v) == 0 || v[0] != '{' {
			return nil, false
		}
		if v, ok = canon.Lookup(v, name); !ok {
			return nil, false
		}
	}
	return v, string(v) != "null"
}

// sameValue compares a header's text with a canonical JSON primitive.
func sameValue(text string, v []byte) bool {
	if s, ok := canon.Text(v); ok {
		return text == s
	}
	if string(v) == "true" || string(v) == "false" {
		return text == string(v)
	}
	if !integer(v) {
		return false
	}
	want, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		return false
	}
	got, err := strconv.ParseFloat(text, 64)
	return err == nil && got == float64(want) && int64(got) == want
}
