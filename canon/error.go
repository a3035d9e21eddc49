package canon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Error says why a text was refused. It holds no value of the text; names of
// members occur in Pointer, escaped and cut.
type Error struct {
	Reason  string // one of a few phrases, such as "duplicate name"
	Offset  int    // the byte at or after which the reason lies
	Pointer string // RFC 6901 pointer to the place, "" for the whole
}

func (e *Error) Error() string {
	if e.Pointer == "" {
		return fmt.Sprintf("%s (byte %d)", e.Reason, e.Offset)
	}
	return fmt.Sprintf("%s at %s (byte %d)", e.Reason, e.Pointer, e.Offset)
}

// explain turns the library's refusal of src into ours. The library's own text is
// not passed on: it quotes what it read.
func explain(src []byte, err error) *Error {
	var s *jsontext.SyntacticError
	if !errors.As(err, &s) {
		return &Error{Reason: "not JSON"}
	}
	e := &Error{Offset: min(max(int(s.ByteOffset), 0), len(src)), Pointer: shown(s.JSONPointer)}
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		e.Reason = "duplicate name"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		e.Reason = "ends too early"
	case surrogateAt(src[e.Offset:]):
		e.Reason = "lone surrogate"
	case wholeBefore(src, e.Offset):
		e.Reason, e.Pointer = "data after the value", ""
	default:
		e.Reason = "not JSON"
	}
	return e
}

// surrogateAt reports whether text starts with the escape of a surrogate.
func surrogateAt(text []byte) bool {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return false
	}
	d, third := text[2]|0x20, text[3]|0x20
	return d == 'd' && (third == '8' || third == '9' || 'a' <= third && third <= 'f')
}

// wholeBefore reports whether the first n bytes of src are a whole value already.
func wholeBefore(src []byte, n int) bool {
	return jsontext.Value(bytes.TrimSpace(src[:n])).IsValid()
}

func firstInvalid(src []byte) int {
	n := 0
	for n < len(src) {
		r, size := utf8.DecodeRune(src[n:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
}

// pointerAt returns the pointer to the token at an offset, as far as the text up
// to there can be read.
func pointerAt(src []byte, offset int) string {
	d := jsontext.NewDecoder(bytes.NewReader(src), jsontext.AllowDuplicateNames(true))
	for d.InputOffset() <= int64(offset) {
		if _, err := d.ReadToken(); err != nil {
			break
		}
	}
	return shown(d.StackPointer())
}

const (
	maxShownName    = 64
	maxShownPointer = 256
)

// shown makes a pointer fit to be shown: every name is cut, and so is the whole;
// what cannot be printed is replaced.
func shown(p jsontext.Pointer) string {
	var b strings.Builder
	for name := range strings.SplitSeq(strings.TrimPrefix(string(p), "/"), "/") {
		if p == "" {
			break
		}
		if b.Len() > maxShownPointer {
			b.WriteString("/…")
			break
		}
		b.WriteByte('/')
		b.WriteString(cutName(name))
	}
	return b.String()
}

func cutName(name string) string {
	n := 0
	name = strings.Map(func(r rune) rune {
		if n++; n > maxShownName {
			return -1
		}
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, name)
	if n > maxShownName {
		name += "…"
	}
	return name
}
