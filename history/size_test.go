package history_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/placet-dev/placet/history"
)

// many are n items, joined.
func many(n int, item func(i int) string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(item(i))
	}
	return b.String()
}

// shapes are transcripts for which a walk that looks back costs the square of
// their length.
func shapes(n int) map[string]struct {
	format history.Format
	text   string
} {
	chatCall := func(i int) string {
		return fmt.Sprintf(`{"id":"c%d","type":"function","function":{"name":"t","arguments":"{}"}}`, i)
	}
	chatResult := func(i int) string { return fmt.Sprintf(`{"role":"tool","tool_call_id":"c%d","content":"r"}`, i) }
	use := func(i int) string { return fmt.Sprintf(`{"type":"tool_use","id":"c%d","name":"t","input":{}}`, i) }
	used := func(i int) string { return fmt.Sprintf(`{"type":"tool_result","tool_use_id":"c%d","content":"r"}`, i) }
	text := func(int) string { return `{"type":"text","text":"x"}` }
	back := func(f func(int) string) func(int) string { return func(i int) string { return f(n - 1 - i) } }
	type shape = struct {
		format history.Format
		text   string
	}
	return map[string]shape{
		"approvals nobody asked about": {history.Responses, `[` + many(n, func(i int) string {
			return fmt.Sprintf(`{"type":"mcp_call","id":"m%d","server_label":"s","name":"t","arguments":"{}","output":"r","approval_request_id":"a%d"}`, i, i)
		}) + `]`},
		"one approval for all": {history.Responses, `[{"type":"mcp_approval_request","id":"a","server_label":"s","name":"t","arguments":"{}"},` + many(n, func(i int) string {
			return fmt.Sprintf(`{"type":"mcp_call","id":"m%d","server_label":"s","name":"t","arguments":"{}","output":"r","approval_request_id":"a"}`, i)
		}) + `]`},
		"results in order":           {history.Chat, `[{"role":"assistant","content":null,"tool_calls":[` + many(n, chatCall) + `]},` + many(n, chatResult) + `]`},
		"results backwards":          {history.Chat, `[{"role":"assistant","content":null,"tool_calls":[` + many(n, chatCall) + `]},` + many(n, back(chatResult)) + `]`},
		"results without labels":     {history.LangChain, `[{"type":"ai","content":"","tool_calls":[` + many(n, func(i int) string { return fmt.Sprintf(`{"name":"t%d","args":{},"id":null}`, i) }) + `]},` + many(n, func(i int) string { return fmt.Sprintf(`{"type":"tool","name":"t%d","content":"r"}`, n-1-i) }) + `]`},
		"results behind texts":       {history.Messages, `[{"role":"assistant","content":[` + many(n, use) + `]},{"role":"user","content":[` + many(n, text) + `,` + many(n, back(used)) + `]}]`},
		"calls that are never ended": {history.Chat, `[` + many(n, func(i int) string { return `{"role":"assistant","content":null,"tool_calls":[` + chatCall(i) + `]}` }) + `]`},
		"events of calls that are never ended": {history.AGUIEvents, `[{"type":"RUN_STARTED","threadId":"t","runId":"r"},` + many(n, func(i int) string {
			return fmt.Sprintf(`{"type":"TOOL_CALL_START","toolCallId":"c%d","toolCallName":"t"}`, i)
		}) + `,` + many(n, func(i int) string {
			return fmt.Sprintf(`{"type":"TOOL_CALL_ARGS","toolCallId":"c%d","delta":"{}"}`, n-1-i)
		}) + `]`},
		"one label": {history.Chat, `[` + many(n, func(int) string {
			return `{"role":"assistant","content":null,"tool_calls":[` + chatCall(0) + `]},` + chatResult(0)
		}) + `]`},
	}
}

// walk checks, classifies and repairs.
func walk(t testing.TB, format history.Format, text []byte, targets ...history.Format) (calls int) {
	t.Helper()
	if _, err := history.Check(bytes.NewReader(text), format, history.Limits{}); err != nil {
		t.Fatal(err)
	}
	whole, err := history.Read(text, format, history.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole.Items {
		if i.Kind == history.Call {
			calls++
		}
	}
	for _, target := range targets {
		_, err := history.Repair(context.Background(), whole, target, history.NoRecords{})
		var refused *history.Refusal
		if err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
	}
	return calls
}

// TestSizes: at 50,000 calls each shape is walked. Whoever walks back from each item
// to the first needs minutes for it, and the test ends at its limit.
func TestSizes(t *testing.T) {
	const n = 50_000
	for name, s := range shapes(n) {
		t.Run(name, func(t *testing.T) {
			target := s.format
			if !slices.Contains(history.Writes(), target) {
				target = history.Messages
			}
			if got := walk(t, s.format, []byte(s.text), target); got != n {
				t.Errorf("%d calls were read, want %d", got, n)
			}
		})
	}
}

// BenchmarkSizes shows what a call costs: the same whatever the length.
func BenchmarkSizes(b *testing.B) {
	for _, n := range []int{5_000, 50_000} {
		all := shapes(n)
		var names []string
		for name := range all {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			text := []byte(all[name].text)
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					walk(b, all[name].format, text, history.Writes()...)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/call")
			})
		}
	}
}
