package registry

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/placet-dev/placet/canon"
)

func TestTemplatesThatAreRefused(t *testing.T) {
	for _, text := range []string{
		"", "x", "/files/{name}", "{scheme}://x", "x://{+path}", "x://{/path}", "x://{?q}", "x://{#f}", "x://{a,b}", "x://{a*}", "x://{a:3}", "x://{a.b}",
		"x://{a", "x://a}", "x://{}", "x://{a}{b}", "x://{a}/{a}", "x://a b", "x://\u00e9", "x://a%zz", "x://a\\b", "x://a/../b", "x://./a", "x:a/..",
		"x://" + strings.Repeat("a", 2048), "x://{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}/{j}/{k}",
	} {
		if _, err := ParseTemplate(text); err == nil {
			t.Errorf("%q is a template", text)
		}
	}
}

// Rule F6: a URI stands for one set of values or for none, and the URI of these
// values is what a server that reads it would take for the same.
func TestRule_F6_URIsMatchInOneWay(t *testing.T) {
	for _, c := range []struct{ template, uri, arguments, again string }{
		{"x://h", "x://h", `{}`, "x://h"},
		{"x://h", "x://h/", "", ""},
		{"x://h", "X://h", "", ""},
		{"x://{a}", "x://b", `{"a":"b"}`, "x://b"},
		{"x://{a}", "x://%62", `{"a":"b"}`, "x://b"},
		{"x://{a}", "x://%2f%2F", `{"a":"//"}`, "x://%2F%2F"},
		{"x://{a}", "x://%252f", `{"a":"%2f"}`, "x://%252f"},
		{"x://{a}", "x://caf%C3%A9", `{"a":"café"}`, "x://caf%C3%A9"},
		{"x://{a}/b", "x://%2e%2e%2Fc/b", `{"a":"../c"}`, "x://..%2Fc/b"}, // one segment; a guard says whether it may be
		{"x://{a}", "x://", "", ""},
		{"x://{a}", "x://b/c", "", ""},
		{"x://{a}", "x://b?c", "", ""},
		{"x://{a}", "x://b#c", "", ""},
		{"x://{a}", "x://%2", "", ""},
		{"x://{a}", "x://%zz", "", ""},
		{"x://{a}", "x://%ff", "", ""},
		{"x://{a}", "x://%00", "", ""},
		{"x://{a}", "x://%0a", "", ""},
		{"x://{a}", "x://é", "", ""},
		{"x://h/{a}", "x://h/..", "", ""},
		{"x://h/{a}", "x://h/%2e%2E", "", ""},
		{"x://h/.{a}", "x://h/..", "", ""},
		{"x://h/{a}/c", "x://h/./c", "", ""},
		{"x://{a}-{b}", "x://1-2", `{"a":"1","b":"2"}`, "x://1-2"},
		{"x://{a}-{b}", "x://1-2-3", "", ""},
		{"x://{a}-{b}", "x://1%2D2-3", `{"a":"1-2","b":"3"}`, ""}, // what it is written as fits in two ways
		{"x://{a}/{b}", "x://1/2", `{"a":"1","b":"2"}`, "x://1/2"},
		{"x://{a}1/{b}", "x://11/2", `{"a":"1","b":"2"}`, "x://11/2"},
		{"x://{a}41", "x://%4141", `{"a":"A"}`, "x://A41"},
	} {
		template, err := ParseTemplate(c.template)
		if err != nil {
			t.Fatalf("%s: %v", c.template, err)
		}
		arguments, ok := template.Match(c.uri)
		if c.again == "" {
			if ok {
				t.Errorf("%s stands for %s of %s", c.uri, arguments, c.template)
			}
			continue
		}
		if !ok || string(arguments) != c.arguments {
			t.Errorf("%s of %s: %s, %t", c.uri, c.template, arguments, ok)
			continue
		}
		if again, err := template.Expand(arguments); err != nil || again != c.again {
			t.Errorf("%s of %s is written %s, %v", c.uri, c.template, again, err)
		}
	}
}

// Whatever matches is written as one URI, which stands for the same values, and
// which a reader of URIs takes apart into what the values say.
func FuzzTemplate(f *testing.F) {
	f.Add("x://{a}", "x://b")
	f.Add("x://h/{a}-{b}?q={c}", "x://h/1%2d2-3?q=%41")
	f.Add("file:///{p}", "file:///..%2fetc")
	f.Add("x:{a}.{b}", "x:%2e.%2e")
	f.Fuzz(func(t *testing.T, text, uri string) {
		template, err := ParseTemplate(text)
		if err != nil {
			return
		}
		arguments, ok := template.Match(uri)
		if !ok {
			return
		}
		again, err := template.Expand(arguments)
		if err != nil {
			t.Fatalf("%q of %q: %v", uri, text, err)
		}
		same, ok := template.Match(again)
		if !ok || string(same) != string(arguments) {
			t.Fatalf("%q of %q is written %q, which is %s, not %s", uri, text, again, same, arguments)
		}
		if c, err := canon.Canonical(arguments, canon.Limits{}); err != nil || string(c) != string(arguments) {
			t.Fatalf("%s is not canonical", arguments)
		}
		var values map[string]string
		if err := json.Unmarshal(arguments, &values); err != nil || len(values) != len(template.Names()) {
			t.Fatalf("%s of %q", arguments, text)
		}
		// No value changes what a reader takes for scheme, host or number of segments.
		filled := make(map[string]string, len(values))
		for name := range values {
			filled[name] = "v"
		}
		plain, err := canon.Marshal(filled)
		if err != nil {
			t.Fatal(err)
		}
		fixed, err := template.Expand(plain)
		if err != nil {
			t.Fatal(err)
		}
		a, errA := url.Parse(again)
		b, errB := url.Parse(fixed)
		if errA != nil || errB != nil {
			return // an opaque or odd literal, which net/url does not read
		}
		if a.Scheme != b.Scheme || strings.Count(a.EscapedPath(), "/") != strings.Count(b.EscapedPath(), "/") || (a.RawQuery == "") != (b.RawQuery == "") || (a.Fragment == "") != (b.Fragment == "") {
			t.Fatalf("%q differs in form from %q", again, fixed)
		}
	})
}
