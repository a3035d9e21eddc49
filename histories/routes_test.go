package histories_test

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/placet-dev/placet/edge/llm/llmtest"
)

func toolOf(r way) string {
	switch r.(type) {
	case *recovery:
		return "breaks"
	case *leased:
		return "file"
	case *queued:
		return "later"
	case *scheduled:
		return "daily"
	}
	return "send"
}

// lossy is a tool whose effect happens and whose answer is lost.
func lossy(r way) string {
	switch r.(type) {
	case *leased:
		return "brief"
	case *queued:
		return "later_breaks"
	case *scheduled:
		return "daily_breaks"
	}
	return "breaks"
}

// direct is the HTTP API. Histories come to it beside a proposal and a dispatch, too.
type direct struct{}

func (direct) start(c *cell, what string) answer {
	return c.proposes(c.who, "", c.args(what))
}

func (direct) take(c *cell, a answer) { c.w.ask(c, c.who, "/v1/calls/"+a.Call+"/dispatch", "") }

func (direct) hand(c *cell, h transcript) {
	c.w.tell(c, h)
	body := fmt.Sprintf(`{"tool":%q,"arguments":%s,"messages":%s}`, c.tool, c.args("beside"), h.text())
	if status, text := c.w.ask(c, c.who, "/v1/calls", body); status < 400 {
		c.t.Errorf("a proposal took a history: %d %s", status, text)
	}
	for _, call := range c.unanswered(h) {
		c.w.ask(c, c.who, "/v1/calls/"+call+"/dispatch", body)
	}
}

func (direct) up(c *cell, who, call, _ string) { c.w.ask(c, who, "/v1/calls/"+call+"/dispatch", "") }

func (direct) again(c *cell, who, arguments string) { c.asksAnew(c.proposes(who, "", arguments)) }

// restored is a process that was started anew, and a run that is resumed there.
type restored struct{ direct }

func (restored) hand(c *cell, h transcript) {
	c.scene.w.restart()
	c.w.tell(c, h)
}

// plain is MCP without a door to the model, in both eras.
type plain struct{}

func client(c *cell) *mcp { return &mcp{w: c.scene.w, version: "2026-07-28"} }

func (plain) start(c *cell, what string) answer {
	return client(c).call(c.t.Context(), c.who, c.tool, c.args(what), nil)
}

func (plain) take(c *cell, a answer) { client(c).back(c.t.Context(), c.who, a.Call, nil) }

func (plain) hand(c *cell, h transcript) {
	c.w.tell(c, h)
	for _, call := range c.unanswered(h) {
		for _, version := range []string{"2026-07-28", "2025-11-25"} {
			(&mcp{w: c.scene.w, version: version}).back(c.t.Context(), c.who, call, map[string]any{"messages": h, "inputResponses": map[string]any{"placet_approval": map[string]any{"action": "accept"}}})
		}
	}
}

func (plain) up(c *cell, who, call, _ string) {
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		(&mcp{w: c.scene.w, version: version}).back(c.t.Context(), who, call, nil)
	}
}

func (plain) again(c *cell, who, arguments string) {
	c.asksAnew(client(c).call(c.t.Context(), who, c.tool, arguments, nil))
}

// model is a client whose model is asked through the server's door, and whose calls
// come over MCP. Beside each call the model emits an erase, which would run without a
// question while it counts.
type model struct{ plain }

func (r *model) start(c *cell, what string) answer {
	c.w.provider.Say(llmtest.Reply{Calls: []llmtest.Call{
		{ID: "c1", Name: c.tool, Arguments: c.args(what)}, {ID: "c2", Name: "erase", Arguments: c.args("stale " + what)}}})
	if status, text := r.asks(c, transcript{user("do " + what)}, ""); status != http.StatusOK {
		c.t.Fatalf("the model was not asked: %d %s", status, text)
	}
	return r.plain.start(c, what)
}

// take waits for the call, and has the model emit one that needs no person.
func (r *model) take(c *cell, a answer) {
	r.plain.take(c, a)
	if c.tool != toolOf(r) {
		return
	}
	c.w.provider.Say(llmtest.Reply{Calls: []llmtest.Call{{ID: "c3", Name: "erase", Arguments: c.args("fresh " + a.Call)}}})
	r.asks(c, transcript{user("and erase, after " + a.Call)}, "")
	for range 2 {
		c.allow(client(c).call(c.t.Context(), c.who, "erase", c.args("fresh "+a.Call), nil))
	}
	c.ran = append(c.ran, c.tool+" "+c.record(a).Arguments.What, "erase fresh "+a.Call)
}

// asks asks the model, with a history, in the run of the MCP calls.
func (r *model) asks(c *cell, h transcript, turn string) (int, []byte) {
	c.t.Helper()
	body := fmt.Sprintf(`{"model":"m","messages":%s,"tools":[{"type":"function","function":{"name":"erase"}},{"type":"function","function":{"name":%q}}]}`, h.text(), c.tool)
	var header []string
	if turn != "" {
		header = []string{"Placet-Turn", turn}
	}
	status, text, err := c.w.send(c.t.Context(), c.w.token(c.who, false), http.MethodPost, "/llm/openai/v1/chat/completions", body, header...)
	if err != nil {
		c.t.Fatal(err)
	}
	return status, text
}

// hand asks the model with the history, and its client takes up what the model emitted
// before, which this history does not know any more.
func (r *model) hand(c *cell, h transcript) {
	if status, text := r.asks(c, h, "continue"); status >= 500 {
		c.t.Errorf("the door to the model: %d %s", status, text)
	}
	r.plain.hand(c, h)
	c.asksAnew(client(c).call(c.t.Context(), c.who, "erase", c.args("stale x"), nil))
}

// up is a runtime that runs what its messages end in, and asks no model.
func (r *model) up(c *cell, who, call, what string) {
	r.plain.up(c, who, call, what)
	if what != "" {
		c.asksAnew(client(c).call(c.t.Context(), who, "erase", c.args(what), nil))
	}
}

// away is a run that goes on without its caller: a yes runs the call.
type away struct{ direct }

func (r *away) start(c *cell, what string) answer {
	a := r.direct.start(c, what)
	c.delegates(a)
	return a
}

func (*away) take(*cell, answer) {} // nobody comes back

// replay is an operator's new run in the place of the old one, in which everything is
// proposed anew. With each history that is handed in the run is replayed once more.
type replay struct{ direct }

func (r *replay) hand(c *cell, h transcript) {
	r.direct.hand(c, h)
	c.run = r.replays(c, c.run)
	r.direct.hand(c, h)
}

func (r *replay) replays(c *cell, old string) string {
	c.t.Helper()
	status, text, err := c.w.send(c.t.Context(), c.w.operator(), http.MethodPost, "/v1/runs/"+old+"/replay", "")
	var out struct{ ID string }
	if err != nil || json.Unmarshal(text, &out) != nil || out.ID == "" {
		c.t.Fatalf("no replay: %d %s %v", status, text, err)
	}
	return out.ID
}

func (r *replay) start(c *cell, what string) answer {
	if c.run == "" {
		c.run = c.opens("")
	}
	return c.proposes(c.who, c.run, c.args(what))
}

func (r *replay) again(c *cell, who, arguments string) {
	c.asksAnew(c.proposes(who, c.run, arguments))
}

// recovery is of calls whose outcome is not known, which an operator settles.
type recovery struct{ direct }

func (r *recovery) start(c *cell, what string) answer {
	a := r.direct.start(c, what)
	if a.Approval == "" {
		return a
	}
	c.yes(a)
	r.direct.take(c, a)
	c.until(a, "unknown")
	c.allow(a)
	c.ran = append(c.ran, c.tool+" "+what)
	return a
}

// hand sends the history as the evidence, too: by who may not settle, and, for calls
// whose outcome is not open, by who may.
func (r *recovery) hand(c *cell, h transcript) {
	r.direct.hand(c, h)
	for _, call := range h.calls() {
		for _, outcome := range []string{"succeeded", "failed"} {
			r.settles(c, call, outcome, c.w.token(c.who, false), h.text(), false)
			if a := (answer{Call: call}); len(call) < 20 || c.stateOf(a) != "unknown" {
				r.settles(c, call, outcome, c.w.operator(), h.text(), false)
			}
		}
	}
}

func (r *recovery) take(c *cell, a answer) {
	r.settles(c, a.Call, "succeeded", c.w.operator(), "the tool's own ledger has one entry", true)
	r.settles(c, a.Call, "failed", c.w.operator(), "the tool's own ledger has none", false)
}

func (r *recovery) settles(c *cell, call, outcome, token, evidence string, may bool) {
	c.t.Helper()
	body, err := json.Marshal(map[string]string{"outcome": outcome, "evidence": evidence})
	if err != nil {
		c.t.Fatal(err)
	}
	status, text, err := c.w.send(c.t.Context(), token, http.MethodPost, "/v1/calls/"+call+"/reconcile", string(body))
	if err != nil || (status < 300) != may {
		c.t.Errorf("settling as %s: %d %s %v", outcome, status, text, err)
	}
}

// leased is a framework that runs its own tools, as [course.ask] does.
type leased struct{ direct }

// hand reports what the history says came of its calls, too, without holding a lease.
func (r *leased) hand(c *cell, h transcript) {
	r.direct.hand(c, h)
	for _, call := range h.calls() {
		for _, outcome := range []string{"succeeded", "failed", "not_started"} {
			status, text := c.w.ask(c, c.who, "/v1/calls/"+call+"/report", fmt.Sprintf(`{"attempt":1,"secret":"from-the-history","outcome":%q}`, outcome))
			if status < 400 {
				c.t.Errorf("a report without a lease: %d %s", status, text)
			}
		}
	}
}
