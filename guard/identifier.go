package guard

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/placet-dev/placet/canon"
)

// maxIdentifier is how long an identifier may be unless the entry says otherwise.
const maxIdentifier = 200

// plainIdentifier is what an identifier may be without a pattern of its own:
// nothing that goes into another folder, query, command or line where a server
// puts it into one.
var plainIdentifier = regexp.MustCompile(`^[A-Za-z0-9_@.:+=-]+$`)

// isIdentifier is the rule for a text or an integer that names one thing.
type isIdentifier struct {
	pattern *regexp.Regexp
	max     int
}

func newIdentifier(s Spec) (rule, error) {
	i := isIdentifier{max: s.MaxLength}
	if i.max == 0 {
		i.max = maxIdentifier
	}
	if s.Pattern != "" {
		var err error
		if i.pattern, err = regexp.Compile(`\A(?:` + s.Pattern + `)\z`); err != nil {
			return nil, wrong("pattern", "is no regular expression (RE2)")
		}
	}
	return i, nil
}

func (i isIdentifier) accept(v value) (json.RawMessage, *Refusal) {
	text, ok := canon.Text(v.raw)
	if !ok {
		text = string(v.raw)
		if text == "" || strings.Trim(strings.TrimPrefix(text, "-"), "0123456789") != "" {
			return nil, refuse("has not the form of an identifier of this kind") // neither a text nor an integer
		}
	}
	fits := plainIdentifier.MatchString(text) && strings.Trim(text, ".") != ""
	if i.pattern != nil {
		fits = i.pattern.MatchString(text) && !strings.ContainsFunc(text, unprintable)
	}
	if text == "" || utf8.RuneCountInString(text) > i.max || !fits {
		return nil, refuse("has not the form of an identifier of this kind")
	}
	return v.raw, nil
}
