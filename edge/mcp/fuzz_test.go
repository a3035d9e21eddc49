package mcp

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/canon"
)

// seeds are the parse differential's forms, and what is near them.
var seeds = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":1},"_meta":{"progressToken":1,"dev.placet/run":"r"}}}`,
	`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"echo","inputResponses":{"q":{"action":"accept"}},"requestState":"s"}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","Method":"ping","params":{"name":"d"}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"d"},"Params":{"name":"echo"}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"d","Name":"echo"}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"d","name":"echo"}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","argumentſ":{"a":2}}}`,
	`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
	`{"jsonrpc":"2.0","id":1,"result":{}}`,
	`[{"jsonrpc":"2.0","id":1,"method":"tools/call"}]`,
	`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, `{"jsonrpc":"2.0","id":1e2,"method":"ping"}`, `{}`, `null`, ``, "\xef\xbb\xbf{}",
}

// What is accepted means the same to the most lenient decoder there is, reading
// the client's own bytes, and to everyone who reads what is passed on.
func FuzzDecode(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, refused := decode(body, canon.Limits{Bytes: 1 << 16})
		if refused != nil {
			if refused.status < 400 || refused.status > 499 || refused.message == "" {
				t.Fatalf("%+v", refused)
			}
			_ = refused.body(m.id)
			return
		}
		if m.reply {
			return
		}
		var lenient struct {
			Method string
			Params json.RawMessage
		}
		if err := json.Unmarshal(body, &lenient); err != nil || lenient.Method != m.method {
			t.Fatalf("we read %q, others %q (%v)", m.method, lenient.Method, err)
		}
		again, refused := decode(m.encode(), canon.Limits{Bytes: 1 << 18})
		if refused != nil || again.method != m.method || !bytes.Equal(again.params, m.params) || !bytes.Equal(again.id, m.id) {
			t.Fatalf("%s is read as another message: %+v", m.encode(), refused)
		}
		if _, refused := readMeta(m.params); refused != nil {
			return
		}
		c, refused := readCall(m.params)
		if refused != nil {
			return
		}
		var params struct {
			Name      string
			Arguments json.RawMessage
		}
		if err := json.Unmarshal(lenient.Params, &params); err != nil || params.Name != c.name {
			t.Fatalf("we read tool %q, others %q (%v)", c.name, params.Name, err)
		}
		if (params.Arguments == nil) != (c.arguments == nil) {
			t.Fatalf("arguments: we read %s, others %s", c.arguments, params.Arguments)
		}
		if c.arguments != nil {
			want, err := canon.Canonical(params.Arguments, canon.Limits{})
			if err != nil || !bytes.Equal(want, c.arguments) {
				t.Fatalf("arguments: we read %s, others %s", c.arguments, params.Arguments)
			}
		}
	})
}

// Whatever a tool returns, the response stays one JSON value, and unchanged
// where it need not change.
func FuzzReadResult(f *testing.F) {
	for _, s := range []string{`{"content":[]}`, `{}`, ` { } `, `{"a":1,"a":2}`, `{"_meta":{"dev.placet/decision":{}}}`, `{"resultType":"input_required"}`, `{"n":9007199254740993}`, `{"a":1}x`, `[]`, `{"a"`, `{"content":[],"_meta":null}`, "{}\v"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, ok := readResult(raw)
		if ok != (json.Valid(raw) && bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{"))) && ok {
			t.Fatalf("%q: accepted", raw)
		}
		if !ok {
			return
		}
		if text := m.encode(); !json.Valid(text) {
			t.Fatalf("%q became %q", raw, text)
		}
		if text := withType(raw); !json.Valid(text) {
			t.Fatalf("%q became %q", raw, text)
		}
		m.speaksForUs()
		questionOf(raw, "up")
	})
}

func FuzzState(f *testing.F) {
	s, err := newSealer(bytes.Repeat([]byte{7}, 32), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	d := callDigest(call{name: "echo"})
	// A nonce that is the same in every process, so that fuzzing is repeatable.
	s.random = bytes.NewReader(make([]byte, 12))
	good, err := s.close(state{Session: "p", Digest: d, Expires: now.Unix() + 60, Call: "call_x"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add("pls1.")
	f.Add("pls1.AAAA")
	f.Add(good + "=")
	f.Fuzz(func(t *testing.T, text string) {
		if _, ok := s.open(text, "p", d, now); ok && text != good {
			t.Fatalf("%q is taken", text)
		}
	})
}

func FuzzAgree(f *testing.F) {
	f.Add("2026-07-28", "tools/call", "echo", seeds[0])
	f.Add("", "", "=?base64?ZXU=?=", seeds[1])
	f.Fuzz(func(t *testing.T, version, method, name, body string) {
		m, refused := decode([]byte(body), canon.Limits{Bytes: 1 << 16})
		if refused != nil || m.reply {
			return
		}
		mt, refused := readMeta(m.params)
		if refused != nil {
			return
		}
		h := http.Header{headerVersion: {version}, headerMethod: {method}, headerName: {name}}
		if f := agree(h, m, mt); f == nil && (method != m.method || m.id != nil && version != mt.version) {
			t.Fatalf("%q %q agree with %s", version, method, body)
		}
	})
}

// Two members of one object that no reader may confuse.
func TestExactCaseKnowsUnicodeFolds(t *testing.T) {
	for _, name := range []string{"Name", "NAME", "nAme", "argumentſ", "\u212Aind"} {
		known := []string{"name", "arguments", "kind"}
		text, err := canon.Canonical([]byte(fmt.Sprintf(`{%q:1}`, name)), canon.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if exactCase("params", text, known) == nil {
			t.Errorf("%q is taken for another member", name)
		}
	}
	if exactCase("params", []byte(`{"name":1,"named":2}`), []string{"name"}) != nil {
		t.Error("exact members are refused")
	}
}

func TestEventsSplitLines(t *testing.T) {
	for _, data := range []string{"{\"a\":\n1}", "{\"a\":\r\n1}", "{\"a\":\r1}"} {
		w := &recorded{header: http.Header{}}
		o := &responder{w: w, id: []byte("1"), streaming: true}
		o.finish([]byte(data), nil)
		for line := range strings.SplitSeq(strings.TrimSpace(w.b.String()), "\n") {
			if !strings.HasPrefix(line, "data: ") && line != "event: message" {
				t.Fatalf("%q", w.b.String())
			}
		}
	}
}

type recorded struct {
	header http.Header
	b      bytes.Buffer
}

func (r *recorded) Header() http.Header         { return r.header }
func (r *recorded) Write(p []byte) (int, error) { return r.b.Write(p) }
func (r *recorded) WriteHeader(int)             {}

func BenchmarkDecode(b *testing.B) {
	body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello","n":7},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}}}`)
	h := http.Header{headerVersion: {"2026-07-28"}, headerMethod: {"tools/call"}, headerName: {"echo"}}
	b.ReportAllocs()
	for b.Loop() {
		m, f := decode(body, canon.Limits{})
		if f != nil {
			b.Fatal(f)
		}
		mt, f := readMeta(m.params)
		if f != nil || agree(h, m, mt) != nil {
			b.Fatal(f)
		}
		if _, f := readCall(m.params); f != nil {
			b.Fatal(f)
		}
	}
}
