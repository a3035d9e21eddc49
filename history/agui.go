package history

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// readAGUI reads a message of AG-UI's RunAgentInput.
func readAGUI(p *parser, v place) {
	o := p.object(v)
	p.msg.Role = o.get("role").text()
	id := o.get("id").text()
	p.known(o, "id", "role", "content", "name", "toolCalls", "toolCallId", "error", "encryptedValue", "activityType")
	kind := map[string]Kind{"user": User, "assistant": Assistant, "system": System, "developer": System}[p.msg.Role]
	switch p.msg.Role {
	case "tool":
		i := Item{Kind: Result, Type: "tool", ItemID: id, Content: o.get("content").b, Failed: o.get("error").ok()}
		i.label(o.get("toolCallId"))
		p.add(i, v)
		return
	case "reasoning":
		p.add(Item{Kind: Reasoning, Type: "reasoning", ItemID: id, Content: o.get("content").b, Signed: o.get("encryptedValue").ok()}, v)
		return
	case "activity":
		p.add(Item{Kind: Marker, Type: "activity", ItemID: id}, v)
		return
	}
	if kind == "" {
		p.unknown("role "+p.msg.Role, "", -1, v)
		return
	}
	if c := o.get("content"); c.isText() {
		p.add(Item{Kind: kind, Type: "text", ItemID: id, Content: c.b, member: "content", part: -1}, c)
	} else {
		for n, e := range c.elements() {
			p.add(Item{Kind: kind, Type: "content", ItemID: id, Content: e.b, member: "content", part: n}, e)
		}
	}
	for n, e := range o.get("toolCalls").elements() {
		c := p.object(e)
		f := p.object(c.get("function"))
		p.known(c, "id", "type", "function", "encryptedValue")
		p.known(f, "name", "arguments")
		i := Item{Kind: Call, Type: "function", Tool: f.get("name").text(), Signed: c.get("encryptedValue").ok(), member: "toolCalls", part: n}
		i.label(c.get("id"))
		i.arguments(f.get("arguments"))
		p.add(i, e)
	}
}

// readResume reads the answers that an AG-UI client sends beside the messages.
func readResume(p *parser, v place) {
	for _, e := range v.elements() {
		o := p.object(e)
		p.known(o, "interruptId", "status", "payload", "metadata")
		i := Item{Kind: ApprovalResponse, Type: "resume", Request: o.get("interruptId").text(), Approved: o.get("status").text() == "resolved", Content: o.get("payload").b, Role: "user"}
		p.add(i, e)
	}
}

// eventFields are the members of AG-UI's events, by type; those in every event are
// commonFields.
var eventFields = map[string][]string{
	"RUN_STARTED": {"threadId", "runId", "parentRunId", "input"}, "RUN_FINISHED": {"threadId", "runId", "result", "outcome"},
	"RUN_ERROR": {"message", "code", "threadId", "runId"}, "STEP_STARTED": {"stepName"}, "STEP_FINISHED": {"stepName"},
	"TEXT_MESSAGE_START": {"messageId", "role", "name"}, "TEXT_MESSAGE_CONTENT": {"messageId", "delta"}, "TEXT_MESSAGE_END": {"messageId"},
	"TEXT_MESSAGE_CHUNK": {"messageId", "role", "name", "delta"},
	"TOOL_CALL_START":    {"toolCallId", "toolCallName", "parentMessageId"}, "TOOL_CALL_ARGS": {"toolCallId", "delta"}, "TOOL_CALL_END": {"toolCallId"},
	"TOOL_CALL_CHUNK":  {"toolCallId", "toolCallName", "parentMessageId", "delta"},
	"TOOL_CALL_RESULT": {"messageId", "toolCallId", "content", "role"},
	"STATE_SNAPSHOT":   {"snapshot"}, "STATE_DELTA": {"delta"}, "MESSAGES_SNAPSHOT": {"messages"},
	"ACTIVITY_SNAPSHOT": {"messageId", "activityType", "content", "replace"}, "ACTIVITY_DELTA": {"messageId", "activityType", "patch"},
	"REASONING_START": {"messageId"}, "REASONING_END": {"messageId"},
	"REASONING_MESSAGE_START": {"messageId", "role"}, "REASONING_MESSAGE_CONTENT": {"messageId", "delta"}, "REASONING_MESSAGE_END": {"messageId"},
	"REASONING_MESSAGE_CHUNK": {"messageId", "delta"}, "REASONING_ENCRYPTED_VALUE": {"subtype", "entityId", "encryptedValue"},
	"THINKING_START": {"title"}, "THINKING_END": {}, "THINKING_TEXT_MESSAGE_START": {}, "THINKING_TEXT_MESSAGE_CONTENT": {"delta"}, "THINKING_TEXT_MESSAGE_END": {},
	"RAW": {"event", "source"}, "CUSTOM": {"name", "value"},
}

// isEvent reports whether a type is spelled as those of events are.
func isEvent(kind []byte) bool {
	return len(kind) > 0 && len(bytes.Trim(kind, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_")) == 0
}

var commonFields = []string{"type", "timestamp", "rawEvent"}

// stream is what the reader of an event stream remembers of earlier events.
type stream struct {
	active  bool              // a run has begun and has not ended
	strayed bool              // outside of a run, and said so
	open    map[part]*writing // what is being written
	chunk   *writing          // the one of them that chunks go on with
	size    int               // bytes of them
	roles   map[string]string // of messages, by ID
	tools   map[string]string // of calls, by ID
	read    map[string]int    // how often an item was read, by what it says
}

func newStream() *stream {
	return &stream{open: map[part]*writing{}, roles: map[string]string{}, tools: map[string]string{}, read: map[string]int{}}
}

// part names what is being written, as each of its events does.
type part struct{ what, call, message string }

// writing is a text, a reasoning or a call whose parts are still coming.
type writing struct {
	Item
	part part
	at   place // of the event that began it
	text []byte
}

// unfinished is what is being written, in the order in which it began.
func (s *stream) unfinished() []*writing {
	return slices.SortedFunc(maps.Values(s.open), func(a, b *writing) int { return cmp.Compare(a.at.at, b.at.at) })
}

// readAGUIEvents reads an event of AG-UI. A text or a call stands where it began, and is
// an item once it has ended: what never ends is incomplete.
func readAGUIEvents(p *parser, v place) {
	o := p.object(v)
	t := o.get("type").text()
	fields, known := eventFields[t]
	if !known {
		p.unknown(t, "", -1, v)
		return
	}
	p.known(o, slices.Concat(commonFields, fields)...)
	p.within(t, v)
	what, step := t, ""
	for _, end := range []string{"_START", "_CONTENT", "_ARGS", "_END", "_CHUNK", "_SNAPSHOT", "_DELTA"} {
		if rest, ok := strings.CutSuffix(t, end); ok {
			what, step = rest, end
		}
	}
	switch what {
	case "TEXT_MESSAGE", "TOOL_CALL", "REASONING_MESSAGE", "THINKING_TEXT_MESSAGE":
		p.written(o, what, step)
		return
	}
	if t != "RAW" && what != "ACTIVITY" {
		p.endChunk(t != "RUN_ERROR")
	}
	switch t {
	case "RUN_STARTED":
		p.cutOff()
		input := p.object(o.get("input"))
		p.known(input, "threadId", "runId", "parentRunId", "state", "messages", "tools", "context", "forwardedProps", "resume")
		p.snapshot(input.get("messages"))
		readResume(p, input.get("resume"))
		p.stream.active, p.stream.strayed = true, false
	case "RUN_FINISHED", "RUN_ERROR":
		p.cutOff()
		p.interrupts(o.get("outcome"))
		p.stream.active = false
	case "TOOL_CALL_RESULT":
		p.msg.Role = "tool"
		i := Item{Kind: Result, Type: t, ItemID: o.get("messageId").text(), Content: o.get("content").b}
		i.label(o.get("toolCallId"))
		p.stream.read[p.add(i, v).spelling()]++
		return
	case "MESSAGES_SNAPSHOT":
		p.snapshot(o.get("messages"))
		return
	}
	p.msg.Role = ""
	p.add(Item{Kind: Marker, Type: t}, v)
}

// within says once of what stands outside of a run that it does.
func (p *parser) within(t string, v place) {
	s := p.stream
	switch {
	case t == "RUN_STARTED" && s.active:
		p.note(finding(CodeReordered, v.position(), "a run begins before another has ended"))
	case t != "RUN_STARTED" && t != "RUN_ERROR" && !s.active && !s.strayed:
		s.strayed = true
		p.note(finding(CodeReordered, v.position(), "%s outside of a run", t))
	}
}

// written takes one part of a text, a reasoning or a call.
func (p *parser) written(o object, what, step string) {
	s := p.stream
	i := Item{Kind: Reasoning, Type: what, ItemID: o.get("messageId").text(), Role: "assistant"}
	switch what {
	case "TOOL_CALL":
		i.Kind, i.Tool = Call, o.get("toolCallName").text()
		i.label(o.get("toolCallId"))
		if role := s.roles[o.get("parentMessageId").text()]; role != "" {
			i.Role = role
		}
	case "TEXT_MESSAGE":
		i.Kind = Assistant
		i.Kind, i.Role = speaks(o.get("role").text())
	}
	it := part{what, i.ID, i.ItemID}
	if step == "_CHUNK" && it == (part{what: what}) && s.chunk != nil && s.chunk.Type == what {
		it = s.chunk.part // later chunks need not name it
	}
	if s.chunk != nil && (step != "_CHUNK" || s.chunk.part != it) {
		p.endChunk(true)
	}
	w := s.open[it]
	switch {
	case step == "_CHUNK":
		if w == nil {
			w = p.begun(i, it, o)
			s.chunk = w
		}
		p.more(w, o)
	case step == "_START":
		if w != nil {
			p.ended(w, false)
		}
		p.begun(i, it, o)
	case w == nil:
		p.note(finding(CodeReordered, o.position(), "%s of what has not begun", o.get("type").text()))
	case step == "_END":
		p.ended(w, true)
	default:
		p.more(w, o)
	}
}

// speaks is who says a text.
func speaks(role string) (Kind, string) {
	switch role {
	case "", "assistant":
		return Assistant, "assistant"
	case "user":
		return User, role
	case "system", "developer":
		return System, role
	}
	return Unknown, role
}

func (p *parser) begun(i Item, it part, o object) *writing {
	s := p.stream
	if i.Kind == Unknown {
		p.note(finding(CodeUnknownPart, o.position(), "the format does not know the role %q", cut(i.Role, 64)))
	}
	w := &writing{Item: i, part: it, at: o.place}
	w.at.b = bytes.Clone(o.b) // the event's own bytes are gone when it ends
	s.open[it] = w
	s.size += len(o.b)
	if i.Kind == Call {
		s.tools[i.ID] = i.Tool
	} else {
		s.roles[i.ItemID] = i.Role
	}
	return w
}

func (p *parser) more(w *writing, o object) {
	delta := unquote(o.get("delta").b)
	w.text = append(w.text, delta...)
	p.stream.size += len(delta)
}

// ended makes an item of what was written.
func (p *parser) ended(w *writing, whole bool) {
	s := p.stream
	delete(s.open, w.part)
	s.size -= len(w.at.b) + len(w.text)
	if s.chunk == w {
		s.chunk = nil
	}
	i := w.Item
	if i.Kind == Call {
		i.Incomplete = !whole
		i.arguments(place{b: quote(string(w.text))})
	} else {
		i.Content = quote(string(w.text))
	}
	s.read[p.add(i, w.at).spelling()]++
}

// endChunk ends what chunks wrote, which have no end of their own.
func (p *parser) endChunk(whole bool) {
	if w := p.stream.chunk; w != nil {
		p.ended(w, whole)
	}
}

// cutOff ends what was left unfinished.
func (p *parser) cutOff() {
	for _, w := range p.stream.unfinished() {
		p.ended(w, false)
	}
}

// spelling is what an item says, wherever it stands.
func (i *Item) spelling() string {
	id := i.ID
	if i.Kind != Call && i.Kind != Result {
		id = i.ItemID
	}
	return strings.Join([]string{string(i.Kind), id, i.Tool, i.Digest.String(), strconv.FormatBool(i.Failed)}, "\x00")
}

// snapshot reads the messages that a client or an agent has at a time. Those that were
// read before are not read again, each as often as it was; what differs from them, or
// stands twice, is.
func (p *parser) snapshot(messages place) {
	s, start, total := p.stream, len(p.msg.Items), p.total
	for _, e := range messages.elements() {
		readAGUI(p, e)
		if id := string(unquote(find(e.b, "id"))); id != "" {
			s.roles[id] = p.msg.Role
		}
	}
	again := map[string]int{}
	var fresh []string
	kept := p.msg.Items[:start]
	p.total = total
	for _, i := range p.msg.Items[start:] {
		said := i.spelling()
		if again[said] < s.read[said] && i.Kind != Unknown {
			again[said]++
			continue
		}
		if i.Kind == Call {
			s.tools[i.ID] = i.Tool
		}
		fresh = append(fresh, said)
		i.Index = p.total
		p.total++
		kept = append(kept, i)
	}
	p.msg.Items = kept
	for _, said := range fresh {
		s.read[said]++
	}
	p.msg.Role = ""
}

// interrupts are questions with which a run ends. One that names a call asks about it.
func (p *parser) interrupts(outcome place) {
	out := p.object(outcome)
	p.known(out, "type", "interrupts")
	for _, e := range out.get("interrupts").elements() {
		q := p.object(e)
		p.known(q, "id", "reason", "message", "toolCallId", "responseSchema", "expiresAt", "metadata")
		call := q.get("toolCallId")
		i := Item{Kind: Marker, Type: "interrupt", Request: q.get("id").text(), Role: "assistant"}
		if call.isText() {
			i.Kind, i.Tool = ApprovalRequest, p.stream.tools[call.text()]
			i.label(call)
		}
		p.add(i, e)
	}
}
