package history_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/placet-dev/placet/history"
)

// row is a transcript of testdata/rows, written for these tests after public
// reports: what is in it, and the codes of what is wrong with it.
type row struct {
	Format history.Format
	Codes  []string
	text   []byte
}

func rows(t testing.TB) map[string]row {
	t.Helper()
	text, err := os.ReadFile("testdata/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]row{}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	for name, r := range out {
		if r.text, err = os.ReadFile(filepath.Join("testdata/rows", name+".json")); err != nil {
			t.Fatal(err)
		}
		out[name] = r
	}
	files, err := filepath.Glob("testdata/rows/*.json")
	if err != nil || len(files) != len(out) {
		t.Fatalf("%d files and %d expectations (%v)", len(files), len(out), err)
	}
	return out
}

func codes(r history.Report) []string {
	out := []string{}
	for _, f := range r.Findings {
		out = append(out, f.Code)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Every kind of mutation that public reports tell of is found and named, and the
// legitimate neighbours are clean.
func TestRows(t *testing.T) {
	for name, r := range rows(t) {
		t.Run(name, func(t *testing.T) {
			report, err := history.Check(bytes.NewReader(r.text), r.Format, history.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if got := codes(report); !slices.Equal(got, r.Codes) {
				t.Errorf("found %v, want %v\n%+v", got, r.Codes, report.Findings)
			}
			if legitimate := strings.HasPrefix(name, "ok-"); report.OK() != (legitimate || name == "unknown") {
				t.Errorf("OK is %v", report.OK())
			}
			for _, f := range report.Findings {
				if f.At.Offset < 0 || f.At.End > int64(len(r.text)) || f.At.Offset > f.At.End {
					t.Errorf("%s stands at %+v of %d bytes", f.Code, f.At, len(r.text))
				}
			}
		})
	}
}

// What is read lies where it says, byte for byte.
func TestPositions(t *testing.T) {
	for name, r := range rows(t) {
		transcript, err := history.Read(r.text, r.Format, history.Limits{})
		if err != nil {
			if name != "duplicate" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		for i := range transcript.Items {
			if !bytes.Equal(i.Raw, r.text[i.At.Offset:i.At.End]) {
				t.Errorf("%s: item %d does not hold its bytes", name, i.Index)
			}
			var whole any
			if err := json.Unmarshal(r.text, &whole); err != nil {
				t.Fatal(err)
			}
			var want any
			if err := json.Unmarshal(i.Raw, &want); err != nil {
				t.Fatal(err)
			}
			if got, ok := follow(whole, i.At.Pointer); !ok || !equalJSON(got, want) {
				t.Errorf("%s: %s does not lead to item %d", name, i.At.Pointer, i.Index)
			}
		}
	}
}

func equalJSON(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

func follow(v any, pointer string) (any, bool) {
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		switch at := v.(type) {
		case map[string]any:
			v = at[token]
		case []any:
			n := 0
			for _, c := range token {
				n = 10*n + int(c-'0')
			}
			if n >= len(at) {
				return nil, false
			}
			v = at[n]
		default:
			return nil, false
		}
	}
	return v, true
}

// A format that shows is found; one that does not has to be named.
func TestDetect(t *testing.T) {
	for name, r := range rows(t) {
		got, err := history.Detect(bytes.NewReader(r.text), history.Limits{})
		switch {
		case name == "duplicate", name == "P2" && err != nil, name == "case", name == "unknown", name == "signature" && err != nil:
			continue
		case r.Format == history.Mistral: // looks like OpenAI's
			if got != history.Chat {
				t.Errorf("%s: %s, %v", name, got, err)
			}
		case err != nil || got != r.Format:
			t.Errorf("%s: found %q (%v), want %s", name, got, err, r.Format)
		}
	}
	for _, text := range []string{`[]`, `{}`, `[{"role":"user","content":"hi"}]`, `{"messages":[]}`, `7`, `{`, ``,
		`[{"role":"assistant","tool_calls":[{"function":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"x"}]}]`} {
		if f, err := history.Detect(strings.NewReader(text), history.Limits{}); err == nil {
			t.Errorf("%s is taken for %s", text, f)
		}
	}
}

// Whatever is too large, too deep or broken is a finding, and is not read on.
func TestBounds(t *testing.T) {
	deep := `[{"role":"user","content":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}]`
	long := `[{"role":"user","content":"` + strings.Repeat("x", 5000) + `"}]`
	many := `[` + strings.Repeat(`{"role":"tool","tool_call_id":"a","content":"b"},`, 20) + `{"role":"user","content":"x"}]`
	for name, c := range map[string]struct {
		text string
		lim  history.Limits
		code string
	}{
		"deep":            {deep, history.Limits{}, history.CodeTooDeep},
		"long message":    {long, history.Limits{Message: 1000}, history.CodeTooLarge},
		"long transcript": {long, history.Limits{Bytes: 1000}, history.CodeTooLarge},
		"many":            {many, history.Limits{Calls: 10}, history.CodeTooLarge},
		"cut":             {long[:100], history.Limits{}, history.CodeMalformed},
		"trailing":        {`[] []`, history.Limits{}, history.CodeMalformed},
		"byte order mark": {"\xef\xbb\xbf[]", history.Limits{}, history.CodeMalformed},
		"not UTF-8":       {"[{\"role\":\"\xff\"}]", history.Limits{}, history.CodeMalformed},
		"surrogate":       {`[{"role":"\ud800"}]`, history.Limits{}, history.CodeMalformed},
		"no list":         {`{"role":"user"}`, history.Limits{}, history.CodeMalformed},
		"two lists":       {`{"messages":[],"a":1,"messages":[]}`, history.Limits{}, history.CodeDuplicateName},
		"number":          {`7`, history.Limits{}, history.CodeMalformed},
		"empty":           {``, history.Limits{}, history.CodeMalformed},
	} {
		report, err := history.Check(strings.NewReader(c.text), history.Chat, c.lim)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if report.Complete || report.OK() || !slices.Contains(codes(report), c.code) {
			t.Errorf("%s: %v, complete %v", name, codes(report), report.Complete)
		}
	}
	if r, err := history.Check(strings.NewReader(many), history.Chat, history.Limits{Findings: 3}); err != nil || len(r.Findings) != 3 || r.More == 0 || r.OK() {
		t.Errorf("%d findings, %d more (%v)", len(r.Findings), r.More, err)
	}
	if _, err := history.Check(strings.NewReader(`[]`), "morse", history.Limits{}); err == nil {
		t.Error("a format that does not exist is read")
	}
}
