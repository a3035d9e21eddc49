package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// An event is one server-sent event.
type event struct {
	name string // empty means "message"
	id   string
	data []byte // owned by the event
}

// events reads a stream of server-sent events as the HTML standard describes it,
// each of at most max bytes.
type events struct {
	r       *bufio.Reader
	max     int
	retry   time.Duration // what the server last asked for; 0: nothing
	begun   bool          // the first line, where a byte order mark may be, is read
	afterCR bool          // an LF that comes next belongs to the line before
}

var errTooLarge = errors.New("the answer is larger than the limit")

func newEvents(r io.Reader, max int) *events {
	return &events{r: bufio.NewReaderSize(r, 4<<10), max: max}
}

// next returns the next event that ended with an empty line. What the stream's
// end cuts off is no event.
func (e *events) next() (event, error) {
	var (
		ev   event
		size int
		some bool
	)
	for {
		line, err := e.line()
		if err != nil {
			return event{}, err
		}
		if len(line) == 0 {
			if !some {
				continue
			}
			ev.data = bytes.TrimSuffix(ev.data, []byte("\n"))
			return ev, nil
		}
		if size += len(line); size > e.max {
			return event{}, errTooLarge
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			ev.data = append(append(ev.data, value...), '\n')
			some = true
		case "event":
			ev.name, some = string(value), true
		case "id":
			if !bytes.ContainsRune(value, 0) {
				ev.id, some = string(value), true
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				e.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// line returns the next line without its end, which is LF, CRLF or CR. The bytes
// are valid until the next call. An unended last line is no line.
func (e *events) line() ([]byte, error) {
	var long []byte
	for {
		if err := e.fill(); err != nil {
			return nil, err
		}
		have, _ := e.r.Peek(e.r.Buffered())
		if e.afterCR {
			e.afterCR = false
			if have[0] == '\n' {
				e.r.Discard(1)
				continue
			}
		}
		end := bytes.IndexAny(have, "\r\n")
		if end < 0 {
			if long = append(long, have...); len(long) > e.max+3 { // 3: a byte order mark
				return nil, errTooLarge
			}
			e.r.Discard(len(have))
			continue
		}
		text := have[:end]
		if long != nil {
			text = append(long, text...)
		}
		e.afterCR = have[end] == '\r'
		e.r.Discard(end + 1)
		if !e.begun {
			e.begun = true
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		}
		return text, nil
	}
}

func (e *events) fill() error {
	if e.r.Buffered() > 0 {
		return nil
	}
	_, err := e.r.Peek(1)
	return err
}
