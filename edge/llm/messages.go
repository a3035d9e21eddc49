package llm

import (
	"maps"
	"slices"
	"strings"

	"github.com/placet-dev/placet/history"
)

// messages is Anthropic's Messages.
var messages = dialect{
	format: history.Messages,
	members: []string{"messages", "model", "max_tokens", "cache_control", "container", "context_management", "inference_geo", "mcp_servers", "metadata", "output_config",
		"output_format", "service_tier", "speed", "stop_sequences", "stream", "system", "temperature", "thinking", "tool_choice", "tools", "top_k", "top_p"},
	read:   readMessages,
	answer: func(l Limits) assembler { return &messagesAnswer{limits: l, parts: map[int]*part{}} },
}

// clientTools are Anthropic's own tools that the client runs, without their dates.
var clientTools = []string{"bash", "text_editor", "computer", "memory"}

func readMessages(q *request) *refusal {
	f := q.fields
	for _, t := range f.list("tools") {
		o, _ := fieldsOf(t)
		if name := o.variant([]string{"type", "name", "mcp_server_name"}); name != "" {
			return invalid("the member %s of a tool differs from a known one by case only", quoted(name))
		}
		kind := dated.ReplaceAllString(o.text("type"), "")
		switch {
		case o.given("type") && o["type"].Kind() != '"':
			return invalid("the type of a tool is not a text")
		case kind == "" || kind == "custom" || slices.Contains(clientTools, kind):
			q.offered = append(q.offered, o.text("name"))
		case kind == "mcp_toolset": // of a server in mcp_servers, which is looked at below
		default:
			q.host(kind)
		}
	}
	for _, s := range f.list("mcp_servers") {
		o, _ := fieldsOf(s)
		q.host("mcp:" + o.text("url"))
	}
	if c := f.object("container"); c != nil {
		q.object(c.text("id"))
		for _, s := range c.list("skills") {
			o, _ := fieldsOf(s)
			q.host("skill:" + o.text("skill_id"))
		}
	}
	q.object(f.text("container"))
	choice := f.object("tool_choice")
	switch choice.text("type") {
	case "tool":
		q.forced = choice.text("name")
	case "any":
		q.must = true
	}
	q.references(f["messages"], "file_id")
	q.references(f["system"], "file_id")
	return nil
}

// messagesAnswer puts an answer of Messages together.
type messagesAnswer struct {
	limits Limits
	answer
	parts   map[int]*part // tool_use blocks, by index
	open    map[int]bool  // blocks that have begun and not stopped
	reason  string
	ended   bool
	started bool
}

func (a *messagesAnswer) event(name string, data []byte) step {
	f, ok := fieldsOf(data)
	kind := f.text("type")
	if !ok || a.ended || kind == "" || name != "" && name != kind {
		return a.spoil()
	}
	switch at := f.number("index"); kind {
	case "message_start":
		if a.started {
			return a.spoil()
		}
		a.started = true
		m := f.object("message")
		a.id = m.text("id")
		a.made(m.object("container").text("id"))
	case "content_block_start":
		return a.begin(at, f.object("content_block"))
	case "content_block_delta":
		d := f.object("delta")
		if d.text("type") != "input_json_delta" {
			return pass
		}
		p := a.parts[at]
		if p == nil {
			return pass // of a block that the provider runs
		}
		if !a.open[at] {
			return a.spoil()
		}
		return a.grow(p, d.text("partial_json"), a.limits)
	case "content_block_stop":
		if !a.open[at] {
			return a.spoil()
		}
		delete(a.open, at)
		if a.parts[at] != nil {
			return hold
		}
	case "message_delta":
		d := f.object("delta")
		a.made(d.object("container").text("id"))
		if r := d.text("stop_reason"); r != "" {
			a.reason = r
			return hold
		}
	case "message_stop":
		a.ended = true
		return last
	case "error":
		return a.spoil()
	}
	return pass
}

// begin takes the start of a block. Its input is empty there, and comes in pieces.
func (a *messagesAnswer) begin(at int, b fields) step {
	if a.open == nil {
		a.open = map[int]bool{}
	}
	if at < 0 || a.open[at] || a.parts[at] != nil || len(a.parts) >= a.limits.Calls || !a.started {
		return a.spoil()
	}
	a.open[at] = true
	if b.text("type") != "tool_use" {
		return pass
	}
	p := &part{label: b.text("id"), name: b.text("name"), foreign: indirect(b)}
	a.parts[at] = p
	if input := strings.TrimSpace(string(b["input"])); input != "" && input != "{}" {
		return a.grow(p, input, a.limits)
	}
	return pass
}

func (a *messagesAnswer) whole(body []byte) {
	f, ok := fieldsOf(body)
	if !ok || f.text("type") == "error" {
		a.spoil()
		return
	}
	a.id, a.reason, a.ended, a.started = f.text("id"), f.text("stop_reason"), true, true
	a.made(f.object("container").text("id"))
	for at, raw := range f.list("content") {
		b, _ := fieldsOf(raw)
		if b.text("type") != "tool_use" {
			continue
		}
		if a.begin(at, b) == pass && len(a.parts) > a.limits.Calls {
			a.spoil()
		}
		delete(a.open, at)
	}
}

func (a *messagesAnswer) done() *answer {
	a.fresh()
	// max_tokens, refusal and the like end an answer before the model did.
	a.complete = a.ended && !a.spoiled && len(a.open) == 0 && (a.reason == "tool_use" || a.reason == "end_turn")
	for _, at := range slices.Sorted(maps.Keys(a.parts)) {
		if p := a.parts[at]; p != nil {
			a.add(p, at)
		}
	}
	return &a.answer
}
