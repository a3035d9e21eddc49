package history_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/placet-dev/placet/history"
)

// framed is a list of events as a server sends them.
func framed(t testing.TB, list []byte) []byte {
	t.Helper()
	var events []json.RawMessage
	if err := json.Unmarshal(list, &events); err != nil {
		t.Fatal(err)
	}
	out := bytes.NewBufferString(": from a server\nretry: 10\n\n")
	for n, e := range events {
		var line bytes.Buffer
		if err := json.Compact(&line, e); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(out, "event: message\nid: %d\ndata: %s\n\n", n, line.Bytes())
	}
	return out.Bytes()
}

// A stream of events says the same in the frames in which it is sent: the same items, in
// their places, and the same findings.
func TestEventsInFrames(t *testing.T) {
	read := 0
	for name, r := range rows(t) {
		if r.Format != history.AGUIEvents {
			continue
		}
		read++
		text := framed(t, r.text)
		if f, err := history.Detect(bytes.NewReader(text), history.Limits{}); err != nil || f != history.AGUIEvents {
			t.Errorf("%s: found %q, %v", name, f, err)
		}
		for _, text := range [][]byte{text, bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))} {
			report, err := history.Check(bytes.NewReader(text), r.Format, history.Limits{})
			if err != nil || !report.Complete || !slices.Equal(codes(report), r.Codes) {
				t.Errorf("%s: found %v, want %v (%v)", name, codes(report), r.Codes, err)
			}
			list, framed := mustRead(t, r.text, r.Format), mustRead(t, text, r.Format)
			items := slices.Collect(framed.Items)
			n := 0
			for i := range list.Items {
				if n >= len(items) {
					t.Fatalf("%s: %d items in frames", name, len(items))
				}
				if got := items[n]; got.Kind != i.Kind || got.ID != i.ID || got.Tool != i.Tool || got.Digest != i.Digest || got.At.Pointer != i.At.Pointer {
					t.Errorf("%s: item %d is %+v in frames, %+v in the list", name, n, got, i)
				}
				if got := items[n]; !bytes.Equal(got.Raw, text[got.At.Offset:got.At.End]) {
					t.Errorf("%s: item %d does not hold its bytes", name, n)
				}
				n++
			}
			if n != len(items) {
				t.Errorf("%s: %d items in frames, want %d", name, len(items), n)
			}
		}
	}
	if read < 10 {
		t.Fatalf("%d rows were read", read)
	}
}

// What is no stream of events, or could be read as two, is not read on.
func TestEventsBounds(t *testing.T) {
	start := `data: {"type":"RUN_STARTED","threadId":"t","runId":"r"}` + "\n\n"
	long := `data: {"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"t"}` + "\n\n" +
		strings.Repeat(`data: {"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"`+strings.Repeat("x", 500)+`"}`+"\n\n", 10)
	for name, c := range map[string]struct {
		text string
		lim  history.Limits
		code string
	}{
		"two lines of data":   {"data: {\"type\":\ndata: \"RUN_STARTED\"}\n\n", history.Limits{}, history.CodeMalformed},
		"two events in one":   {strings.ReplaceAll(start, "\n\n", " {}\n\n"), history.Limits{}, history.CodeMalformed},
		"no data":             {"event: x\n\n", history.Limits{}, history.CodeMalformed},
		"empty data":          {start + "data:\n\n", history.Limits{}, history.CodeMalformed},
		"an unknown field":    {start + "dato: {}\n\n", history.Limits{}, history.CodeMalformed},
		"a line that is none": {start + "hello\n\n", history.Limits{}, history.CodeMalformed},
		"cut in a field":      {start + "dat", history.Limits{}, history.CodeMalformed},
		"cut in a string":     {start[:30], history.Limits{}, history.CodeMalformed},
		"not JSON":            {start + "data: [DONE]\n\n", history.Limits{}, history.CodeMalformed},
		"a name twice":        {start + `data: {"type":"RAW","type":"CUSTOM"}` + "\n\n", history.Limits{}, history.CodeDuplicateName},
		"long transcript":     {start + long, history.Limits{Bytes: 1000}, history.CodeTooLarge},
		"long call":           {start + long, history.Limits{Message: 2000}, history.CodeTooLarge},
		"byte order mark":     {"\xef\xbb\xbf" + start, history.Limits{}, history.CodeMalformed},
	} {
		report, err := history.Check(strings.NewReader(c.text), history.AGUIEvents, c.lim)
		if err != nil || report.Complete || report.OK() || !slices.Contains(codes(report), c.code) {
			t.Errorf("%s: %v, complete %v (%v)", name, codes(report), report.Complete, err)
		}
		for _, f := range report.Findings {
			if f.At.Offset > int64(len(c.text)) {
				t.Errorf("%s: %s stands at %d of %d", name, f.Code, f.At.Offset, len(c.text))
			}
		}
	}
	if r, err := history.Check(strings.NewReader(start), history.AGUIEvents, history.Limits{}); err != nil || !r.OK() {
		t.Errorf("a stream that has only begun: %v %v", codes(r), err)
	}
}
