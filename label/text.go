package label

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// word reports whether a character is part of a word of any script.
func word(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.M, r) }

// joins reports whether a character holds addresses, paths, hosts and numbers
// together: a match that touches one is only a part of something longer (rule B5).
func joins(r rune) bool {
	return strings.ContainsRune(`.-_@/\:+%~=&#?*^|`, r) || unicode.Is(unicode.Cf, r)
}

// whole reports whether text[i:j] stands for itself: what touches it is neither
// part of a word nor a joiner. A full stop, colon or question mark that ends a
// sentence joins nothing, and a comma joins only digits.
func whole(text string, i, j int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:i])
	after, n := utf8.DecodeRuneInString(text[j:])
	if i > 0 {
		first, _ := utf8.DecodeRuneInString(text[i:])
		digits := before == ',' && unicode.IsDigit(first) && endsWithDigit(text[:i-1])
		if word(before) || joins(before) || digits {
			return false
		}
	}
	if j == len(text) {
		return true
	}
	next, _ := utf8.DecodeRuneInString(text[j+n:])
	ends := j+n == len(text) || unicode.IsSpace(next) || strings.ContainsRune(`"'”’)]}>»`, next)
	switch {
	case word(after):
		return false
	case strings.ContainsRune(".:?", after):
		return ends
	case after == ',':
		return !unicode.IsDigit(next) || !endsWithDigit(text[:j])
	}
	return !joins(after)
}

func endsWithDigit(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return unicode.IsDigit(r)
}

// fold is how text is compared where case does not matter.
func fold(s string) string { return strings.ToLower(s) }

// occurrences counts where a value stands in text as a whole token.
func occurrences(text, value string) (n int) {
	if value == "" {
		return 0
	}
	for at := 0; ; {
		i := strings.Index(text[at:], value)
		if i < 0 {
			return n
		}
		i += at
		if whole(text, i, i+len(value)) {
			n++
			at = i + len(value)
			continue
		}
		_, size := utf8.DecodeRuneInString(text[i:])
		at = i + size
	}
}

// anchors reports whether a value may anchor anything: what is too short, too
// small a number or too common a word stands in every text by chance (rule B5).
func anchors(value string) bool {
	if utf8.RuneCountInString(value) < 3 {
		return false
	}
	digits, others := 0, 0
	for _, r := range value {
		switch {
		case unicode.IsDigit(r):
			digits++
		case strings.ContainsRune(".,+- ", r):
		default:
			others++
		}
	}
	if others == 0 && !isDate(value) && digits < 5 {
		return false
	}
	// What begins or ends with something else is cut out of a text, not written in it.
	first, _ := utf8.DecodeRuneInString(value)
	last, _ := utf8.DecodeLastRuneInString(value)
	if unicode.IsSpace(first) || unicode.IsSpace(last) {
		return false
	}
	for _, w := range words(fold(value)) {
		if !common[w] {
			return true
		}
	}
	return false
}

// words are the runs of letters and digits in a text, in order.
func words(s string) []string { return strings.FieldsFunc(s, func(r rune) bool { return !word(r) }) }

// tokens are the parts of a text between white space, brackets and quotes.
func tokens(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("\"'`“”‘’«»()[]{}<>|;,", r)
	})
}

// squeeze leaves letters and digits, without case: how a value is found again
// that was taken apart with spaces or signs.
func squeeze(s string) string {
	return strings.Map(func(r rune) rune {
		if word(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, s)
}

// telling reports whether a squeezed value is one that must not get out of a
// sensitive result: it holds a digit and at least six characters (rule F5).
func telling(s string) bool {
	return utf8.RuneCountInString(s) >= 6 && strings.ContainsFunc(s, unicode.IsDigit)
}

// common are words that stand in every text.
var common = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`a about above add after again all also always am an and another any anyone anything are as ask at
		back be because been before being below best between both but by call can change check click come could create date day days delete
		did do does done down each either else email end even every everyone everything external false few file files find first for from
		get give go going good great had has have he hello help her here hers hi him his how however i id if important in info information
		internal into is it item items its just know last later least let like list look made mail make many may me meeting message might
		mine more most much must my name need never new next no none not nothing now null of off ok on once one only open or order other
		our ours out over own page per please private public put read regards remove reply report same see send sent set she should
		show since so some someone something soon start still stop subject sure take task tell text than thank thanks that the their
		them then there these they thing things this those through time title to today too true two under until up update us use user
		users very via want was way we well were what when where which while who whole whom whose why will with within without work
		would write yes yesterday yet you your yours monday tuesday wednesday thursday friday saturday sunday january february march
		april june july august september october november december`) {
		m[w] = true
	}
	return m
}()
