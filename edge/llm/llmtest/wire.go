package llmtest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Kind is a protocol.
type Kind string

// The protocols.
const (
	Chat      Kind = "chat"
	Responses Kind = "responses"
	Messages  Kind = "messages"
	Gemini    Kind = "gemini"
)

// Kinds lists them.
var Kinds = []Kind{Chat, Responses, Messages, Gemini}

// kindOf is the protocol of a request; empty: nothing is asked of a model.
func kindOf(r Request) (kind Kind, stream bool) {
	var asked struct{ Stream bool }
	_ = json.Unmarshal([]byte(r.Body), &asked) // what is no JSON asks for no stream
	switch {
	case strings.HasSuffix(r.Path, "/chat/completions"):
		return Chat, asked.Stream
	case strings.HasSuffix(r.Path, "/responses"):
		return Responses, asked.Stream
	case strings.HasSuffix(r.Path, "/messages"):
		return Messages, asked.Stream
	case strings.HasSuffix(r.Path, ":streamGenerateContent"):
		return Gemini, true
	case strings.HasSuffix(r.Path, ":generateContent"):
		return Gemini, false
	}
	return "", false
}

// quote is s as JSON.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // strings always marshal
		return `""`
	}
	return string(b)
}

// pieces cuts arguments as a stream would.
func (c Call) pieces() []string {
	n := c.Pieces
	if n <= 0 {
		n = 2
	}
	var out []string
	for rest := c.Arguments; rest != ""; n-- {
		size := len(rest) / max(n, 1)
		if n <= 1 || size == 0 {
			size = len(rest)
		}
		out = append(out, rest[:size])
		rest = rest[size:]
	}
	return out
}

// finish is why the answer stops.
func (y Reply) finish(calls, text string) string {
	switch {
	case y.Finish != "":
		return y.Finish
	case len(y.Calls) > 0:
		return calls
	}
	return text
}

// Events are the events of the reply as a stream, each with the empty line that ends it.
func (y Reply) Events(kind Kind) []string {
	switch kind {
	case Chat:
		return y.chatEvents()
	case Responses:
		return y.responsesEvents()
	case Messages:
		return y.messagesEvents()
	}
	return y.geminiEvents()
}

// Body is the reply in one piece.
func (y Reply) Body(kind Kind) string {
	if y.Raw != "" {
		return y.Raw
	}
	switch kind {
	case Chat:
		return y.chatBody()
	case Responses:
		return y.responsesBody(y.finish("completed", "completed"))
	case Messages:
		return y.messagesBody()
	}
	return y.geminiBody()
}

func data(s string) string { return "data: " + s + "\n\n" }

func (y Reply) chatEvents() []string {
	chunk := func(choice int, delta, finish string) string {
		return data(fmt.Sprintf(`{"id":%s,"object":"chat.completion.chunk","created":1,"model":"fake","choices":[{"index":%d,"delta":%s,"finish_reason":%s}]}`,
			quote(y.ID), choice, delta, finish))
	}
	var out []string
	for choice := 0; choice <= y.Others; choice++ {
		out = append(out, chunk(choice, `{"role":"assistant","content":""}`, "null"))
		for _, word := range words(y.Text) {
			out = append(out, chunk(choice, `{"content":`+quote(word)+`}`, "null"))
		}
		for n, c := range y.Calls {
			out = append(out, chunk(choice, fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]}`, n, quote(c.ID), quote(c.Name)), "null"))
			for _, p := range c.pieces() {
				out = append(out, chunk(choice, fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, n, quote(p)), "null"))
			}
		}
		out = append(out, chunk(choice, "{}", quote(y.finish("tool_calls", "stop"))))
	}
	return append(out, data("[DONE]"))
}

func (y Reply) chatBody() string {
	var calls []string
	for _, c := range y.Calls {
		calls = append(calls, fmt.Sprintf(`{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}`, quote(c.ID), quote(c.Name), quote(c.Arguments)))
	}
	list := ""
	if len(calls) > 0 {
		list = `,"tool_calls":[` + strings.Join(calls, ",") + `]`
	}
	var choices []string
	for choice := 0; choice <= y.Others; choice++ {
		choices = append(choices, fmt.Sprintf(`{"index":%d,"message":{"role":"assistant","content":%s%s},"finish_reason":%s}`, choice, quote(y.Text), list, quote(y.finish("tool_calls", "stop"))))
	}
	return fmt.Sprintf(`{"id":%s,"object":"chat.completion","created":1,"model":"fake","choices":[%s],"usage":{"total_tokens":3}}`, quote(y.ID), strings.Join(choices, ","))
}

func (y Reply) responsesEvents() []string {
	var out []string
	event := func(kind, members string) {
		out = append(out, fmt.Sprintf("event: %s\ndata: {\"type\":%s,\"sequence_number\":%d,%s}\n\n", kind, quote(kind), len(out), members))
	}
	event("response.created", fmt.Sprintf(`"response":{"id":%s,"object":"response","status":"in_progress","output":[]}`, quote(y.ID)))
	at := 0
	if y.Text != "" {
		event("response.output_item.added", fmt.Sprintf(`"output_index":0,"item":{"id":%s,"type":"message","status":"in_progress","role":"assistant","content":[]}`, quote("msg_"+y.ID)))
		for _, word := range words(y.Text) {
			event("response.output_text.delta", fmt.Sprintf(`"item_id":%s,"output_index":0,"content_index":0,"delta":%s`, quote("msg_"+y.ID), quote(word)))
		}
		event("response.output_item.done", `"output_index":0,"item":`+y.message())
		at++
	}
	for n, c := range y.Calls {
		id := quote(fmt.Sprintf("fc_%s_%d", y.ID, n))
		event("response.output_item.added", fmt.Sprintf(`"output_index":%d,"item":{"id":%s,"type":"function_call","status":"in_progress","call_id":%s,"name":%s,"arguments":""}`, at+n, id, quote(c.ID), quote(c.Name)))
		for _, p := range c.pieces() {
			event("response.function_call_arguments.delta", fmt.Sprintf(`"item_id":%s,"output_index":%d,"delta":%s`, id, at+n, quote(p)))
		}
		event("response.function_call_arguments.done", fmt.Sprintf(`"item_id":%s,"output_index":%d,"arguments":%s`, id, at+n, quote(c.Arguments)))
		event("response.output_item.done", fmt.Sprintf(`"output_index":%d,"item":%s`, at+n, y.call(n)))
	}
	status := y.finish("completed", "completed")
	event("response."+status, `"response":`+y.responsesBody(status))
	return out
}

func (y Reply) message() string {
	return fmt.Sprintf(`{"id":%s,"type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":%s,"annotations":[]}]}`, quote("msg_"+y.ID), quote(y.Text))
}

func (y Reply) call(n int) string {
	c := y.Calls[n]
	return fmt.Sprintf(`{"id":%s,"type":"function_call","status":"completed","call_id":%s,"name":%s,"arguments":%s}`, quote(fmt.Sprintf("fc_%s_%d", y.ID, n)), quote(c.ID), quote(c.Name), quote(c.Arguments))
}

func (y Reply) responsesBody(status string) string {
	var items []string
	if y.Text != "" {
		items = append(items, y.message())
	}
	for n := range y.Calls {
		items = append(items, y.call(n))
	}
	return fmt.Sprintf(`{"id":%s,"object":"response","created_at":1,"model":"fake","status":%s,"error":null,"incomplete_details":null,"output":[%s],"usage":{"total_tokens":3}}`,
		quote(y.ID), quote(status), strings.Join(items, ","))
}

func (y Reply) messagesEvents() []string {
	var out []string
	event := func(kind, members string) {
		if members != "" {
			members = "," + members
		}
		out = append(out, fmt.Sprintf("event: %s\ndata: {\"type\":%s%s}\n\n", kind, quote(kind), members))
	}
	event("message_start", fmt.Sprintf(`"message":{"id":%s,"type":"message","role":"assistant","model":"fake","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}`, quote(y.ID)))
	event("ping", "")
	at := 0
	if y.Text != "" {
		event("content_block_start", `"index":0,"content_block":{"type":"text","text":""}`)
		for _, word := range words(y.Text) {
			event("content_block_delta", `"index":0,"delta":{"type":"text_delta","text":`+quote(word)+`}`)
		}
		event("content_block_stop", `"index":0`)
		at++
	}
	for n, c := range y.Calls {
		event("content_block_start", fmt.Sprintf(`"index":%d,"content_block":{"type":"tool_use","id":%s,"name":%s,"input":{}}`, at+n, quote(c.ID), quote(c.Name)))
		event("content_block_delta", fmt.Sprintf(`"index":%d,"delta":{"type":"input_json_delta","partial_json":""}`, at+n))
		for _, p := range c.pieces() {
			event("content_block_delta", fmt.Sprintf(`"index":%d,"delta":{"type":"input_json_delta","partial_json":%s}`, at+n, quote(p)))
		}
		event("content_block_stop", fmt.Sprintf(`"index":%d`, at+n))
	}
	event("message_delta", fmt.Sprintf(`"delta":{"stop_reason":%s,"stop_sequence":null},"usage":{"output_tokens":3}`, quote(y.finish("tool_use", "end_turn"))))
	event("message_stop", "")
	return out
}

func (y Reply) messagesBody() string {
	var blocks []string
	if y.Text != "" {
		blocks = append(blocks, `{"type":"text","text":`+quote(y.Text)+`}`)
	}
	for _, c := range y.Calls {
		blocks = append(blocks, fmt.Sprintf(`{"type":"tool_use","id":%s,"name":%s,"input":%s}`, quote(c.ID), quote(c.Name), c.Arguments))
	}
	return fmt.Sprintf(`{"id":%s,"type":"message","role":"assistant","model":"fake","content":[%s],"stop_reason":%s,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":3}}`,
		quote(y.ID), strings.Join(blocks, ","), quote(y.finish("tool_use", "end_turn")))
}

func (y Reply) geminiChunk(parts []string, finish string) string {
	if finish != "" {
		finish = `,"finishReason":` + quote(finish)
	}
	var all []string
	for n := 0; n <= y.Others; n++ {
		all = append(all, fmt.Sprintf(`{"content":{"role":"model","parts":[%s]},"index":%d%s}`, strings.Join(parts, ","), n, finish))
	}
	return fmt.Sprintf(`{"candidates":[%s],"usageMetadata":{"totalTokenCount":3},"modelVersion":"fake","responseId":%s}`, strings.Join(all, ","), quote(y.ID))
}

func (y Reply) geminiCall(c Call) string {
	id := ""
	if c.ID != "" {
		id = `"id":` + quote(c.ID) + ","
	}
	return fmt.Sprintf(`{"functionCall":{%s"name":%s,"args":%s}}`, id, quote(c.Name), c.Arguments)
}

func (y Reply) geminiEvents() []string {
	var out []string
	for _, word := range words(y.Text) {
		out = append(out, data(y.geminiChunk([]string{`{"text":` + quote(word) + `}`}, "")))
	}
	for _, c := range y.Calls {
		out = append(out, data(y.geminiChunk([]string{y.geminiCall(c)}, "")))
	}
	return append(out, data(y.geminiChunk([]string{`{"text":""}`}, y.finish("STOP", "STOP"))))
}

func (y Reply) geminiBody() string {
	var parts []string
	if y.Text != "" {
		parts = append(parts, `{"text":`+quote(y.Text)+`}`)
	}
	for _, c := range y.Calls {
		parts = append(parts, y.geminiCall(c))
	}
	return y.geminiChunk(parts, y.finish("STOP", "STOP"))
}

// words are a text in the pieces of a stream.
func words(s string) []string {
	if s == "" {
		return nil
	}
	return strings.SplitAfter(s, " ")
}

func text(n int) string { return strconv.Itoa(n) }
