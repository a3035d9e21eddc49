package history

import (
	"bytes"
	"slices"
)

// withMember replaces an object's member, or puts it first.
func withMember(object []byte, name string, value []byte) []byte {
	for m := range members(object) {
		if string(m.name) == name {
			return slices.Concat(object[:m.start], value, object[m.end:])
		}
	}
	rest := object[1:]
	comma := ","
	if at := space(rest, 0); at < len(rest) && rest[at] == '}' {
		comma = ""
	}
	return slices.Concat([]byte("{"), quote(name), []byte(":"), value, []byte(comma), rest)
}

// without removes an object's member, with the comma that goes with it.
func without(object []byte, name string) []byte {
	var out [][]byte
	for m := range members(object) {
		if string(m.name) != name {
			out = append(out, object[m.key:m.end])
		}
	}
	return slices.Concat([]byte("{"), bytes.Join(out, []byte(",")), []byte("}"))
}

// joined is a list.
func joined(values [][]byte) []byte {
	return slices.Concat([]byte("["), bytes.Join(values, []byte(",")), []byte("]"))
}

// assemble is an object of names and values that are JSON already.
func assemble(pairs ...string) []byte {
	out := []byte("{")
	for n := 0; n+1 < len(pairs); n += 2 {
		if n > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, quote(pairs[n])...), ':'), pairs[n+1]...)
	}
	return append(out, '}')
}

// convert writes a transcript's texts, calls and results in another format, in
// their order and as they are; what is wrong with them is repaired afterwards. What
// the other format cannot say, or must not be told as the model's, is dropped and
// reported. from names the source message of each message written.
func convert(t *Transcript, pairs *pairing, target Format, out *Repaired) (text []byte, from []int) {
	c := &converter{target: target, out: out, pairs: pairs, gone: map[int]bool{}, ids: relabel(t, pairs, target, func(i *Item) bool { return pairs.verdicts[i.Index] != kept })}
	for i := range t.Items {
		if id := c.ids[i.Index]; id != "" {
			out.Changes = append(out.Changes, Change{Action: Renamed, At: i.At, Message: i.Message, Item: i.Index, Why: "the label is empty, used before, or not legal here"})
		}
	}
	for n := range t.system {
		c.system(&t.system[n])
	}
	for n := range t.outside {
		c.dropped(&t.outside[n], "it points at what this format does not have")
	}
	for n := range t.Messages {
		m := &t.Messages[n]
		c.from = n
		for k := range m.Items {
			c.item(&m.Items[k])
		}
		c.flush()
		out.Changes = append(out.Changes, Change{Action: Converted, At: m.At, Message: m.Index, Item: -1, Why: "from " + string(t.Format)})
	}
	list := string(joined(c.list))
	switch {
	case target == Responses:
		return assemble("input", list), c.origin
	case target == Messages && len(c.systems) > 0:
		return assemble("system", string(joined(c.systems)), "messages", list), c.origin
	}
	return assemble("messages", list), c.origin
}

type converter struct {
	target  Format
	out     *Repaired
	pairs   *pairing
	gone    map[int]bool // calls that are not written
	ids     map[int]string
	from    int
	systems [][]byte
	list    [][]byte
	origin  []int

	texts, calls, results [][]byte // of the step being written
}

func (c *converter) dropped(i *Item, why string) {
	c.out.Changes = append(c.out.Changes, Change{Action: Dropped, At: i.At, Message: i.Message, Item: i.Index, Why: why})
}

func (c *converter) label(i *Item) string {
	if id := c.ids[i.Index]; id != "" {
		return id
	}
	return i.ID
}

func (c *converter) emit(m []byte) {
	c.list, c.origin = append(c.list, m), append(c.origin, c.from)
}

func (c *converter) item(i *Item) {
	switch v := c.pairs.verdicts[i.Index]; {
	case v == duplicate:
		c.dropped(i, "it stands before already")
		return
	case v == orphan:
		c.dropped(i, "a result without a call")
		return
	case v == foreign:
		c.dropped(i, "a call or result in a message where the format has none")
		c.gone[i.Index] = true
		return
	case v == paired && c.gone[c.pairs.call[i.Index]]:
		c.dropped(i, "its call was dropped")
		return
	}
	switch i.Kind {
	case System:
		c.flush()
		c.system(i)
	case User, Assistant:
		c.said(i)
	case Call:
		c.call(i)
	case Result:
		if i.Provider {
			c.dropped(i, "the provider ran the tool")
			return
		}
		c.result(i)
	case Marker:
		c.flush()
		c.dropped(i, "this format does not have it")
	case Reasoning:
		c.dropped(i, "reasoning is of one provider only")
	default:
		c.dropped(i, "it is not passed on to another format")
	}
}

func (c *converter) system(i *Item) {
	text := string(quote(i.Text()))
	switch c.target {
	case Messages:
		c.systems = append(c.systems, assemble("type", `"text"`, "text", text))
	case Responses:
		c.emit(assemble("type", `"message"`, "role", `"system"`, "content", text))
	default:
		c.emit(assemble("role", `"system"`, "content", text))
	}
}

func (c *converter) said(i *Item) {
	text, ok := oneText(i.Content)
	if !ok {
		c.dropped(i, "it is not a text")
		return
	}
	if len(text) == 0 {
		return
	}
	if i.Kind == Assistant && len(c.calls)+len(c.results) == 0 {
		c.texts = append(c.texts, quote(string(text)))
		return
	}
	c.flush()
	if i.Kind == Assistant {
		c.texts = append(c.texts, quote(string(text)))
		return
	}
	if c.target == Responses {
		c.emit(assemble("type", `"message"`, "role", `"user"`, "content", string(quote(string(text)))))
		return
	}
	c.emit(assemble("role", `"user"`, "content", string(quote(string(text)))))
}

func (c *converter) call(i *Item) {
	arguments := string(i.Arguments)
	if len(bytes.TrimSpace(i.Arguments)) == 0 {
		arguments = "{}"
	}
	switch {
	case i.Again:
		return
	case i.Provider:
		c.dropped(i, "the provider ran the tool")
	case i.Bad != "" || i.Incomplete || i.Type == "custom_tool_call" || i.Type == "custom":
		c.dropped(i, "its arguments cannot be written in this format")
		c.gone[i.Index] = true
		if c.pairs.result[i.Index] == nil {
			c.out.TurnInvalid = true
		}
	case c.target == Chat:
		c.calls = append(c.calls, assemble("id", string(quote(c.label(i))), "type", `"function"`,
			"function", string(assemble("name", string(quote(i.Tool)), "arguments", string(quote(arguments))))))
	case c.target == Responses:
		c.calls = append(c.calls, assemble("type", `"function_call"`, "call_id", string(quote(c.label(i))), "name", string(quote(i.Tool)), "arguments", string(quote(arguments))))
	default:
		c.calls = append(c.calls, assemble("type", `"tool_use"`, "id", string(quote(c.label(i))), "name", string(quote(i.Tool)), "input", arguments))
	}
}

func (c *converter) result(i *Item) {
	text := string(quote(i.Text()))
	switch c.target {
	case Chat:
		c.results = append(c.results, assemble("role", `"tool"`, "tool_call_id", string(quote(c.label(i))), "content", text))
	case Responses:
		c.results = append(c.results, assemble("type", `"function_call_output"`, "call_id", string(quote(c.label(i))), "output", text))
	default:
		block := []string{"type", `"tool_result"`, "tool_use_id", string(quote(c.label(i))), "content", text}
		if i.Failed {
			block = append(block, "is_error", "true")
		}
		c.results = append(c.results, assemble(block...))
	}
}

// flush ends a step: what the model said, its calls, then the results.
func (c *converter) flush() {
	switch c.target {
	case Chat:
		if len(c.texts)+len(c.calls) > 0 {
			m := []string{"role", `"assistant"`, "content", "null"}
			if len(c.texts) == 1 {
				m[3] = string(c.texts[0])
			} else if len(c.texts) > 1 {
				m[3] = string(joined(blocks(c.texts, "text")))
			}
			if len(c.calls) > 0 {
				m = append(m, "tool_calls", string(joined(c.calls)))
			}
			c.emit(assemble(m...))
		}
		for _, r := range c.results {
			c.emit(r)
		}
	case Responses:
		if len(c.texts) > 0 {
			c.emit(assemble("type", `"message"`, "role", `"assistant"`, "content", string(joined(blocks(c.texts, "output_text")))))
		}
		for _, i := range slices.Concat(c.calls, c.results) {
			c.emit(i)
		}
	default:
		if len(c.texts)+len(c.calls) > 0 {
			c.emit(assemble("role", `"assistant"`, "content", string(joined(slices.Concat(blocks(c.texts, "text"), c.calls)))))
		}
		if len(c.results) > 0 {
			c.emit(assemble("role", `"user"`, "content", string(joined(c.results))))
		}
	}
	c.texts, c.calls, c.results = nil, nil, nil
}

func blocks(texts [][]byte, kind string) [][]byte {
	out := make([][]byte, len(texts))
	for n, t := range texts {
		out[n] = assemble("type", string(quote(kind)), "text", string(t))
	}
	return out
}
