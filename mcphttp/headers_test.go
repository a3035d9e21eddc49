package mcphttp

import (
	"encoding/json"
	"net/textproto"
	"testing"
)

func TestHeaderValue(t *testing.T) {
	for in, want := range map[string]string{
		"plain text": "plain text", "": "", " x": "=?base64?IHg=?=", "ü": "=?base64?w7w=?=", "a\nb": "=?base64?YQpi?=", "=?base64?eA==?=": "=?base64?PT9iYXNlNjQ/ZUE9PT89?=",
	} {
		if got := HeaderValue(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func TestParamText(t *testing.T) {
	for in, want := range map[string]string{
		`"a b"`: "a b", `"\u00fc"`: "=?base64?w7w=?=", `"a\nb"`: "=?base64?YQpi?=", `true`: "true", `false`: "false", `0`: "0", `-3`: "-3",
		`9007199254740991`: "9007199254740991", `-9007199254740991`: "-9007199254740991",
	} {
		if got, ok := ParamText([]byte(in)); !ok || got != want {
			t.Errorf("%s: %q, %v", in, got, ok)
		}
	}
	for _, in := range []string{``, `null`, `{}`, `["a"]`, `1.5`, `1e3`, `9007199254740992`, `-9007199254740992`, `"`, `"\ud800"`} {
		if got, ok := ParamText([]byte(in)); ok {
			t.Errorf("%s: %q", in, got)
		}
	}
}

func TestIsToken(t *testing.T) {
	for in, want := range map[string]bool{"Region": true, "x-1_~": true, "": false, "a b": false, "A: b\r\nX": false, "ü": false} {
		if IsToken(in) != want {
			t.Errorf("%q: %v", in, !want)
		}
	}
}

// Whatever an argument holds, its header is one line of visible ASCII.
func FuzzParamText(f *testing.F) {
	for _, s := range []string{`"a"`, `" a"`, `"a\r\nX: y"`, `"=?base64?eA==?="`, `-1`, `true`, `null`, `"\u0000"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if !json.Valid(value) {
			return
		}
		text, ok := ParamText(value)
		if !ok && text != "" || textproto.TrimString(text) != text {
			t.Fatalf("%q became %q", value, text)
		}
		for i := range len(text) {
			if text[i] < ' ' || text[i] > '~' {
				t.Fatalf("%q became %q", value, text)
			}
		}
	})
}
