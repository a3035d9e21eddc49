package console

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/placet-dev/placet/canon"
)

// plain is what a person sees of a marked text.
func plain(s string) string {
	return html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(string(marked(s)), ""))
}

func TestMarked(t *testing.T) {
	for given, want := range map[string]string{
		"Refund 12.00 to Müller & Söhne": "Refund 12.00 to Müller & Söhne", "日本語 Привет мир עברית": "日本語 Привет мир עברית",
		"a\u202eb": "a⟦U+202E right-to-left override⟧b", "pay\u200bpal": "pay⟦U+200B zero width space⟧pal", "\x1b[31m": "⟦U+001B escape⟧[31m",
		"p\u0430ypal.com": "p\u0430⟦U+0430⟧ypal.com", "\u0430\u0440\u0440\u04cf\u0435": "\u0430\u0440\u0440\u04cf\u0435",
		"\u0430\u0440\u0440": "\u0430⟦U+0430⟧\u0440⟦U+0440⟧\u0440⟦U+0440⟧", "ｅｖｉｌ": "ｅ⟦U+FF45⟧ｖ⟦U+FF56⟧ｉ⟦U+FF49⟧ｌ⟦U+FF4C⟧",
		"a\u0301\u0301\u0301": "a\u0301⟦U+0301⟧⟦U+0301⟧", "\u3164": "⟦U+3164⟧", "a\nb": "a↵\nb", "⟦U+202E⟧": "⟦⟦U+27E6⟧U+202E⟧⟦U+27E7⟧", "\U000E0041": "⟦U+E0041⟧",
		"<b>&\"'": "<b>&\"'",
	} {
		if got := plain(given); got != want {
			t.Errorf("%q is shown as %q, want %q", given, got, want)
		}
	}
}

// Nothing that an agent writes is markup, and nothing it hides stays hidden.
func FuzzMarked(f *testing.F) {
	f.Add("<script>\u202e</script>", "x")
	f.Add("\u0430pple", "&lt;")
	f.Fuzz(func(t *testing.T, a, b string) {
		out := string(marked(a + b))
		rest := strings.ReplaceAll(strings.ReplaceAll(out, `<span class="odd">`, ""), "</span>", "")
		if strings.ContainsAny(rest, "<>\"'") {
			t.Fatalf("%q has markup: %q", a+b, out)
		}
		for _, r := range rest {
			if r != '\n' && (unicode.Is(unicode.Cf, r) || unicode.IsControl(r)) {
				t.Fatalf("%q shows U+%04X as it is", a+b, r)
			}
		}
	})
}

// A value is shown within bounds, whatever it is, and what is left out is counted.
func TestValuesAreBounded(t *testing.T) {
	var members, elements []string
	for n := range 10_000 {
		members, elements = append(members, fmt.Sprintf(`"k%05d":{"a":[1,2,{"b":"%s"}]}`, n, strings.Repeat("y", 50))), append(elements, "1")
	}
	for name, text := range map[string]string{
		"a long text": `{"a":"` + strings.Repeat("\u202e", 300_000) + `"}`, "many members": `{` + strings.Join(members, ",") + `}`,
		"a long list": `{"a":[` + strings.Join(elements, ",") + `]}`, "depth": `{"a":` + strings.Repeat("[", 60) + strings.Repeat("]", 60) + `}`,
		"a long name": `{"` + strings.Repeat("n", 100_000) + `":1}`,
	} {
		raw, err := canon.Canonical([]byte(text), canon.Limits{Bytes: 4 << 20})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		n := valueOf(raw)
		if err := templates.ExecuteTemplate(&b, "node", n); err != nil {
			t.Fatal(err)
		}
		if b.Len() > 600_000 || !strings.Contains(b.String(), "file only") && !strings.Contains(b.String(), "more characters") {
			t.Errorf("%s: %d bytes", name, b.Len())
		}
	}
	// A huge argument does not push others off the page.
	n := valueOf([]byte(`{"a":[` + strings.Join(elements, ",") + `],"b":"` + strings.Repeat("x", 100_000) + `","c":"seen"}`))
	if last := n.Items[len(n.Items)-1]; last.Name != "c" || last.Text.Text != "seen" {
		t.Errorf("the last argument is %+v", last)
	}
}
