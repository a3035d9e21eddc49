package canon

import (
	"bytes"
	"iter"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// LookupPath goes into objects by a name with dots: a.b is the member b of the
// member a. What holds for Lookup holds for it.
func LookupPath(object []byte, path string) (value []byte, ok bool) {
	for {
		first, rest, nested := strings.Cut(path, ".")
		value, ok := Lookup(object, first)
		if !ok || !nested {
			return value, ok
		}
		object, path = value, rest
	}
}

// Lookup returns the value of a member of a canonical object, raw and without a
// copy. Of a text that is not a canonical object it may return anything or
// nothing, but it does not panic.
func Lookup(object []byte, name string) (value []byte, ok bool) {
	if plain(name) {
		for raw, value := range members(object) {
			if string(raw[1:len(raw)-1]) == name {
				return value, true
			}
		}
		return nil, false
	}
	quoted, err := jsontext.AppendQuote(nil, name)
	if err != nil {
		return nil, false // not UTF-8: no canonical object has such a name
	}
	for raw, value := range members(object) {
		if bytes.Equal(raw, quoted) {
			return value, true
		}
	}
	return nil, false
}

// Members yields the members of a canonical object in its order, which is that of
// the names' UTF-16 code units: the name decoded, the value raw.
func Members(object []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for raw, value := range members(object) {
			name, ok := Text(raw)
			if !ok || !yield(name, value) {
				return
			}
		}
	}
}

// Elements yields the elements of a canonical array in order, raw.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if len(array) < 2 || array[0] != '[' {
			return
		}
		for rest := array[1:]; len(rest) > 0 && rest[0] != ']'; {
			n := valueLen(rest)
			if n == 0 || !yield(rest[:n:n]) {
				return
			}
			rest = bytes.TrimPrefix(rest[n:], []byte(","))
		}
	}
}

// members yields quoted names and raw values.
func members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		if len(object) < 2 || object[0] != '{' {
			return
		}
		for rest := object[1:]; len(rest) > 0 && rest[0] == '"'; {
			n := valueLen(rest)
			if n < 2 || n >= len(rest) || rest[n] != ':' {
				return
			}
			m := valueLen(rest[n+1:])
			if m == 0 || !yield(rest[:n:n], rest[n+1:n+1+m:n+1+m]) {
				return
			}
			rest = bytes.TrimPrefix(rest[n+1+m:], []byte(","))
		}
	}
}

// valueLen returns the length of the canonical value that text starts with; 0 if
// it ends before the value does.
func valueLen(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			end := closingQuote(text, i)
			if end == i || text[end] != '"' {
				return 0
			}
			if i = end; depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // the end of what holds a number or literal
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ':':
			if depth == 0 {
				return i
			}
		}
	}
	if depth > 0 {
		return 0
	}
	return len(text)
}

// AppendText appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD,
// as encoding/json writes them.
func AppendText(dst []byte, s string) []byte {
	out, err := jsontext.AppendQuote(dst, s)
	if err != nil { // only for text that is not UTF-8, which is replaced all the same
		out, _ = jsontext.AppendQuote(dst, strings.ToValidUTF8(s, "\ufffd"))
	}
	return out
}
