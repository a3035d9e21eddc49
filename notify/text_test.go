package notify

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "(empty)",
		"Anna Berg":              "`Anna Berg`",
		"Søren 李":                "`Søren 李`",
		"<!channel>":             "`&lt;!channel&gt;`",
		"a`b":                    "`a⟦U+0060⟧b`",
		"a\nb\tc\x00":            "`a⟦U+000A⟧b⟦U+0009⟧c⟦U+0000⟧`",
		"\u202eevil\u200b\ufeff": "`⟦U+202E⟧evil⟦U+200B⟧⟦U+FEFF⟧`",
		"⟦U+0041⟧":               "`⟦U+27E6⟧U+0041⟦U+27E7⟧`",
		"a\u00a0b\u3164":         "`a⟦U+00A0⟧b⟦U+3164⟧`",
		"\xff":                   "`⟦U+FFFD⟧`",
		"&amp;":                  "`&amp;amp;`",
	} {
		if got := quote(in, 100); got != want {
			t.Errorf("quote(%q) = %s, want %s", in, got, want)
		}
	}
	if got := quote(strings.Repeat("é", 12), 10); got != "`"+strings.Repeat("é", 10)+"` … (2 more characters)" {
		t.Errorf("a long one: %s", got)
	}
}

// FuzzQuote: whatever the text, what is quoted stays inside of one quote, holds no
// markup and nothing that cannot be seen.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a", "<@U1|x>", "`", "\u202e", "⟦", strings.Repeat("<", 300), "\xf0\x9f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := quote(s, 200)
		if s != "" && (strings.Count(got, "`") != 2 || got[0] != '`') {
			t.Fatalf("%q", got)
		}
		for _, r := range strings.NewReplacer("⟦", "", "⟧", "").Replace(got) {
			if r == '<' || r == '>' || unseen(r) {
				t.Fatalf("%U in %q", r, got)
			}
		}
		if !utf8.ValidString(got) || len(got) > 200*12+60 {
			t.Fatalf("%d bytes: %q", len(got), got)
		}
		if _, err := json.Marshal(got); err != nil {
			t.Fatal(err)
		}
	})
}

func TestCheckSecret(t *testing.T) {
	for s, ok := range map[string]bool{
		secret: true, "": false, "whsec_": false, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw": false, "whsec_c2hvcnQ=": false, "whsec_!!!": false,
		"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw": true,
	} {
		if got := CheckSecret(s) == nil; got != ok {
			t.Errorf("%q: %v", s, got)
		}
	}
}
