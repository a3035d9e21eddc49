package verify

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// matches reports whether a digest is that of these arguments. Placet signs and
// sends the canonical text (RFC 8785), which is compared first; what a library has
// decoded and written again is brought into that form.
func matches(arguments []byte, digest string) bool {
	if len(bytes.TrimLeft(arguments, " \t\r\n")) == 0 {
		arguments = []byte("{}")
	}
	if same(arguments, digest) {
		return true
	}
	text, err := canonical(arguments)
	return err == nil && same(text, digest)
}

func same(text []byte, digest string) bool {
	sum := sha256.Sum256(text)
	return subtle.ConstantTimeCompare([]byte("sha256:"+hex.EncodeToString(sum[:])), []byte(digest)) == 1
}

// maxDepth is how deep arguments may be nested, as at Placet's own doors.
const maxDepth = 64

var errJSON = errors.New("not strict JSON")

// canonical reads exactly one JSON value and returns its RFC 8785 form. It is
// strict where readers differ: no duplicate names, no lone surrogates, UTF-8
// only, and no integral number that a double does not hold. Whoever read the text
// has bounded it.
func canonical(text []byte) ([]byte, error) { return canonicalTo(text, maxDepth) }

func canonicalTo(text []byte, depth int) ([]byte, error) {
	if !utf8.Valid(text) {
		return nil, errJSON
	}
	r := &reader{text: text, depth: depth}
	out, ok := r.value(make([]byte, 0, len(text)), 0)
	r.space()
	if !ok || r.at != len(text) {
		return nil, errJSON
	}
	return out, nil
}

// reader is a place in a text. Its methods append canonical forms and report
// whether the text was as it must be.
type reader struct {
	text  []byte
	at    int
	depth int // how deep it may go
}

func (r *reader) peek() byte {
	if r.at < len(r.text) {
		return r.text[r.at]
	}
	return 0
}

func (r *reader) space() {
	for c := r.peek(); c == ' ' || c == '\t' || c == '\n' || c == '\r'; c = r.peek() {
		r.at++
	}
}

// take skips space and then c, if it is there.
func (r *reader) take(c byte) bool {
	r.space()
	if r.peek() != c || r.at == len(r.text) {
		return false
	}
	r.at++
	return true
}

func (r *reader) value(dst []byte, depth int) ([]byte, bool) {
	r.space()
	switch c := r.peek(); {
	case c == '{' || c == '[':
		if depth == r.depth {
			return dst, false
		}
		r.at++
		if c == '{' {
			return r.object(dst, depth+1)
		}
		return r.array(dst, depth+1)
	case c == '"':
		s, ok := r.string()
		return quote(dst, s), ok
	case c == '-' || '0' <= c && c <= '9':
		return r.number(dst)
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(r.text[r.at:], []byte(word)) {
			r.at += len(word)
			return append(dst, word...), true
		}
	}
	return dst, false
}

func (r *reader) array(dst []byte, depth int) ([]byte, bool) {
	dst = append(dst, '[')
	if r.take(']') {
		return append(dst, ']'), true
	}
	for {
		var ok bool
		if dst, ok = r.value(dst, depth); !ok {
			return dst, false
		}
		switch {
		case r.take(']'):
			return append(dst, ']'), true
		case !r.take(','):
			return dst, false
		}
		dst = append(dst, ',')
	}
}

// member is one member of an object, its value in canonical form.
type member struct {
	name  string
	order []uint16 // RFC 8785 sorts by UTF-16 code units
	value []byte
}

func (r *reader) object(dst []byte, depth int) ([]byte, bool) {
	all, ok := r.members(depth)
	if !ok {
		return dst, false
	}
	slices.SortFunc(all, func(a, b member) int { return slices.Compare(a.order, b.order) })
	dst = append(dst, '{')
	for i, m := range all {
		if i > 0 {
			if m.name == all[i-1].name {
				return dst, false
			}
			dst = append(dst, ',')
		}
		dst = append(append(quote(dst, m.name), ':'), m.value...)
	}
	return append(dst, '}'), true
}

// members reads what follows an opening brace, up to the closing one.
func (r *reader) members(depth int) (all []member, ok bool) {
	if r.take('}') {
		return nil, true
	}
	for {
		r.space()
		name, ok := r.string()
		if !ok || !r.take(':') {
			return nil, false
		}
		value, ok := r.value(nil, depth)
		if !ok {
			return nil, false
		}
		all = append(all, member{name, utf16.Encode([]rune(name)), value})
		switch {
		case r.take('}'):
			return all, true
		case !r.take(','):
			return nil, false
		}
	}
}

// string reads a string and decodes it.
func (r *reader) string() (string, bool) {
	if r.peek() != '"' {
		return "", false
	}
	r.at++
	var out []byte
	for r.at < len(r.text) {
		c := r.text[r.at]
		r.at++
		switch {
		case c == '"':
			return string(out), true
		case c < ' ':
			return "", false
		case c == '\\':
			var ok bool
			if out, ok = r.escape(out); !ok {
				return "", false
			}
		default:
			out = append(out, c)
		}
	}
	return "", false
}

const (
	escapes = `"\/bfnrt`
	escaped = "\"\\/\b\f\n\r\t"
)

func (r *reader) escape(dst []byte) ([]byte, bool) {
	c := r.peek()
	r.at++
	if i := strings.IndexByte(escapes, c); i >= 0 && c != 0 {
		return append(dst, escaped[i]), true
	}
	if c != 'u' {
		return dst, false
	}
	u, ok := r.hex()
	if ok && utf16.IsSurrogate(u) {
		if !bytes.HasPrefix(r.text[r.at:], []byte(`\u`)) {
			return dst, false
		}
		r.at += 2
		var low rune
		if low, ok = r.hex(); ok {
			u = utf16.DecodeRune(u, low)
			ok = u != utf8.RuneError
		}
	}
	return utf8.AppendRune(dst, u), ok
}

func (r *reader) hex() (rune, bool) {
	if len(r.text)-r.at < 4 {
		return 0, false
	}
	var b [2]byte
	if _, err := hex.Decode(b[:], r.text[r.at:r.at+4]); err != nil {
		return 0, false
	}
	r.at += 4
	return rune(b[0])<<8 | rune(b[1]), true
}

// quote writes a string as RFC 8785 does (section 3.2.2.2).
func quote(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(s) {
		c := s[i]
		switch at := strings.IndexByte(escaped, c); {
		case at >= 0 && c != '/':
			dst = append(dst, '\\', escapes[at])
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// number writes a number as ECMAScript does (RFC 8785, section 3.2.2.3).
func (r *reader) number(dst []byte) ([]byte, bool) {
	begin := r.at
	for c := r.peek(); '0' <= c && c <= '9' || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-'; c = r.peek() {
		r.at++
	}
	literal := string(r.text[begin:r.at])
	d, ok := readDecimal(literal)
	f, err := strconv.ParseFloat(literal, 64)
	if !ok || err != nil {
		return dst, false
	}
	text := ecmaScript(f)
	if d.exponent >= len(d.digits) { // integral
		if w, ok := readDecimal(text); !ok || w != d {
			return dst, false
		}
	}
	return append(dst, text...), true
}

func ecmaScript(f float64) string {
	if f == 0 {
		return "0"
	}
	if abs := max(f, -f); abs >= 1e-6 && abs < 1e21 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	return strings.Replace(strings.Replace(s, "e-0", "e-", 1), "e+0", "e+", 1)
}

// decimal is ±0.digits × 10^exponent, digits without zeros at either end.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

// far is beyond the exponent of any double, whatever the digits are.
const far = 1 << 27

// readDecimal reads a number by the grammar of RFC 8259, section 6.
func readDecimal(s string) (d decimal, ok bool) {
	s, d.negative = strings.CutPrefix(s, "-")
	mantissa, power := s, ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, power = s[:i], strings.TrimPrefix(s[i+1:], "+")
		if !digitsOnly(strings.TrimPrefix(power, "-")) || power != s[i+1:] && power[0] == '-' {
			return decimal{}, false
		}
	}
	whole, fraction, pointed := strings.Cut(mantissa, ".")
	if !digitsOnly(whole) || len(whole) > 1 && whole[0] == '0' || pointed && !digitsOnly(fraction) {
		return decimal{}, false
	}
	if power != "" {
		e, err := strconv.Atoi(power)
		if err != nil { // only its size can be wrong
			e = far
			if power[0] == '-' {
				e = -far
			}
		}
		d.exponent = min(max(e, -far), far)
	}
	all := whole + fraction
	d.exponent += len(whole)
	d.digits = strings.TrimLeft(all, "0")
	d.exponent -= len(all) - len(d.digits)
	if d.digits = strings.TrimRight(d.digits, "0"); d.digits == "" {
		return decimal{}, true
	}
	return d, true
}

func digitsOnly(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
