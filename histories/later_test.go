package histories_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// queued is a call that is left to the server's clock: it runs once a person said yes
// and its run may go on without its caller. Beside each call there was another one in
// the queue, which would have needed no person, and which its user canceled; the
// histories of this route show that one as if it still waited. An outcome that is not
// known is one that the queue will try again by itself, with the same key.
type queued struct{ direct }

func (r *queued) start(c *cell, what string) answer {
	if c.run != "" { // the canceled one must have waited, not run
		c.deletes(c.who, "/v1/runs/"+c.run+"/delegation")
	}
	tool := c.tool
	c.tool = "later_note"
	c.stale = r.direct.start(c, "stale "+what)
	c.tool = tool
	if got := c.stateOf(c.stale); got != "dispatch_authorized" {
		c.t.Fatalf("what stands in the queue is %s", got)
	}
	c.cancel(c.stale)
	return r.direct.start(c, what)
}

// take is nobody's return: the clock runs it.
func (*queued) take(c *cell, a answer) { c.delegates(a) }

func (r *queued) hand(c *cell, h transcript) {
	if c.stale.Call != "" {
		h = append(slices.Clone(h), callsOf("later_note", c.stale.Call, c.args("stale x")), approves(c.stale))
	}
	r.direct.hand(c, h)
}

// up is a worker that holds a message of its own queue. Somebody else's tries to give
// the run to the clock, too.
func (r *queued) up(c *cell, who, call, what string) {
	r.direct.up(c, who, call, what)
	if c.stale.Call != "" {
		r.direct.up(c, who, c.stale.Call, what)
	}
	if who != c.own {
		if status, text := c.w.ask(c, who, "/v1/runs/"+c.run+"/delegation", c.w.until()); status < 400 {
			c.t.Errorf("%s had a run of %s go on: %d %s", who, c.own, status, text)
		}
	}
}

// scheduled is a tool that is called every minute, and asks a person each time. The call
// of the first firing is the one that stays legitimate. With each history that is
// handed in a minute passes, so that what a client is said to have agreed to meets
// another firing: a completed call is replayed by the schedule itself, and an older
// schema is what its next firing finds. A client cannot open a schedule's run; those that
// it resumes and imports for are plain ones.
type scheduled struct{ direct }

func (r *scheduled) start(c *cell, what string) answer {
	id := r.makes(c, c.who, c.args(what))
	if id == "" {
		return answer{} // the cell says that there is no call
	}
	c.schedules = append(c.schedules, id)
	a := r.fires(c, id)
	if c.standing == nil {
		c.standing = map[string]bool{}
	}
	if a.Call != "" {
		c.standing[c.record(a).Run] = true
	}
	return a
}

// take is nobody's return: a yes runs the call.
func (*scheduled) take(*cell, answer) {}

func (r *scheduled) hand(c *cell, h transcript) {
	r.direct.hand(c, h)
	body := fmt.Sprintf(`{"tool":%q,"cron":"* * * * *","arguments":%s,"messages":%s}`, c.tool, c.args("beside"), h.text())
	if status, text := c.w.ask(c, c.who, "/v1/schedules", body); status < 400 {
		c.t.Errorf("a schedule took a history: %d %s", status, text)
	}
	if n := len(c.schedules); n > 0 {
		r.fires(c, c.schedules[n-1])
	}
}

// up names what a history shows as a schedule, too; somebody else tries to move the
// schedule itself.
func (r *scheduled) up(c *cell, who, call, what string) {
	r.direct.up(c, who, call, what)
	ids := []string{call}
	if who != c.own {
		ids = append(ids, c.schedules...)
	}
	for _, id := range ids {
		for _, path := range []string{"/resume", "/pause"} {
			if status, text := c.w.ask(c, who, "/v1/schedules/"+id+path, ""); status < 400 {
				c.t.Errorf("%s by %s: %d %s", path, who, status, text)
			}
		}
		if status := c.deletes(who, "/v1/schedules/"+id); status < 400 {
			c.t.Errorf("deleted by %s: %d", who, status)
		}
	}
}

// again makes a schedule of arguments that a history shows, waits for it to fire, and
// deletes it: what it asked is void.
func (r *scheduled) again(c *cell, who, arguments string) {
	if id := r.makes(c, who, arguments); id != "" {
		a := r.fires(c, id)
		if status := c.deletes(who, "/v1/schedules/"+id); status >= 300 {
			c.t.Errorf("not deleted: %d", status)
		}
		if a.Call != "" {
			c.state(a, "canceled")
		}
	}
}

// makes makes a schedule, or returns nothing where that is refused.
func (r *scheduled) makes(c *cell, who, arguments string) string {
	c.t.Helper()
	var out struct{ ID string }
	status, text := c.w.ask(c, who, "/v1/schedules", fmt.Sprintf(`{"tool":%q,"cron":"* * * * *","arguments":%s}`, c.tool, arguments))
	if status >= 400 {
		return ""
	}
	if err := json.Unmarshal(text, &out); err != nil || out.ID == "" {
		c.t.Fatalf("no schedule: %d %s", status, text)
	}
	return out.ID
}

// fires lets a minute pass, and waits for the call that this brings about, until nothing
// moves it. A schedule that is paused brings about none.
func (r *scheduled) fires(c *cell, id string) answer {
	c.t.Helper()
	var before, now struct{ Call, State string }
	c.get("/v1/schedules/"+id, &before)
	c.w.pass(time.Minute)
	c.sees("the schedule fires", func() bool {
		c.get("/v1/schedules/"+id, &now)
		return now.Call != before.Call || now.State != "active"
	})
	if now.Call == before.Call {
		return answer{}
	}
	a := answer{Call: now.Call}
	c.sees("its call is decided", func() bool {
		got := c.record(a)
		a.Approval = got.Approval
		return !slices.Contains([]string{"proposed", "dispatch_authorized", "executing"}, got.State)
	})
	return a
}

// over deletes the schedules: nothing of them is left, and no further minute brings
// anything about.
func (r *scheduled) over(c *cell) {
	c.t.Helper()
	for _, id := range c.schedules {
		if status := c.deletes(c.who, "/v1/schedules/"+id); status >= 300 {
			c.t.Errorf("not deleted: %d", status)
		}
	}
	c.w.pass(time.Minute)
	for _, r := range c.records() {
		if slices.Contains([]string{"proposed", "approval_pending", "dispatch_authorized", "executing"}, r.State) {
			c.t.Errorf("a call of a deleted schedule is %s", r.State)
		}
	}
	c.holds("deleting the schedule", c.ran)
}

// child is a sub-agent: the user's agent opens a run below its own with placet_delegate,
// gives it less than it has, and an agent with a credential of its own acts there. What
// is moved, is moved to the agent above and to the run of another sub-agent.
type child struct{ direct }

func (r *child) above(c *cell) string { return c.user() + "/bot" }

// above reports whether who acts is the agent above the cell's own.
func (c *cell) above() bool {
	r, ok := c.r.(*child)
	return ok && c.who == r.above(c)
}

func (r *child) opens(c *cell) string {
	c.t.Helper()
	got := client(c).ask(c.t.Context(), r.above(c), "placet_delegate", `{"agent":"sub","tools":["send","breaks"],"calls":50,"minutes":60}`, nil)
	if got == nil || got.IsError {
		c.t.Fatalf("no run was opened for the sub-agent: %+v", got)
	}
	opened, _ := got.StructuredContent.(map[string]any)
	id, _ := opened["run"].(string)
	return id
}

func (r *child) start(c *cell, what string) answer {
	if c.run == "" {
		c.run = r.opens(c)
	}
	return c.proposes(c.who, c.run, c.args(what))
}

// hand gives the history to who opens child runs, too, and has the agent above and
// another sub-agent's run take up what it shows.
func (r *child) hand(c *cell, h transcript) {
	r.direct.hand(c, h)
	body := fmt.Sprintf(`{"tools":["send"],"calls":1,"until":%q,"messages":%s}`, c.w.now().Add(time.Minute).UTC().Format(time.RFC3339), h.text())
	if status, text := c.w.ask(c, r.above(c), "/v1/runs/"+c.run+"/children", body); status < 400 {
		c.t.Errorf("a child run took a history: %d %s", status, text)
	}
	for _, call := range h.calls() {
		c.w.ask(c, r.above(c), "/v1/calls/"+call+"/dispatch", "")
		if a := c.proposes(c.who, call, c.args("x")); a.Call != "" { // as if it named a run
			c.t.Errorf("a call is a run: %+v", a)
		}
	}
}

func (r *child) up(c *cell, who, call, what string) {
	r.direct.up(c, who, call, what)
	client(c).back(c.t.Context(), who, call, map[string]any{"dev.placet/run": c.run})
}

func (r *child) again(c *cell, who, arguments string) {
	c.asksAnew(c.proposes(who, c.run, arguments))
}
