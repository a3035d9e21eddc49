package mcp

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// withoutResult is the answer to a call that brought none: one text for the
// model, and the decision for programs. There is no structuredContent: clients
// would check it against the tool's own output schema.
func withoutResult(a dispatch.Answer) []byte {
	decision := a.Meta()
	return errorText(a.Text(), &decision)
}

// toolText is the answer where the boundary was not asked.
func toolText(text string) []byte { return errorText(text, nil) }

// insteadText answers with another text than the boundary's.
func insteadText(text string, a dispatch.Answer) []byte {
	decision := a.Meta()
	return errorText(text, &decision)
}

func errorText(text string, decision *dispatch.Meta) []byte {
	type content struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	type result struct {
		Type    string                    `json:"resultType"`
		Content []content                 `json:"content"`
		IsError bool                      `json:"isError"`
		Meta    map[string]*dispatch.Meta `json:"_meta,omitempty"`
	}
	r := result{"complete", []content{{"text", text}}, true, nil}
	if decision != nil {
		r.Meta = map[string]*dispatch.Meta{metaDecision: decision}
	}
	out, err := json.Marshal(r)
	if err != nil { // the decision is strings and numbers; without it the text still says all
		r.Meta = nil
		out, _ = json.Marshal(r)
	}
	return out
}

// result hands a tool's result on, byte for byte, with these exceptions: the
// resultType that older servers leave out is added, a _meta that speaks in our
// name is dropped, a result taken from the record says so, and a tool's question
// goes through [Handler.passQuestion].
func (h *Handler) result(x *request, c call, a dispatch.Answer) ([]byte, *refusal) {
	members, ok := readResult(a.Result)
	if !ok {
		return insteadText("The tool ran and its answer cannot be read. Do not repeat the call; tell the user that its result is missing.", a), nil
	}
	if whole, ok := asToolResult(members); ok { // a held call that is no tool's, continued by the built-in tool
		members, a.Result = whole, whole.encode()
	}
	kind := "complete"
	if i := members.index("resultType"); i >= 0 {
		var text string
		if json.Unmarshal(members[i].value, &text) == nil {
			kind = text
		}
	} else if x.modern {
		return h.resultOf(x, c, a, kind, members, withType(a.Result))
	}
	return h.resultOf(x, c, a, kind, members, a.Result)
}

func (h *Handler) resultOf(x *request, c call, a dispatch.Answer, kind string, members members, raw []byte) ([]byte, *refusal) {
	switch {
	case kind == "input_required" && !x.modern:
		return insteadText("Denied: this tool asks for further input, which this client's protocol revision cannot carry. Nothing ran. Tell the user.", a), nil
	case kind == "input_required":
		return h.passQuestion(x, c, a, members)
	case a.Code == record.CodeAlreadyDone, a.Code == record.CodeOutcomeUnknown:
		return noted(members, a, x.modern), nil
	case members.speaksForUs():
		if members.index("resultType") < 0 && x.modern {
			members = members.with("resultType", []byte(`"complete"`))
		}
		return members.without("_meta").encode(), nil
	}
	return raw, nil
}

// withType adds the resultType that a result of an older server lacks.
func withType(raw []byte) []byte {
	open := bytes.IndexByte(raw, '{') + 1
	rest := raw[open:]
	const kind = `"resultType":"complete"`
	out := make([]byte, 0, len(raw)+len(kind)+1)
	out = append(append(out, raw[:open]...), kind...)
	if !bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte("}")) {
		out = append(out, ',')
	}
	return append(out, rest...)
}

// noted adds what the tool cannot know: that its result is the recorded one and
// nothing ran again (rule A7), or that its error leaves the effect unknown
// (rule E1). The model reads it before the tool's own text, programs in _meta.
func noted(m members, a dispatch.Answer, modern bool) []byte {
	note := append(append([]byte(`{"type":"text","text":`), quote(a.Text())...), '}')
	content := append([]byte{'['}, note...)
	if i := m.index("content"); i >= 0 && m[i].value[0] == '[' {
		if inner := bytes.TrimSpace(m[i].value[1 : len(m[i].value)-1]); len(inner) > 0 {
			content = append(append(content, ','), inner...)
		}
	}
	m = m.without("_meta").without("content").with("content", append(content, ']'))
	if decision, err := json.Marshal(map[string]any{metaDecision: a.Meta()}); err == nil {
		m = m.with("_meta", decision)
	}
	if modern && m.index("resultType") < 0 {
		m = m.with("resultType", []byte(`"complete"`))
	}
	return m.encode()
}

// asks reports whether a result asks for input in place of being one.
func (m members) asks() bool {
	var text string
	return json.Unmarshal(m.get("resultType"), &text) == nil && text == "input_required"
}

// member is one top-level member of a result, its value as the tool wrote it.
type member struct {
	name  string
	value []byte
}

type members []member

// readResult reads the top level of a result object. Numbers and unknown members
// stay as they are; of duplicates the last counts, as for most readers.
func readResult(raw []byte) (members, bool) {
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, false
	}
	var out members
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, false
		}
		text := name.String()
		v, err := d.ReadValue()
		if err != nil {
			return nil, false
		}
		end := d.InputOffset()
		out = append(out, member{text, raw[end-int64(len(v)) : end]})
	}
	if t, err := d.ReadToken(); err != nil || t.Kind() != '}' {
		return nil, false
	}
	// JSON's own white space and no other: bytes.TrimSpace takes more.
	return out, len(bytes.Trim(raw[d.InputOffset():], " \t\r\n")) == 0
}

// index finds the member that counts, or -1.
func (m members) index(name string) int {
	for i := len(m) - 1; i >= 0; i-- {
		if m[i].name == name {
			return i
		}
	}
	return -1
}

func (m members) get(name string) []byte {
	if i := m.index(name); i >= 0 {
		return m[i].value
	}
	return nil
}

func (m members) without(name string) members {
	out := make(members, 0, len(m))
	for _, x := range m {
		if x.name != name {
			out = append(out, x)
		}
	}
	return out
}

func (m members) with(name string, value []byte) members {
	return append(m.without(name), member{name, value})
}

func (m members) encode() []byte {
	out := []byte{'{'}
	for i, x := range m {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, quote(x.name)...), ':'), x.value...)
	}
	return append(out, '}')
}

// speaksForUs reports whether a result's _meta holds one of our names. Only we
// say what was decided.
func (m members) speaksForUs() bool {
	for _, x := range m {
		if x.name != "_meta" {
			continue
		}
		inner, ok := readResult(x.value)
		if !ok {
			return x.value[0] != 'n' // not an object, and not null: nothing we would vouch for
		}
		for _, y := range inner {
			if strings.HasPrefix(strings.ToLower(y.name), metaPrefix) {
				return true
			}
		}
	}
	return false
}

// needsStatus reports whether clients act on the HTTP status of a refusal, which
// a session's stream cannot carry.
func needsStatus(f *refusal) bool {
	return f.status == http.StatusForbidden || f.status == http.StatusUnauthorized
}
