package history_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/history"
	"github.com/placet-dev/placet/record"
	"pgregory.net/rapid"
)

func mustRead(t rapid.TB, text []byte, f history.Format) *history.Transcript {
	t.Helper()
	out, err := history.Read(text, f, history.Limits{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// pairsIn walks over a transcript by a rule of its own, simpler than the one
// tested: in order, a result closes the open call with its label. It returns the
// pairs and the calls that stay open, as texts.
func pairsIn(t *history.Transcript) (pairs, open []string) {
	waiting := map[string]string{}
	var order []string
	for i := range t.Items {
		switch {
		case i.Kind == history.Call && i.Bad == "" && !i.Incomplete && i.Role == "assistant":
			label := i.ID
			if label == "" { // no label is nobody's: each is a call of its own
				label = fmt.Sprint("#", i.Index)
			}
			if _, twice := waiting[label]; !twice {
				waiting[label] = i.Tool + " " + i.Digest.String()
				order = append(order, label)
			}
		case i.Kind == history.Result && !(t.Format == history.Messages && i.Role != "user"):
			label := i.ID
			for _, l := range order { // where several could be meant, the repair is refused
				if _, ok := waiting[l]; label == "" && ok && l[0] == '#' {
					label = l
				}
			}
			if call, ok := waiting[label]; ok {
				pairs = append(pairs, call+" -> "+i.Digest.String())
				delete(waiting, label)
			}
		}
	}
	for _, id := range order {
		if call, ok := waiting[id]; ok {
			open = append(open, call)
			delete(waiting, id)
		}
	}
	slices.Sort(pairs)
	return pairs, open
}

// startable is what a runtime that believes messages would run: calls without a
// result, and approved requests. Placet's own set is empty by type: nothing in the
// package can be dispatched.
func startable(t *history.Transcript) (out []string) {
	_, out = pairsIn(t)
	settled := map[string]bool{}
	for i := range t.Items {
		if i.Kind == history.Call && i.Request != "" {
			settled[i.Request] = true
		}
	}
	for i := range t.Items {
		if i.Kind == history.ApprovalResponse && i.Approved && !settled[i.Request] {
			out = append(out, "approval "+i.Request)
		}
	}
	return out
}

// mess draws a history with everything that goes wrong.
func mess(t *rapid.T, f history.Format) []byte {
	label := rapid.SampledFrom([]string{"c1", "c2", "c3", "c4", "", "a.b|c"})
	tool := rapid.SampledFrom([]string{"look", "pay"})
	text := rapid.SampledFrom([]string{"a", "b", "é\u202e"})
	arguments := rapid.SampledFrom([]string{`{}`, `{"n":1}`, `{"n": 1.0}`, `{"n":2}`})
	var list []any
	for range rapid.IntRange(0, 9).Draw(t, "messages") {
		switch rapid.IntRange(0, 6).Draw(t, "kind") {
		case 0:
			list = append(list, map[string]any{"role": "user", "content": text.Draw(t, "text")})
		case 1:
			list = append(list, map[string]any{"role": "assistant", "content": text.Draw(t, "text")})
		case 2, 3, 4:
			list = append(list, calls(t, f, label, tool, arguments, text)...)
		default:
			list = append(list, results(t, f, label, text)...)
		}
	}
	name := "messages"
	if f == history.Responses {
		name = "input"
	}
	if list == nil {
		list = []any{}
	}
	out, err := json.MarshalIndent(map[string]any{name: list, "model": "m"}, "", rapid.SampledFrom([]string{"", " "}).Draw(t, "indent"))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func calls(t *rapid.T, f history.Format, label, tool, arguments, text *rapid.Generator[string]) []any {
	var list []any
	if f == history.Messages && rapid.Bool().Draw(t, "said") {
		list = append(list, map[string]any{"type": "text", "text": text.Draw(t, "text")})
	}
	for range rapid.IntRange(1, 3).Draw(t, "calls") {
		id, name, args := label.Draw(t, "id"), tool.Draw(t, "tool"), arguments.Draw(t, "arguments")
		switch f {
		case history.Chat:
			list = append(list, map[string]any{"id": id, "type": "function", "function": map[string]any{"name": name, "arguments": args}})
		case history.Responses:
			list = append(list, map[string]any{"type": "function_call", "call_id": id, "name": name, "arguments": args})
		default:
			list = append(list, map[string]any{"type": "tool_use", "id": id, "name": name, "input": json.RawMessage(args)})
		}
	}
	role := rapid.SampledFrom([]string{"assistant", "assistant", "assistant", "user"}).Draw(t, "role")
	switch f {
	case history.Chat:
		return []any{map[string]any{"role": role, "content": rapid.SampledFrom([]any{nil, "x"}).Draw(t, "content"), "tool_calls": list}}
	case history.Responses:
		return list
	}
	return []any{map[string]any{"role": role, "content": list}}
}

func results(t *rapid.T, f history.Format, label, text *rapid.Generator[string]) []any {
	var list []any
	for range rapid.IntRange(1, 3).Draw(t, "results") {
		id, said := label.Draw(t, "id"), text.Draw(t, "text")
		switch f {
		case history.Chat:
			list = append(list, map[string]any{"role": "tool", "tool_call_id": id, "content": said})
		case history.Responses:
			list = append(list, map[string]any{"type": "function_call_output", "call_id": id, "output": said})
		default:
			list = append(list, map[string]any{"type": "tool_result", "tool_use_id": id, "content": said})
		}
	}
	if f != history.Messages {
		return list
	}
	if rapid.Bool().Draw(t, "and text") {
		list = slices.Insert(list, rapid.IntRange(0, len(list)).Draw(t, "at"), any(map[string]any{"type": "text", "text": "t"}))
	}
	return []any{map[string]any{"role": "user", "content": list}}
}

// TestRepairProperties: whatever a history holds, its repair is refused for a
// reason, or accepted by the grammar, idempotent, deterministic, without a call or a
// pair that was not there, and leaves nothing that a runtime could take up.
func TestRepairProperties(t *testing.T) {
	repaired := 0
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.SampledFrom(history.Writes()).Draw(t, "from")
		to := from
		if rapid.IntRange(0, 3).Draw(t, "convert") == 0 {
			to = rapid.SampledFrom(history.Writes()).Draw(t, "to")
		}
		source := mess(t, from)
		before := mustRead(t, source, from)
		r, err := history.Repair(context.Background(), before, to, history.NoRecords{})
		var refusal *history.Refusal
		if errors.As(err, &refusal) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		repaired++
		again, err := history.Repair(context.Background(), mustRead(t, source, from), to, history.NoRecords{})
		if err != nil || !bytes.Equal(again.Source, r.Source) {
			t.Fatalf("another repair of the same: %v\n%s\n%s", err, r.Source, again.Source)
		}
		after := mustRead(t, r.Source, to)
		report, err := history.Check(bytes.NewReader(r.Source), to, history.Limits{})
		if err != nil || !report.OK() {
			t.Fatalf("%v is left of\n%s\nin\n%s", codes(report), source, r.Source)
		}
		twice, err := history.Repair(context.Background(), after, to, history.NoRecords{})
		if err != nil || len(twice.Changes) > 0 || !bytes.Equal(twice.Source, r.Source) {
			t.Fatalf("the repair is repaired: %v %+v\n%s\n%s", err, twice.Changes, r.Source, twice.Source)
		}
		if left := startable(after); len(left) > 0 {
			t.Fatalf("%v could be taken up in\n%s", left, r.Source)
		}
		if from == to && len(r.Changes) == 0 && !bytes.Equal(source, r.Source) {
			t.Fatalf("changed, and says nothing:\n%s\n%s", source, r.Source)
		}
		compare(t, before, after, r)
	})
	if repaired == 0 {
		t.Error("nothing was repaired")
	}
}

// compare looks at pairs as multisets.
func compare(t *rapid.T, before, after *history.Transcript, r *history.Repaired) {
	want, open := pairsIn(before)
	got, _ := pairsIn(after)
	filled := 0
	for _, c := range r.Changes {
		if c.Action == history.Filled {
			filled++
		}
	}
	if len(got) != len(want)+filled {
		t.Fatalf("%d pairs, %d before and %d filled\n%s", len(got), len(want), filled, r.Source)
	}
	for _, p := range want {
		at := slices.Index(got, p)
		if at < 0 {
			t.Fatalf("the pair %s is lost\n%s\n%s", p, before.Source, r.Source)
		}
		got = slices.Delete(got, at, at+1)
	}
	for _, p := range got { // what was filled is a call that was open, with its arguments
		call, _, _ := strings.Cut(p, " -> ")
		at := slices.Index(open, call)
		if at < 0 {
			t.Fatalf("the call %s was not there", call)
		}
		open = slices.Delete(open, at, at+1)
	}
	if len(open) > 0 {
		t.Fatalf("open calls are lost: %v", open)
	}
	if filled > 0 && !r.TurnInvalid {
		t.Fatal("an open call was filled, and the turn goes on")
	}
}

// Rows of all formats are repaired for each target, or refused with a reason.
func TestRepairRows(t *testing.T) {
	refusals := []string{"P12", "conflicting-result", "two-sources", "S2", "D4", "events-edited", "events-twice"}
	for name, row := range rows(t) {
		if name == "duplicate" {
			continue
		}
		for _, target := range history.Writes() {
			r, err := history.Repair(context.Background(), mustRead(t, row.text, row.Format), target, history.NoRecords{})
			var refusal *history.Refusal
			if errors.As(err, &refusal) {
				if !slices.Contains(refusals, name) {
					t.Errorf("%s to %s: %v", name, target, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s to %s: %v", name, target, err)
				continue
			}
			report, err := history.Check(bytes.NewReader(r.Source), target, history.Limits{})
			if err != nil || !report.OK() && name != "case" {
				t.Errorf("%s to %s: %v is left\n%s", name, target, codes(report), r.Source)
			}
			if left := startable(mustRead(t, r.Source, target)); len(left) > 0 {
				t.Errorf("%s to %s: %v could be taken up", name, target, left)
			}
			if strings.HasPrefix(name, "ok-") && target == row.Format && !bytes.Equal(r.Source, row.text) {
				t.Errorf("%s was changed: %+v", name, r.Changes)
			}
		}
	}
}

// desk is what a server recorded, for tests.
type desk struct {
	calls map[string][]history.Recorded
	typed string
}

func (d desk) Labelled(_ context.Context, label string) ([]history.Recorded, error) {
	return d.calls[label], nil
}

func (d desk) Vouched(_ context.Context, digest canon.Digest) (bool, error) {
	return digest == history.TextDigest(d.typed), nil
}

func recorded(tool, arguments, result string, state record.State) history.Recorded {
	r := history.Recorded{Call: "call_x", Run: "run_1", Tool: tool, Digest: record.ArgumentDigest([]byte(arguments), nil), State: state, Answer: result}
	if result != "" {
		r.Result = history.ResultDigest([]byte(result))
	}
	return r
}

func chatText(messages ...string) []byte { return []byte("[" + strings.Join(messages, ",") + "]") }

func called(id, tool, arguments string) string {
	return fmt.Sprintf(`{"role":"assistant","tool_calls":[{"id":%q,"type":"function","function":{"name":%q,"arguments":%q}}]}`, id, tool, arguments)
}

func returned(id, text string) string {
	return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%q}`, id, text)
}

// TestClassify: an item is what the records say, by digest and occurrence.
func TestClassify(t *testing.T) {
	other := recorded("pay", `{"a":1}`, "paid", record.Succeeded)
	other.Run = "run_2"
	witnessed := recorded("pay", `{"a":1}`, "", record.None)
	witnessed.Witnessed = true
	cases := map[string]struct {
		text    []byte
		records desk
		classes []history.Class
		codes   []string
	}{
		"as recorded": {chatText(`{"role":"user","content":"pay"}`, called("c1", "pay", `{"a": 1}`), returned("c1", "paid")),
			desk{map[string][]history.Recorded{"c1": {recorded("pay", `{"a":1}`, "paid", record.Succeeded)}}, "pay"},
			[]history.Class{history.ClassVouched, history.ClassRecord, history.ClassReturned}, nil},
		"unknown": {chatText(`{"role":"user","content":"pay"}`, called("c1", "pay", `{"a":1}`), returned("c1", "paid")), desk{},
			[]history.Class{history.ClassClient, history.ClassClient, history.ClassClient}, nil},
		"edited arguments": {chatText(called("c1", "pay", `{"a":9}`), returned("c1", "paid")),
			desk{calls: map[string][]history.Recorded{"c1": {recorded("pay", `{"a":1}`, "paid", record.Succeeded)}}},
			[]history.Class{history.ClassClient, history.ClassClient}, []string{history.CodeEditedArguments}},
		"another tool": {chatText(called("c1", "drop", `{"a":1}`), returned("c1", "paid")),
			desk{calls: map[string][]history.Recorded{"c1": {recorded("pay", `{"a":1}`, "paid", record.Succeeded)}}},
			[]history.Class{history.ClassClient, history.ClassClient}, []string{history.CodeEditedArguments}},
		"edited result": {chatText(called("c1", "pay", `{"a":1}`), returned("c1", "paid twice")),
			desk{calls: map[string][]history.Recorded{"c1": {recorded("pay", `{"a":1}`, "paid", record.Succeeded)}}},
			[]history.Class{history.ClassRecord, history.ClassClient}, []string{history.CodeEditedResult}},
		"more often than recorded": {chatText(called("c1", "pay", `{"a":1}`), returned("c1", "paid"), called("c1", "pay", `{"a":1}`), returned("c1", "paid")),
			desk{calls: map[string][]history.Recorded{"c1": {recorded("pay", `{"a":1}`, "paid", record.Succeeded)}}},
			[]history.Class{history.ClassRecord, history.ClassReturned, history.ClassClient, history.ClassClient}, []string{history.CodeReusedID}},
		"twice recorded": {chatText(called("c1", "pay", `{"a":1}`), returned("c1", "one"), called("c1", "pay", `{"a":1}`), returned("c1", "two")),
			desk{calls: map[string][]history.Recorded{"c1": {recorded("pay", `{"a":1}`, "one", record.Succeeded), recorded("pay", `{"a":1}`, "two", record.Succeeded)}}},
			[]history.Class{history.ClassRecord, history.ClassReturned, history.ClassRecord, history.ClassReturned}, nil},
		"dropped cancellation": {chatText(called("c1", "pay", `{"a":1}`)),
			desk{calls: map[string][]history.Recorded{"c1": {recorded("pay", `{"a":1}`, "", record.Canceled)}}},
			[]history.Class{history.ClassRecord}, []string{history.CodeDroppedCancellation}},
		"two runs": {chatText(called("c1", "pay", `{"a":1}`), returned("c1", "paid"), called("c2", "pay", `{"a":1}`), returned("c2", "paid")),
			desk{calls: map[string][]history.Recorded{"c1": {recorded("pay", `{"a":1}`, "paid", record.Succeeded)}, "c2": {other}}},
			[]history.Class{history.ClassRecord, history.ClassReturned, history.ClassRecord, history.ClassReturned}, []string{history.CodeSplicedRuns}},
		"witnessed": {chatText(called("c1", "pay", `{"a":1}`)),
			desk{calls: map[string][]history.Recorded{"c1": {witnessed}}}, []history.Class{history.ClassWitnessed}, nil},
	}
	for name, c := range cases {
		got, err := history.Classify(context.Background(), mustRead(t, c.text, history.Chat), c.records)
		if err != nil {
			t.Fatal(err)
		}
		var classes []history.Class
		for _, j := range got.Judgements {
			classes = append(classes, j.Class)
		}
		if !slices.Equal(classes, c.classes) {
			t.Errorf("%s: %v, want %v", name, classes, c.classes)
		}
		var found []string
		for _, f := range got.Findings {
			found = append(found, f.Code)
		}
		if !slices.Equal(found, c.codes) {
			t.Errorf("%s: %v, want %v", name, found, c.codes)
		}
	}
	failing := failingRecords{}
	if _, err := history.Classify(context.Background(), mustRead(t, cases["unknown"].text, history.Chat), failing); err == nil {
		t.Error("records that fail classify")
	}
}

type failingRecords struct{ history.NoRecords }

func (failingRecords) Labelled(context.Context, string) ([]history.Recorded, error) {
	return nil, errors.New("the store is away")
}

// Gaps are filled with what is recorded, and never with success.
func TestFill(t *testing.T) {
	text := chatText(`{"role":"user","content":"x"}`, called("c1", "pay", `{"a":1}`), `{"role":"user","content":"go on"}`)
	for state, want := range map[record.State]string{
		record.Succeeded: "paid", record.Denied: "denied", record.Canceled: "withdrawn", record.ApprovalPending: "has not run",
		record.Unknown: "not known", record.Executing: "not known",
	} {
		answer := ""
		if state == record.Succeeded {
			answer = "paid"
		}
		r, err := history.Repair(context.Background(), mustRead(t, text, history.Chat), history.Chat,
			desk{calls: map[string][]history.Recorded{"c1": {recorded("pay", `{"a":1}`, answer, state)}}})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(r.Source, []byte(want)) || !r.TurnInvalid {
			t.Errorf("%s: %s", state, r.Source)
		}
	}
	r, err := history.Repair(context.Background(), mustRead(t, text, history.Chat), history.Messages, history.NoRecords{})
	if err != nil || !bytes.Contains(r.Source, []byte("Whether it ran is not known")) || !bytes.Contains(r.Source, []byte(`"is_error":true`)) {
		t.Errorf("%v\n%s", err, r.Source)
	}
}

// What a repair leaves alone keeps its bytes, members that no format knows among them.
func TestRepairKeepsBytes(t *testing.T) {
	user := `{ "content" : "h\u00e9",  "mood":  1e0, "role":"user" }`
	call := called("c1", "pay", `{ "a" : 1.0 }`)
	r, err := history.Repair(context.Background(), mustRead(t, chatText(user, call, returned("zz", "stray"), returned("c1", "paid")), history.Chat), history.Chat, history.NoRecords{})
	if err != nil {
		t.Fatal(err)
	}
	if want := chatText(user, call, returned("c1", "paid")); !bytes.Equal(r.Source, want) {
		t.Errorf("%s\nwant\n%s", r.Source, want)
	}
	if len(r.Changes) != 1 || r.Changes[0].Action != history.Dropped || r.Changes[0].Message != 2 {
		t.Errorf("%+v", r.Changes)
	}
}
