package registry

import "strings"

// Method is the MCP method by which an entry is reached.
type Method string

const (
	MethodTool       Method = "" // tools/call
	MethodResource   Method = "resources/read"
	MethodPrompt     Method = "prompts/get"
	MethodCompletion Method = "completion/complete"
)

// String is the method's name on the wire.
func (m Method) String() string {
	if m == MethodTool {
		return "tools/call"
	}
	return string(m)
}

// key names an offer among all of its server's. No tool's name holds a space (MCP
// 2026-07-28, tools), and if one does, it is the name of none.
func (m Method) key(name string) string {
	if m == MethodTool {
		return name
	}
	return string(m) + " " + name
}

// Key names the offer among all that its server offers.
func (o Offer) Key() string { return o.Method.key(o.Name) }

// MethodOf is the method of an offer with this key.
func MethodOf(key string) Method {
	for _, m := range []Method{MethodResource, MethodPrompt} {
		if strings.HasPrefix(key, string(m)+" ") {
			return m
		}
	}
	return MethodTool
}

// Offered is the key of what the server offers for this entry. What is completed
// is what is offered: completions have no list of their own.
func (t *Tool) Offered() string {
	if t.Completes != nil {
		return t.Completes.Offered()
	}
	return t.Method.key(t.Upstream)
}
