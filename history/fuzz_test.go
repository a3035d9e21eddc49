package history_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/placet-dev/placet/history"
)

// fuzz feeds one format: whatever the text, positions lie inside it, items hold
// their bytes, reading in pieces and at once agree, and what is repaired is clean.
func fuzz(f *testing.F, format history.Format) {
	for _, r := range rows(f) {
		if r.Format == format {
			f.Add(r.text)
			if format == history.AGUIEvents {
				f.Add(framed(f, r.text))
			}
		}
	}
	f.Add([]byte(`[]`))
	f.Add([]byte(`{"messages":[[{"role":7}],null,"x"]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _ = history.Detect(bytes.NewReader(text), history.Limits{})
		report, err := history.Check(bytes.NewReader(text), format, history.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range report.Findings {
			if n.At.Offset < 0 || n.At.Offset > n.At.End || n.At.End > int64(len(text)) {
				t.Fatalf("%s stands at %+v of %d bytes", n.Code, n.At, len(text))
			}
		}
		read, once, err := history.ReadAndCheck(text, format, history.Limits{})
		if diff := cmp.Diff(report, once, cmpopts.IgnoreUnexported(history.Report{})); err != nil || diff != "" || report.Forged() != once.Forged() {
			t.Fatalf("checked while it is read: %v\n%s", err, diff)
		}
		whole, err := history.Read(text, format, history.Limits{})
		if (err == nil) != report.Complete || (read == nil) == report.Complete || read != nil && len(read.Messages) != len(whole.Messages) {
			t.Fatalf("read at once: %v; in pieces: complete %v", err, report.Complete)
		}
		if err != nil {
			return
		}
		for i := range whole.Items {
			if !bytes.Equal(i.Raw, text[i.At.Offset:i.At.End]) {
				t.Fatalf("item %d does not hold its bytes", i.Index)
			}
			_ = i.Text()
		}
		for _, target := range history.Writes() {
			r, err := history.Repair(context.Background(), whole, target, history.NoRecords{})
			var refusal *history.Refusal
			if errors.As(err, &refusal) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			after := mustRead(t, r.Source, target)
			if left := startable(after); len(left) > 0 {
				t.Fatalf("to %s: %v could be taken up in\n%s", target, left, r.Source)
			}
			again, err := history.Repair(context.Background(), after, target, history.NoRecords{})
			if err != nil || len(again.Changes) > 0 {
				t.Fatalf("to %s: the repair is repaired: %v %+v\n%s", target, err, again, r.Source)
			}
		}
	})
}

func FuzzChat(f *testing.F)       { fuzz(f, history.Chat) }
func FuzzResponses(f *testing.F)  { fuzz(f, history.Responses) }
func FuzzMessages(f *testing.F)   { fuzz(f, history.Messages) }
func FuzzUI(f *testing.F)         { fuzz(f, history.UI) }
func FuzzModel(f *testing.F)      { fuzz(f, history.Model) }
func FuzzGemini(f *testing.F)     { fuzz(f, history.Gemini) }
func FuzzLangChain(f *testing.F)  { fuzz(f, history.LangChain) }
func FuzzAGUI(f *testing.F)       { fuzz(f, history.AGUI) }
func FuzzAGUIEvents(f *testing.F) { fuzz(f, history.AGUIEvents) }
func FuzzSampling(f *testing.F)   { fuzz(f, history.Sampling) }
func FuzzBedrock(f *testing.F)    { fuzz(f, history.Bedrock) }
func FuzzMistral(f *testing.F)    { fuzz(f, history.Mistral) }
func FuzzA2A(f *testing.F)        { fuzz(f, history.A2A) }
func FuzzADK(f *testing.F)        { fuzz(f, history.ADK) }
