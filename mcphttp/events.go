package mcphttp

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"time"
)

// An Event is one server-sent event.
type Event struct {
	Name string // empty means "message"
	ID   string
	Data []byte // owned by the event
}

// Events reads a stream of server-sent events as the HTML standard describes it,
// each of at most max bytes.
type Events struct {
	r       *bufio.Reader
	max     int
	retry   time.Duration
	begun   bool // the first line, where a byte order mark may be, is read
	afterCR bool // an LF that comes next belongs to the line before
}

// NewEvents reads events of r. More than max bytes in one block of lines is [ErrTooLarge].
func NewEvents(r io.Reader, max int) *Events {
	return &Events{r: bufio.NewReaderSize(r, 4<<10), max: max}
}

// Retry is how long the server last asked to wait before the stream is resumed; 0
// if it did not.
func (e *Events) Retry() time.Duration { return e.retry }

// Next returns the next event that ended with an empty line. What the stream's
// end cuts off is no event.
func (e *Events) Next() (Event, error) {
	var (
		ev   Event
		size int
		some bool
	)
	for {
		line, err := e.line()
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			if !some {
				size = 0 // a server's sign of life, nothing of which is kept
				continue
			}
			ev.Data = bytes.TrimSuffix(ev.Data, []byte("\n"))
			return ev, nil
		}
		if size += len(line); size > e.max {
			return Event{}, ErrTooLarge
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			ev.Data = append(append(ev.Data, value...), '\n')
			some = true
		case "event":
			ev.Name, some = string(value), true
		case "id":
			if !bytes.ContainsRune(value, 0) {
				ev.ID, some = string(value), true
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
func (e *Events) line() ([]byte, error) {
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
				return nil, ErrTooLarge
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

func (e *Events) fill() error {
	if e.r.Buffered() > 0 {
		return nil
	}
	_, err := e.r.Peek(1)
	return err
}
