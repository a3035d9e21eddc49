package authzen

import (
	"encoding/json"
	"testing"
)

// FuzzAnswer: whatever a decision point sends, an answer allows only if an ordinary
// decoder, which knows nothing of our reading, finds nothing but true in it.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		`{"decision":true}`, `{"decision":false,"context":{"reason_user":{"en":"no"}}}`, `{"decision":true,"context":{"obligations":[]}}`,
		`{"evaluations":[{"decision":true},{"decision":true}]}`, `{"evaluations":[{"decision":true},{"decision":false}]}`, `{"Decision":true}`,
		`{"decision":true,"decision":false}`, `{"evaluations":[{"decision":true}],"context":{"obligations":[1]}}`, "", "null", "[", `{"decision":tru`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		object, err := parse(text)
		if err != nil {
			return
		}
		type plain struct {
			Decision any
			Context  struct{ Obligations []any }
		}
		if d, err := decision(object); err == nil && d.Allowed {
			var p plain
			if err := json.Unmarshal(text, &p); err != nil && p.Decision != true || p.Decision != true || len(p.Context.Obligations) > 0 {
				t.Fatalf("%q allows", text)
			}
		}
		for _, s := range []Semantic{ExecuteAll, DenyOnFirstDeny} {
			d, err := decisions(object, 2, s)
			if err != nil || !d.Allowed {
				continue
			}
			var p struct{ Evaluations []plain }
			if json.Unmarshal(text, &p); len(p.Evaluations) != 2 || p.Evaluations[0].Decision != true || p.Evaluations[1].Decision != true {
				t.Fatalf("%q allows two", text)
			}
		}
	})
}
