package connect

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"testing/iotest"
)

// What is taken for a message is valid JSON, and stays equal as one line.
func FuzzMessage(f *testing.F) {
	for _, s := range []string{`{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{}}}`, "{\"jsonrpc\":\"2.0\",\r\n\"id\":\"\\u00e9\",\"result\":{\"n\":1e400}}",
		`{"jsonrpc":"2.0","id":1,"id":1,"method":"x"}`, `{"jsonrpc":"2.0","method":"x"} `, `[]`, `{"a":"\ud800"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := readMessage(text)
		if err != nil {
			return
		}
		line := oneLine(text)
		if !json.Valid(text) || bytes.Count(line, []byte("\n")) != 1 || line[len(line)-1] != '\n' || bytes.ContainsRune(line, '\r') {
			t.Fatalf("%q became %q", text, line)
		}
		var before, after bytes.Buffer
		if json.Compact(&before, text) != nil || json.Compact(&after, line) != nil || !bytes.Equal(before.Bytes(), after.Bytes()) {
			t.Fatalf("%q became %q", text, line)
		}
		if m.isRequest() && m.isResponse() {
			t.Fatalf("%q is two things", text)
		}
		if m.id != nil && !json.Valid(faultTo(m.id, []byte(`{}`))) {
			t.Fatalf("%q has an answer that is not JSON", text)
		}
	})
}

// Events do not depend on how the stream is cut.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "id: 1\r\ndata: a\r\ndata:b\r\n\r\n", "\xef\xbb\xbfretry: 5\revent: x\rdata\r\r", ": c\n\ndata"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		read := func(e *events) (out []string) {
			for {
				ev, err := e.next()
				if err != nil {
					return out
				}
				out = append(out, ev.name+"|"+ev.id+"|"+string(ev.data))
			}
		}
		whole, cut := read(newEvents(strings.NewReader(text))), read(newEvents(iotest.OneByteReader(strings.NewReader(text))))
		if strings.Join(whole, "\x00") != strings.Join(cut, "\x00") {
			t.Fatalf("%q: %q and %q", text, whole, cut)
		}
	})
}
