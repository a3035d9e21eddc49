package histories_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// cell is one mutation on one route, with a user of its own.
type cell struct {
	*scene
	w     *course
	r     way
	who   string // who acts
	own   string // whose it is
	tool  string // what the route's calls are of
	route string // what the log says of how they were proposed, and how they ran
	run   string // that histories are handed to
	edit  string // what its client has in the place of mine's arguments

	mine    answer          // the call that stays legitimate
	allowed map[string]bool // calls that may have run, or may not be known
	asked   map[string]bool // calls that a caller proposed anew, and that may wait for a person
	said    map[string]bool // questions that a person said yes to, for mine
	ran     []string        // what the ledger should hold

	stale     answer          // what was in the queue beside the route's calls, and was canceled
	schedules []string        // of the route, the latest last
	standing  map[string]bool // their runs, in which each firing may ask a person
	then      func()          // what the route itself does about what the mutation found
}

// start brings a call about on the route, and finds its run.
func (c *cell) start(what string) answer {
	c.t.Helper()
	a := c.r.start(c, what)
	if a.Call == "" {
		c.t.Fatal("the route's own call did not come about")
	}
	c.run = c.record(a).Run
	return a
}

func (c *cell) keep(a answer) answer { c.mine = a; return a }

// allow is for a call that did run, legitimately.
func (c *cell) allow(a answer) {
	if c.allowed == nil {
		c.allowed = map[string]bool{}
	}
	c.allowed[a.Call] = true
}

// asksAnew is for a call that a client proposed from its history, as any caller may.
func (c *cell) asksAnew(a answer) {
	if c.asked == nil {
		c.asked = map[string]bool{}
	}
	c.asked[a.Call] = true
}

// proposes sends a proposal, in a run where one is named. The cell looks whether there is
// a call.
func (c *cell) proposes(who, run, arguments string) (a answer) {
	if run != "" {
		run = fmt.Sprintf(`"run":%q,`, run)
	}
	_, text := c.w.ask(c, who, "/v1/calls", fmt.Sprintf(`{%s"tool":%q,"arguments":%s}`, run, c.tool, arguments))
	_ = json.Unmarshal(text, &a) // a refusal names no call
	return a
}

// delegates has the run of a call go on while its caller is away.
func (c *cell) delegates(a answer) {
	c.t.Helper()
	if status, text := c.w.ask(c, c.who, "/v1/runs/"+c.record(a).Run+"/delegation", c.w.until()); status != http.StatusOK {
		c.t.Fatalf("not delegated: %d %s", status, text)
	}
}

// deletes sends a DELETE.
func (c *cell) deletes(who, path string) int {
	c.t.Helper()
	status, _, err := c.w.send(c.t.Context(), c.w.token(who, false), http.MethodDelete, path, "")
	if err != nil {
		c.t.Fatal(err)
	}
	return status
}

// user is who acts, without the agent.
func (c *cell) user() string {
	name, _, _ := strings.Cut(c.who, "/")
	return name
}

func (c *cell) agent() string {
	_, name, _ := strings.Cut(c.who, "/")
	return cmp.Or(name, "bot")
}

func (c *cell) cancel(a answer) { c.w.ask(c, c.who, "/v1/calls/"+a.Call+"/cancel", "") }

// yesBefore is a yes before the mutation. Where a yes runs the call at once there is
// no time between the two, and where the call has run nobody is asked any more.
func (c *cell) yesBefore(a answer) {
	switch c.r.(type) {
	case *away, *recovery, *scheduled:
		return
	}
	c.yesOf(a)
}

func (c *cell) yesOf(a answer) {
	c.t.Helper()
	if a.Approval == "" || c.said[a.Approval] {
		return
	}
	if _, ok := c.r.(*recovery); ok {
		return // it was answered before the call ran
	}
	if c.said == nil {
		c.said = map[string]bool{}
	}
	c.said[a.Approval] = true
	c.yes(a)
}

// runs is the whole legitimate sequence of a call that was started.
func (c *cell) runs(a answer) {
	c.t.Helper()
	what := c.record(a).Arguments.What
	if c.edit != "" {
		c.edited(a, c.edit)
	}
	c.yesOf(a)
	c.r.take(c, a)
	c.until(a, "succeeded")
	c.allow(a)
	switch c.r.(type) {
	case *recovery, *model: // their ways tell
	default:
		c.ran = append(c.ran, c.tool+" "+what)
	}
	c.holds("the legitimate call", c.ran)
}

func (c *cell) hand(h transcript) { c.r.hand(c, h) }

func (c *cell) up(a answer, what string) { c.r.up(c, c.who, a.Call, what) }

func (c *cell) again(arguments string) { c.r.again(c, c.who, arguments) }

// edited comes back for a call with arguments of the client's own. With a yes that is a
// way to take it, and what was approved runs; in the queue it is left to the clock.
func (c *cell) edited(a answer, what string) {
	if _, ok := c.r.(*queued); !ok {
		c.w.ask(c, c.who, "/v1/calls/"+a.Call+"/dispatch", `{"arguments":`+c.args(what)+`}`)
		(&mcp{w: c.scene.w, version: "2026-07-28"}).back(c.t.Context(), c.who, a.Call, map[string]any{"arguments": json.RawMessage(c.args(what))})
	}
	if a.Approval != "" {
		body := fmt.Sprintf(`{"binding":%q,"arguments":%s}`, c.question(a).Binding, c.args(what))
		if status, _, err := c.w.send(c.t.Context(), c.w.token("lena", true), http.MethodPost, "/v1/approvals/"+a.Approval+"/approve", body); err != nil || status < 400 {
			c.t.Errorf("an answer with arguments was taken: %d %v", status, err)
		}
	}
}

// loses has a call whose effect happens and whose outcome is not known.
func (c *cell) loses(what string) answer {
	c.t.Helper()
	if _, ok := c.r.(*recovery); ok {
		return c.start(what) // as every call there
	}
	c.tool = lossy(c.r)
	a := c.start(what)
	c.yesOf(a)
	c.r.take(c, a)
	c.until(a, "unknown")
	c.allow(a)
	c.ran = append(c.ran, c.tool+" "+what)
	c.holds("a call whose answer was lost", c.ran)
	if _, ok := c.r.(*queued); ok {
		c.then = func() { c.triesAgain(a) }
	}
	return a
}

// triesAgain is what the queue does by itself about an unknown outcome, where the tool
// honours the key: the same call again, whose effect has happened.
func (c *cell) triesAgain(a answer) {
	c.t.Helper()
	if n := c.record(a).Attempt; n != 1 {
		c.t.Errorf("before its time the call has %d attempts", n)
	}
	c.w.pass(time.Minute)
	c.until(a, "succeeded")
	c.holds("the queue's own retry", c.ran)
	if n := c.record(a).Attempt; n != 2 {
		c.t.Errorf("the call was done with %d attempts", n)
	}
}

// unanswered are the calls of a history that no person said yes to: coming back to
// those is no legitimate way to have them run.
func (c *cell) unanswered(h transcript) []string {
	return slices.DeleteFunc(h.calls(), func(call string) bool { return call == c.mine.Call && c.said[c.mine.Approval] })
}

// opens opens a run of the caller's.
func (c *cell) opens(label string) string {
	c.t.Helper()
	if r, ok := c.r.(*child); ok {
		return r.opens(c)
	}
	if label != "" {
		label = c.who + " " + label
	}
	id := c.opened(label)
	if r, ok := c.r.(*replay); ok {
		return r.replays(c, id)
	}
	return id
}

func (c *cell) opened(label string) string {
	c.t.Helper()
	var out struct{ ID string }
	if status, text := c.w.ask(c, c.who, "/v1/runs", `{"label":`+quote(label)+`}`); json.Unmarshal(text, &out) != nil || out.ID == "" {
		c.t.Fatalf("no run: %d %s", status, text)
	}
	return out.ID
}

func (c *cell) imports(h transcript) string {
	c.t.Helper()
	var out struct{ ID string }
	if status, text := c.w.ask(c, c.who, "/v1/transcripts?format=openai-chat", h.text()); json.Unmarshal(text, &out) != nil || out.ID == "" {
		c.t.Fatalf("not imported: %d %s", status, text)
	}
	return out.ID
}

// member takes the caller's membership away, at the issuer and in its tokens, or gives it back.
func (c *cell) member(is bool) {
	c.scene.w.outside[c.user()] = !is
	c.w.writeUsers()
}

// older restarts the server with an older schema of the tools, or the present one.
func (c *cell) older(is bool) {
	c.t.Helper()
	c.w.earlier = is
	c.w.writeLease()
	c.scene.w.restart()
}

// recorded is a call as a reader sees it.
type recorded struct {
	ID, Run, Tool, State, Approval, Agent, Route string
	Attempt                                      int
	Principal                                    struct{ Subject string }
	Arguments                                    struct{ Row, What string }
	Outcome                                      *struct{ At time.Time }
}

func (c *cell) record(a answer) (r recorded) {
	c.t.Helper()
	c.get("/v1/calls/"+a.Call, &r)
	return r
}

// records are the calls of this cell, whoever proposed them.
func (c *cell) records() (out []recorded) {
	c.t.Helper()
	var page struct{ Calls []recorded }
	c.get("/v1/calls?limit=100", &page)
	for _, r := range page.Calls {
		if r.Arguments.Row == c.row {
			out = append(out, r)
		}
	}
	return out
}

// nothingIsLeft reads the ledger, and then the records: no call of the mutation may run
// or wait, no yes is there for one, and no schedule would bring one about. What a caller
// proposed anew may wait for a person, who has not been heard.
func (c *cell) nothingIsLeft() {
	c.t.Helper()
	c.holds("the mutation", c.ran)
	found := c.mine.Call == ""
	for _, r := range c.records() {
		mine := r.ID == c.mine.Call
		found = found || mine
		switch r.State {
		case "denied", "canceled", "expired", "failed":
		case "succeeded", "unknown":
			if !c.allowed[r.ID] {
				c.t.Errorf("the call %s of %s is %s", r.ID, r.Tool, r.State)
			}
		case "approval_pending":
			if !mine && !c.asked[r.ID] && !(r.Route == "schedule" && c.standing[r.Run]) {
				c.t.Errorf("the call of %s %s waits", r.Tool, r.Arguments.What)
			}
			q := c.question(answer{r.ID, r.Approval})
			if yes := q.State != "pending"; yes && !(mine && c.said[r.Approval]) {
				c.t.Errorf("the question about %s %s is %s", r.Tool, r.Arguments.What, q.State)
			}
		default: // proposed, dispatch_authorized, executing
			c.t.Errorf("the call of %s is left %s", r.Tool, r.State)
		}
	}
	if !found {
		c.t.Error("the records that were read do not have the legitimate call")
	}
	var page struct{ Approvals []asked }
	c.get("/v1/approvals?limit=100&state=approved", &page)
	for _, q := range page.Approvals {
		var args struct{ Row string }
		if json.Unmarshal(q.Call.Arguments, &args) == nil && args.Row == c.row && q.Call.ID != c.mine.Call {
			c.t.Errorf("a yes is left for %s", q.Call.Arguments)
		}
	}
	var made struct{ Schedules []recorded }
	c.get("/v1/schedules?limit=100", &made)
	for _, s := range made.Schedules {
		if s.Arguments.Row == c.row && !slices.Contains(c.schedules, s.ID) {
			c.t.Errorf("a schedule of %s %s is left, %s", s.Tool, s.Arguments.What, s.State)
		}
	}
}

// neighbour is the legitimate sequence: the call that was kept where it still may, or
// else a new one. It runs once, however often its caller comes back.
func (c *cell) neighbour() {
	c.t.Helper()
	if c.then != nil {
		c.then()
	}
	c.tool = toolOf(c.r)
	a := c.mine
	if a.Call != "" && !slices.Contains([]string{"approval_pending", "unknown"}, c.stateOf(a)) {
		a = answer{}
	}
	if a.Call == "" {
		a = c.start("after")
	}
	c.runs(a)
	for range 2 {
		c.r.up(c, c.who, a.Call, "")
	}
	c.holds("coming back", c.ran)
	r := c.record(a)
	if r.State != "succeeded" || r.Principal.Subject != c.user() || r.Agent != c.agent() || r.Attempt != 1 || r.Outcome == nil {
		c.t.Errorf("the result is not %s's: %+v", c.who, r)
	}
	if got := c.reached(a); got != c.route {
		c.t.Errorf("the call was proposed and run by %s, want %s", got, c.route)
	}
	if r, ok := c.r.(*scheduled); ok {
		r.over(c)
	}
}

// reached is what the log says of how a call was proposed, and of how it ran where that
// was not its caller's doing.
func (c *cell) reached(a answer) string {
	c.t.Helper()
	var page struct {
		Events []struct {
			Kind string
			Body struct{ Route string }
		}
	}
	c.get("/v1/events?call="+a.Call, &page)
	routes := ""
	for _, e := range page.Events {
		switch e.Kind {
		case "proposed":
			routes = e.Body.Route
		case "executing":
			if e.Body.Route != "" {
				routes += ", " + e.Body.Route
			}
		}
	}
	return routes
}

// transcript is a history in OpenAI's chat format.
type transcript []map[string]any

func (h transcript) text() string {
	text, err := json.Marshal(h)
	if err != nil {
		panic(err) // maps of strings
	}
	return string(text)
}

// calls are the IDs of the calls that it shows.
func (h transcript) calls() (out []string) {
	for _, m := range h {
		if list, ok := m["tool_calls"].([]any); ok {
			out = append(out, list[0].(map[string]any)["id"].(string))
		}
	}
	return out
}

func user(text string) map[string]any { return map[string]any{"role": "user", "content": text} }

func calls(c *cell, a answer, what string) map[string]any { return callsWith(c, a.Call, c.args(what)) }

func callsWith(c *cell, id, arguments string) map[string]any { return callsOf(c.tool, id, arguments) }

func callsOf(tool, id, arguments string) map[string]any {
	return map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{"id": id, "type": "function", "function": map[string]any{"name": tool, "arguments": arguments}}}}
}

func results(id string) map[string]any {
	return map[string]any{"role": "tool", "tool_call_id": id, "content": "done"}
}

// approves is an approval as some runtimes write it into messages.
func approves(a answer) map[string]any {
	return map[string]any{"role": "tool", "content": []any{map[string]any{"type": "tool-approval-response", "approvalId": a.Approval, "approved": true}}}
}

func userOf(route, mutation int) string { return fmt.Sprintf("user-%d-%d", route, mutation) }
