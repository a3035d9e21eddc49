package history

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Detect names the format of a transcript if something in it belongs to one format
// only. It reads as far as it must, and returns an error that names the candidates
// when nothing, or too much, is found: the caller then has to say.
func Detect(r io.Reader, lim Limits) (Format, error) {
	lim = lim.withDefaults()
	d := &detector{src: &bounded{r: r, left: lim.Bytes}, lim: lim, signs: map[Format]bool{}}
	d.dec = jsontext.NewDecoder(&unframed{r: d.src})
	d.read()
	var found []string
	for f := range d.signs {
		found = append(found, string(f))
	}
	slices.Sort(found)
	switch len(found) {
	case 1:
		return Format(found[0]), nil
	case 0:
		return "", invalid("nothing in the transcript tells its format; name one of %s", names())
	}
	return "", invalid("the transcript has signs of %s; name its format", strings.Join(found, " and "))
}

type detector struct {
	src   *bounded
	dec   *jsontext.Decoder
	lim   Limits
	signs map[Format]bool
}

// read goes through a list of messages, or an object that holds one, and stops
// where the text ends to be JSON: whoever reads it next says so.
func (d *detector) read() {
	switch d.dec.PeekKind() {
	case '[':
		d.list(false)
	case '{':
		_, _ = d.dec.ReadToken()
		for d.dec.PeekKind() == '"' {
			name, err := d.dec.ReadToken()
			if err != nil || !d.member(name.String()) {
				return
			}
		}
	}
}

func (d *detector) member(name string) bool {
	kind := d.dec.PeekKind()
	switch name {
	case "contents", "systemInstruction":
		d.signs[Gemini] = true
	case "input":
		if kind == '"' {
			d.signs[Responses] = true
		}
	case "previous_response_id":
		d.signs[Responses] = true
	case "threadId", "forwardedProps":
		d.signs[AGUI] = true
	case "events":
		d.signs[ADK] = true
	case "history":
		d.signs[A2A] = true
	case "params":
		if kind == '{' {
			_, err := d.dec.ReadToken()
			return err == nil
		}
	case "systemPrompt":
		d.signs[Sampling] = true
	}
	if kind == '[' && slices.Contains([]string{"messages", "input", "output", "contents", "history", "events"}, name) {
		return d.list(name == "input" || name == "output")
	}
	d.src.value = d.lim.Message
	v, err := d.dec.ReadValue()
	if name == "system" && err == nil && v[0] == '"' {
		return true // Anthropic's, or the AI SDK's
	}
	return err == nil
}

func (d *detector) list(items bool) bool {
	if _, err := d.dec.ReadToken(); err != nil {
		return false
	}
	for d.dec.PeekKind() != ']' {
		d.src.value = d.lim.Message
		raw, err := d.dec.ReadValue()
		if err != nil {
			return false
		}
		d.message(raw, items)
	}
	_, err := d.dec.ReadToken()
	return err == nil
}

// message looks for what only one format has.
func (d *detector) message(raw []byte, items bool) {
	if len(raw) > 0 && raw[0] == '[' {
		d.signs[LangChain] = true
		return
	}
	var role, kind, author []byte
	var content, parts []byte
	has := map[string]bool{}
	for m := range members(raw) {
		v := raw[m.start:m.end]
		switch string(m.name) {
		case "role":
			role = unquote(v)
		case "type":
			kind = unquote(v)
		case "author":
			author = unquote(v)
		case "content":
			content = v
		case "parts":
			parts = v
		case "tool_calls", "tool_call_id", "toolCalls", "toolCallId", "lc", "kwargs", "data", "messageId", "function_call":
			has[string(m.name)] = string(v) != "null"
			if string(m.name) == "tool_calls" {
				d.toolCalls(v)
			}
		}
	}
	if isEvent(kind) {
		d.signs[AGUIEvents] = true
		delete(d.signs, ADK) // which spells its list alike
		return
	}
	switch {
	case has["toolCalls"], has["toolCallId"]:
		d.signs[AGUI] = true
	case author != nil && bytes.HasPrefix(content, []byte("{")):
		d.signs[ADK] = true
	case has["lc"], role == nil && slices.Contains([]string{"human", "ai", "tool", "system", "remove"}, string(kind)):
		d.signs[LangChain] = true
	case role == nil && kind != nil, items:
		d.signs[Responses] = true
	case has["tool_call_id"] && string(role) == "tool", has["function_call"]:
		d.signs[Chat] = true
	case parts != nil:
		d.parts(parts, has["messageId"])
	case bytes.HasPrefix(content, []byte("{")):
		d.signs[Sampling] = true
	}
	d.content(content)
}

func (d *detector) toolCalls(v []byte) {
	for _, e := range elements(v) {
		switch {
		case find(e, "args") != nil:
			d.signs[LangChain] = true
		case find(e, "function") != nil, find(e, "custom") != nil:
			d.signs[Chat] = true
		}
	}
}

func (d *detector) parts(v []byte, a2a bool) {
	for _, e := range elements(v) {
		switch {
		case a2a, find(e, "kind") != nil:
			d.signs[A2A] = true
		case find(e, "type") != nil:
			d.signs[UI] = true
		default:
			d.signs[Gemini] = true
		}
	}
}

func (d *detector) content(v []byte) {
	for _, e := range elements(v) {
		switch t := string(unquote(find(e, "type"))); t {
		case "tool-call", "tool-result", "tool-approval-request", "tool-approval-response", "reasoning":
			if t != "reasoning" {
				d.signs[Model] = true
			}
		case "tool_use":
			if !d.signs[Sampling] && !d.signs[LangChain] {
				d.signs[Messages] = true // sampling spells a call alike; its results and its own signs differ
			}
		case "tool_result":
			if find(e, "toolUseId") != nil {
				d.signs[Sampling] = true
				delete(d.signs, Messages)
			} else {
				d.signs[Messages] = true
			}
		case "thinking", "redacted_thinking", "server_tool_use":
			d.signs[Messages] = true
		case "input_text", "output_text":
			d.signs[Responses] = true
		case "image_url":
			d.signs[Chat] = true
		case "":
			if find(e, "toolUse") != nil || find(e, "toolResult") != nil {
				d.signs[Bedrock] = true
			}
		}
	}
}
