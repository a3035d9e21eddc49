package llm

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/placet-dev/placet/history"
)

// responses is OpenAI's Responses.
var responses = dialect{
	format: history.Responses,
	members: []string{"background", "context_management", "conversation", "include", "input", "instructions", "max_output_tokens", "max_tool_calls", "metadata", "model",
		"parallel_tool_calls", "previous_response_id", "prompt", "prompt_cache_key", "prompt_cache_retention", "reasoning", "safety_identifier", "service_tier",
		"store", "stream", "stream_options", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user"},
	read:   readResponses,
	answer: func(l Limits) assembler { return &responsesAnswer{limits: l, parts: map[int]*part{}} },
}

func readResponses(q *request) *refusal {
	f := q.fields
	if f.yes("background") {
		return invalid("an answer in the background is fetched past this server; leave background out").as("background")
	}
	for _, t := range f.list("tools") {
		if r := q.responsesTool(t); r != nil {
			return r
		}
	}
	q.chatChoice(f["tool_choice"])
	q.object(f.text("previous_response_id"), f.text("conversation"), f.object("conversation").text("id"), f.object("prompt").text("id"))
	q.stores = !f.given("store") || f.yes("store")
	for _, item := range f.list("input") {
		o, _ := fieldsOf(item)
		// As the API reads it: an item with an ID alone is a reference.
		if kind := o.text("type"); kind == "item_reference" || kind == "" && o.text("role") == "" {
			q.object(o.text("id"))
		}
		q.references(o["content"], "file_id")
		q.references(o["output"], "file_id")
		q.references(o["action"], "file_id")
	}
	return nil
}

// responsesTool tells tools that the client runs from those that the provider runs.
// A kind that is not known is the provider's.
func (q *request) responsesTool(raw jsontext.Value) *refusal {
	t, _ := fieldsOf(raw)
	if name := t.variant([]string{"type", "name", "tools", "environment", "execution", "server_url", "connector_id", "container", "vector_store_ids"}); name != "" {
		return invalid("the member %s of a tool differs from a known one by case only", quoted(name))
	}
	switch kind := t.text("type"); kind {
	case "function", "custom":
		q.offered = append(q.offered, t.text("name"))
	case "namespace":
		for _, inner := range t.list("tools") {
			if r := q.responsesTool(inner); r != nil {
				return r
			}
		}
	case "local_shell", "apply_patch", "computer", "computer_use_preview":
		q.offered = append(q.offered, kind)
	case "shell":
		if t.object("environment").text("type") == "local" {
			q.offered = append(q.offered, kind)
		} else {
			q.host(kind)
			q.object(t.object("environment").text("container_id"))
		}
		if t.object("environment").given("skills") && t.object("environment").text("type") != "local" {
			q.host("skills")
		}
	case "tool_search":
		if t.text("execution") == "client" {
			q.offered = append(q.offered, kind)
		} else {
			q.host(kind)
		}
	case "mcp":
		where := t.text("server_url")
		if where == "" {
			where = t.text("connector_id")
		}
		q.host("mcp:" + where)
	default:
		q.host(kind)
		q.object(t.text("container"))
		q.references(t["container"], "file_id")
		for _, ids := range []jsontext.Value{t["vector_store_ids"], t.object("container")["file_ids"]} {
			for _, id := range listOf(ids) {
				q.object(textOf(id))
			}
		}
		q.references(t["input_image_mask"], "file_id")
	}
	return nil
}

// responsesAnswer puts an answer of Responses together: from the items that are
// done, which must be what the whole response holds at its end.
type responsesAnswer struct {
	limits Limits
	answer
	parts map[int]*part // calls, by output index
	ended bool
}

func (a *responsesAnswer) event(name string, data []byte) step {
	f, ok := fieldsOf(data)
	if !ok || a.ended {
		return a.spoil()
	}
	kind := f.text("type")
	if kind == "" || name != "" && name != kind {
		return a.spoil()
	}
	switch kind {
	case "response.created":
		a.response(f.object("response"))
	case "response.output_item.added":
		return a.begin(f.number("output_index"), f.object("item"))
	case "response.function_call_arguments.delta":
		p := a.parts[f.number("output_index")]
		if p == nil {
			return a.spoil()
		}
		return a.grow(p, f.text("delta"), a.limits)
	case "response.function_call_arguments.done":
		p := a.parts[f.number("output_index")]
		if p == nil {
			return a.spoil()
		}
		return max(hold, a.rest(p, f.text("arguments")))
	case "response.output_item.done":
		return a.item(f.number("output_index"), f.object("item"))
	case "response.completed":
		a.end(f.object("response"))
		return last
	case "response.incomplete":
		a.end(f.object("response"))
		return last
	case "response.failed", "response.cancelled", "error":
		return a.spoil()
	}
	return pass
}

// response takes what the response says of itself.
func (a *responsesAnswer) response(r fields) {
	if id := r.text("id"); id != "" {
		if a.id != "" && a.id != id {
			a.spoil()
		}
		a.id = id
	}
}

func (a *responsesAnswer) begin(at int, item fields) step {
	if item.text("type") != "function_call" {
		return pass
	}
	if at < 0 || len(a.parts) >= a.limits.Calls || a.parts[at] != nil {
		return a.spoil()
	}
	p := &part{label: item.text("call_id"), name: item.text("name"), foreign: indirect(item)}
	a.parts[at] = p
	return a.grow(p, item.text("arguments"), a.limits)
}

// indirect: the call was made by a program that the provider runs, or is of a
// namespace, under which another tool may have its name.
func indirect(item fields) bool {
	return item.given("namespace") || item.given("caller") && item.object("caller").text("type") != "direct"
}

// rest takes the arguments once they are stated whole; what came piece by piece must be the same.
func (a *responsesAnswer) rest(p *part, whole string) step {
	if len(p.text) == 0 {
		return a.grow(p, whole, a.limits)
	}
	if string(p.text) != whole {
		return a.spoil()
	}
	return pass
}

// item takes one that is done.
func (a *responsesAnswer) item(at int, item fields) step {
	a.madeBy(item)
	if item.text("type") != "function_call" {
		return pass
	}
	if a.parts[at] == nil {
		a.begin(at, item)
	}
	p := a.parts[at]
	if p == nil || p.name != item.text("name") || p.label != item.text("call_id") || item.given("status") && item.text("status") != "completed" {
		return a.spoil()
	}
	p.foreign = p.foreign || indirect(item)
	return max(hold, a.rest(p, item.text("arguments")))
}

// madeBy notes what of an item can be named later.
func (a *responsesAnswer) madeBy(item fields) {
	a.made(item.text("id"))
	if item.text("type") == "code_interpreter_call" {
		a.made(item.text("container_id"))
	}
}

// end takes the response as it stands at its end.
func (a *responsesAnswer) end(r fields) {
	a.response(r)
	a.ended = r.text("status") == "completed"
	if r.given("error") {
		a.spoil()
	}
	a.ended = a.ended && !r.given("incomplete_details")
	a.made(a.id, r.object("conversation").text("id"))
	output := r.list("output")
	if len(output) == 0 {
		return // some servers do not repeat it
	}
	calls := 0
	for at, raw := range output {
		item, _ := fieldsOf(raw)
		if item.text("type") != "function_call" {
			continue
		}
		calls++
		if p := a.parts[at]; p == nil || p.name != item.text("name") || p.label != item.text("call_id") || !bytes.Equal(p.text, []byte(item.text("arguments"))) {
			a.spoil()
		}
	}
	if calls != len(a.parts) {
		a.spoil()
	}
}

func (a *responsesAnswer) whole(body []byte) {
	f, ok := fieldsOf(body)
	if !ok {
		a.spoil()
		return
	}
	for at, raw := range f.list("output") {
		item, _ := fieldsOf(raw)
		a.item(at, item)
	}
	a.end(f)
}

func (a *responsesAnswer) done() *answer {
	a.fresh()
	a.complete = a.ended && !a.spoiled
	for _, at := range slices.Sorted(maps.Keys(a.parts)) {
		a.add(a.parts[at], at)
	}
	return &a.answer
}

// isEvents reports whether a content type is a stream of events.
func isEvents(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}
