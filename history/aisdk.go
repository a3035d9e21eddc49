package history

import "strings"

// readModel reads a ModelMessage of the AI SDK.
func readModel(p *parser, v place) {
	o := p.object(v)
	p.msg.Role = o.get("role").text()
	p.known(o, "role", "content", "providerOptions", "id")
	kind := map[string]Kind{"user": User, "assistant": Assistant, "system": System, "tool": Unknown}[p.msg.Role]
	if kind == "" {
		p.unknown("role "+p.msg.Role, "", -1, v)
		return
	}
	c := o.get("content")
	if c.isText() {
		p.add(Item{Kind: kind, Type: "text", Content: c.b, member: "content", part: -1}, c)
		return
	}
	for n, e := range c.elements() {
		b := p.object(e)
		i := Item{Type: b.get("type").text(), member: "content", part: n, Provider: b.get("providerExecuted").yes(),
			Signed: b.get("signature").ok()}
		switch i.Type {
		case "text", "file", "image", "custom":
			i.Kind, i.Content = kind, e.b
		case "reasoning", "reasoning-file":
			i.Kind, i.Content, i.Signed = Reasoning, e.b, b.get("providerOptions").ok()
		case "tool-call":
			p.known(b, "type", "toolCallId", "toolName", "input", "args", "providerExecuted", "providerOptions", "title", "dynamic", "invalid", "error")
			i.Kind, i.Tool = Call, b.get("toolName").text()
			i.label(b.get("toolCallId"))
			i.arguments(b.first("input", "args"))
		case "tool-result":
			p.known(b, "type", "toolCallId", "toolName", "output", "result", "isError", "providerExecuted", "providerOptions", "input")
			out := b.first("output", "result")
			i.Kind, i.Tool, i.Content = Result, b.get("toolName").text(), out.b
			switch string(unquote(find(out.b, "type"))) {
			case "execution-denied", "error-text", "error-json":
				i.Failed = true
			}
			i.Provider = p.msg.Role == "assistant"
			i.label(b.get("toolCallId"))
		case "tool-approval-request":
			p.known(b, "type", "approvalId", "toolCallId", "isAutomatic", "signature", "reason", "inputSchemaInput", "providerOptions", "toolCall")
			i.Kind, i.Request = ApprovalRequest, b.get("approvalId").text()
			i.label(b.get("toolCallId"))
		case "tool-approval-response":
			p.known(b, "type", "approvalId", "approved", "reason", "providerExecuted", "providerOptions")
			i.Kind, i.Request, i.Approved = ApprovalResponse, b.get("approvalId").text(), b.get("approved").yes()
		default:
			p.unknown(i.Type, "content", n, e)
			continue
		}
		p.add(i, e)
	}
}

// readUI reads a UIMessage of the AI SDK. A tool part is several items.
func readUI(p *parser, v place) {
	o := p.object(v)
	p.msg.Role = o.get("role").text()
	p.known(o, "id", "role", "metadata", "parts", "content", "createdAt")
	kind := map[string]Kind{"user": User, "assistant": Assistant, "system": System}[p.msg.Role]
	if kind == "" {
		p.unknown("role "+p.msg.Role, "", -1, v)
		return
	}
	parts := o.get("parts")
	if c := o.get("content"); c.isText() && !parts.isList() {
		p.add(Item{Kind: kind, Type: "text", Content: c.b, member: "content", part: -1}, c)
	}
	for n, e := range parts.elements() {
		b := p.object(e)
		t := b.get("type").text()
		i := Item{Type: t, member: "parts", part: n}
		switch {
		case t == "text", t == "file":
			i.Kind, i.Content = kind, e.b
		case t == "reasoning", t == "reasoning-file":
			i.Kind, i.Content, i.Signed = Reasoning, e.b, b.get("providerMetadata").ok()
		case t == "step-start", t == "source-url", t == "source-document", t == "custom", strings.HasPrefix(t, "data-"):
			i.Kind = Marker
		case t == "dynamic-tool", strings.HasPrefix(t, "tool-"):
			p.toolPart(b, i)
			continue
		default:
			p.unknown(t, "parts", n, e)
			continue
		}
		p.add(i, e)
	}
}

// toolPart reads what one part of a UIMessage claims: a call, and by its state a
// request, an answer and a result.
func (p *parser) toolPart(b object, i Item) {
	p.known(b, "type", "toolName", "toolCallId", "state", "input", "output", "errorText", "rawInput", "approval", "providerExecuted",
		"preliminary", "callProviderMetadata", "resultProviderMetadata", "title", "toolMetadata")
	i.State = b.get("state").text()
	i.Tool = strings.TrimPrefix(i.Type, "tool-")
	if i.Type == "dynamic-tool" {
		i.Tool = b.get("toolName").text()
	}
	i.Provider = b.get("providerExecuted").yes()
	i.label(b.get("toolCallId"))
	call := i
	call.Kind, call.Incomplete = Call, i.State == "input-streaming"
	input := b.first("input", "rawInput")
	if call.Incomplete && !input.isObject() {
		call.Arguments, call.Bad = input.b, "the arguments are not complete"
	} else {
		call.arguments(input)
	}
	approval := p.object(b.get("approval"))
	request := approval.get("id").text()
	if approval.isObject() {
		p.known(approval, "id", "approved", "reason", "isAutomatic", "signature", "requestReason")
		call.Request = request
	}
	p.add(call, b.place)
	switch i.State {
	case "input-streaming", "input-available", "approval-requested", "approval-responded", "output-available", "output-error", "output-denied":
	default:
		p.note(finding(CodeUnknownPart, b.position(), "the format does not know the state %q", cut(i.State, 64)))
	}
	answer := approval.get("approved")
	if approval.isObject() {
		q := i
		q.Kind, q.Request, q.Signed = ApprovalRequest, request, approval.get("signature").ok()
		p.add(q, b.place)
	}
	if answer.ok() {
		a := i
		a.Kind, a.Request, a.Approved = ApprovalResponse, request, answer.yes()
		p.add(a, b.place)
	}
	r := i
	r.Kind = Result
	switch i.State {
	case "output-available":
		if b.get("preliminary").yes() {
			return // replaced by what comes later
		}
		r.Content = b.get("output").b
	case "output-error":
		r.Content, r.Failed = b.get("errorText").b, true
	case "output-denied":
		r.Content, r.Failed = approval.get("reason").b, true
	default:
		return
	}
	p.add(r, b.place)
}
