package guard

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// maxText and maxName are how long a text and a name may be unless the entry says
// otherwise.
const (
	maxText = 10000
	maxName = 200
)

// isText is the rule for words that people read, and for names: one line of them. The text itself is never changed.
type isText struct {
	max     int
	oneLine bool
	secrets bool
}

func newText(s Spec) (rule, error) {
	t := isText{s.MaxLength, s.OneLine, s.Secrets}
	if s.Type == Name {
		t.oneLine = true
	}
	switch {
	case t.max != 0:
	case s.Type == Name:
		t.max = maxName
	default:
		t.max = maxText
	}
	return t, nil
}

func (t isText) accept(v value) (json.RawMessage, *Refusal) {
	text, refusal := v.text()
	switch {
	case refusal != nil:
		return nil, refusal
	case utf8.RuneCountInString(text) > t.max:
		return nil, refuse("is longer than this tool may be given")
	case t.oneLine && strings.ContainsAny(text, "\r\n\v\f\u0085\u2028\u2029"):
		return nil, refuse("must be one line")
	case hides(text):
		return nil, refuse("holds characters that cannot be seen or that change how others are read")
	case t.secrets && holdsSecret(text):
		return nil, refuse("holds what looks like a password, a key or a token; leave it out")
	}
	return v.raw, nil
}

// flag begins the one sequence in which tags are honest (emoji flags of regions, UTS 51).
const flag = '\U0001F3F4'

// hides reports whether a text holds an unprintable character other than tabs and
// line breaks.
func hides(text string) bool {
	tags := false
	for _, r := range text {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			tags = false
		case r >= 0xe0000 && r <= 0xe007f && tags:
		case unprintable(r) && r != 0x2028 && r != 0x2029:
			return true
		default:
			tags = r == flag
		}
	}
	return false
}
