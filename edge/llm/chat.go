package llm

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/placet-dev/placet/history"
)

// chat is OpenAI's Chat Completions, which many servers speak.
var chat = dialect{
	format: history.Chat,
	members: []string{"messages", "model", "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens",
		"metadata", "modalities", "n", "parallel_tool_calls", "prediction", "presence_penalty", "prompt_cache_key", "prompt_cache_retention", "reasoning_effort",
		"response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream", "stream_options", "temperature", "tool_choice", "tools",
		"top_logprobs", "top_p", "user", "verbosity", "web_search_options",
		"top_k", "min_p", "repetition_penalty"}, // of servers that speak it too; they say how to choose words and nothing else
	read:   readChat,
	answer: func(l Limits) assembler { return &chatAnswer{limits: l} },
}

func readChat(q *request) *refusal {
	f := q.fields
	for _, t := range f.list("tools") {
		if r := q.chatTool(t); r != nil {
			return r
		}
	}
	for _, t := range f.list("functions") {
		o, _ := fieldsOf(t)
		q.offered = append(q.offered, o.text("name"))
	}
	if f.given("web_search_options") {
		q.host("web_search")
	}
	q.chatChoice(f["tool_choice"])
	q.chatChoice(f["function_call"])
	if n := f.number("n"); f.given("n") && n != 1 {
		q.void = voidChoices
	}
	q.biased()
	for _, m := range f.list("messages") {
		o, _ := fieldsOf(m)
		q.references(o["content"], "file_id")
		q.object(o.object("audio").text("id"))
	}
	q.object(f.object("audio").object("voice").text("id"))
	return nil
}

const (
	voidChoices   = "several choices"
	voidPrefilled = "prefilled"
	voidBiased    = "biased"
)

// biased: whoever weighs words by hand can make a model say anything.
func (q *request) biased() {
	if b, ok := fieldsOf(q.fields["logit_bias"]); q.fields.given("logit_bias") && (!ok || len(b) > 0) {
		q.void = voidBiased
	}
}

func (q *request) chatTool(raw jsontext.Value) *refusal {
	t, _ := fieldsOf(raw)
	if name := t.variant([]string{"type", "function", "custom"}); name != "" {
		return invalid("the member %s of a tool differs from a known one by case only", quoted(name))
	}
	switch kind := t.text("type"); kind {
	case "function", "custom":
		q.offered = append(q.offered, t.object(kind).text("name"))
	default:
		q.host(kind)
	}
	return nil
}

// chatChoice reads tool_choice and its predecessor function_call.
func (q *request) chatChoice(raw jsontext.Value) {
	switch textOf(raw) {
	case "required", "any":
		q.must = true
	}
	c, ok := fieldsOf(raw)
	if !ok {
		return
	}
	switch kind := c.text("type"); kind {
	case "allowed_tools":
		a := c.object("allowed_tools")
		if a == nil {
			a = c // as Responses spells it
		}
		q.must = a.text("mode") == "required"
		q.allowed = []string{}
		for _, t := range a.list("tools") {
			o, _ := fieldsOf(t)
			name := o.object(o.text("type")).text("name")
			if name == "" {
				name = o.text("name")
			}
			q.allowed = append(q.allowed, name)
		}
	case "function", "custom":
		if q.forced = c.object(kind).text("name"); q.forced == "" {
			q.forced = c.text("name")
		}
	default:
		if q.forced = c.text("name"); q.forced == "" {
			q.must = true
		}
	}
}

// chatAnswer puts an answer of Chat Completions together.
type chatAnswer struct {
	limits Limits
	answer
	parts  []*part // calls, by index
	finish string
	ended  bool // [DONE], without which a stream was cut
}

func (a *chatAnswer) event(_ string, data []byte) step {
	if string(data) == "[DONE]" {
		a.ended = true
		return last
	}
	f, ok := fieldsOf(data)
	if !ok || a.ended {
		return a.spoil()
	}
	if f.given("error") {
		return a.spoil()
	}
	if id := f.text("id"); id != "" && a.answer.id == "" {
		a.answer.id = id
	}
	out := pass
	for _, c := range f.list("choices") {
		choice, _ := fieldsOf(c)
		out = max(out, a.choice(choice, choice.object("delta"), true))
	}
	return out
}

// choice takes a delta, or a message that is whole.
func (a *chatAnswer) choice(c, message fields, stream bool) step {
	out := pass
	if c.given("index") && c.number("index") != 0 {
		a.several = true
	}
	for n, t := range message.list("tool_calls") {
		call, _ := fieldsOf(t)
		at := call.number("index")
		if !stream {
			at = n
		}
		out = max(out, a.part(at, call, call.object("function")))
	}
	if f := message.object("function_call"); f != nil {
		out = max(out, a.part(0, fields{}, f))
	}
	a.made(message.object("audio").text("id"))
	if reason := c.text("finish_reason"); reason != "" {
		a.finish = reason
		return max(out, hold)
	}
	return out
}

// part takes a piece of a call. Which call it belongs to is said by its index alone.
func (a *chatAnswer) part(at int, call, function fields) step {
	if at < 0 || at >= a.limits.Calls || a.finish != "" {
		return a.spoil()
	}
	for len(a.parts) <= at {
		a.parts = append(a.parts, nil)
	}
	p := a.parts[at]
	if p == nil {
		p = &part{label: call.text("id"), foreign: call.given("custom")}
		a.parts[at] = p
	}
	if id := call.text("id"); id != "" && id != p.label {
		return a.spoil() // two calls under one index: readers would put them together in two ways
	}
	if name := function.text("name"); name != "" {
		if p.name != "" && p.name != name {
			return a.spoil()
		}
		p.name = name
	}
	if function.given("arguments") && function["arguments"].Kind() != '"' {
		return a.spoil()
	}
	return a.grow(p, function.text("arguments"), a.limits)
}

func (a *chatAnswer) whole(body []byte) {
	f, ok := fieldsOf(body)
	if !ok || f.given("error") {
		a.spoil()
		return
	}
	a.answer.id = f.text("id")
	choices := f.list("choices")
	for _, c := range choices {
		choice, _ := fieldsOf(c)
		message := choice.object("message")
		reason := choice["finish_reason"]
		delete(choice, "finish_reason")
		a.choice(choice, message, false)
		a.finish = textOf(reason)
	}
	a.several = a.several || len(choices) > 1
	a.ended = true
}

func (a *chatAnswer) done() *answer {
	a.fresh()
	// Some servers say "stop" after calls. All else ends an answer early.
	a.complete = a.ended && !a.spoiled && slices.Contains([]string{"tool_calls", "function_call", "stop"}, a.finish)
	for at, p := range a.parts {
		if p != nil {
			a.add(p, at)
		}
	}
	return &a.answer
}
