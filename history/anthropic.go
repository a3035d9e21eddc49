package history

import "strings"

// readMessages reads a message of Anthropic's Messages.
func readMessages(p *parser, v place) {
	o := p.object(v)
	p.msg.Role = o.get("role").text()
	// id, type, model, stop_reason and usage are of a response sent back as it came.
	p.known(o, "role", "content", "id", "type", "model", "stop_reason", "stop_sequence", "usage", "container")
	kind := map[string]Kind{"user": User, "assistant": Assistant, "system": System}[p.msg.Role]
	if kind == "" {
		p.unknown("role "+p.msg.Role, "", -1, v)
		return
	}
	p.blocks(o.get("content"), kind)
}

func (p *parser) blocks(c place, kind Kind) {
	if c.isText() {
		p.add(Item{Kind: kind, Type: "text", Content: c.b, member: "content", part: -1}, c)
		return
	}
	for n, e := range c.elements() {
		p.block(e, n, kind)
	}
}

func (p *parser) block(e place, n int, kind Kind) {
	b := p.object(e)
	t := b.get("type").text()
	i := Item{Type: t, member: "content", part: n}
	switch t {
	case "text", "image", "document", "search_result", "container_upload":
		i.Kind, i.Content = kind, e.b
		p.known(b, "type", "text", "citations", "cache_control", "source", "title", "context", "content", "file_id")
	case "thinking", "redacted_thinking":
		i.Kind, i.Content, i.Signed = Reasoning, b.get("thinking").b, b.first("signature", "data").ok()
		p.known(b, "type", "thinking", "signature", "data", "cache_control")
	case "tool_use", "server_tool_use", "mcp_tool_use":
		p.known(b, "type", "id", "name", "input", "caller", "cache_control", "toolset_name", "server_name")
		i.Kind, i.Tool, i.Server, i.Provider = Call, b.get("name").text(), b.get("server_name").text(), t != "tool_use"
		i.label(b.get("id"))
		i.object(b.get("input"))
	case "tool_result":
		p.known(b, "type", "tool_use_id", "content", "is_error", "cache_control")
		i.Kind, i.Content, i.Failed = Result, b.get("content").b, b.get("is_error").yes()
		i.label(b.get("tool_use_id"))
	case "compaction":
		i.Kind, i.Content = Marker, b.get("content").b
	default:
		if !strings.HasSuffix(t, "_tool_result") {
			p.unknown(t, "content", n, e)
			return
		}
		i.Kind, i.Content, i.Failed, i.Provider = Result, b.get("content").b, b.get("is_error").yes(), true
		i.label(b.get("tool_use_id"))
	}
	p.add(i, e)
}

// object takes arguments that the format writes as an object, never as a string.
func (i *Item) object(v place) {
	i.arguments(v)
	if !v.isObject() {
		i.Bad = "the arguments are not an object"
	}
}

// readSampling reads a message of MCP sampling (2025-11-25).
func readSampling(p *parser, v place) {
	o := p.object(v)
	p.msg.Role = o.get("role").text()
	p.known(o, "role", "content", "_meta")
	kind := map[string]Kind{"user": User, "assistant": Assistant}[p.msg.Role]
	if kind == "" {
		p.unknown("role "+p.msg.Role, "", -1, v)
		return
	}
	c := o.get("content")
	if c.isObject() {
		p.samplingBlock(c, -1, kind)
		return
	}
	for n, e := range c.elements() {
		p.samplingBlock(e, n, kind)
	}
}

func (p *parser) samplingBlock(e place, n int, kind Kind) {
	b := p.object(e)
	i := Item{Type: b.get("type").text(), member: "content", part: n}
	switch i.Type {
	case "text", "image", "audio":
		i.Kind, i.Content = kind, e.b
	case "tool_use":
		p.known(b, "type", "id", "name", "input", "_meta")
		i.Kind, i.Tool = Call, b.get("name").text()
		i.label(b.get("id"))
		i.object(b.get("input"))
	case "tool_result":
		p.known(b, "type", "toolUseId", "content", "structuredContent", "isError", "_meta")
		i.Kind, i.Content, i.Failed = Result, b.get("content").b, b.get("isError").yes()
		i.label(b.get("toolUseId"))
	default:
		p.unknown(i.Type, "content", n, e)
		return
	}
	p.add(i, e)
}

// readBedrock reads a message of Bedrock's Converse.
func readBedrock(p *parser, v place) {
	o := p.object(v)
	p.msg.Role = o.get("role").text()
	p.known(o, "role", "content")
	kind := map[string]Kind{"user": User, "assistant": Assistant}[p.msg.Role]
	if kind == "" {
		p.unknown("role "+p.msg.Role, "", -1, v)
		return
	}
	for n, e := range o.get("content").elements() {
		b := p.object(e)
		i := Item{member: "content", part: n}
		switch {
		case b.get("toolUse").ok():
			c := p.object(b.get("toolUse"))
			p.known(c, "toolUseId", "name", "input")
			i.Kind, i.Type, i.Tool = Call, "toolUse", c.get("name").text()
			i.label(c.get("toolUseId"))
			i.object(c.get("input"))
		case b.get("toolResult").ok():
			r := p.object(b.get("toolResult"))
			p.known(r, "toolUseId", "content", "status")
			i.Kind, i.Type, i.Content, i.Failed = Result, "toolResult", r.get("content").b, r.get("status").text() == "error"
			i.label(r.get("toolUseId"))
		case b.get("reasoningContent").ok():
			i.Kind, i.Type, i.Signed = Reasoning, "reasoningContent", true
		case b.first("text", "image", "document", "video").ok():
			i.Kind, i.Type, i.Content = kind, "text", e.b
		case b.first("guardContent", "cachePoint").ok():
			i.Kind, i.Type = Marker, "guardContent"
		default:
			p.unknown("", "content", n, e)
			continue
		}
		p.add(i, e)
	}
}
