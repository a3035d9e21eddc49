package history

// readChat reads a message of OpenAI's Chat Completions, or of Mistral.
func readChat(p *parser, v place) {
	o := p.object(v)
	p.msg.Role = o.get("role").text()
	role := p.msg.Role
	p.known(o, "role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio", "function_call",
		"annotations", "reasoning_content", "reasoning", "prefix")
	switch role {
	case "system", "developer":
		p.chatContent(o, System)
	case "user":
		p.chatContent(o, User)
	case "assistant":
		for _, name := range []string{"reasoning", "reasoning_content"} {
			if t := o.get(name); t.ok() {
				p.add(Item{Kind: Reasoning, Type: name, Content: t.b, member: name, part: -1}, t)
			}
		}
		p.chatContent(o, Assistant)
	case "tool":
		i := Item{Kind: Result, Type: "tool", Tool: o.get("name").text(), Content: o.get("content").b}
		i.label(o.get("tool_call_id"))
		p.add(i, v)
	case "function":
		p.add(Item{Kind: Result, Type: "function", Tool: o.get("name").text(), Content: o.get("content").b}, v)
	default:
		p.unknown("role "+role, "", -1, v)
	}
	p.chatCalls(o)
}

func (p *parser) chatContent(o object, kind Kind) {
	if c := o.get("content"); c.isText() {
		p.add(Item{Kind: kind, Type: "text", Content: c.b, member: "content", part: -1}, c)
	} else {
		for n, e := range c.elements() {
			b := p.object(e)
			switch t := b.get("type").text(); t {
			case "text", "refusal", "image_url", "input_audio", "file", "document_url", "reference":
				p.add(Item{Kind: kind, Type: t, Content: e.b, member: "content", part: n}, e)
			case "thinking":
				p.add(Item{Kind: Reasoning, Type: t, Content: e.b, member: "content", part: n}, e)
			default:
				p.unknown(t, "content", n, e)
			}
		}
	}
	if r := o.get("refusal"); r.ok() {
		p.add(Item{Kind: kind, Type: "refusal", Content: r.b, member: "refusal", part: -1}, r)
	}
}

func (p *parser) chatCalls(o object) {
	for n, e := range o.get("tool_calls").elements() {
		c := p.object(e)
		p.known(c, "id", "type", "function", "custom", "index", "extra_content")
		i := Item{Kind: Call, Type: c.get("type").text(), member: "tool_calls", part: n}
		i.label(c.get("id"))
		if custom := c.get("custom"); custom.ok() {
			f := p.object(custom)
			p.known(f, "name", "input")
			i.Tool = f.get("name").text()
			i.freeText(f.get("input"))
		} else {
			f := p.object(c.get("function"))
			p.known(f, "name", "arguments")
			i.Tool = f.get("name").text()
			i.arguments(f.get("arguments"))
			if p.format == Chat && !f.get("arguments").isText() {
				i.Bad = "the arguments are not a string"
			}
		}
		p.add(i, e)
	}
	if f := o.get("function_call"); f.ok() {
		c := p.object(f)
		i := Item{Kind: Call, Type: "function_call", Tool: c.get("name").text(), member: "function_call", part: -1}
		i.arguments(c.get("arguments"))
		p.add(i, f)
	}
}

// freeText takes the input of a custom tool, which is any text.
func (i *Item) freeText(v place) {
	i.Arguments = unquote(v.b)
	i.Digest = contentDigest(v.b)
}

// responsesPairs are the calls that the client runs, with what answers them.
var responsesPairs = map[string]string{
	"function_call_output": "function_call", "custom_tool_call_output": "custom_tool_call",
	"computer_call_output": "computer_call", "shell_call_output": "shell_call", "local_shell_call_output": "local_shell_call",
	"apply_patch_call_output": "apply_patch_call", "tool_search_output": "tool_search_call", "tool_search_call_output": "tool_search_call",
}

// readResponses reads an item of OpenAI's Responses.
func readResponses(p *parser, v place) {
	o := p.object(v)
	t := o.get("type").text()
	p.msg.Role = o.get("role").text()
	if t == "" && p.msg.Role != "" {
		t = "message"
	}
	id := o.get("id").text()
	switch t {
	case "message":
		p.known(o, "type", "role", "content", "id", "status", "phase")
		kind := map[string]Kind{"user": User, "assistant": Assistant, "system": System, "developer": System}[p.msg.Role]
		if kind == "" {
			p.unknown("role "+p.msg.Role, "", -1, v)
			return
		}
		p.responsesContent(o, kind, id)
	case "function_call", "custom_tool_call", "computer_call", "shell_call", "local_shell_call", "apply_patch_call", "tool_search_call":
		p.known(o, "type", "id", "call_id", "name", "namespace", "arguments", "input", "status", "caller", "action", "actions",
			"operation", "pending_safety_checks", "environment", "execution", "created_by", "max_output_length")
		i := Item{Kind: Call, Type: t, ItemID: id, Tool: o.get("name").text(), State: o.get("status").text(), Role: "assistant"}
		if i.Tool == "" && t != "function_call" && t != "custom_tool_call" {
			i.Tool = t
		}
		if ns := o.get("namespace").text(); ns != "" {
			i.Server = ns
		}
		i.label(o.get("call_id"))
		switch {
		case t == "custom_tool_call":
			i.freeText(o.get("input"))
		case t == "function_call" || t == "tool_search_call":
			i.arguments(o.get("arguments"))
		default:
			i.arguments(o.first("action", "operation", "actions"))
		}
		i.Incomplete = i.State == "in_progress" || i.State == "incomplete"
		p.add(i, v)
	case "mcp_call":
		p.known(o, "type", "id", "server_label", "name", "arguments", "output", "error", "approval_request_id", "status")
		i := Item{Kind: Call, Type: t, Tool: o.get("name").text(), Server: o.get("server_label").text(), Provider: true,
			Request: o.get("approval_request_id").text(), State: o.get("status").text(), Role: "assistant"}
		i.label(o.get("id"))
		i.ItemID = id
		i.arguments(o.get("arguments"))
		p.add(i, v)
		if out, bad := o.get("output"), o.get("error"); out.ok() || bad.ok() {
			r := Item{Kind: Result, Type: t, Tool: i.Tool, Server: i.Server, Provider: true, ID: i.ID, HasID: i.HasID, ItemID: id, Content: out.b, Failed: bad.ok(), Role: "assistant"}
			if bad.ok() {
				r.Content = bad.b
			}
			p.add(r, v)
		}
	case "mcp_approval_request":
		p.known(o, "type", "id", "server_label", "name", "arguments")
		i := Item{Kind: ApprovalRequest, Type: t, Request: id, ItemID: id, Tool: o.get("name").text(), Server: o.get("server_label").text(), Role: "assistant"}
		i.arguments(o.get("arguments"))
		p.add(i, v)
	case "mcp_approval_response":
		p.known(o, "type", "id", "approval_request_id", "approve", "reason")
		p.add(Item{Kind: ApprovalResponse, Type: t, ItemID: id, Request: o.get("approval_request_id").text(), Approved: o.get("approve").yes(), Role: "user"}, v)
	case "reasoning":
		p.known(o, "type", "id", "summary", "content", "encrypted_content", "status")
		p.add(Item{Kind: Reasoning, Type: t, ItemID: id, Content: o.get("summary").b, Signed: o.get("encrypted_content").ok(), Role: "assistant"}, v)
	case "item_reference":
		p.known(o, "type", "id")
		p.add(Item{Kind: Reference, Type: t, ItemID: id}, v)
	case "file_search_call", "web_search_call", "code_interpreter_call", "image_generation_call", "mcp_list_tools",
		"compaction", "compaction_summary", "compaction_trigger", "program", "program_output":
		p.add(Item{Kind: Marker, Type: t, ItemID: id, Provider: true, Role: "assistant"}, v)
	default:
		if _, result := responsesPairs[t]; !result {
			p.unknown(t, "", -1, v)
			return
		}
		p.known(o, "type", "id", "call_id", "output", "status", "caller", "acknowledged_safety_checks", "tools", "execution", "created_by", "max_output_length")
		i := Item{Kind: Result, Type: t, ItemID: id, Content: o.get("output").b, Failed: o.get("status").text() == "failed", Role: "tool"}
		i.label(o.get("call_id"))
		p.add(i, v)
	}
}

func (p *parser) responsesContent(o object, kind Kind, id string) {
	c := o.get("content")
	if c.isText() {
		p.add(Item{Kind: kind, Type: "text", ItemID: id, Content: c.b, member: "content", part: -1}, c)
		return
	}
	for n, e := range c.elements() {
		b := p.object(e)
		switch t := b.get("type").text(); t {
		case "input_text", "output_text", "text", "refusal", "input_image", "input_file", "input_audio", "summary_text":
			i := Item{Kind: kind, Type: t, ItemID: id, Content: e.b, member: "content", part: n}
			if r := b.get("refusal"); r.isText() {
				i.Content = r.b
			}
			p.add(i, e)
		default:
			p.unknown(t, "content", n, e)
		}
	}
}
