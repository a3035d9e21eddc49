package notify

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// quote is a text that somebody else wrote, for the markup of chat rooms: as code,
// in which no room reads a link, a mention or an emphasis, with the three
// characters escaped that Slack reads everywhere. What cannot be seen, changes the
// direction of other text, or would end the code is replaced by its number. What
// is left out is counted.
func quote(s string, most int) string {
	if s == "" {
		return "(empty)"
	}
	var b strings.Builder
	b.WriteByte('`')
	shown := 0
	for _, r := range s {
		if shown == most {
			break
		}
		shown++
		switch {
		case r == '&':
			b.WriteString("&amp;")
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '`', unseen(r):
			fmt.Fprintf(&b, "⟦U+%04X⟧", r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('`')
	if left := utf8.RuneCountInString(s) - shown; left > 0 {
		fmt.Fprintf(&b, " … (%d more characters)", left)
	}
	return b.String()
}

// unseen are characters without a shape of their own: controls, formats such as
// overrides of direction, spaces other than the blank, fillers and selectors; and
// the marks by which we show them.
func unseen(r rune) bool {
	switch {
	case r == 0x115F, r == 0x1160, r == 0x3164, r == 0xFFA0, r == 0x2800, r == 0x034F, r == 0x17B4, r == 0x17B5, r == '⟦', r == '⟧',
		r >= 0xFE00 && r <= 0xFE0F, r >= 0xE0100 && r <= 0xE01EF, r >= 0x180B && r <= 0x180F, r == utf8.RuneError:
		return true
	}
	return !unicode.IsPrint(r)
}

// left is a span until something ends, for people.
func left(minutes int) string {
	if minutes < 60 {
		return fmt.Sprintf("%d min", minutes)
	}
	return fmt.Sprintf("%d h %d min", minutes/60, minutes%60)
}
