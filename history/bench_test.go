package history_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/placet-dev/placet/history"
)

// step is a part of a long transcript: a user, a call and its result.
func step(n int) string {
	return fmt.Sprintf(`{"role":"user","content":"please look at ticket %d and tell me what it says"},`+
		`{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d","type":"function","function":{"name":"read_ticket","arguments":"{\"id\":\"%d\"}"}}]},`+
		`{"role":"tool","tool_call_id":"call_%d","content":%q},{"role":"assistant","content":"It is about an invoice."}`,
		n, n, n, n, strings.Repeat("The customer writes that the invoice is wrong. \"Really\", they say.\n", 30))
}

// endless is a transcript of a size that is never in memory at once.
type endless struct {
	size, made, n int
	rest          []byte
}

func (e *endless) Read(p []byte) (int, error) {
	if len(e.rest) == 0 {
		switch {
		case e.n < 0:
			return 0, io.EOF
		case e.made >= e.size:
			e.rest, e.n = []byte(`]`), -1
		default:
			lead := ","
			if e.n == 0 {
				lead = "["
			}
			e.rest = []byte(lead + step(e.n))
			e.n++
		}
		e.made += len(e.rest)
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// A transcript of 50 MB needs memory for its labels and its largest message only.
func TestLargeTranscriptInBoundedMemory(t *testing.T) {
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	reader, err := history.NewReader(&endless{size: 50 << 20}, history.Chat, history.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	c := history.NewChecker(history.Chat, history.Limits{})
	messages := 0
	for {
		m, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		c.Message(m)
		messages++
	}
	runtime.GC()
	runtime.ReadMemStats(&now)
	if grown := int64(now.HeapAlloc) - int64(before.HeapAlloc); grown > 20<<20 {
		t.Errorf("%d MB are held for 50 MB in %d messages", grown>>20, messages)
	}
	if r := c.Report(true); !r.OK() || r.Messages != messages || messages < 10_000 {
		t.Errorf("%d messages, %d findings", r.Messages, len(r.Findings))
	}
}

func long(size int) []byte {
	text, _ := io.ReadAll(&endless{size: size})
	return text
}

// BenchmarkCheck parses and checks; MB/s is of one core.
func BenchmarkCheck(b *testing.B) {
	text := long(8 << 20)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r, err := history.Check(bytes.NewReader(text), history.Chat, history.Limits{})
		if err != nil || !r.OK() {
			b.Fatal(err, r.Findings)
		}
	}
}

// BenchmarkClassify parses whole and compares each item with records.
func BenchmarkClassify(b *testing.B) {
	text := long(8 << 20)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		t, err := history.Read(text, history.Chat, history.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := history.Classify(b.Context(), t, history.NoRecords{}); err != nil {
			b.Fatal(err)
		}
	}
}
