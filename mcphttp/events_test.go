package mcphttp

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func collect(r io.Reader, max int) (out []Event, err error) {
	stream := NewEvents(r, max)
	for len(out) < 1000 {
		ev, err := stream.Next()
		if err != nil {
			return out, err
		}
		out = append(out, ev)
	}
	return out, nil
}

func TestEvents(t *testing.T) {
	for text, want := range map[string][]Event{
		"data: a\n\n":                                      {{Data: []byte("a")}},
		"data: a\r\ndata:b\r\n\r\n":                        {{Data: []byte("a\nb")}},
		"data: a\rdata: b\r\rdata: c\r\r":                  {{Data: []byte("a\nb")}, {Data: []byte("c")}},
		"\xef\xbb\xbfevent: e\nid: 1\ndata: a\n\n":         {{Name: "e", ID: "1", Data: []byte("a")}},
		": comment\n\ndata: a\n\n":                         {{Data: []byte("a")}},
		"id: 5\nretry: 10\ndata:\n\n":                      {{ID: "5", Data: []byte{}}},
		"data: unfinished\n":                               nil,
		"data":                                             nil,
		"data\n\n":                                         {{Data: []byte{}}},
		"nonsense: x\n\ndata:  two\n\n":                    {{Data: []byte(" two")}},
		strings.Repeat(": alive\n\n", 500) + "data: a\n\n": {{Data: []byte("a")}},              // comments between events add up to nothing
		"event: x\n\ndata: a\n\n":                          {{Name: "x"}, {Data: []byte("a")}}, // a name is for its own event only
	} {
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(text), "bytewise": iotest.OneByteReader(strings.NewReader(text)),
		} {
			got, err := collect(r, 1000)
			if err != io.EOF || len(got) != len(want) {
				t.Errorf("%q %s: %q, %v", text, name, got, err)
				continue
			}
			for i := range got {
				if got[i].Name != want[i].Name || got[i].ID != want[i].ID || !bytes.Equal(got[i].Data, want[i].Data) {
					t.Errorf("%q %s: event %d is %+v", text, name, i, got[i])
				}
			}
		}
	}
	for _, text := range []string{strings.Repeat("x", 2000), "data: " + strings.Repeat("x", 2000) + "\n\n", strings.Repeat("data: x\n", 1000) + "\n"} {
		if _, err := collect(strings.NewReader(text), 1000); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%.20q…: %v", text, err)
		}
	}
}

// Events do not depend on how the stream is cut.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "data: a\r\n\r\nid: 1\rretry: 5\r\r", "\xef\xbb\xbfdata\n\n", "event: x\ndata: {}\n\n: c\n", "\xef\xbb\xbf" + strings.Repeat("0", 64) + "\n",
		"id: 1\r\ndata: a\r\ndata:b\r\n\r\n", "\xef\xbb\xbfretry: 5\revent: x\rdata\r\r", ": c\n\ndata"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		whole, err1 := collect(bytes.NewReader(text), 64)
		parts, err2 := collect(iotest.OneByteReader(bytes.NewReader(text)), 64)
		if len(whole) != len(parts) || errors.Is(err1, ErrTooLarge) != errors.Is(err2, ErrTooLarge) {
			t.Fatalf("%q depends on how it arrives: %q %v, %q %v", text, whole, err1, parts, err2)
		}
		for i := range whole {
			if !bytes.Equal(whole[i].Data, parts[i].Data) || whole[i].ID != parts[i].ID || whole[i].Name != parts[i].Name {
				t.Fatalf("%q: event %d: %+v, %+v", text, i, whole[i], parts[i])
			}
		}
	})
}
