package connect

import (
	"bytes"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/placet-dev/placet/mcphttp"
)

// headers repeats of a message what revision 2026-07-28 wants in headers
// (transports, request metadata).
func (b *Bridge) headers(h http.Header, m *message) {
	h.Set("Mcp-Protocol-Version", mcphttp.HeaderValue(m.version))
	h.Set("Mcp-Method", mcphttp.HeaderValue(m.method))
	h.Del("Mcp-Session-Id")
	switch m.method {
	case "tools/call":
		name := str(member(m.params, "name"))
		h.Set("Mcp-Name", mcphttp.HeaderValue(name))
		b.mu.Lock()
		schema := b.tools[name]
		b.mu.Unlock()
		parameters(h, schema, member(m.params, "arguments"), 0)
	case "prompts/get":
		h.Set("Mcp-Name", mcphttp.HeaderValue(str(member(m.params, "name"))))
	case "resources/read":
		h.Set("Mcp-Name", mcphttp.HeaderValue(str(member(m.params, "uri"))))
	}
}

const (
	maxTools = 4096
	maxDepth = 16
)

// learn notes which tools want arguments repeated in headers.
func (b *Bridge) learn(m *message, answer []byte) {
	if m.method != "tools/list" || !m.modern() || !bytes.Contains(answer, []byte(mcphttp.Annotation)) {
		return
	}
	tools := member(member(answer, "result"), "tools")
	d := jsontext.NewDecoder(bytes.NewReader(tools))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '[' {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tools == nil {
		b.tools = map[string][]byte{}
	}
	for d.PeekKind() == '{' {
		tool, err := d.ReadValue()
		if err != nil {
			return
		}
		schema := member(bytes.Clone(tool), "inputSchema")
		if len(b.tools) < maxTools {
			b.tools[str(member(tool, "name"))] = schema
		}
	}
}

// parameters sets Mcp-Param-* for arguments whose property says x-mcp-header. What
// cannot be a header is left out, and the server refuses the call.
func parameters(h http.Header, schema, arguments []byte, depth int) {
	if depth == maxDepth || !bytes.Contains(schema, []byte(mcphttp.Annotation)) {
		return
	}
	_ = members(member(schema, "properties"), func(property string, sub []byte) error {
		value := member(arguments, property)
		if value == nil {
			return nil
		}
		if name := str(member(sub, mcphttp.Annotation)); mcphttp.IsToken(name) {
			if text, ok := mcphttp.ParamText(value); ok {
				h.Set(mcphttp.ParamPrefix+name, text)
			}
		}
		parameters(h, sub, value, depth+1)
		return nil
	})
}
