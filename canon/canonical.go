package canon

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Limits bound what is read. A field that is not positive means its default.
type Limits struct {
	Bytes   int // length of the text; default 1 MiB
	Depth   int // objects and arrays inside one another; default 64
	Members int // members of all objects and elements of all arrays, an empty one counting as one; default 100,000
}

const (
	defaultBytes   = 1 << 20
	defaultDepth   = 64
	defaultMembers = 100_000
)

func (l Limits) withDefaults() Limits {
	if l.Bytes <= 0 {
		l.Bytes = defaultBytes
	}
	if l.Depth <= 0 {
		l.Depth = defaultDepth
	}
	if l.Members <= 0 {
		l.Members = defaultMembers
	}
	return l
}

// Canonical reads exactly one JSON value and returns its RFC 8785 form. It
// refuses duplicate names, text that is not Unicode, a byte order mark, data
// after the value, numbers that have no exact meaning, and what exceeds lim.
// Every error is an [*Error]. src is neither kept nor changed.
func Canonical(src []byte, lim Limits) ([]byte, error) {
	lim = lim.withDefaults()
	if len(src) > lim.Bytes {
		return nil, &Error{Reason: fmt.Sprintf("larger than %d bytes", lim.Bytes), Offset: lim.Bytes}
	}
	if bytes.HasPrefix(src, []byte("\xef\xbb\xbf")) {
		return nil, &Error{Reason: "starts with a byte order mark"}
	}
	if !utf8.Valid(src) {
		return nil, &Error{Reason: "not UTF-8", Offset: firstInvalid(src)}
	}
	if e := scan(src, lim); e != nil {
		e.Pointer = pointerAt(src, e.Offset)
		return nil, e
	}
	// The scan above has looked at nothing but lengths and numbers. Grammar,
	// names and surrogates are the library's; it works in place, hence the copy.
	v := jsontext.Value(bytes.Clone(src))
	if err := v.Canonicalize(); err != nil {
		return nil, explain(src, err)
	}
	return v, nil
}

// Object is [Canonical] for a tool's arguments, which are an object. A text that
// is empty or all JSON whitespace stands for {} and is reported as blank.
func Object(src []byte, lim Limits) (out []byte, blank bool, err error) {
	text := bytes.TrimLeft(src, " \t\r\n")
	if len(text) == 0 {
		if limit := lim.withDefaults().Bytes; len(src) > limit {
			return nil, false, &Error{Reason: fmt.Sprintf("larger than %d bytes", limit), Offset: limit}
		}
		return []byte("{}"), true, nil
	}
	out, err = Canonical(src, lim)
	if err != nil {
		return nil, false, err
	}
	if out[0] != '{' {
		return nil, false, &Error{Reason: "not an object", Offset: len(src) - len(text)}
	}
	return out, false, nil
}

// Marshal writes a Go value as encoding/json does, then in canonical form. Text
// that is not UTF-8 is an error here and not replaced.
func Marshal(v any) ([]byte, error) {
	text, err := jsonv2.Marshal(v, jsonv1.DefaultOptionsV1(), jsontext.AllowInvalidUTF8(false),
		jsontext.AllowDuplicateNames(false), jsontext.EscapeForHTML(false))
	if err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	const unlimited = int(^uint(0) >> 1)
	return Canonical(text, Limits{Bytes: unlimited, Depth: unlimited, Members: unlimited})
}

// scan checks what the library does not: how deep and how much, and whether each
// number has an exact meaning. It does not judge the grammar. On a text that is
// not JSON it may find nothing; the library then refuses the text.
func scan(src []byte, lim Limits) *Error {
	depth, members := 0, 0
	for i := 0; i < len(src); i++ {
		switch c := src[i]; c {
		case '"':
			i = closingQuote(src, i)
		case '{', '[':
			if depth++; depth > lim.Depth {
				return &Error{Reason: fmt.Sprintf("nested deeper than %d", lim.Depth), Offset: i}
			}
			members++
		case '}', ']':
			depth--
		case ',':
			members++
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			end := endOfNumber(src, i)
			if reason := inexact(src[i:end]); reason != "" {
				return &Error{Reason: reason, Offset: i}
			}
			i = end - 1
			continue
		default:
			continue
		}
		if members > lim.Members {
			return &Error{Reason: fmt.Sprintf("more than %d members", lim.Members), Offset: i}
		}
	}
	return nil
}

// closingQuote returns where the string that opens at i closes, or the last
// index if it does not.
func closingQuote(src []byte, i int) int {
	for i++; i < len(src); i++ {
		switch src[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return len(src) - 1
}

func endOfNumber(src []byte, i int) int {
	for i++; i < len(src); i++ {
		switch c := src[i]; {
		case '0' <= c && c <= '9', c == '.', c == 'e', c == 'E', c == '+', c == '-':
		default:
			return i
		}
	}
	return i
}
