package llm

import (
	"strings"

	"github.com/placet-dev/placet/history"
)

// gemini is Gemini's generateContent. Its JSON takes every name in two spellings,
// camelCase and snake_case (ProtoJSON); of a request that has both, two readers could
// take one each.
var gemini = dialect{
	format: history.Gemini,
	members: []string{"contents", "model", "systemInstruction", "system_instruction", "tools", "toolConfig", "tool_config", "generationConfig", "generation_config",
		"safetySettings", "safety_settings", "cachedContent", "cached_content", "labels", "serviceTier", "service_tier"},
	read:   readGemini,
	answer: func(l Limits) assembler { return &geminiAnswer{limits: l} },
}

// either is a member in either of its spellings.
func (f fields) either(name string) string {
	if snake := snakeCase(name); f.given(snake) {
		return snake
	}
	return name
}

func snakeCase(name string) string {
	var b strings.Builder
	for _, c := range name {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

func camelCase(name string) string {
	words := strings.Split(name, "_")
	for n := 1; n < len(words); n++ {
		if words[n] != "" {
			words[n] = strings.ToUpper(words[n][:1]) + words[n][1:]
		}
	}
	return strings.Join(words, "")
}

// twice is a member that is there in both spellings.
func (f fields) twice() string {
	for name := range f {
		if camel := camelCase(name); camel != name {
			if _, both := f[camel]; both {
				return name
			}
		}
	}
	return ""
}

func readGemini(q *request) *refusal {
	f := q.fields
	config, tools := f.object(f.either("toolConfig")), f.list("tools")
	generation := f.object(f.either("generationConfig"))
	if len(tools) == 0 && f.given("tools") && f["tools"].Kind() == '{' {
		tools = append(tools, f["tools"]) // one in place of a list
	}
	for _, o := range []fields{f, config, generation} {
		if name := o.twice(); name != "" {
			return invalid("the member %s is there in two spellings", quoted(name))
		}
	}
	for _, t := range tools {
		o, ok := fieldsOf(t)
		if name := o.twice(); !ok || name != "" {
			return invalid("a tool is no object, or has a member in two spellings")
		}
		q.geminiTool(o)
	}
	calling := config.object(config.either("functionCallingConfig"))
	if mode := calling.text("mode"); mode != "" && mode != "AUTO" && mode != "NONE" && mode != "VALIDATED" && mode != "MODE_UNSPECIFIED" {
		q.must = true
	}
	if names := calling.list(calling.either("allowedFunctionNames")); names != nil {
		q.allowed = []string{}
		for _, n := range names {
			q.allowed = append(q.allowed, textOf(n))
		}
	}
	if n := generation.either("candidateCount"); generation.given(n) && generation.number(n) != 1 {
		q.void = voidChoices
	}
	q.object(f.text(f.either("cachedContent")))
	q.references(f["contents"], "fileUri", "file_uri")
	q.references(f[f.either("systemInstruction")], "fileUri", "file_uri")
	return nil
}

// geminiTool: each member is a kind of tool.
func (q *request) geminiTool(o fields) {
	for name := range o {
		switch kind := camelCase(name); kind {
		case "functionDeclarations":
			for _, d := range o.list(name) {
				f, _ := fieldsOf(d)
				q.offered = append(q.offered, f.text("name"))
			}
		case "computerUse":
			q.offered = append(q.offered, kind)
		case "mcpServers":
			for _, s := range o.list(name) {
				f, _ := fieldsOf(s)
				transport := f.object(f.either("streamableHttpTransport"))
				q.host("mcp:" + transport.text("url"))
			}
		default:
			q.host(kind)
			inner := o.object(name)
			stores := append(inner.list(inner.either("fileSearchStoreNames")), inner.list("corpora")...)
			for _, s := range stores {
				q.object(textOf(s))
			}
		}
	}
}

// geminiAnswer puts an answer of generateContent together. A stream is a row of
// answers, each with further parts; it has no mark of its end but the end itself.
type geminiAnswer struct {
	limits Limits
	answer
	parts  []*part
	finish string
	ended  bool
}

func (a *geminiAnswer) event(_ string, data []byte) step {
	if a.finish != "" {
		// A row goes on after the reason was given, with counts of tokens and no parts.
		before := len(a.parts)
		a.take(data)
		if len(a.parts) != before {
			return a.spoil()
		}
		return pass
	}
	before := len(a.parts)
	a.take(data)
	if len(a.parts) > before || a.finish != "" {
		return hold
	}
	return pass
}

func (a *geminiAnswer) take(data []byte) {
	f, ok := fieldsOf(data)
	if !ok || f.given("error") {
		a.spoil()
		return
	}
	if id := f.text("responseId"); id != "" && a.id == "" {
		a.id = id
	}
	candidates := f.list("candidates")
	a.several = a.several || len(candidates) > 1
	for _, c := range candidates {
		o, _ := fieldsOf(c)
		if o.given("index") && o.number("index") != 0 {
			a.several = true
		}
		for _, p := range o.object("content").list("parts") {
			part, _ := fieldsOf(p)
			a.call(part.object(part.either("functionCall")))
		}
		if reason := o.text("finishReason"); reason != "" {
			a.finish = reason
		}
	}
}

func (a *geminiAnswer) call(c fields) {
	if c == nil {
		return
	}
	if len(a.parts) >= a.limits.Calls || c.yes("willContinue") || c.given("partialArgs") {
		a.spoil() // arguments by path are not put together here
		return
	}
	p := &part{label: c.text("id"), name: c.text("name")}
	a.parts = append(a.parts, p)
	a.grow(p, string(c["args"]), a.limits)
}

func (a *geminiAnswer) whole(body []byte) {
	a.take(body)
	a.end()
}

// end is the end of a stream, which its sender made.
func (a *geminiAnswer) end() { a.ended = true }

func (a *geminiAnswer) done() *answer {
	a.fresh()
	a.complete = a.ended && !a.spoiled && a.finish == "STOP"
	for at, p := range a.parts {
		a.add(p, at)
	}
	return &a.answer
}
