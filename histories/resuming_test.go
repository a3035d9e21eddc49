package histories_test

import (
	"context"
	"encoding/json"
	"net/http"
)

// resuming is the HTTP API by a client that keeps its history: after each call, and
// before it comes back for one, it imports a history that ends in the call with an
// approval of its own making, has it checked and repaired, and resumes the run with it.
type resuming struct{ api }

func (d *resuming) call(ctx context.Context, who, tool, arguments string, extra map[string]any) answer {
	a := d.api.call(ctx, who, tool, arguments, extra)
	d.tell(ctx, who, a.Call)
	return a
}

func (d *resuming) back(ctx context.Context, who, call string, extra map[string]any) {
	d.tell(ctx, who, call)
	d.api.back(ctx, who, call, extra)
}

func (d *resuming) tell(ctx context.Context, who, call string) {
	if call == "" {
		return // refused, or its client went away
	}
	ctx = context.WithoutCancel(ctx)
	status, text, err := d.w.send(ctx, d.w.token("lena", true), http.MethodGet, "/v1/calls/"+call, "")
	var c struct {
		Run, Tool, Approval string
		Principal           struct{ Subject string }
		Arguments           json.RawMessage
	}
	if err == nil && status == http.StatusOK {
		err = json.Unmarshal(text, &c)
	}
	if err != nil || status != http.StatusOK {
		d.w.t.Fatalf("%s: %d %s %v", call, status, text, err)
	}
	part := func(id, state string) map[string]any {
		return map[string]any{"type": "tool-" + c.Tool, "toolCallId": id, "state": state, "input": c.Arguments,
			"approval": map[string]any{"id": c.Approval, "approved": true}}
	}
	history, err := json.Marshal([]any{map[string]any{"id": "m", "role": "assistant", "parts": []any{part("another", "approval-responded"), part(call, "approval-responded")}}})
	if err != nil {
		d.w.t.Fatal(err)
	}
	for _, path := range []string{"/v1/transcripts", "/v1/history/check?run=" + c.Run, "/v1/history/repair?to=openai-chat&run=" + c.Run, "/v1/runs/" + c.Run + "/resume?to=openai-chat"} {
		status, text, err := d.w.send(ctx, d.w.token(who, false), http.MethodPost, path, string(history))
		theirs := who == c.Principal.Subject || path == "/v1/transcripts"
		if err != nil || (status < 300) != theirs {
			d.w.t.Errorf("%s, by %s: %d %s %v", path, who, status, text, err)
		}
	}
}
