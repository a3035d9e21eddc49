package registry

import (
	"encoding/json"
	"fmt"
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
		return nil, fmt.Errorf("must begin with a scheme, such as file: or https:")
	}
	if dotted(strings.Join(t.literals, "")) {
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
	if len(uri) > maxURI {
		return nil, false
	}
	m := matching{t: t, uri: uri, known: map[[2]int]int{}}
	if m.ways(0, 0) != 1 {
		return nil, false
	}
	values := map[string]string{}
	at := 0
	for i, name := range t.names {
		at += len(t.literals[i])
		end := m.end(i, at)
		value, ok := decoded(uri[at:end])
		if !ok {
			return nil, false
		}
		values[name], at = value, end
	}
	arguments, err := canon.Marshal(values)
	if err != nil {
		return nil, false
	}
	_, err = t.Expand(arguments)
	return arguments, err == nil
}

// Expand writes the URI that canonical arguments name (RFC 6570 section 3.2.2):
// everything but unreserved characters is percent-encoded.
func (t *Template) Expand(arguments []byte) (string, error) {
	var b strings.Builder
	for i, name := range t.names {
		raw, _ := canon.Lookup(arguments, name)
		value, ok := canon.Text(raw)
		if !ok || value == "" || unusable(value) {
			return "", fmt.Errorf("the argument %s must be text without control characters, and not empty", name)
		}
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

// matching counts the ways in which a URI fits.
type matching struct {
	t     *Template
	uri   string
	known map[[2]int]int
}

// ways is in how many ways, 2 for more, the rest from literal i on fits at a place.
func (m *matching) ways(i, at int) int {
	literal := m.t.literals[i]
	if !strings.HasPrefix(m.uri[at:], literal) {
		return 0
	}
	at += len(literal)
	if i == len(m.t.names) {
		if at == len(m.uri) {
			return 1
		}
		return 0
	}
	place := [2]int{i, at}
	if n, ok := m.known[place]; ok {
		return n
	}
	n := 0
	for end := range m.ends(at) {
		n = min(2, n+m.ways(i+1, end))
	}
	m.known[place] = n
	return n
}

// end is where the value of variable i ends that begins at a place, where there is
// one way.
func (m *matching) end(i, at int) int {
	for end := range m.ends(at) {
		if m.ways(i+1, end) == 1 {
			return end
		}
	}
	return at
}

// ends yields where a value that begins at a place may end: it is made of
// unreserved characters and percent-encoded ones (RFC 6570 section 1.5).
func (m *matching) ends(at int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for at < len(m.uri) {
			switch c := m.uri[at]; {
			case unreserved(c):
				at++
			case c == '%' && at+2 < len(m.uri) && isHex(m.uri[at+1]) && isHex(m.uri[at+2]):
				at += 3
			default:
				return
			}
			if !yield(at) {
				return
			}
		}
	}
}
