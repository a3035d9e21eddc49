package question

import (
	"fmt"
	"strings"
	"unicode"
)

// Piece is a part of a marked text: as it was written, or a mark of ours.
type Piece struct {
	Text string
	Mark bool
}

// Break is the mark for a line's end within a text. Whoever shows it breaks the
// line after it.
const Break = "↵"

// Mark makes visible what is in a text that somebody else wrote: every character
// that cannot be seen, changes the direction of others or passes for another one is
// followed or replaced by its number. What it shows is all there is.
func Mark(s string) []Piece {
	var m marker
	runes := []rune(s)
	for start := 0; start < len(runes); {
		end := start
		for end < len(runes) && inWord(runes[end]) {
			end++
		}
		if end == start {
			end++
		}
		m.word(runes[start:end])
		start = end
	}
	m.flush()
	return m.out
}

// marker collects pieces.
type marker struct {
	out  []Piece
	text strings.Builder
}

func (m *marker) flush() {
	if m.text.Len() > 0 {
		m.out = append(m.out, Piece{Text: m.text.String()})
		m.text.Reset()
	}
}

func (m *marker) mark(s string) {
	m.flush()
	m.out = append(m.out, Piece{Text: s, Mark: true})
}

// inWord reports whether a character belongs to a word, name, address or number:
// the spans within which scripts must not mix.
func inWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) || strings.ContainsRune("._-@", r)
}

func (m *marker) word(runes []rune) {
	latin, foreign, alike := false, 0, 0
	for _, r := range runes {
		switch {
		case r < 0x80 && unicode.IsLetter(r):
			latin = true
		case unicode.IsLetter(r) && !unicode.Is(unicode.Latin, r):
			foreign++
			if strings.ContainsRune(lookalikes, r) {
				alike++
			}
		}
	}
	// A word of two scripts, or one that could be read in another.
	deceives := foreign > 0 && (latin || alike == foreign)
	marks := 0
	for _, r := range runes {
		if unicode.IsMark(r) {
			marks++
		} else {
			marks = 0
		}
		switch {
		case r == '\n':
			m.mark(Break)
		case hidden(r) || marks > 1:
			m.mark(number(r))
		case styled(r) || deceives && unicode.IsLetter(r) && !unicode.Is(unicode.Latin, r):
			m.text.WriteRune(r)
			m.mark(number(r))
		default:
			m.text.WriteRune(r)
		}
	}
}

// lookalikes are letters of other scripts that are drawn like Latin ones.
const lookalikes = "асеорхуіјѕһԁԛԝьАВЕЅІЈКМНОРСТУХԌ" + "οναρυικτΑΒΕΖΗΙΚΜΝΟΡΤΥΧ" + "օսոհցզԼՕՍ" + "ᎪᏴᏟᎠᎬᎻᎫᏦᏞᎷᏢᏒᏚᎢᏙᎳᏃ"

// styled are Latin letters, digits and signs in a form of their own: full width,
// mathematical, enclosed.
func styled(r rune) bool {
	switch {
	case r >= 0xFF01 && r <= 0xFF5E, r >= 0x1D400 && r <= 0x1D7FF, r >= 0x2460 && r <= 0x24FF, r >= 0x1F100 && r <= 0x1F1FF:
		return true
	case r >= 0x2100 && r <= 0x214F: // letterlike
		return r != '№' && r != '™' && r != '℃'
	case r == '⟦' || r == '⟧' || r == '↵': // our own marks
		return true
	case r == 0x2044 || r == 0x2215 || r == 0x2024 || r == 0x2025 || r == 0x3002 || r == 0xA789 || r == 0x2236: // pass for / . :
		return true
	}
	return false
}

// hidden are characters without a shape of their own: controls, formats such as
// overrides of direction and zero widths, white space other than a blank, fillers,
// and what Unicode has not assigned or left to private use.
func hidden(r rune) bool {
	switch r {
	case ' ':
		return false
	case 0x115F, 0x1160, 0x3164, 0xFFA0, 0x2800, 0x034F, 0x17B4, 0x17B5: // fillers and blanks
		return true
	case unicode.ReplacementChar:
		return true
	}
	if r >= 0xFE00 && r <= 0xFE0F || r >= 0xE0100 && r <= 0xE01EF || r >= 0x180B && r <= 0x180F { // variation selectors
		return true
	}
	return !unicode.IsGraphic(r) || unicode.Is(unicode.Zs, r)
}

func number(r rune) string {
	name := names[r]
	if name != "" {
		name = " " + name
	}
	return fmt.Sprintf("⟦U+%04X%s⟧", r, name)
}

// names are those of the characters that are met most.
var names = map[rune]string{
	'\r': "carriage return", '\t': "tab", 0: "null", 0x1b: "escape", 0x7f: "delete", 0xA0: "no-break space",
	0xAD: "soft hyphen", 0x200B: "zero width space", 0x200C: "zero width non-joiner", 0x200D: "zero width joiner",
	0x200E: "left-to-right mark", 0x200F: "right-to-left mark", 0x2028: "line separator", 0x2029: "paragraph separator",
	0x202A: "left-to-right embedding", 0x202B: "right-to-left embedding", 0x202C: "pop directional formatting",
	0x202D: "left-to-right override", 0x202E: "right-to-left override", 0x2060: "word joiner",
	0x2066: "left-to-right isolate", 0x2067: "right-to-left isolate", 0x2068: "first strong isolate", 0x2069: "pop directional isolate",
	0xFEFF: "zero width no-break space", unicode.ReplacementChar: "not a character",
}
