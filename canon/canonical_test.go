package canon_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/placet-dev/placet/canon"
)

// shared is where the test data that is too large to keep here lies, when it does.
const shared = "../../shared/data"

func TestCanonicalIsRFC8785(t *testing.T) {
	files, err := filepath.Glob("testdata/jcs/input/*.json")
	if err != nil || len(files) != 6 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		src, want := read(t, file), read(t, filepath.Join("testdata/jcs/output", filepath.Base(file)))
		got, err := canon.Canonical(src, canon.Limits{})
		if err != nil {
			t.Errorf("%s: %v", file, err)
		} else if !bytes.Equal(got, bytes.TrimSpace(want)) {
			t.Errorf("%s:\n got %s\nwant %s", file, got, want)
		}
	}
}

func TestNumbersAreECMAScript(t *testing.T) {
	f, err := os.Open(shared + "/jcs/es6numbers-10000.txt")
	if err != nil {
		t.Skip("no list of ECMAScript numbers here: ", err)
	}
	defer f.Close()
	lines := 0
	for s := bufio.NewScanner(f); s.Scan(); lines++ {
		hex, want, _ := strings.Cut(s.Text(), ",")
		bits, err := strconv.ParseUint(hex, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		x := math.Float64frombits(bits)
		for _, src := range []string{want, strconv.FormatFloat(x, 'e', -1, 64)} {
			if got, err := canon.Canonical([]byte(src), canon.Limits{}); err != nil || string(got) != want {
				t.Fatalf("%s: got %s, %v, want %s", src, got, err, want)
			}
		}
	}
	if lines != 10000 {
		t.Fatalf("read %d lines", lines)
	}
}

func TestNumbers(t *testing.T) {
	accepted := map[string]string{
		"0": "0", "-0": "0", "-0.0e9": "0", "0e99999999999999999999": "0", "1": "1", "1.0": "1", "10e-1": "1", "1e0": "1", "100E-2": "1",
		"9007199254740991": "9007199254740991", "9007199254740992": "9007199254740992", "-9007199254740992": "-9007199254740992",
		"1000000000000000": "1000000000000000", "1e21": "1e+21", "1000000000000000000000": "1e+21", "1e6": "1000000",
		"9.007199254740992e15": "9007199254740992", "0.1": "0.1", "1.000000000000000005": "1", "1e-999": "0", "5e-324": "5e-324",
		"1.7976931348623157e308": "1.7976931348623157e+308", "123456789012345680000": "123456789012345680000",
	}
	for src, want := range accepted {
		if got, err := canon.Canonical([]byte(src), canon.Limits{}); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", src, got, err, want)
		}
	}
	refused := []string{
		"9007199254740993", "-9007199254740993", "9007199254740993.0", "9007199254740.993e3", "90071992547409930e-1",
		"18446744073709551616", "9223372036854775807", "9223372036854775808", "10000000000000000999", "1000000000000000000001",
		"1e400", "-1e400", "1.8e308", "1e99999999999999999999", "01", "-01", "+1", "1.", ".5", "1e", "1e+", "-", "NaN", "Infinity", "-Infinity", "0x10", "1_0",
	}
	for _, src := range refused {
		if got, err := canon.Canonical([]byte(src), canon.Limits{}); err == nil {
			t.Errorf("%s: taken as %s", src, got)
		}
	}
}

// The table of what SDKs digest alike or apart, and what is wanted instead.
func TestMeasuredVectors(t *testing.T) {
	equal := [][]string{
		{`{"a":1}`, `{"a":1.0}`, `{"a":10e-1}`},
		{`{"a":-0}`, `{"a":0}`},
		{``, ` {} `, `{}`, " \t\r\n"},
		{`{"a":"é","b":1}`, `{"b":1,"\u0061":"\u00e9"}`},
	}
	for _, group := range equal {
		first := object(t, group[0])
		for _, other := range group[1:] {
			if got := object(t, other); got != first {
				t.Errorf("%q is %s and %q is %s", group[0], first, other, got)
			}
		}
	}
	if nfc, nfd := object(t, `{"a":"\u00e9"}`), object(t, `{"a":"e\u0301"}`); nfc == nfd {
		t.Error("text was normalised")
	}
	refused := map[string]string{
		`{"id":9007199254740993}`:          "integral number that a double does not hold exactly; send it as a string at /id (byte 6)",
		`{"a":1e400}`:                      "number too large for a double at /a (byte 5)",
		`{"a":1,"a":2}`:                    "duplicate name at /a (byte 7)",
		`{"a":1,"\u0061":2}`:               "duplicate name at /a (byte 7)",
		`{bad`:                             "not JSON (byte 1)",
		`[1]`:                              "not an object (byte 0)",
		`{"a":"\ud800"}`:                   "lone surrogate at /a (byte 6)",
		`{"\udc00":1}`:                     "lone surrogate (byte 2)",
		`{"a":"\ud800x"}`:                  "lone surrogate at /a (byte 6)",
		`{"a":1} {}`:                       "data after the value (byte 8)",
		`{"a":1}x`:                         "data after the value (byte 7)",
		`{"a":`:                            "ends too early at /a (byte 5)",
		"\xef\xbb\xbf{}":                   "starts with a byte order mark (byte 0)",
		"{\"a\":\"\xff\"}":                 "not UTF-8 (byte 6)",
		"{\"a\":\"\xc0\xaf\"}":             "not UTF-8 (byte 6)",
		"{\"a\":\"\xed\xa0\x80\"}":         "not UTF-8 (byte 6)",
		`{"a":{"b~/c":[0,{"d":1,"d":1}]}}`: "duplicate name at /a/b~0~1c/1/d (byte 23)",
	}
	for src, want := range refused {
		out, _, err := canon.Object([]byte(src), canon.Limits{})
		var e *canon.Error
		if !errors.As(err, &e) || err.Error() != want {
			t.Errorf("%q: got %s, %v\nwant %s", src, out, err, want)
		}
	}
}

func TestBlankIsSaid(t *testing.T) {
	for src, want := range map[string]bool{"": true, " \n\t\r": true, "{}": false, ` {"a":1}`: false} {
		if _, blank, err := canon.Object([]byte(src), canon.Limits{}); err != nil || blank != want {
			t.Errorf("%q: blank %v, %v", src, blank, err)
		}
	}
	for _, src := range []string{"\u00a0", "\v", "\x00", "null", `""`, "0"} {
		if out, _, err := canon.Object([]byte(src), canon.Limits{}); err == nil {
			t.Errorf("%q: taken as %s", src, out)
		}
	}
}

func TestLimits(t *testing.T) {
	lim := canon.Limits{Bytes: 40, Depth: 3, Members: 5}
	for src, want := range map[string]string{
		`[[[]]]`:                               "",
		`[[[[]]]]`:                             "nested deeper than 3 at /0/0/0 (byte 3)",
		`{"a":[{"b":{}}]}`:                     "nested deeper than 3 at /a/0/b (byte 11)",
		`[1,2,3,4,5]`:                          "",
		`[1,2,3,4,5,6]`:                        "more than 5 members at /5 (byte 10)",
		`["` + strings.Repeat("[,", 18) + `"]`: "",
		`"` + strings.Repeat("x", 40) + `"`:    "larger than 40 bytes (byte 40)",
		strings.Repeat(" ", 41):                "larger than 40 bytes (byte 40)",
	} {
		_, err := canon.Canonical([]byte(src), lim)
		if got := fmt.Sprint(err); got != want && (err != nil || want != "") {
			t.Errorf("%s: got %v, want %q", src, err, want)
		}
	}
	if _, _, err := canon.Object(bytes.Repeat([]byte(" "), 41), lim); err == nil {
		t.Error("a long blank text was taken")
	}
	deep := bytes.Repeat([]byte("["), 1<<20)
	if _, err := canon.Canonical(deep, canon.Limits{}); err == nil {
		t.Error("a deep text was taken")
	}
	if _, err := canon.Canonical(deep, canon.Limits{Depth: math.MaxInt, Members: math.MaxInt}); err == nil {
		t.Error("a deep text that never closes was taken")
	}
}

func TestErrorsHoldNoValuesAndStayShort(t *testing.T) {
	const secret = "hunter2hunter2"
	for _, src := range []string{
		`{"a":"` + secret + `","a":1}`, `{"a":"` + secret + `\ud800"}`, `{"a":"` + secret + `\q"}`, `{"a":` + secret + `}`,
		`{"a":"` + secret, `{"a":1}` + secret, `{"a":1e400,"b":"` + secret + `"}`,
		`{"` + strings.Repeat("n", 100_000) + `":1e400}`, strings.Repeat(`{"name":`, 60) + `1e400`, "{\"\\u0000\\u001b[31m\":1e400}",
	} {
		_, err := canon.Canonical([]byte(src), canon.Limits{})
		if err == nil {
			t.Errorf("%.40s: taken", src)
		} else if m := err.Error(); strings.Contains(m, secret) || len(m) > 700 || strings.ContainsAny(m, "\x00\x1b\n") {
			t.Errorf("%.40s: %q", src, m)
		}
	}
}

func TestMarshal(t *testing.T) {
	type row struct {
		B string         `json:"b"`
		A map[string]int `json:"a"`
		R json.RawMessage
		D canon.Digest `json:"d"`
		S []string     `json:"s"`
	}
	d := canon.Of("test/1", []byte("x"))
	got, err := canon.Marshal(row{B: "<é>", A: map[string]int{"z": 1, "y": 2}, R: json.RawMessage(`{"q" : 1.0, "p":0}`), D: d})
	want := `{"R":{"p":0,"q":1},"a":{"y":2,"z":1},"b":"<é>","d":"` + d.String() + `","s":null}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
	for name, v := range map[string]any{
		"not UTF-8": "\xff", "not exact": int64(9007199254740993), "not finite": math.Inf(1), "a function": func() {},
		"duplicates": json.RawMessage(`{"a":1,"a":1}`),
	} {
		if got, err := canon.Marshal(v); err == nil {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// Every text that must be taken is, save what I-JSON refuses; every text that
// must be refused is; and what may go either way is never silently changed.
func TestParsingSuite(t *testing.T) {
	files, _ := filepath.Glob(shared + "/json-parsing/*.json")
	if len(files) == 0 {
		t.Skip("the JSON parsing suite is not here")
	}
	notIJSON := map[string]bool{"y_object_duplicated_key.json": true, "y_object_duplicated_key_and_value.json": true}
	for _, file := range files {
		name := filepath.Base(file)
		src := read(t, file)
		out, err := canon.Canonical(src, canon.Limits{})
		switch want := name[0] == 'y' && !notIJSON[name]; {
		case want && err != nil:
			t.Errorf("%s: refused: %v", name, err)
		case !want && err == nil && name[0] != 'i':
			t.Errorf("%s: taken as %.60s", name, out)
		case err == nil:
			checkSame(t, src, out)
		}
	}
}

func TestTransformSuite(t *testing.T) {
	files, _ := filepath.Glob(shared + "/json-transform/*.json")
	if len(files) == 0 {
		t.Skip("the JSON transform suite is not here")
	}
	for _, file := range files {
		src := read(t, file)
		out, err := canon.Canonical(src, canon.Limits{})
		if err == nil {
			checkSame(t, src, out)
		} else if strings.HasPrefix(filepath.Base(file), "object_key_nf") {
			t.Errorf("%s: names that differ were refused: %v", file, err)
		}
		if strings.HasPrefix(filepath.Base(file), "object_same_key") && err == nil {
			t.Errorf("%s: duplicate names were taken as %s", file, out)
		}
	}
}

func object(t *testing.T, src string) string {
	t.Helper()
	out, _, err := canon.Object([]byte(src), canon.Limits{})
	if err != nil {
		t.Fatalf("%q: %v", src, err)
	}
	return string(out)
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
