package registry

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/placet-dev/placet/canon"
)

// Template is a URI template of RFC 6570 level 1, or a URI, which is one without
// variables. It is written out of guarded values and never copied from a caller,
// so that what is dispatched is what was decided.
type Template struct {
	text     string
	literals []string // one more than variables
	names    []string // of the variables, in the order of the text
}

const (
	maxURI       = 2048 // bytes of a URI, and of a template
	maxVariables = 10
)

var (
	uriScheme    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)
	uriLiteral   = regexp.MustCompile(`^(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
)

// ParseTemplate reads a URI, or a template whose variables are plain ({name}). Other
// forms of RFC 6570 let one value become several parts of a URI, or leave reserved
// characters as they are; they are refused.
func ParseTemplate(text string) (*Template, error) {
	if len(text) > maxURI {
		return nil, fmt.Errorf("is longer than %d bytes", maxURI)
	}
	t := &Template{text: text}
	for rest := text; ; {
		literal, after, found := strings.Cut(rest, "{")
		if !uriLiteral.MatchString(literal) {
			return nil, fmt.Errorf("holds a character that no URI holds")
		}
		if len(t.names) > 0 && literal == "" && found {
			return nil, fmt.Errorf("has two variables side by side, so that nobody knows where one ends")
		}
		t.literals = append(t.literals, literal)
		if !found {
			break
		}
		name, tail, closed := strings.Cut(after, "}")
		switch {
		case !closed:
			return nil, fmt.Errorf("has a { without its }")
		case !variableName.MatchString(name):
			return nil, fmt.Errorf("has an expression that is no plain variable such as {name} (RFC 6570 level 1)")
		case slices.Contains(t.names, name):
			return nil, fmt.Errorf("has the variable %s twice", name)
		case len(t.names) == maxVariables:
			return nil, fmt.Errorf("has more than %d variables", maxVariables)
		}
		t.names = append(t.names, name)
		rest = tail
	}
	if !uriScheme.MatchString(t.literals[0]) {
		return nil, fmt.Errorf("must begin with a scheme (file:, https: and the like)")
	}
	if dotted(strings.Join(t.literals, "v")) {
		return nil, fmt.Errorf("has a . or .. between slashes")
	}
	return t, nil
}

// String is the template's text.
func (t *Template) String() string {
	if t == nil {
		return ""
	}
	return t.text
}

// Fixed reports whether it has no variables.
func (t *Template) Fixed() bool { return len(t.names) == 0 }

// Names are the variables.
func (t *Template) Names() []string { return slices.Clone(t.names) }

// Match reads the variables out of a URI, as canonical arguments. A URI that fits
// in two ways fits in none: it would mean what the reader likes.
func (t *Template) Match(uri string) (arguments json.RawMessage, ok bool) {
	values, ok := t.values(uri)
	if !ok {
		return nil, false
	}
	arguments, err := canon.Marshal(values)
	if err != nil {
		return nil, false
	}
	_, err = t.Expand(arguments)
	return arguments, err == nil
}

// values are those of the variables, where the URI fits in one way.
func (t *Template) values(uri string) (map[string]string, bool) {
	if len(uri) > maxURI {
		return nil, false
	}
	ways := t.ways(uri)
	if ways[0][0] != 1 {
		return nil, false
	}
	values := map[string]string{}
	at := 0
	for i, name := range t.names {
		at += len(t.literals[i])
		end := at + character(uri, at) // there is one way, so a value of at least one
		for ways[i+1][end] != 1 {
			end += character(uri, end)
		}
		value, ok := decoded(uri[at:end])
		if !ok {
			return nil, false
		}
		values[name], at = value, end
	}
	return values, true
}

// Expand writes the URI that canonical arguments name (RFC 6570 section 3.2.2):
// everything but unreserved characters is percent-encoded. A server that reads it
// by the same template finds these values and no others.
func (t *Template) Expand(arguments []byte) (string, error) {
	var b strings.Builder
	named := make(map[string]string, len(t.names))
	for i, name := range t.names {
		raw, _ := canon.Lookup(arguments, name)
		value, ok := canon.Text(raw)
		if !ok || value == "" || unusable(value) {
			return "", fmt.Errorf("the argument %s must be text without control characters, and not empty", name)
		}
		named[name] = value
		b.WriteString(t.literals[i])
		for _, c := range []byte(value) {
			if unreserved(c) {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		}
	}
	b.WriteString(t.literals[len(t.names)])
	uri := b.String()
	if len(uri) > maxURI {
		return "", fmt.Errorf("the arguments make a URI of more than %d bytes", maxURI)
	}
	if dotted(uri) {
		return "", fmt.Errorf("an argument is . or .., which names another place than it says")
	}
	if read, ok := t.values(uri); !ok || !maps.Equal(read, named) {
		return "", fmt.Errorf("the arguments make a URI that may be read in more than one way")
	}
	return uri, nil
}

// dotted reports whether a path has a segment that readers remove (RFC 3986
// section 5.2.4): the URI would then be another than was decided.
func dotted(uri string) bool {
	path, _, _ := strings.Cut(uri, "#")
	path, _, _ = strings.Cut(path, "?")
	_, path, _ = strings.Cut(path, ":")
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

func unusable(value string) bool {
	return !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl)
}

// decoded undoes percent-encoding, once.
func decoded(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		b.WriteByte(unhex(s[i+1])<<4 | unhex(s[i+2])) // matched before: two digits follow
		i += 2
	}
	return b.String(), !unusable(b.String())
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// ways counts, for each literal and each place in a URI, in how many ways the rest
// of the template fits from there: 0, 1, or 2 for more. It takes a time that grows
// with the URI's length, whatever the URI says.
func (t *Template) ways(uri string) [][]uint8 {
	n := len(t.names)
	ways := make([][]uint8, n+1)
	ways[n] = make([]uint8, len(uri)+1)
	if rest := len(uri) - len(t.literals[n]); rest >= 0 && uri[rest:] == t.literals[n] {
		ways[n][rest] = 1
	}
	for i := n - 1; i >= 0; i-- {
		after := make([]uint8, len(uri)+1) // from where the variable's value begins
		for at := len(uri) - 1; at >= 0; at-- {
			if size := character(uri, at); size > 0 {
				after[at] = min(2, ways[i+1][at+size]+after[at+size])
			}
		}
		ways[i] = make([]uint8, len(uri)+1)
		for at := range ways[i] {
			if strings.HasPrefix(uri[at:], t.literals[i]) {
				ways[i][at] = after[at+len(t.literals[i])]
			}
		}
	}
	return ways
}

// character is how many bytes of a URI make the character of a value at a place: an
// unreserved one or a percent-encoded one (RFC 6570 section 1.5). Others are of no value.
func character(uri string, at int) int {
	switch c := uri[at]; {
	case unreserved(c):
		return 1
	case c == '%' && at+2 < len(uri) && isHex(uri[at+1]) && isHex(uri[at+2]):
		return 3
	}
	return 0
}
