package history

import "strings"

// readLangChain reads a message of LangChain in any of its wire forms: flat,
// {type, data}, constructor, [role, text]. A constructor is data here: nothing is
// loaded or made by its name.
func readLangChain(p *parser, v place) {
	if v.isList() {
		p.langchainTuple(v)
		return
	}
	o := p.object(v)
	t := o.get("type").text()
	if t == "" {
		t = o.get("role").text()
	}
	switch {
	case t == "constructor":
		for _, e := range o.get("id").elements() {
			t = e.text() // the last name is the class's
		}
		o = p.object(o.get("kwargs"))
	case o.get("data").isObject():
		o = p.object(o.get("data"))
	}
	p.known(o, "type", "role", "content", "name", "id", "tool_calls", "invalid_tool_calls", "tool_call_id", "status", "artifact",
		"additional_kwargs", "response_metadata", "usage_metadata", "tool_call_chunks", "example")
	p.msg.Role = strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(t, "Chunk"), "Message"))
	id := o.get("id").text()
	switch p.msg.Role {
	case "human", "user":
		p.langchainContent(o, User, id)
	case "system", "developer":
		p.langchainContent(o, System, id)
	case "ai", "assistant":
		p.msg.Role = "assistant"
		p.langchainContent(o, Assistant, id)
	case "tool", "function":
		i := Item{Kind: Result, Type: t, ItemID: id, Tool: o.get("name").text(), Content: o.get("content").b, Failed: o.get("status").text() == "error"}
		i.label(o.get("tool_call_id"))
		p.add(i, v)
		return
	case "remove":
		p.add(Item{Kind: Marker, Type: t, ItemID: id}, v) // deletes the message with this ID in a store that merges by ID
		return
	default:
		p.unknown(t, "", -1, v)
		return
	}
	p.langchainCalls(o)
}

func (p *parser) langchainTuple(v place) {
	var role string
	for n, e := range v.elements() {
		if n == 0 {
			role = e.text()
			p.msg.Role = role
			continue
		}
		kind := map[string]Kind{"human": User, "user": User, "ai": Assistant, "assistant": Assistant, "system": System}[role]
		if kind == "" || n > 1 {
			p.unknown(role, "", -1, v)
			return
		}
		p.add(Item{Kind: kind, Type: "tuple", Content: e.b}, v)
	}
}

func (p *parser) langchainContent(o object, kind Kind, id string) {
	c := o.get("content")
	if c.isText() {
		p.add(Item{Kind: kind, Type: "text", ItemID: id, Content: c.b, member: "content", part: -1}, c)
		return
	}
	for n, e := range c.elements() {
		b := p.object(e)
		t := b.get("type").text()
		i := Item{Type: t, ItemID: id, member: "content", part: n}
		switch {
		case e.isText(), t == "text", t == "image_url", t == "image", t == "file", t == "audio", t == "input_audio", t == "text-plain":
			i.Kind, i.Content = kind, e.b
		case t == "reasoning", t == "thinking", t == "redacted_thinking":
			i.Kind, i.Content, i.Signed = Reasoning, e.b, b.get("signature").ok()
		case t == "tool_use", t == "tool_call", t == "functionCall", t == "server_tool_call":
			i.Kind, i.Again, i.Provider = Call, t != "server_tool_call", t == "server_tool_call"
			c := b
			if f := b.get("functionCall"); f.isObject() {
				c = p.object(f)
			}
			i.Tool = c.get("name").text()
			i.label(c.get("id"))
			i.arguments(c.first("args", "input", "arguments"))
		default:
			p.unknown(t, "content", n, e)
			continue
		}
		p.add(i, e)
	}
}

func (p *parser) langchainCalls(o object) {
	for n, e := range o.get("tool_calls").elements() {
		c := p.object(e)
		i := Item{Kind: Call, Type: "tool_call", member: "tool_calls", part: n}
		if f := c.get("function"); f.isObject() { // as OpenAI spells it, in role dicts
			f := p.object(f)
			i.Tool = f.get("name").text()
			i.arguments(f.get("arguments"))
		} else {
			p.known(c, "id", "name", "args", "type", "extras", "index")
			i.Tool = c.get("name").text()
			i.object(c.get("args"))
		}
		i.label(c.get("id"))
		p.add(i, e)
	}
	for n, e := range o.get("invalid_tool_calls").elements() {
		c := p.object(e)
		i := Item{Kind: Call, Type: "invalid_tool_call", Tool: c.get("name").text(), member: "invalid_tool_calls", part: n,
			Arguments: unquote(c.get("args").b), Bad: "the framework says that the arguments are not valid"}
		i.label(c.get("id"))
		p.add(i, e)
	}
	extra := p.object(o.get("additional_kwargs"))
	for _, e := range extra.get("tool_calls").elements() {
		c := p.object(e)
		f := p.object(c.get("function"))
		i := Item{Kind: Call, Type: "additional_kwargs", Tool: f.get("name").text(), Again: true}
		i.label(c.get("id"))
		i.arguments(f.get("arguments"))
		p.add(i, e)
	}
}
