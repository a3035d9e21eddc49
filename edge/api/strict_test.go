package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/placet-dev/placet/canon"
)

// hostile are bodies of POST /v1/calls that must not be read, with a phrase of why.
var hostile = []struct{ name, body, why string }{
	{"duplicate name", `{"tool":"a","tool":"b"}`, "duplicate name"},
	{"duplicate name, escaped", `{"tool":"a","\u0074ool":"b"}`, "duplicate name"},
	{"duplicate name inside arguments", `{"tool":"a","arguments":{"x":1,"x":2}}`, "duplicate name"},
	{"case variant", `{"Tool":"a"}`, "unknown member"},
	{"case variant beside the name", `{"tool":"a","TOOL":"b"}`, "unknown member"},
	{"case variant by folding", `{"tool":"a","argument\u017f":{}}`, "unknown member"},
	{"unknown member", `{"tool":"a","tenant":"globex"}`, "unexpected"},
	{"trailing data", `{"tool":"a"}{"tool":"b"}`, "data after the value"},
	{"trailing word", `{"tool":"a"} x`, "data after the value"},
	{"batch", `[{"tool":"a"}]`, "object"},
	{"not an object", `"a"`, "object"},
	{"null", `null`, "object"},
	{"not JSON", `{tool:"a"}`, "not JSON"},
	{"cut off", `{"tool":"a"`, "ends too early"},
	{"byte order mark", "\xef\xbb\xbf{\"tool\":\"a\"}", "byte order mark"},
	{"not UTF-8", "{\"tool\":\"a\xff\"}", "not UTF-8"},
	{"lone surrogate", `{"tool":"\ud800"}`, "surrogate"},
	{"rounded integer", `{"tool":"a","arguments":{"n":9007199254740993}}`, "number"},
	{"infinite number", `{"tool":"a","arguments":{"n":1e400}}`, "number"},
	{"too deep", `{"tool":"a","arguments":` + strings.Repeat(`[`, 70) + strings.Repeat(`]`, 70) + `}`, "nested deeper"},
	{"tool is a number", `{"tool":1}`, "string"},
	{"tool is null", `{"tool":null}`, ""},
	{"tool is empty", `{"tool":""}`, "length"},
	{"dispatch is text", `{"tool":"a","dispatch":"false"}`, "boolean"},
	{"turn is a fraction", `{"tool":"a","vouch":{"turn":1.5,"response":"r","position":0}}`, "integer"},
	{"unknown member of vouch", `{"tool":"a","vouch":{"turn":1,"response":"r","position":0,"source":"witnessed"}}`, "unexpected"},
}

func TestStrictFormatReadsOneWay(t *testing.T) {
	for _, c := range hostile[:5] {
		var b proposeBody
		if err := read([]byte(c.body), &b, canon.Limits{}); err == nil {
			t.Errorf("%s: read as %+v", c.name, b)
		}
	}
	var b proposeBody
	if err := read([]byte(` {"arguments":{"n":9007199254740992,"s":"<&>","f":1.50},"tool":"a"} `), &b, canon.Limits{}); err != nil {
		t.Fatal(err)
	}
	if got, want := string(b.Arguments), `{"f":1.5,"n":9007199254740992,"s":"<&>"}`; got != want {
		t.Errorf("arguments %s, want %s", got, want)
	}
}

func TestResultsLeaveByteForByte(t *testing.T) {
	for _, raw := range []string{
		`{"n":9007199254740993, "x":"<b>&\u2028", "x":2}`, "[ 1,\n 2 ]", `"text"`, `1e400`,
	} {
		var out bytes.Buffer
		if err := write(&out, Answer{Text: "t", Result: json.RawMessage(raw)}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), `,"result":`+raw+"}") {
			t.Errorf("%s is not in %s", raw, out.String())
		}
		if !json.Valid(out.Bytes()) {
			t.Errorf("not JSON: %s", out.String())
		}
	}
	var out bytes.Buffer
	if err := write(&out, Answer{Text: "t", Result: json.RawMessage(`{"broken`)}); err != nil || !json.Valid(out.Bytes()) {
		t.Errorf("a broken result broke the answer: %v, %s", err, out.String())
	}
}

// FuzzStrictFormat: what is read means one thing, whoever reads it, and what is
// refused is refused without a value of it in the error.
func FuzzStrictFormat(f *testing.F) {
	for _, c := range hostile {
		f.Add([]byte(c.body))
	}
	f.Add([]byte(`{"tool":"a","arguments":{"x":[1,2.5,"y",null,true]},"vouch":{"turn":1,"response":"r","position":0}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var strictly proposeBody
		err := read(body, &strictly, canon.Limits{})
		if err != nil {
			var e *canon.Error
			if !errors.As(err, &e) && len(err.Error()) > 100 {
				t.Errorf("an error without bounds: %q", err)
			}
			return
		}
		// A reader that folds case and takes the last of two finds the same.
		var loosely proposeBody
		if err := json.Unmarshal(body, &loosely); err != nil {
			t.Fatalf("encoding/json refuses what was read: %v", err)
		}
		if strictly.Tool != loosely.Tool || strictly.Run != loosely.Run || strictly.Edits != loosely.Edits || strictly.Purpose != loosely.Purpose {
			t.Errorf("read as %+v and as %+v", strictly, loosely)
		}
		if len(strictly.Arguments) > 0 {
			again, err := canon.Canonical(loosely.Arguments, canon.Limits{})
			if err != nil || !bytes.Equal(again, strictly.Arguments) {
				t.Errorf("arguments read as %s and as %s (%v)", strictly.Arguments, again, err)
			}
		}
	})
}
