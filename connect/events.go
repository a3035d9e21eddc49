package connect

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
	data []byte
}

// events reads server-sent events as the HTML standard describes them, each no
// larger than a message.
type events struct {
	r     *bufio.Reader
	retry time.Duration // what the server last asked for
	begun bool
	cr    bool // an LF that comes next belongs to the line before
}

var errTooLarge = errors.New("larger than 16 MiB")

func newEvents(r io.Reader) *events { return &events{r: bufio.NewReaderSize(r, 4<<10)} }

// next returns the next event that ended with an empty line. What the stream's
// end cuts off is no event.
func (e *events) next() (event, error) {
	var ev event
	some := false
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
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			if len(ev.data)+len(value) > most {
				return event{}, errTooLarge
			}
			ev.data, some = append(append(ev.data, value...), '\n'), true
		case "event":
			ev.name = string(value)
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

// line returns the next line without its end: LF, CRLF or CR.
func (e *events) line() ([]byte, error) {
	var line []byte
	for {
		c, err := e.r.ReadByte()
		if err != nil {
			return nil, err
		}
		if c == '\n' && e.cr {
			e.cr = false
			continue
		}
		if e.cr = c == '\r'; e.cr {
			c = '\n'
		}
		if c == '\n' {
			if !e.begun {
				e.begun, line = true, bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
			}
			return line, nil
		}
		if line = append(line, c); len(line) > most+16 {
			return nil, errTooLarge
		}
	}
}
