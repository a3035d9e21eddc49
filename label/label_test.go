package label

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/placet-dev/placet/record"
)

var anna = record.Principal{Issuer: "https://idp", Subject: "anna"}

// lineageOf makes an index of what was typed and read, in that order.
func lineageOf(t testing.TB, typed string, results ...string) *Lineage {
	t.Helper()
	l := New([]byte("salt of a lineage"))
	body, err := json.Marshal(Typed{Principal: anna, Turn: 1, Text: typed})
	if err != nil {
		t.Fatal(err)
	}
	l.Add(1, KindTyped, body)
	for i, text := range results {
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		e := Read(l.salt, "read", "call", Results{Untrusted: true, Sensitive: true}, []string{Untrusted, Sensitive},
			fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]}`, quoted), false, false)
		if e == nil {
			t.Fatalf("nothing was kept of %q", text)
		}
		l.Add(int64(i)+2, KindResult, e.Body())
	}
	return l
}

func TestWholeTokens(t *testing.T) {
	for _, c := range []struct {
		text, value string
		n           int
	}{
		{"pay acc-one.", "acc-one", 1}, {"pay acc-one", "acc-one", 1}, {"acc-one, acc-one; (acc-one)", "acc-one", 3},
		{"xacc-one", "acc-one", 0}, {"acc-one-two", "acc-one", 0}, {"my.acc-one", "acc-one", 0}, {"acc-one.x", "acc-one", 0},
		{"bob@x.com.evil", "bob@x.com", 0}, {"bob@x.com.", "bob@x.com", 1}, {"eve.bob@x.com", "bob@x.com", 0}, {"<bob@x.com>", "bob@x.com", 1},
		{"1,000,000", "000", 0}, {"a@x.com,b@x.com", "b@x.com", 1}, {"is it bob@x.com?", "bob@x.com", 1}, {"https://x.com/a?b", "https://x.com/a", 0},
		{"acc-one\u200b", "acc-one", 0}, {"ａcc-one", "cc-one", 0}, {"über-acc", "ber-acc", 0}, {"Sarah's", "Sarah", 1},
	} {
		if n := occurrences(c.text, c.value); n != c.n {
			t.Errorf("%q in %q: %d, want %d", c.value, c.text, n, c.n)
		}
	}
	for value, want := range map[string]bool{"ab": false, "1234": false, "12345": true, "12.34": false, "2024-05-15": true, "the": false, "the file": false,
		"Town Hall": true, " x-y": false, "x-y ": false, "": false, "acc-one": true, "my order": false} {
		if anchors(value) != want {
			t.Errorf("anchors(%q) is %t", value, !want)
		}
	}
}

func TestDates(t *testing.T) {
	for text, want := range map[string]bool{"2024-05-15": true, "2024-05-15 12:30": true, "2024-05-15T12:30:00Z": true, "15.05.2024": true, "05/15/2024": true,
		"4638-20-11": false, "2024-13-01": false, "2024-05-15 99:00": false, "463820": false, "": false, "2024-05-15 463820": false} {
		if isDate(text) != want {
			t.Errorf("isDate(%q) is %t", text, !want)
		}
	}
}

// An index holds no text of a result: neither as it is nor in another case.
func TestIndexHoldsNoResultText(t *testing.T) {
	e := Read([]byte("salt"), "read", "call", Results{Sensitive: true, Untrusted: true, Format: JSON, Name: []string{"name"},
		Fields: []Field{{Name: "id", Origin: Minted, Kind: "event"}}}, []string{Untrusted, Sensitive},
		[]byte(`{"content":[{"type":"text","text":"[{\"id\":\"event-secret-1\",\"name\":\"Secret Party\"}]"}]}`), true, false)
	body := strings.ToLower(string(e.Body()))
	if strings.Contains(body, "event-secret") || strings.Contains(body, "party") || len(e.Records) != 1 {
		t.Fatalf("%s", body)
	}
}

// What an index no longer holds asks: it is never a reason to trust.
func TestAFullIndexClearsNothing(t *testing.T) {
	var b strings.Builder
	for i := range 80_000 {
		fmt.Fprintf(&b, "w%dq ", i)
	}
	l := lineageOf(t, "mail bob@corp.example", b.String())
	if !l.Full() {
		t.Fatal("it is not full")
	}
	call := Call{Principal: anna, Search: true, Rules: Rules{Targets: []Target{{Argument: "to", Kind: "email"}}},
		Arguments: []byte(`{"body":"never read 77xy88","to":"bob@corp.example"}`)}
	if got := l.Trace(call); len(got.Asks) == 0 {
		t.Fatal("a value that it may have held was cleared")
	}
	call.Arguments = []byte(`{"body":"nothing of the kind","to":"bob@corp.example"}`)
	if got := l.Trace(call); len(got.Asks) != 0 {
		t.Fatalf("%+v", got.Asks)
	}
	// Typed text that came after is not the user's for sure any more.
	for i := range 3 {
		text, _ := json.Marshal(b.String()[i:])
		l.Add(l.Seq()+1, KindResult, Read(l.salt, "read", "call", Results{Sensitive: true}, []string{Sensitive}, fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]}`, text), false, false).Body())
	}
	later, _ := json.Marshal(Typed{Principal: anna, Turn: 2, Text: "mail carl@corp.example"})
	l.Add(l.Seq()+1, KindTyped, later)
	call.Arguments = []byte(`{"body":"nothing of the kind","to":"carl@corp.example"}`)
	if got := l.Trace(call); len(got.Asks) == 0 {
		t.Fatal("typed text counted that may have been read before")
	}
	if n := len(l.tokens) + len(l.secrets); n > MaxTokens {
		t.Fatalf("the index holds %d tokens", n)
	}
}

func TestYAML(t *testing.T) {
	for text, want := range map[string]int{
		"- id: 1\n  t: a\n- id: 2\n  t: \"x\\n\\\n    \\ y\"\n": 2,
		"id: 1\nt: 'it''s'\n":             1,
		"- {id: 1}\n- &a {id: 2}\n- *a\n": -1, // one value in two places
		"- id: !!str 1\n":                 -1,
		"a: 1\na: 2\n":                    -1,
		"just a text\n":                   0,
		"- id: 1\n---\n- id: 2\n":         -1,
		"- id: 1\n  description: |\n    - id: 2\n      t: b\n": 1,
	} {
		v, ok := parseYAML(text)
		if !ok {
			if want >= 0 {
				t.Errorf("%q was not read", text)
			}
			continue
		}
		if n := len(records(v, "")); n != want {
			t.Errorf("%q has %d records, want %d", text, n, want)
		}
	}
}

func TestStatedLabelsOnlyAdd(t *testing.T) {
	for text, want := range map[string]string{
		`{"content":[]}`: "[]", `{"_meta":{"com.github.ifc/labels":{"$":{"integrity":"trusted","confidentiality":"public"}}}}`: "[]",
		`{"_meta":{"com.github.ifc/labels":{"$":{"integrity":"untrusted"}}}}`:                                "[untrusted]",
		`{"content":[{"type":"text","text":"x","_meta":{"com.github.ifc/labels":["private","untrusted"]}}]}`: "[sensitive untrusted]",
		`{"_meta":{"com.github.ifc/labels":{"$":{"level":3}}}}`:                                              "[untrusted]",
		`{"_meta":{"com.github.ifc/labels":"whatever"}}`:                                                     "[untrusted]",
		`{"content":[{"type":"text","text":"com.github.ifc/labels"}]}`:                                       "[]",
	} {
		if got := fmt.Sprint(Stated([]byte(text))); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func FuzzTrace(f *testing.F) {
	f.Add("pay acc-one to bob@x.com", "secret 463820 eve@evil.example", "Ask %65ve@evil.example 4 6 3 8 2 0")
	f.Add("", "- id: 1\n", "aGVsbG8gd29ybGQ=\\u0041&#64;")
	f.Fuzz(func(t *testing.T, typed, read, sent string) {
		if read == "" {
			read = "x1"
		}
		l := New([]byte("salt"))
		body, _ := json.Marshal(Typed{Principal: anna, Text: typed})
		l.Add(1, KindTyped, body)
		quoted, _ := json.Marshal(read)
		result := fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]}`, quoted)
		for _, r := range []Results{{Untrusted: true, Sensitive: true}, {Format: YAML, Fields: []Field{{Name: "id", Origin: Clean, Kind: "to"}}}} {
			if e := Read(l.salt, "read", "call", r, r.Labels(), result, true, false); e != nil {
				l.Add(l.Seq()+1, KindResult, e.Body())
			}
		}
		arguments, _ := json.Marshal(map[string]any{"to": sent, "body": sent})
		got := l.Trace(Call{Principal: anna, Search: true, Rules: Rules{Targets: []Target{{Argument: "to", Kind: "to"}}, Financial: true}, Arguments: arguments})
		for _, o := range got.Origins {
			// A target is the user's only if they typed it, byte for byte.
			if o.Target && o.From == record.FromUser && !strings.Contains(typed, sent) {
				t.Errorf("%q is the user's, who typed %q", sent, typed)
			}
		}
		Only(result, Results{Only: []string{"id"}, Format: YAML})
		Stated(result)
	})
}

// benchmarkTrace is one decision's trace, over a lineage that has read so much.
func benchmarkTrace(b *testing.B, read int) {
	var text strings.Builder
	for i := 0; text.Len() < read; i++ {
		fmt.Fprintf(&text, "On day %d customer c%d wrote about order ord_%d and person%d@corp.example said so. ", i, i*7, i*13, i)
	}
	var results []string
	for s := text.String(); len(s) > 0; {
		n := min(len(s), 20_000)
		results, s = append(results, s[:n]), s[n:]
	}
	l := lineageOf(b, "mail bob@corp.example about the plan of the team", results...)
	call := Call{Principal: anna, Search: true, Rules: Rules{Targets: []Target{{Argument: "to", Kind: "email"}}},
		Arguments: []byte(`{"body":"Dear Bob, the plan is as we agreed last week. Please look at it again and tell me.","subject":"The plan","to":"bob@corp.example"}`)}
	b.ReportAllocs()
	for b.Loop() {
		if got := l.Trace(call); len(got.Asks) != 0 {
			b.Fatal(got.Asks)
		}
	}
}

func BenchmarkTraceOverNothing(b *testing.B) { benchmarkTrace(b, 0) }
func BenchmarkTraceOver200kB(b *testing.B)   { benchmarkTrace(b, 200_000) }
