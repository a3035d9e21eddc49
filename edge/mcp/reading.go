package mcp

import (
	"encoding/json"
	"net/http"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// Resources, prompts and completions are calls like those of tools (rule F6). They
// differ in how a request names its entry, and in that an answer without a result is
// an error: their results have no place for one.

const maxURI = 2048

// readReading reads the parameters of a call that is no tool's.
func readReading(method registry.Method, params []byte) (call, *refusal) {
	c := call{method: method}
	if params == nil {
		return c, refuse(codeInvalidParams, "params are missing")
	}
	switch method {
	case registry.MethodResource:
		v, _ := canon.Lookup(params, "uri")
		var ok bool
		if c.uri, ok = canon.Text(v); !ok || c.uri == "" || len(c.uri) > maxURI {
			return c, refuse(codeInvalidParams, "uri must be a URI of at most %d bytes", maxURI)
		}
	case registry.MethodPrompt:
		var f *refusal
		if c.name, f = readName(params, "name"); f != nil {
			return c, f
		}
		if v, ok := canon.Lookup(params, "arguments"); ok {
			if v[0] != '{' {
				return c, refuse(codeInvalidParams, "arguments must be an object")
			}
			c.arguments = v
		}
	case registry.MethodCompletion:
		return c, c.readCompletion(params)
	}
	return c, c.readInput(params)
}

// readName reads what must be the name of something.
func readName(object []byte, member string) (string, *refusal) {
	v, _ := canon.Lookup(object, member)
	name, ok := canon.Text(v)
	if !ok || name == "" || len(name) > 128 || !printable(name) {
		return "", refuse(codeInvalidParams, "%s must be a name", member)
	}
	return name, nil
}

// readCompletion reads {ref, argument, context}. What is completed and what was
// chosen before are the call's arguments, so that they are checked like any.
func (c *call) readCompletion(params []byte) (f *refusal) {
	parts := map[string][]byte{}
	for name, known := range map[string][]string{"ref": {"type", "name", "uri"}, "argument": {"name", "value"}, "context": {"arguments"}} {
		v, given := canon.Lookup(params, name)
		if !given && name == "context" {
			continue
		}
		if !given || v[0] != '{' {
			return refuse(codeInvalidParams, "%s must be an object", name)
		}
		if f := exactCase(name, v, known); f != nil {
			return f
		}
		parts[name] = v
	}
	kind, _ := canon.Lookup(parts["ref"], "type")
	switch string(kind) {
	case `"ref/prompt"`:
		c.of = registry.MethodPrompt
		if c.ref, f = readName(parts["ref"], "name"); f != nil {
			return f
		}
	case `"ref/resource"`:
		c.of = registry.MethodResource
		v, _ := canon.Lookup(parts["ref"], "uri")
		var ok bool
		if c.ref, ok = canon.Text(v); !ok || c.ref == "" || len(c.ref) > maxURI {
			return refuse(codeInvalidParams, "ref.uri must be a URI template")
		}
	default:
		return refuse(codeInvalidParams, "ref must be of type ref/prompt or ref/resource")
	}
	arguments := map[string]json.RawMessage{}
	for member, as := range map[string]string{"name": "argument", "value": "value"} {
		v, ok := canon.Lookup(parts["argument"], member)
		if _, text := canon.Text(v); !ok || !text {
			return refuse(codeInvalidParams, "argument must be {name, value}, both of them text")
		}
		arguments[as] = v
	}
	if v, ok := lookup(parts["context"], "arguments"); ok {
		arguments["context"] = v
	}
	out, err := canon.Marshal(arguments)
	if err != nil {
		return refuse(codeInvalidParams, "argument and context cannot be read")
	}
	c.arguments = out
	return nil
}

// resolve finds the entry that a request names by something else than its name.
// What fits none, or two, is the same as what does not exist.
func (h *Handler) resolve(x *request, c *call) *refusal {
	switch c.method {
	case registry.MethodResource:
		c.name, c.arguments = h.Boundary.Resource(x.caller, c.uri)
	case registry.MethodCompletion:
		c.name = h.Boundary.Completion(x.caller, c.of, c.ref)
	}
	if c.name != "" {
		return nil
	}
	if _, err := h.Boundary.Refuse(x.there, x.caller, "", record.CodeNotAvailable, "mcp: "+c.method.String()+" of what no entry admits"); err != nil {
		h.Log.ErrorContext(x.there, "a refusal was not recorded", "error", err)
	}
	return absent(c.method)
}

// absent is the one answer for what does not exist, is not admitted, or is not
// this caller's. MCP has the code of invalid parameters for it.
func absent(m registry.Method) *refusal {
	what := map[registry.Method]string{registry.MethodResource: "resource", registry.MethodPrompt: "prompt", registry.MethodCompletion: "completion"}[m]
	return refuse(codeInvalidParams, "there is no such %s here", what)
}

// reading answers a call that is no tool's.
func (h *Handler) reading(x *request, c call, a dispatch.Answer, ask bool) ([]byte, *refusal) {
	switch {
	case a.Result != nil:
		members, ok := readResult(a.Result)
		if !ok {
			return h.unable(c, a, "The answer cannot be read. Tell the user that it is missing.")
		}
		return h.readingOf(x, c, a, members)
	case a.Code == record.CodeNotAvailable:
		return nil, absent(c.method)
	case ask && h.offersPage(x, a):
		if result, ok := h.question(x, c, a); ok {
			return result, nil
		}
	}
	return h.unable(c, a, a.Text())
}

// readingOf hands a result on, with the exceptions of [Handler.result].
func (h *Handler) readingOf(x *request, c call, a dispatch.Answer, m members) ([]byte, *refusal) {
	if m.asks() {
		if !x.modern {
			return h.unable(c, a, "Denied: this asks for further input, which this client's protocol revision cannot carry. Nothing ran. Tell the user.")
		}
		return h.passQuestion(x, c, a, m)
	}
	changed := false
	if x.modern && c.method == registry.MethodResource {
		// What was decided for this caller is for no cache that others share, and the
		// next read is decided again.
		m, changed = m.with("ttlMs", []byte("0")).with("cacheScope", []byte(`"private"`)), true
	}
	if m.speaksForUs() {
		m, changed = m.without("_meta"), true
	}
	switch {
	case changed && x.modern && m.index("resultType") < 0:
		return m.with("resultType", []byte(`"complete"`)).encode(), nil
	case changed:
		return m.encode(), nil
	case x.modern && m.index("resultType") < 0:
		return withType(a.Result), nil
	}
	return a.Result, nil
}

// unable answers with a text and no result: for a tool as the tool's error, which
// the model reads, for everything else as the request's.
func (h *Handler) unable(c call, a dispatch.Answer, text string) ([]byte, *refusal) {
	if c.method == registry.MethodTool {
		return insteadText(text, a), nil
	}
	kind := record.Unavailable
	switch {
	case a.Code == record.CodeInvalidArguments:
		kind = record.Invalid
	case a.Code == record.CodeRateLimited, a.Code == record.CodeLimitReached:
		kind = record.Limited
	case a.Verdict == record.Deny && a.Code != record.CodeCannotDecide:
		kind = record.Forbidden
	}
	f := surfaced(record.Errorf(kind, "%s", text))
	f.status, f.data = http.StatusOK, map[string]any{metaDecision: a.Meta()} // JSON-RPC was understood: the error is the answer
	return nil, f
}

// asToolResult puts what was read in the place of a tool's content, for a call that
// is continued by the built-in tool. ok is false for what is a tool's result already.
func asToolResult(m members) (_ members, ok bool) {
	if m.index("content") >= 0 {
		return m, false
	}
	if contents := m.get("contents"); contents != nil && contents[0] == '[' {
		content := []byte{'['}
		for v := range canon.Elements(contents) {
			if len(content) > 1 {
				content = append(content, ',')
			}
			content = append(append(append(content, `{"type":"resource","resource":`...), v...), '}')
		}
		return m.without("contents").with("content", append(content, ']')), true
	}
	for _, name := range []string{"messages", "completion"} {
		if v := m.get(name); v != nil {
			content := append([]byte(`[{"type":"text","text":`), quote(string(v))...)
			return m.without(name).with("content", append(content, "}]"...)), true
		}
	}
	return m, false
}

// listResources, listTemplates and listPrompts list what the boundary would not find
// missing for this caller, as it was pinned.
func (h *Handler) listResources(x *request) ([]byte, *refusal) {
	return h.listEntries(x, registry.MethodResource, "resources", func(t *registry.Tool) any {
		if !t.Template.Fixed() {
			return nil
		}
		return listedReading{URI: t.Upstream, Name: t.Name, Title: t.Pin.Title, Description: t.Pin.Description, MimeType: t.MimeType(), Annotations: t.Pin.Annotations}
	})
}

func (h *Handler) listTemplates(x *request) ([]byte, *refusal) {
	return h.listEntries(x, registry.MethodResource, "resourceTemplates", func(t *registry.Tool) any {
		if t.Template.Fixed() {
			return nil
		}
		return listedReading{Template: t.Upstream, Name: t.Name, Title: t.Pin.Title, Description: t.Pin.Description, MimeType: t.MimeType(), Annotations: t.Pin.Annotations}
	})
}

func (h *Handler) listPrompts(x *request) ([]byte, *refusal) {
	return h.listEntries(x, registry.MethodPrompt, "prompts", func(t *registry.Tool) any {
		out := listedReading{Name: t.Name, Title: t.Pin.Title, Description: t.Pin.Description}
		for _, a := range t.PromptArguments() {
			out.Arguments = append(out.Arguments, listedArgument(a))
		}
		return out
	})
}

type listedReading struct {
	URI         string           `json:"uri,omitempty"`
	Template    string           `json:"uriTemplate,omitempty"`
	Name        string           `json:"name"`
	Title       string           `json:"title,omitempty"`
	Description string           `json:"description,omitempty"`
	MimeType    string           `json:"mimeType,omitempty"`
	Annotations json.RawMessage  `json:"annotations,omitempty"`
	Arguments   []listedArgument `json:"arguments,omitempty"`
}

type listedArgument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// listEntries writes one page. show returns nil for what belongs to another list.
func (h *Handler) listEntries(x *request, m registry.Method, member string, show func(*registry.Tool) any) ([]byte, *refusal) {
	if cursor, ok := lookup(x.params, "cursor"); ok && string(cursor) != "null" {
		return nil, refuse(codeInvalidParams, "cursor is not one of ours; list without it")
	}
	page := []any{}
	for _, t := range h.Boundary.EntriesUnder(x.there, x.caller, x.meta.run, m) {
		if one := show(t); one != nil {
			page = append(page, one)
		}
	}
	out := map[string]any{member: page}
	if x.modern {
		out["resultType"], out["ttlMs"], out["cacheScope"] = "complete", 0, "private"
	}
	text, err := json.Marshal(out)
	if err != nil {
		return nil, &refusal{status: http.StatusOK, code: codeInternal, message: "the list cannot be written"}
	}
	return text, nil
}
