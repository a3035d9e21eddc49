package placet

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/placet-dev/placet/edge/llm/llmtest"
)

// streams are the protocols as streams.
func streams() (out []proto) {
	for _, p := range protos() {
		if p.stream {
			out = append(out, p)
		}
	}
	return out
}

// emit has a model call, and fails the test where the answer is not the provider's.
func (a *asking) emit(who string, p proto, body string, reply llmtest.Reply, header ...string) {
	a.t.Helper()
	a.provider.Say(reply)
	if got := a.ask(who, p, body, header...); got.status != http.StatusOK || got.err != nil || reply.ID != "" && reply.Raw == "" && got.body != p.wire(reply) {
		a.t.Fatalf("%s: %d, %v\n%s", p, got.status, got.err, got.body)
	}
}

// runs has a call come over MCP, and compares what it did.
func (a *asking) runs(what, who, text string, times int) {
	a.t.Helper()
	a.call(who, "erase", text)
	user, agent := who, "bot"
	if u, of, ok := strings.Cut(who, "/"); ok {
		user, agent = u, of
	}
	var want []string
	for range times {
		want = append(want, "erase acme/"+user+"/"+agent)
	}
	a.effects(what, want...)
}

// TestRule_G2_WhatCounts: one emission is one call; what asks again, answers, drops,
// or begins a turn retires it; only its own caller can use it. The neighbour of each
// runs once.
func TestRule_G2_WhatCounts(t *testing.T) {
	a := newAsking(t, "")
	n := 0
	for _, p := range protos() {
		each := func(name string, play func(who, text string)) {
			t.Run(p.String()+" "+name, func(t *testing.T) {
				defer a.under(t)()
				n++
				play(fmt.Sprintf("user%d", n), fmt.Sprintf("file%d", n))
			})
		}
		call := func(text string) llmtest.Reply { return llmtest.Reply{Calls: []llmtest.Call{erase("c1", text)}} }
		each("an equal call twice", func(who, text string) {
			a.emit(who, p, p.body("", said{user: "go"}), call(text))
			a.runs("first", who, text, 1)
			a.runs("second", who, text, 0)
		})
		each("two equal calls of one answer", func(who, text string) {
			a.emit(who, p, p.body("", said{user: "go"}), llmtest.Reply{Calls: []llmtest.Call{erase("c1", text), erase("c2", text)}})
			a.runs("first", who, text, 1)
			a.runs("second", who, text, 1)
			a.runs("third", who, text, 0)
		})
		each("the same body again", func(who, text string) {
			body := p.body("", said{user: "go"})
			a.emit(who, p, body, call(text))
			a.emit(who, p, body, llmtest.Reply{Text: "no"})
			a.runs("after a retry that says something else", who, text, 0)
			a.emit(who, p, body, call(text))
			a.emit(who, p, body, call(text))
			a.runs("after a retry that says the same", who, text, 1)
			a.runs("once more", who, text, 0)
		})
		each("a new turn", func(who, text string) {
			a.emit(who, p, p.body("", said{user: "go"}), call(text))
			a.emit(who, p, p.body("", said{user: "go"}, said{text: "done"}, said{user: "and now?"}), llmtest.Reply{Text: "nothing"})
			a.runs("after a new turn", who, text, 0)
		})
		each("an answered call", func(who, text string) {
			c := erase("c1", text)
			a.emit(who, p, p.body("", said{user: "go"}), call(text))
			a.emit(who, p, p.body("", said{user: "go"}, said{call: &c}, said{result: "it was done"}), llmtest.Reply{Text: "fine"})
			a.runs("after its result was told", who, text, 0)
		})
		each("another caller", func(who, text string) {
			a.emit(who, p, p.body("", said{user: "go"}), call(text))
			for _, other := range []string{"mallory", who + "/other"} {
				a.runs(other, other, text, 0)
			}
			a.call(who+"@globex", "erase", text)
			a.effects("another tenant")
			a.runs("the caller", who, text, 1)
		})
		each("an answer that the model did not end", func(who, text string) {
			for _, finish := range []string{"length", "content_filter", "max_tokens", "refusal", "pause_turn", "MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL", "incomplete"} {
				if p.kind == llmtest.Responses && finish != "incomplete" {
					continue
				}
				reply := call(text)
				reply.Finish, reply.ID = finish, "resp_"+text+finish
				a.emit(who, p, p.body("", said{user: finish}), reply)
				a.runs(finish, who, text, 0)
			}
		})
	}
}

// TestRule_G2_SteeredAnswersDoNotCount: words put in the model's mouth, a tool that it
// had to call, one of several answers. The neighbour leaves it the choice.
func TestRule_G2_SteeredAnswersDoNotCount(t *testing.T) {
	a := newAsking(t, "")
	alone := func(p proto, body string) string {
		return strings.NewReplacer(`,{"type":"function","function":{"name":"look"}}`, "", `,{"type":"function","name":"look"}`, "", `,{"name":"look","input_schema":{}}`, "", `,{"name":"look"}`, "").Replace(body)
	}
	type row struct {
		name, more string
		alone      bool
		prefilled  bool
		runs       int
	}
	rows := map[llmtest.Kind][]row{
		llmtest.Chat: {{name: "named", more: `"tool_choice":{"type":"function","function":{"name":"erase"}}`}, {name: "must, and there is one", more: `"tool_choice":"required"`, alone: true},
			{name: "must, of a list of one", more: `"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"erase"}}]}}`},
			{name: "must, of two", more: `"tool_choice":"required"`, runs: 1}, {name: "another is named", more: `"tool_choice":{"type":"function","function":{"name":"look"}}`, runs: 1},
			{name: "several asked for", more: `"n":2`}, {name: "biased", more: `"logit_bias":{"5":100}`}, {name: "not biased", more: `"logit_bias":{}`, runs: 1}, {name: "old form", more: `"function_call":{"name":"erase"}`}},
		llmtest.Responses: {{name: "named", more: `"tool_choice":{"type":"function","name":"erase"}`}, {name: "must, and there is one", more: `"tool_choice":"required"`, alone: true},
			{name: "must, of a list of one", more: `"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"erase"}]}`},
			{name: "free, of a list of one", more: `"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"erase"}]}`, runs: 1}},
		llmtest.Messages: {{name: "named", more: `"tool_choice":{"type":"tool","name":"erase"}`}, {name: "must, and there is one", more: `"tool_choice":{"type":"any"}`, alone: true}, {name: "must, of two", more: `"tool_choice":{"type":"any"}`, runs: 1}},
		llmtest.Gemini: {{name: "must, and there is one", more: `"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}`, alone: true}, {name: "must, of a list of one", more: `"tool_config":{"function_calling_config":{"mode":"ANY","allowed_function_names":["erase"]}}`},
			{name: "must, of two", more: `"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}`, runs: 1}, {name: "several asked for", more: `"generationConfig":{"candidateCount":2}`}},
	}
	n := 0
	for _, p := range protos() {
		all := append(rows[p.kind], row{name: "free", runs: 1}, row{name: "free, and there is one", alone: true, runs: 1}, row{name: "prefilled", prefilled: true})
		for _, r := range all {
			t.Run(p.String()+" "+r.name, func(t *testing.T) {
				defer a.under(t)()
				n++
				who, text := fmt.Sprintf("user%d", n), fmt.Sprintf("file%d", n)
				history := []said{{user: "go"}}
				if r.prefilled {
					history = append(history, said{text: "Certainly, I erase"})
				}
				body := p.body(r.more, history...)
				if r.alone {
					body = alone(p, body)
				}
				a.emit(who, p, body, llmtest.Reply{Calls: []llmtest.Call{erase("c1", text)}})
				a.runs(r.name, who, text, r.runs)
			})
		}
		if p.kind == llmtest.Chat || p.kind == llmtest.Gemini {
			t.Run(p.String()+" several answers, unasked", func(t *testing.T) {
				defer a.under(t)()
				a.emit("several", p, p.body("", said{user: "go"}), llmtest.Reply{Others: 1, Calls: []llmtest.Call{erase("c1", "s")}})
				a.runs("several", "several", "s", 0)
			})
		}
	}
}

// TestRule_G2_ACutStreamIsNoEmission: a stream that breaks, anywhere, is passed on as
// it came, its client sees that it broke, and nothing of it counts.
func TestRule_G2_ACutStreamIsNoEmission(t *testing.T) {
	a := newAsking(t, "")
	n := 0
	for _, p := range streams() {
		t.Run(p.String(), func(t *testing.T) {
			defer a.under(t)()
			reply := llmtest.Reply{ID: "resp_1", Text: "I do.", Calls: []llmtest.Call{erase("c1", "x")}}
			events := reply.Events(p.kind)
			for cut := 1; cut < len(events); cut++ {
				n++
				who := fmt.Sprintf("user%d", n)
				reply.Cut = cut
				a.provider.Say(reply)
				got := a.ask(who, p, p.body("", said{user: "go"}))
				if got.err == nil || got.body != strings.Join(events[:cut], "") {
					t.Errorf("cut after %d: %v\n%s", cut, got.err, got.body)
				}
				a.runs("cut", who, "x", 0)
			}
			reply.Cut = 0
			n++
			a.emit(fmt.Sprintf("user%d", n), p, p.body("", said{user: "go"}), reply)
			a.runs("whole", fmt.Sprintf("user%d", n), "x", 1)
		})
	}
}

// TestBytesPassUnchanged: however a stream is cut into pieces and whatever ends its
// lines, the client reads the provider's bytes, and the call counts.
func TestBytesPassUnchanged(t *testing.T) {
	a := newAsking(t, "")
	n := 0
	for _, p := range streams() {
		for _, size := range []int{1, 7, 100, 4096} {
			for _, crlf := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %d crlf=%v", p, size, crlf), func(t *testing.T) {
					defer a.under(t)()
					n++
					who := fmt.Sprintf("user%d", n)
					reply := llmtest.Reply{ID: "r", Text: "Schön, é\u2028 gut.", Calls: []llmtest.Call{erase("c1", "ü\"}{")}, Chunk: size}
					want := ": hello\n\n" + p.wire(reply) + ": bye\n\n"
					if crlf {
						want = strings.ReplaceAll(want, "\n", "\r\n")
					}
					a.provider.Say(llmtest.Reply{Raw: want, Chunk: size})
					if got := a.ask(who, p, p.body("", said{user: "go"})); got.body != want || got.err != nil {
						t.Fatalf("%v\n%q\n%q", got.err, got.body, want)
					}
					a.runs("pieces", who, "ü\"}{", 1)
				})
			}
		}
	}
}

// TestCallsAreHeldUntilTheyAreRecorded: text reaches the client while the provider
// still speaks; what it could act on does not before the call counts.
func TestCallsAreHeldUntilTheyAreRecorded(t *testing.T) {
	a := newAsking(t, "")
	for n, p := range streams() {
		t.Run(p.String(), func(t *testing.T) {
			defer a.under(t)()
			who := fmt.Sprintf("user%d", n)
			gate, early := make(chan struct{}), make(chan struct{})
			reply := llmtest.Reply{ID: "r", Text: "I erase the file.", Calls: []llmtest.Call{erase("c1", "held")}, Gate: gate, Early: func() { close(early) }}
			a.provider.Say(reply)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.url+p.path, strings.NewReader(p.body("", said{user: "go"})))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+a.token(who))
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			lines, read := bufio.NewReader(resp.Body), ""
			for !strings.Contains(read, `file."`) { // while the provider waits, its words are here
				line, err := lines.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				read += line
			}
			<-early
			a.runs("held", who, "held", 0)
			close(gate)
			rest, err := io.ReadAll(lines)
			if err != nil || read+string(rest) != p.wire(reply) {
				t.Fatalf("%v\n%s", err, read+string(rest))
			}
			if strings.Contains(read, "held") {
				t.Errorf("the call was there before it was recorded:\n%s", read)
			}
			a.runs("released", who, "held", 1)
		})
	}
}

// TestRule_G3_NamesOfModels: a model calls a dotted tool by its alias, and a tool with
// what its client puts before names. Other names are nobody's.
func TestRule_G3_NamesOfModels(t *testing.T) {
	a := newAsking(t, "")
	p := protos()[0]
	for n, c := range []struct {
		wire, tool string
		runs       bool
	}{{"disk_wipe", "disk.wipe", true}, {"mcp__placet__disk_wipe", "disk.wipe", true}, {"mcp__placet__erase", "erase", true}, {"mcp__other__erase", "erase", false}, {"Erase", "erase", false}, {"disk__wipe", "disk.wipe", false}} {
		t.Run(c.wire, func(t *testing.T) {
			defer a.under(t)()
			who := fmt.Sprintf("user%d", n)
			call := erase("c1", "x")
			call.Name = c.wire
			a.emit(who, p, p.body("", said{user: "go"}), llmtest.Reply{Calls: []llmtest.Call{call}})
			a.call(who, c.tool, "x")
			if c.runs {
				a.effects(c.wire, c.tool+" acme/"+who+"/bot")
			} else {
				a.effects(c.wire)
			}
		})
	}
}
