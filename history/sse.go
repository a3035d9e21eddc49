package history

import (
	"errors"
	"io"
	"slices"
)

// unframed reads a stream of server-sent events as the list of what their data says, byte
// for byte in its place: what frames them becomes spaces, and the brackets and commas of
// a list. What begins as JSON is left as it is.
type unframed struct {
	r      io.Reader
	state  int
	field  []byte // of the line that begins
	began  bool   // there was data
	data   bool   // of the event that is being read
	ready  []byte // read, and not returned
	buffer []byte
	size   int64 // of what was read
	bad    string
	err    error
}

const (
	atFirst = iota // whether it is JSON is not known yet
	atLine
	inData
	inOther
	isJSON
)

var errFrame = errors.New("not a stream of events")

func (u *unframed) Read(b []byte) (int, error) {
	for len(u.ready) == 0 {
		if u.err != nil {
			return 0, u.err
		}
		if len(b) == 0 {
			return 0, nil
		}
		u.buffer = slices.Grow(u.buffer[:0], len(b))[:len(b)]
		n, err := u.r.Read(u.buffer)
		u.size += int64(n)
		for _, c := range u.buffer[:n] {
			if u.bad != "" {
				break
			}
			u.take(c)
		}
		if err == io.EOF && u.bad == "" {
			u.end()
		}
		if u.err = err; u.bad != "" {
			u.err = errFrame
		}
	}
	n := copy(b, u.ready)
	u.ready = u.ready[n:]
	return n, nil
}

func (u *unframed) put(c byte) { u.ready = append(u.ready, c) }

func (u *unframed) spaces(n int) {
	for range n {
		u.put(' ')
	}
}

func (u *unframed) take(c byte) {
	switch u.state {
	case isJSON:
		u.put(c)
	case inData:
		u.put(c)
		if c == '\n' {
			u.state = atLine
		}
	case inOther:
		if c != '\n' {
			c = ' '
		} else {
			u.state = atLine
		}
		u.put(c)
	case atFirst:
		switch c {
		case ' ', '\t', '\r', '\n':
			u.put(c)
		case '[', '{':
			u.state = isJSON
			u.put(c)
		default:
			u.state = atLine
			u.line(c)
		}
	default:
		u.line(c)
	}
}

// line takes a byte of a line's field, whose name says what the line is.
func (u *unframed) line(c byte) {
	u.field = append(u.field, c)
	switch {
	case c == '\n' && (len(u.field) == 1 || string(u.field) == "\r\n"): // an event ends
		u.spaces(len(u.field) - 1)
		u.put(c)
		u.data = false
	case c == ':':
		switch string(u.field) {
		case "data:":
			if u.data {
				u.bad = "the data of an event stands on more than one line"
				return
			}
			first := byte(',')
			if !u.began {
				first = '['
			}
			u.put(first)
			u.spaces(len(u.field) - 1)
			u.state, u.began, u.data = inData, true, true
		case ":", "event:", "id:", "retry:":
			u.spaces(len(u.field))
			u.state = inOther
		default:
			u.bad = "a line is no field of a stream of events"
		}
	case c == '\n', len(u.field) > len("event"):
		u.bad = "a line is no field of a stream of events"
		return
	default:
		return
	}
	u.field = u.field[:0]
}

// end closes the list.
func (u *unframed) end() {
	switch {
	case u.state == isJSON, u.state == atFirst:
	case len(u.field) > 0:
		u.bad = "a line is no field of a stream of events"
	case !u.began:
		u.bad = "there is no event"
	default:
		u.put(']')
	}
}
