package mcp_test

import (
	"strings"
	"testing"
)

// TestRule_B4_ChildRunsOverMCP: the built-in tool opens one, its ID in the run label
// makes calls and lists in it, and after its end that ID does nothing.
func TestRule_B4_ChildRunsOverMCP(t *testing.T) {
	for _, era := range []string{"modern", "session"} {
		t.Run(era, func(t *testing.T) {
			w := newWorld(t, nil)
			r := w.any(era, "anna", "placet_delegate", `{"tools":["echo"],"calls":5,"minutes":10,"label":"part"}`).tool(t)
			_, id, ok := strings.Cut(r.text(), "Opened ")
			if id, _, _ = strings.Cut(id, " "); r.IsError || !ok {
				t.Fatalf("%s", r.text())
			}
			in := `"dev.placet/run":"` + id + `"`
			token := w.token("anna")
			if got := w.call(token, "echo", `{}`, in).tool(t); got.IsError {
				t.Fatalf("what it was given: %s", got.text())
			}
			if got := w.call(token, "pay", `{}`, in).tool(t); !got.IsError || !strings.HasPrefix(got.text(), "Denied: this run was given less") {
				t.Fatalf("what it was not given: %s", got.text())
			}
			if got := w.call(token, "placet_delegate", `{"tools":["pay"],"calls":1,"minutes":1}`, in).tool(t); !got.IsError || !strings.Contains(got.text(), "the tool pay") {
				t.Fatalf("more than it was given: %s", got.text())
			}
			for _, wrong := range []string{`{}`, `{"tools":["echo"],"calls":0,"minutes":1}`, `{"tools":["echo"],"calls":1,"minutes":1,"Agent":"x"}`, `{"tools":"echo","calls":1,"minutes":1}`,
				`{"tools":["echo"],"calls":1,"minutes":1,"money":{"EUR":"x"}}`, `{"tools":["echo"],"calls":1,"minutes":1,"targets":["a"]}`} {
				if got := w.call(token, "placet_delegate", wrong).tool(t); !got.IsError || !strings.HasPrefix(got.text(), "Denied: placet_delegate") {
					t.Errorf("%s: %s", wrong, got.text())
				}
			}
		})
	}
}
