package label

import (
	"regexp"
	"strconv"
	"strings"
)

// dateForm finds what may be a date or a time of day; dates are exempt from the
// search for values that must ask (rule F5).
var dateForm = regexp.MustCompile(`\b(?:(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?|(\d{1,2})[./](\d{1,2})[./](\d{4}))\b`)

// isDate reports whether a text is a date, or a date with a time, and nothing else.
func isDate(s string) bool {
	return strings.TrimSpace(withoutDates(s)) == "" && strings.TrimSpace(s) != ""
}

// withoutDates takes dates that are possible out of a text. Numbers that only look
// like one stay: 4638-20-11 is no date.
func withoutDates(s string) string {
	if !strings.ContainsAny(s, "0123456789") {
		return s
	}
	return dateForm.ReplaceAllStringFunc(s, func(found string) string {
		m := dateForm.FindStringSubmatch(found)
		within := func(text string, low, high int) bool {
			if text == "" {
				return true
			}
			n, err := strconv.Atoi(text)
			return err == nil && n >= low && n <= high
		}
		iso := within(m[1], 1900, 2199) && within(m[2], 1, 12) && within(m[3], 1, 31) && within(m[4], 0, 24) && within(m[5], 0, 59) && within(m[6], 0, 60)
		written := within(m[9], 1900, 2199) && (within(m[7], 1, 31) && within(m[8], 1, 12) || within(m[7], 1, 12) && within(m[8], 1, 31))
		if iso && written {
			return " "
		}
		return found
	})
}
