package guard

import (
	"strings"
	"unicode/utf8"
)

// Segment refuses a text that is not one part of a path under every reading that is
// known: one with a separator or a percent sign, which a second decoder would take
// for the start of something else, and one that means this folder or the one above.
// The error is a *Refusal.
func Segment(text string) error {
	switch {
	case text == "" || len(text) > maxPath:
		return refuse("must be one part of a path")
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unprintable):
		return refuse("holds a character that cannot be seen")
	}
	for reading := range readings(text) {
		up, odd := dots(reading)
		if up || odd || reading == "." || strings.HasPrefix(reading, ".;") || strings.ContainsAny(reading, `/\%`) || overlongIn(reading) {
			return refuse("holds a slash, backslash or percent sign, or is . or ..; give one part of a path")
		}
	}
	return nil
}
