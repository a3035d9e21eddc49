package connect

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// headers repeats of a message what revision 2026-07-28 wants in headers
// (transports, request metadata).
func (b *Bridge) headers(h http.Header, m *message) {
	h.Set("Mcp-Protocol-Version", headerValue(m.version))
	h.Set("Mcp-Method", headerValue(m.method))
	h.Del("Mcp-Session-Id")
	switch m.method {
	case "tools/call":
		name := str(member(m.params, "name"))
		h.Set("Mcp-Name", headerValue(name))
		b.mu.Lock()
		schema := b.tools[name]
		b.mu.Unlock()
		parameters(h, schema, member(m.params, "arguments"), 0)
	case "prompts/get":
		h.Set("Mcp-Name", headerValue(str(member(m.params, "name"))))
	case "resources/read":
		h.Set("Mcp-Name", headerValue(str(member(m.params, "uri"))))
	}
}

const (
	maxTools = 4096
	maxDepth = 16
)

// learn notes which tools want arguments repeated in headers.
func (b *Bridge) learn(m *message, answer []byte) {
	if m.method != "tools/list" || !m.modern() || !bytes.Contains(answer, []byte("x-mcp-header")) {
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
	if depth == maxDepth || !bytes.Contains(schema, []byte("x-mcp-header")) {
		return
	}
	_ = members(member(schema, "properties"), func(property string, sub []byte) error {
		value := member(arguments, property)
		if value == nil {
			return nil
		}
		if name := str(member(sub, "x-mcp-header")); token(name) {
			if text, ok := headerText(value); ok {
				h.Set("Mcp-Param-"+name, text)
			}
		}
		parameters(h, sub, value, depth+1)
		return nil
	})
}

// headerText writes a string, an exact integer or a boolean; nothing else has a
// header.
func headerText(value []byte) (string, bool) {
	switch jsontext.Value(value).Kind() {
	case '"':
		return headerValue(str(value)), true
	case 't', 'f':
		return string(value), true
	case '0':
		n, err := strconv.ParseInt(string(value), 10, 64)
		return string(value), err == nil && n < 1<<53 && n > -1<<53
	}
	return "", false
}

// headerValue writes what is not plain visible ASCII, or looks as if it were
// encoded already, in the base64 form of the specification.
func headerValue(s string) string {
	plain := !strings.HasPrefix(s, "=?base64?") && strings.Trim(s, " \t") == s
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= 0x20 && s[i] <= 0x7e
	}
	if plain {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}

func token(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		alnum := r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}
