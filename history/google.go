package history

// readGemini reads a Content of Gemini's generateContent.
func readGemini(p *parser, v place) {
	o := p.object(v)
	p.msg.Role = o.get("role").text()
	p.known(o, "role", "parts")
	if p.msg.Role == "" {
		p.msg.Role = "user" // what the API takes a missing role for
	}
	p.googleParts(o.get("parts"), "parts")
}

func (p *parser) googleParts(parts place, member string) {
	kind := User
	if p.msg.Role == "model" {
		kind = Assistant
	}
	for n, e := range parts.elements() {
		b := p.object(e)
		i := Item{member: member, part: n, Signed: b.first("thoughtSignature", "thought_signature").ok()}
		p.known(b, "text", "thought", "thoughtSignature", "thought_signature", "functionCall", "function_call", "functionResponse",
			"function_response", "inlineData", "inline_data", "fileData", "file_data", "videoMetadata", "video_metadata", "mediaResolution",
			"executableCode", "executable_code", "codeExecutionResult", "code_execution_result", "toolCall", "toolResponse", "partMetadata")
		call, result := b.first("functionCall", "function_call"), b.first("functionResponse", "function_response")
		switch {
		case call.ok():
			c := p.object(call)
			p.known(c, "id", "name", "args", "partialArgs", "willContinue")
			i.Kind, i.Type, i.Tool = Call, "functionCall", c.get("name").text()
			i.label(c.get("id"))
			if args := c.get("args"); args.ok() {
				i.object(args)
			} else {
				i.arguments(place{})
			}
			i.Incomplete = c.get("willContinue").yes() || c.get("partialArgs").ok()
		case result.ok():
			r := p.object(result)
			p.known(r, "id", "name", "response", "parts", "willContinue", "scheduling")
			i.Kind, i.Type, i.Tool, i.Content = Result, "functionResponse", r.get("name").text(), r.get("response").b
			i.Failed = find(i.Content, "error") != nil
			i.label(r.get("id"))
		case b.get("thought").yes():
			i.Kind, i.Type, i.Content = Reasoning, "thought", b.get("text").b
		case b.get("text").b != nil, b.first("inlineData", "inline_data", "fileData", "file_data").ok():
			i.Kind, i.Type, i.Content = kind, "text", e.b
		case b.first("executableCode", "executable_code", "codeExecutionResult", "code_execution_result", "toolCall", "toolResponse").ok():
			i.Kind, i.Type, i.Provider = Marker, "server-side", true
		default:
			p.unknown("", member, n, e)
			continue
		}
		p.add(i, e)
	}
}

// confirmation is the function by which ADK asks a person.
const confirmation = "adk_request_confirmation"

// readADK reads an event of Google's ADK. Its author is a plain field: an event
// that says it is the model's may be anybody's.
func readADK(p *parser, v place) {
	o := p.object(v)
	content := p.object(o.get("content"))
	p.known(content, "role", "parts")
	p.msg.Role = content.get("role").text()
	if o.get("author").text() == "user" {
		p.msg.Role = "user"
	}
	p.googleParts(content.get("parts"), "content")
	for n := range p.msg.Items {
		i := &p.msg.Items[n]
		if i.Tool != confirmation {
			continue
		}
		if i.Request = i.ID; i.Kind == Call {
			i.Kind, i.Type = ApprovalRequest, confirmation
			original := find(i.Arguments, "originalFunctionCall")
			i.ID, i.HasID = string(unquote(find(original, "id"))), true
			i.Tool, i.Digest = string(unquote(find(original, "name"))), [32]byte{}
			i.arguments(place{b: find(original, "args")})
		} else {
			i.Kind, i.Type, i.HasID, i.ID = ApprovalResponse, confirmation, false, ""
			i.Approved = string(find(i.Content, "confirmed")) == "true"
		}
	}
}

// readA2A reads a message of A2A, which carries text, data and files, and no calls.
func readA2A(p *parser, v place) {
	o := p.object(v)
	p.msg.Role = o.get("role").text()
	p.known(o, "role", "parts", "messageId", "taskId", "contextId", "kind", "metadata", "extensions", "referenceTaskIds")
	kind := User
	if p.msg.Role == "agent" || p.msg.Role == "ROLE_AGENT" {
		kind = Assistant
	}
	for n, e := range o.get("parts").elements() {
		b := p.object(e)
		if b.first("text", "data", "file", "raw", "url").b == nil {
			p.unknown(b.get("kind").text(), "parts", n, e)
			continue
		}
		p.add(Item{Kind: kind, Type: b.get("kind").text(), Content: e.b, member: "parts", part: n}, e)
	}
	for _, t := range o.get("referenceTaskIds").elements() {
		p.add(Item{Kind: Reference, Type: "task", ItemID: t.text()}, t)
	}
}
