package verify

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/placet-dev/placet/canon"
)

// The vectors of RFC 8785's author, which canon is tested with too.
func TestCanonicalVectors(t *testing.T) {
	files, err := filepath.Glob("../canon/testdata/jcs/input/*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d vectors: %v", len(files), err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join("../canon/testdata/jcs/output", filepath.Base(file)))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := canonical(src); err != nil || !bytes.Equal(got, bytes.TrimSpace(want)) {
			t.Errorf("%s: %v\ngot  %s\nwant %s", file, err, got, want)
		}
	}
}

// jsonSeeds are texts that JSON readers disagree about.
var jsonSeeds = []string{
	`{"b":1,"a":[true,false,null,"x"]}`, `{}`, `[]`, ` [ 1 , 2 ] `, `""`, `-0`, `-0.0`, `0e9`, `1e21`, `1e+21`, `1E-7`, `0.000001`, `1.10`, `123456789012345678`,
	`9007199254740993`, `9007199254740992`, `9007199254740993.0`, `90071992547409930e-1`, `1e400`, `1e-400`, `-1e308`, `5e-324`, `0.1000000000000000055`, `333333333.33333329`,
	`01`, `-`, `1.`, `.5`, `+1`, `1e`, `1e+`, `1e+-5`, `1ee5`, `0x1`, `NaN`, `Infinity`, `1e99999999999999999999`, `0e99999999999999999999`, `1e-99999999999999999999`,
	`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"\ud83d\ude00":1,"\uffff":2}`, `"\ud800"`, `"\ud800\u0041"`, `"\udc00\ud800"`, `"\ud83d\ude00"`, `"\ud83d\u"`, `"\u00e9é"`, "\"\xff\"",
	`"\/\b\f\n\r\t\"\\"`, `"\x"`, "\"\x01\"", "\"\x7f\u2028<>&\"", `"\u0000\u001f\u001F"`, `"a`, `"a\`, `{"a"}`, `{"a":}`, `{"a":1,}`, `[1,]`, `[,1]`, `{,}`, `{1:2}`, `1 2`, `{} x`, `tru`, `trueX`, `nulll`,
	"\xef\xbb\xbf{}", "\x00", ``, ` `, "{\"a\"\v:1}", `{"a":{"b":[{"c":"d"}]}}`, strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("[", 65) + strings.Repeat("]", 65),
	`{"10":1,"9":2,"1":3}`, `{"":1," ":2}`,
}

// twins compares this reader with canon's, which Placet uses: they take the same
// texts and write the same form, or a token would be refused, or worse.
func twins(t *testing.T, text []byte) {
	want, err := canon.Canonical(text, canon.Limits{})
	got, mine := canonical(text)
	if (err == nil) != (mine == nil) || err == nil && !bytes.Equal(got, want) {
		t.Errorf("%q\ncanon  %q, %v\nverify %q, %v", text, want, err, got, mine)
	}
}

func TestCanonicalAgreesWithCanon(t *testing.T) {
	for _, s := range jsonSeeds {
		twins(t, []byte(s))
	}
	for _, pattern := range []string{"../../shared/data/json-parsing/*.json", "../../shared/data/json-transform/*.json"} {
		files, _ := filepath.Glob(pattern)
		if len(files) == 0 {
			t.Logf("%s is not there", pattern)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			twins(t, text)
		}
	}
}

func FuzzCanonicalAgreesWithCanon(f *testing.F) {
	for _, s := range jsonSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 64<<10 {
			return
		}
		twins(t, text)
	})
}

// What a library decodes and encoding/json writes again has the digest of what was sent.
func TestDecodedArgumentsMatch(t *testing.T) {
	for _, sent := range []string{`{"amount":60.5,"big":1e+30,"html":"<&>","n":9007199254740992,"u":"ü\u2028"}`, `{}`, `{"a":[],"b":{},"c":null}`} {
		text, err := canon.Canonical([]byte(sent), canon.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		var decoded map[string]any
		if err := json.Unmarshal(text, &decoded); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(decoded)
		if err != nil {
			t.Fatal(err)
		}
		if digest := digestOf(text); !matches(again, digest) || !matches(text, digest) {
			t.Errorf("%s does not match %s", again, text)
		}
	}
	// A text that differs only in what a double cannot tell is another text.
	if matches([]byte(`{"n":9007199254740993}`), digestOf([]byte(`{"n":9007199254740992}`))) {
		t.Error("two integers have one digest")
	}
	if !matches(nil, digestOf([]byte(`{}`))) || matches([]byte(`{"a":1}`), "") {
		t.Error("blank arguments stand for {} and nothing else")
	}
}
