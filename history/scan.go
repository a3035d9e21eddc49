package history

import (
	"bytes"
	"iter"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// The walks below are over values that the strict decoder has accepted already:
// they find things and check nothing. On other text they stop, and do not panic.

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// stringEnd is the index after the string that starts at i.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); {
		q := bytes.IndexByte(b[i:], '"')
		if q < 0 {
			return len(b)
		}
		i += q
		n := 0
		for b[i-1-n] == '\\' {
			n++
		}
		i++
		if n%2 == 0 {
			return i
		}
	}
	return len(b)
}

// valueEnd is the index after the value that starts at i.
func valueEnd(b []byte, i int) int {
	if i >= len(b) {
		return i
	}
	switch b[i] {
	case '"':
		return stringEnd(b, i)
	case '{', '[':
		end, _ := container(b, i)
		return end
	}
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
		i++
	}
	return i
}

// container is the index after the object or array at i, and how deep it goes.
func container(b []byte, i int) (end, deepest int) {
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			i = stringEnd(b, i)
			continue
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1, deepest
			}
		}
		i++
	}
	return len(b), deepest
}

// member is one of an object's: name decoded, value raw, both with their place.
type member struct {
	name       []byte
	key        int // of the name's quote
	start, end int
}

// members yields an object's in order.
func members(b []byte) iter.Seq[member] {
	return func(yield func(member) bool) {
		if len(b) == 0 || b[0] != '{' {
			return
		}
		for i := space(b, 1); i < len(b) && b[i] == '"'; {
			m := member{key: i}
			i = stringEnd(b, i)
			m.name = unquote(b[m.key:i])
			if i = space(b, i); i >= len(b) || b[i] != ':' {
				return
			}
			m.start = space(b, i+1)
			m.end = valueEnd(b, m.start)
			if !yield(m) {
				return
			}
			if i = space(b, m.end); i >= len(b) || b[i] != ',' {
				return
			}
			i = space(b, i+1)
		}
	}
}

// elements yields an array's in order, each with its place.
func elements(b []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		if len(b) == 0 || b[0] != '[' {
			return
		}
		for i := space(b, 1); i < len(b) && b[i] != ']'; {
			end := valueEnd(b, i)
			if end == i || !yield(i, b[i:end:end]) {
				return
			}
			if i = space(b, end); i >= len(b) || b[i] != ',' {
				return
			}
			i = space(b, i+1)
		}
	}
}

// unquote is a string's text; of anything else nothing.
func unquote(b []byte) []byte {
	if len(b) < 2 || b[0] != '"' {
		return nil
	}
	if bytes.IndexByte(b, '\\') < 0 {
		return b[1 : len(b)-1]
	}
	out, err := jsontext.AppendUnquote(nil, b)
	if err != nil {
		return nil
	}
	return out
}

// find is the value of an object's member, raw, or nil.
func find(b []byte, name string) []byte {
	for m := range members(b) {
		if string(m.name) == name {
			return b[m.start:m.end:m.end]
		}
	}
	return nil
}

// count is how many members an object has.
func count(b []byte) (n int) {
	for range members(b) {
		n++
	}
	return n
}

// place is a value with where it stands.
type place struct {
	b   []byte
	at  int64
	ptr string
}

func (p place) ok() bool { return len(p.b) > 0 && p.b[0] != 'n' } // null is no value

func (p place) text() string { return string(unquote(p.b)) }

func (p place) isText() bool { return len(p.b) > 0 && p.b[0] == '"' }

func (p place) isObject() bool { return len(p.b) > 0 && p.b[0] == '{' }

func (p place) isList() bool { return len(p.b) > 0 && p.b[0] == '[' }

func (p place) yes() bool { return len(p.b) > 0 && p.b[0] == 't' }

func (p place) position() Position {
	return Position{Offset: p.at, End: p.at + int64(len(p.b)), Pointer: p.ptr}
}

// elements yields a list's with their places.
func (p place) elements() iter.Seq2[int, place] {
	return func(yield func(int, place) bool) {
		n := 0
		for at, e := range elements(p.b) {
			if !yield(n, place{e, p.at + int64(at), p.ptr + "/" + strconv.Itoa(n)}) {
				return
			}
			n++
		}
	}
}

// object is a place with its members looked up.
type object struct {
	place
	list []member
}

func (o *object) get(name string) place {
	for i := range o.list {
		if string(o.list[i].name) == name {
			return o.at1(&o.list[i])
		}
	}
	return place{}
}

// first is the value of the first of several spellings that is there.
func (o *object) first(names ...string) place {
	for _, n := range names {
		if p := o.get(n); p.b != nil {
			return p
		}
	}
	return place{}
}

func (o *object) at1(m *member) place {
	return place{o.b[m.start:m.end:m.end], o.at + int64(m.start), o.ptr + "/" + pointerToken(m.name)}
}

// pointerToken escapes a name for a pointer (RFC 6901) and cuts a long one.
func pointerToken(name []byte) string {
	const longest = 64
	s := string(name)
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	if strings.ContainsAny(s, "~/") {
		s = strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
	}
	return s
}
