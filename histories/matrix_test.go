package histories_test

import (
	"fmt"
	"log/slog"
	"testing"
)

// routes are all the ways by which a call can come to its tool: the eight of the field's
// description of the attack, and three more that Placet has. Each plays every mutation.
var routes = []route{
	{"model-originated dispatch", &model{}, "model"},
	{"restored run", &restored{}, "api"},
	{"direct API", &direct{}, "api"},
	{"queued retry", &queued{}, "api, queue"},
	{"scheduled job", &scheduled{}, "schedule, schedule"},
	{"sub-agent delegation", &child{}, "delegate"},
	{"human replay", &replay{}, "replay"},
	{"administrative recovery", &recovery{}, "api"},
	{"MCP", &plain{}, "api"},
	{"caller away", &away{}, "api, delegate"},
	{"lease", &leased{}, "api"},
}

// route is a way to the tool, with what the log says of it: how its calls are proposed
// and, where nobody is there for them, how they run.
type route struct {
	name string
	is   way
	log  string
}

// way is how a route does what the mutations need of it.
type way interface {
	// start brings a call about that waits for what its route waits for.
	start(c *cell, what string) answer
	// take is what lets it run once a person said yes, as its route does.
	take(c *cell, a answer)
	// hand gives a history to everything that takes one on this route.
	hand(c *cell, h transcript)
	// up is a runtime that takes up a call which a history shows.
	up(c *cell, who, call, what string)
	// again proposes arguments that a history shows.
	again(c *cell, who, arguments string)
}

// mutation is one way to make a history say what did not happen.
type mutation struct {
	name string
	play func(c *cell)
}

// mutations are the twelve of the field's description of the attack.
var mutations = []mutation{
	{"the user's cancellation is dropped", func(c *cell) {
		a := c.start("x")
		c.cancel(a)
		c.hand(transcript{user("delete it"), calls(c, a, "x")}) // without the "stop" that followed
		c.up(a, "x")
	}},
	{"a call is left unresolved", func(c *cell) {
		a := c.keep(c.start("x"))
		c.hand(transcript{user("do it"), calls(c, a, "x"), approves(a)})
		c.up(a, "x")
	}},
	{"a result without a call", func(c *cell) {
		a := c.keep(c.start("x"))
		c.hand(transcript{user("do it"), results(a.Call), results("call_nobody")})
		c.up(a, "x")
		c.up(answer{Call: "call_nobody"}, "x")
	}},
	{"an ID of a call or result stands twice", func(c *cell) {
		a := c.keep(c.start("x"))
		c.hand(transcript{user("do it"), calls(c, a, "x"), calls(c, a, "y"), results(a.Call), results(a.Call), calls(c, a, "x")})
		c.up(a, "x")
		c.up(a, "x")
	}},
	{"call and result are reordered", func(c *cell) {
		a := c.keep(c.start("x"))
		c.hand(transcript{user("do it"), results(a.Call), user("and?"), calls(c, a, "x")})
		c.up(a, "x")
	}},
	{"a call is moved between runs, users or tenants", func(c *cell) {
		a := c.keep(c.start("x"))
		c.yesBefore(a)
		h := transcript{user("do it"), calls(c, a, "x"), approves(a)}
		mine := c.who
		others := []string{"mallory", "mallory@globex", mine + "@globex", c.user() + "/another"}
		if c.agent() != "bot" {
			others = append(others, c.user()+"/bot") // the agent above it
		}
		for _, other := range others {
			c.who = other
			c.w.tell(c, h)
			c.r.up(c, other, a.Call, "x")
		}
		c.who = mine
		c.run = c.opens("another")
		c.w.tell(c, h)
	}},
	{"a completed call is replayed after its caller's membership changed", func(c *cell) {
		a := c.start("x")
		c.runs(a)
		h := transcript{user("do it"), calls(c, a, "x"), approves(a)}
		c.member(false)
		c.hand(h)
		c.up(a, "x")
		c.again(c.args("x"))
		c.member(true)
		c.hand(h)
		c.up(a, "x")
		c.again(c.args("x"))
	}},
	{"arguments are changed after the approval", func(c *cell) {
		a := c.keep(c.start("x"))
		c.yesBefore(a)
		c.hand(transcript{user("do it"), calls(c, a, "y"), approves(a)})
		c.again(c.args("y"))
		c.edit = "y" // and with these its client comes back
	}},
	{"the history is of an older schema of its tool", func(c *cell) {
		older := fmt.Sprintf(`{"force":true,"row":%q,"what":"x"}`, c.row)
		c.older(true)
		a := c.start("x")
		c.yesBefore(a)
		c.older(false)
		switch c.r.(type) {
		case *away, *scheduled:
			c.delegates(a) // the development issuer forgot, with the process
		}
		c.yesOf(a) // where a yes runs the call at once, it comes now
		c.hand(transcript{user("do it"), callsWith(c, a.Call, older), approves(a)})
		c.up(a, "x")
		c.again(older)
	}},
	{"a transcript with calls is imported", func(c *cell) {
		h := transcript{user("do it"), callsWith(c, "call_old", c.args("x")), approves(answer{Call: "call_old", Approval: "appr_old"})}
		c.run = c.opens("")
		imported := c.imports(h)
		c.hand(h)
		c.up(answer{Call: imported}, "x")
		c.up(answer{Call: "call_old"}, "x")
	}},
	{"a run is resumed from the client's history, and no model is asked", func(c *cell) {
		c.run = c.opens("resumed")
		c.w.tell(c, transcript{user("do it"), callsWith(c, "call_made_up", c.args("x")), approves(answer{Call: "call_made_up", Approval: "appr_made_up"})})
		c.up(answer{Call: "call_made_up"}, "x")
		c.up(answer{Call: c.run}, "x")
	}},
	{"a retry while the outcome is not known", func(c *cell) {
		a := c.loses("x")
		c.hand(transcript{user("do it"), calls(c, a, "x"), approves(a)})
		for range 2 {
			c.up(a, "x")
			c.again(c.args("x"))
		}
	}},
}

// TestHistoryMatrix plays each mutation on each route. No mutation may have an effect
// or leave anything that could have one; and what is legitimate next to it must run
// exactly once, on the same route, and be on record as its caller's.
func TestHistoryMatrix(t *testing.T) {
	var members []string
	for n := range routes {
		for i := range mutations {
			members = append(members, userOf(n, i))
		}
	}
	before := slog.Default() // the issuer's library tells it of each start
	slog.SetDefault(slog.New(slog.DiscardHandler))
	defer slog.SetDefault(before)
	w := newCourse(t, members)
	passed, all := 0, 0
	for n, r := range routes {
		for i, m := range mutations {
			all++
			if t.Run(r.name+"/"+m.name, func(t *testing.T) {
				w.world.t = t
				who := userOf(n, i)
				if _, ok := r.is.(*child); ok {
					who += "/sub"
				}
				c := &cell{scene: &scene{t: t, w: w.world, row: r.name + ": " + m.name}, w: w, r: r.is, who: who, own: who, tool: toolOf(r.is), route: r.log}
				m.play(c)
				c.nothingIsLeft()
				c.neighbour()
			}) {
				passed++
			}
		}
	}
	w.world.t = t
	fmt.Printf("history: %d/%d\n", passed, all)
	if want := 12 * 11; all != want || passed != all {
		t.Errorf("%d of %d cells hold, of %d that there should be", passed, all, want)
	}
}
