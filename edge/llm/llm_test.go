package llm

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/placet-dev/placet/edge/llm/llmtest"
)

var dialects = map[llmtest.Kind]*dialect{llmtest.Chat: &chat, llmtest.Responses: &responses, llmtest.Messages: &messages, llmtest.Gemini: &gemini}

// TestRule_G3_Aliases: no two tools are one to a model.
func TestRule_G3_Aliases(t *testing.T) {
	got, err := Aliases([]string{"db.query", "http.post", "plain", "a.b", "a_b", "c.d_e", "c_d.e"})
	if err != nil {
		t.Fatal(err)
	}
	if got["db.query"] != "db_query" || got["http.post"] != "http_post" || got["plain"] != "" {
		t.Errorf("%v", got)
	}
	seen := map[string]string{"plain": "plain", "a_b": "a_b"}
	for tool, alias := range got {
		if strings.Contains(alias, ".") || len(alias) > longest || seen[alias] != "" {
			t.Errorf("%s is %q, as is %q", tool, alias, seen[alias])
		}
		seen[alias] = tool
	}
	long := strings.Repeat("x", 60)
	if got, err = Aliases([]string{long + ".a_b", long + "_a.b", long + "_a_b"}); err != nil || len(got) != 2 || got[long+".a_b"] == got[long+"_a.b"] || len(got[long+".a_b"]) > longest {
		t.Errorf("%v %v", got, err)
	}
	marked := got[long+".a_b"]
	if _, err = Aliases([]string{long + ".a_b", long + "_a_b", marked}); err == nil {
		t.Error("an alias is another tool's name, and nobody says so")
	}
}

// TestNamesThatCouldBeTwo: a name that could mean two tools means neither.
func TestNamesThatCouldBeTwo(t *testing.T) {
	n, err := newNames([]string{"a.b", "a_b", "x", "mcp_x"}, []string{"mcp_"})
	if err != nil {
		t.Fatal(err)
	}
	for wire, want := range map[string]string{"a_b": "a_b", "a.b": "a.b", "mcp_a_b": "", "x": "x", "mcp_x": "mcp_x", "mcp_mcp_x": "mcp_x", "other": ""} {
		if got, _ := n.tool(wire); got != want {
			t.Errorf("%s is %q, want %q", wire, got, want)
		}
	}
}

// assemble reads a stream in pieces of a size, as the door does.
func assemble(d *dialect, l Limits, text string, size int) *answer {
	a := d.answer(l.withDefaults())
	var pending []byte
	var s scan
	for text != "" && !a.broken() {
		n := min(size, len(text))
		pending = append(pending, text[:n]...)
		text = text[n:]
		for {
			end := s.next(pending)
			if end == 0 || a.broken() {
				break
			}
			if name, data, ok := parseEvent(pending[:end]); ok {
				a.event(name, data)
			}
			pending = pending[end:]
		}
	}
	if e, ok := a.(ending); ok {
		e.end()
	}
	return a.done()
}

// TestAnswersArePutTogether: the same calls come of a stream, in whatever pieces, and
// of an answer that is none.
func TestAnswersArePutTogether(t *testing.T) {
	r := llmtest.Reply{ID: "r1", Text: "so be it", Calls: []llmtest.Call{{ID: "c1", Name: "erase", Arguments: `{"a":"}\"{","b":[1,{"c":null}]}`, Pieces: 9}, {ID: "c2", Name: "erase", Arguments: `{}`, Pieces: 1}, {ID: "c3", Name: "look", Arguments: `{"x":1.0}`}}}
	for kind, d := range dialects {
		whole := d.answer(Limits{}.withDefaults())
		whole.whole([]byte(r.Body(kind)))
		for _, size := range []int{1, 3, 64, 1 << 20} {
			for _, a := range []*answer{whole.done(), assemble(d, Limits{}, strings.Join(r.Events(kind), ""), size)} {
				if !a.complete || a.id != "r1" || a.several || len(a.calls) != 3 {
					t.Fatalf("%s: %+v", kind, a)
				}
				for n, c := range a.calls {
					want := r.Calls[n]
					if len(c.arguments) == 0 {
						c.arguments = []byte("{}") // blank arguments are an empty object
					}
					if c.name != want.Name || c.label != want.ID || string(c.arguments) != want.Arguments {
						t.Errorf("%s: %d is %s", kind, n, c.arguments)
					}
				}
			}
		}
	}
}

// TestAnswersThatAreNotUnderstood give no calls: two readers could read them in two ways.
func TestAnswersThatAreNotUnderstood(t *testing.T) {
	event := func(lines ...string) string {
		var b strings.Builder
		for _, l := range lines {
			var kind struct{ v string }
			if f, ok := fieldsOf([]byte(l)); ok {
				kind.v = f.text("type")
			}
			if kind.v != "" {
				fmt.Fprintf(&b, "event: %s\n", kind.v)
			}
			fmt.Fprintf(&b, "data: %s\n\n", l)
		}
		return b.String()
	}
	chunk := func(delta string) string { return `{"choices":[{"index":0,"delta":` + delta + `}]}` }
	finish := `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`
	start, stop, end := `{"type":"message_start","message":{"id":"m"}}`, `{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`, `{"type":"message_stop"}`
	block := `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"erase","input":{}}}`
	piece, closed := `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}`, `{"type":"content_block_stop","index":0}`
	item := func(args string) string {
		return `{"id":"f","type":"function_call","status":"completed","call_id":"c","name":"erase","arguments":` + args + `}`
	}
	added := `{"type":"response.output_item.added","output_index":0,"item":` + item(`""`) + `}`
	delta := `{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{}"}`
	itemDone := func(args string) string {
		return `{"type":"response.output_item.done","output_index":0,"item":` + item(args) + `}`
	}
	completed := func(args string) string {
		return `{"type":"response.completed","response":{"id":"r","status":"completed","output":[` + item(args) + `]}}`
	}
	for _, c := range []struct {
		name  string
		kind  llmtest.Kind
		text  string
		calls int
	}{
		{"as it should be", llmtest.Chat, event(chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"erase","arguments":"{}"}}]}`), finish, "[DONE]"), 1},
		{"the ID in every piece", llmtest.Chat, event(chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"erase","arguments":"{"}}]}`), chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"}"}}]}`), finish, "[DONE]"), 1},
		{"two calls under one index", llmtest.Chat, event(chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"erase","arguments":"{}"}}]}`), chunk(`{"tool_calls":[{"index":0,"id":"b","function":{"name":"erase","arguments":"{}"}}]}`), finish, "[DONE]"), 0},
		{"two names", llmtest.Chat, event(chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"erase"}}]}`), chunk(`{"tool_calls":[{"index":0,"function":{"name":"look","arguments":"{}"}}]}`), finish, "[DONE]"), 0},
		{"a name twice", llmtest.Chat, event(`{"choices":[],"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"erase","arguments":"{}"}}]}}]}`, finish, "[DONE]"), 0},
		{"more after the end", llmtest.Chat, event(chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"erase","arguments":"{}"}}]}`), finish, chunk(`{"tool_calls":[{"index":1,"id":"b","function":{"name":"erase","arguments":"{}"}}]}`), "[DONE]"), 0},
		{"no end", llmtest.Chat, event(chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"erase","arguments":"{}"}}]}`), finish), 0},
		{"an index beyond", llmtest.Chat, event(chunk(`{"tool_calls":[{"index":100000000,"id":"a","function":{"name":"erase","arguments":"{}"}}]}`), finish, "[DONE]"), 0},
		{"arguments that are an object", llmtest.Chat, event(chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"erase","arguments":{}}}]}`), finish, "[DONE]"), 0},
		{"an error in between", llmtest.Chat, event(chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"erase","arguments":"{}"}}]}`), `{"error":{"message":"x"}}`, finish, "[DONE]"), 0},
		{"a custom tool", llmtest.Chat, event(chunk(`{"tool_calls":[{"index":0,"id":"a","type":"custom","custom":{"name":"erase","input":"{}"}}]}`), finish, "[DONE]"), 0},
		{"as it should be", llmtest.Messages, event(start, block, piece, closed, stop, end), 1},
		{"a block that did not stop", llmtest.Messages, event(start, block, piece, stop, end), 0},
		{"a block twice", llmtest.Messages, event(start, block, block, piece, closed, stop, end), 0},
		{"a piece after its block", llmtest.Messages, event(start, block, closed, piece, stop, end), 0},
		{"no start", llmtest.Messages, event(block, piece, closed, stop, end), 0},
		{"two starts", llmtest.Messages, event(start, start, block, piece, closed, stop, end), 0},
		{"an event that says two things", llmtest.Messages, event(start) + "event: ping\ndata: " + block + "\n\n" + event(piece, closed, stop, end), 0},
		{"called by a program of the provider's", llmtest.Messages, event(start, strings.Replace(block, `"input"`, `"caller":{"type":"code_execution_20250825"},"input"`, 1), piece, closed, stop, end), 0},
		{"as it should be", llmtest.Responses, event(added, delta, itemDone(`"{}"`), completed(`"{}"`)), 1},
		{"without pieces", llmtest.Responses, event(added, itemDone(`"{}"`), completed(`"{}"`)), 1},
		{"the end does not repeat", llmtest.Responses, event(added, itemDone(`"{}"`), `{"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}`), 1},
		{"pieces that differ", llmtest.Responses, event(added, delta, itemDone(`"{\"a\":1}"`), completed(`"{\"a\":1}"`)), 0},
		{"an end that differs", llmtest.Responses, event(added, delta, itemDone(`"{}"`), completed(`"{\"a\":1}"`)), 0},
		{"an end with more", llmtest.Responses, event(completed(`"{}"`)), 0},
		{"failed", llmtest.Responses, event(added, delta, itemDone(`"{}"`), `{"type":"response.failed","response":{"id":"r","status":"failed"}}`), 0},
		{"of a namespace", llmtest.Responses, event(strings.Replace(added, `"call_id"`, `"namespace":"x","call_id"`, 1), delta, itemDone(`"{}"`), completed(`"{}"`)), 0},
		{"as it should be", llmtest.Gemini, event(`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"erase","args":{}}}]}}]}`, `{"candidates":[{"finishReason":"STOP"}]}`), 1},
		{"no arguments", llmtest.Gemini, event(`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"erase"}}]},"finishReason":"STOP"}]}`), 1},
		{"arguments in pieces", llmtest.Gemini, event(`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"erase","willContinue":true}}]}}]}`, `{"candidates":[{"finishReason":"STOP"}]}`), 0},
		{"a call after the end", llmtest.Gemini, event(`{"candidates":[{"finishReason":"STOP"}]}`, `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"erase","args":{}}}]}}]}`), 0},
	} {
		a := assemble(dialects[c.kind], Limits{}, c.text, 1<<20)
		got := 0
		if a.complete && !a.spoiled {
			got = len(a.calls)
		}
		if got != c.calls {
			t.Errorf("%s, %s: %d calls, want %d", c.kind, c.name, got, c.calls)
		}
	}
}

// FuzzAnswer: no reader panics, and one that gives calls gives the same in whatever
// pieces the stream comes.
func FuzzAnswer(f *testing.F) {
	r := llmtest.Reply{ID: "r", Text: "a b", Calls: []llmtest.Call{{ID: "c", Name: "erase", Arguments: `{"a":["}"]}`}}}
	for n, kind := range llmtest.Kinds {
		f.Add(n, strings.Join(r.Events(kind), ""), 3)
		f.Add(n, strings.ReplaceAll(strings.Join(r.Events(kind), ""), "\n", "\r\n"), 1)
		f.Add(n, r.Body(kind), 5)
	}
	f.Fuzz(func(t *testing.T, kind int, text string, size int) {
		if kind < 0 || size <= 0 {
			return
		}
		d := dialects[llmtest.Kinds[kind%len(llmtest.Kinds)]]
		l := Limits{Calls: 8, Event: 1 << 16}
		one, other := assemble(d, l, text, 1<<30), assemble(d, l, text, size)
		if diff := cmp.Diff(one, other, cmp.AllowUnexported(answer{}, called{})); diff != "" {
			t.Fatalf("pieces of %d:\n%s", size, diff)
		}
		for _, c := range one.calls {
			if c.name == "" {
				t.Fatal("a call of nothing")
			}
		}
		a := d.answer(l.withDefaults())
		a.whole([]byte(text))
		a.done()
	})
}

// FuzzRequest: no reader panics; what is read is one strict object whose history was
// looked at, and reading it again gives the same.
func FuzzRequest(f *testing.F) {
	files, err := filepath.Glob("testdata/requests/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("%v: no requests to begin with", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for n := range llmtest.Kinds {
			f.Add(n, text)
		}
	}
	tools, err := newNames([]string{"erase", "db.query"}, []string{"mcp__placet__"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, kind int, text []byte) {
		if kind < 0 {
			return
		}
		p := &provider{Provider: Provider{Name: "p", History: Refuse}}
		e := endpoint{dialect: dialects[llmtest.Kinds[kind%len(llmtest.Kinds)]]}
		before := bytes.Clone(text)
		read := func() (string, bool) {
			q, no := p.read(e, text)
			if no != nil {
				return no.message, false
			}
			r, no := q.readHistory(tools)
			if no != nil {
				return no.message, false
			}
			return fmt.Sprint(q.offered, q.hosted, len(q.objects), q.forced, q.must, q.said(), r.told, r.findings), true
		}
		one, ok := read()
		other, _ := read()
		if one != other || !bytes.Equal(text, before) {
			t.Fatalf("read twice:\n%s\n%s", one, other)
		}
		if _, strict := fieldsOf(text); ok && !strict {
			t.Fatal("what is no strict object was read")
		}
	})
}

// TestTurns: a turn begins where the end of a request is user input and no result.
func TestTurns(t *testing.T) {
	for _, c := range []struct {
		d         *dialect
		body      string
		begins    bool
		prefilled bool
		typed     string
	}{
		{&chat, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"go"}]}`, true, false, "go"},
		{&chat, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x"}},{"type":"text","text":"b"}]}]}`, true, false, "a\nb"},
		{&chat, `{"messages":[{"role":"user","content":"go"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"a","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"x"}]}`, false, false, ""},
		{&chat, `{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":"ok"},{"role":"user","content":"more"}]}`, true, false, "more"},
		{&chat, `{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":"ok"}]}`, false, true, ""},
		{&chat, `{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":"ok"},{"role":"system","content":"s"}]}`, false, false, ""},
		{&messages, `{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"a","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"x"},{"type":"text","text":"and"}]}]}`, false, false, "and"},
		{&responses, `{"input":"go"}`, true, false, "go"},
		{&responses, `{"input":[{"role":"user","content":"go"}]}`, true, false, "go"},
		{&responses, `{"input":[{"type":"function_call_output","call_id":"c","output":"x"}],"previous_response_id":"r"}`, false, false, ""},
		{&responses, `{"input":[{"role":"user","content":"go"},{"type":"reasoning","id":"r","summary":[]},{"type":"function_call","call_id":"c","name":"a","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x"}]}`, false, false, ""},
		{&gemini, `{"contents":[{"parts":[{"text":"go"}]}]}`, true, false, "go"},
		{&gemini, `{"contents":[{"role":"user","parts":[{"text":"go"}]},{"role":"model","parts":[{"functionCall":{"name":"a"}}]},{"role":"user","parts":[{"functionResponse":{"name":"a","response":{}}}]}]}`, false, false, ""},
	} {
		p := &provider{Provider: Provider{Name: "p"}}
		q, no := p.read(endpoint{dialect: c.d}, []byte(c.body))
		if no != nil {
			t.Errorf("%s: %s", c.body, no.message)
			continue
		}
		if _, no = q.readHistory(names{}); no != nil {
			t.Errorf("%s: %s", c.body, no.message)
			continue
		}
		if s := q.said(); s.newInput != c.begins || s.prefilled != c.prefilled || s.typed != c.typed {
			t.Errorf("%s: %+v", c.body, s)
		}
	}
}
