package question

import (
	"strings"
	"testing"
	"unicode"
)

// shown is what a person sees of a marked text.
func shown(s string) string {
	var b strings.Builder
	for _, p := range Mark(s) {
		b.WriteString(p.Text)
	}
	return b.String()
}

func TestMark(t *testing.T) {
	for given, want := range map[string]string{
		"Refund 12.00 to Müller & Söhne": "Refund 12.00 to Müller & Söhne", "a\u202eb": "a⟦U+202E right-to-left override⟧b",
		"pay\u200bpal": "pay⟦U+200B zero width space⟧pal", "\x1b[31m": "⟦U+001B escape⟧[31m", "p\u0430ypal.com": "p\u0430⟦U+0430⟧ypal.com",
		"a\nb": "a↵b", "a↵b": "a↵⟦U+21B5⟧b", "⟦U+202E⟧": "⟦⟦U+27E6⟧U+202E⟧⟦U+27E7⟧", "": "",
	} {
		if got := shown(given); got != want {
			t.Errorf("%q is shown as %q, want %q", given, got, want)
		}
	}
}

// Nothing that acts on a reader is left, a mark can be told from what was written,
// and nothing that was written is lost.
func FuzzMark(f *testing.F) {
	f.Add("a\u202eb\x1b[2J\n\u0430pple ⟦")
	f.Fuzz(func(t *testing.T, s string) {
		kept := 0
		for _, p := range Mark(s) {
			if p.Mark {
				continue
			}
			for _, r := range p.Text {
				kept++
				if unicode.Is(unicode.Cf, r) || unicode.IsControl(r) {
					t.Fatalf("%q shows U+%04X as it is", s, r)
				}
			}
		}
		if all := len([]rune(s)); kept > all {
			t.Fatalf("%q: %d characters became %d", s, all, kept)
		}
	})
}
