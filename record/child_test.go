package record

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// grants draws grants over few tools, scopes, values, amounts and ends, so that
// subsets are common.
func grants(t *rapid.T, name string) Grant {
	some := func(what string, from ...string) []string {
		return rapid.SliceOfDistinct(rapid.SampledFrom(from), rapid.ID[string]).Draw(t, name+" "+what)
	}
	g := Grant{Tools: append(some("tools", "look", "pay", "send"), "wait"), Scopes: some("scopes", "read", "write"),
		Calls: rapid.Int64Range(1, 4).Draw(t, name+" calls"), Until: time.UnixMicro(rapid.Int64Range(1, 4).Draw(t, name+" until")).UTC()}
	for _, argument := range some("arguments", "order", "to") {
		if g.Targets == nil {
			g.Targets = map[string][]string{}
		}
		g.Targets[argument] = some("values of "+argument, `"a"`, `"b"`, `7`)
	}
	for _, currency := range some("currencies", "EUR", "USD") {
		if g.Money == nil {
			g.Money = map[string]int64{}
		}
		g.Money[currency] = rapid.Int64Range(0, 3).Draw(t, name+" "+currency)
	}
	g, err := g.Normal()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// narrowed draws a grant that is often a subset of another one, and sometimes not.
func narrowed(t *rapid.T, name string, g Grant) Grant {
	if rapid.IntRange(0, 3).Draw(t, name+" anew") == 0 {
		return grants(t, name)
	}
	keep := func(what string, list []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(string) bool { return rapid.IntRange(0, 3).Draw(t, name+" drops "+what) == 0 })
	}
	out := Grant{Tools: append(keep("tool", g.Tools), "wait"), Scopes: keep("scope", g.Scopes), Calls: rapid.Int64Range(1, g.Calls).Draw(t, name+" calls"), Until: g.Until}
	for argument, values := range g.Targets {
		if out.Targets == nil {
			out.Targets = map[string][]string{}
		}
		out.Targets[argument] = keep("value", values)
	}
	for currency, micros := range g.Money {
		if out.Money == nil {
			out.Money = map[string]int64{}
		}
		out.Money[currency] = rapid.Int64Range(0, micros+rapid.Int64Range(0, 1).Draw(t, name+" adds")).Draw(t, name+" "+currency)
	}
	out, err := out.Normal()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// permits lists everything that a grant permits, thing by thing: the meaning that the
// proof is checked against.
func permits(g Grant) map[string]bool {
	out := map[string]bool{}
	for _, tool := range g.Tools {
		out["tool "+tool] = g.Names(tool)
	}
	for _, scope := range g.Scopes {
		out["scope "+scope] = true
	}
	for _, argument := range []string{"order", "to", "else"} {
		for _, value := range []string{`"a"`, `"b"`, `7`, `"c"`, `["a"]`, `["a","b"]`, `["b",7]`, `[]`, `["c"]`} {
			out["value "+argument+" "+value] = g.Admits(argument, []byte(value))
		}
	}
	for _, currency := range []string{"EUR", "USD", "GBP"} {
		for micros := int64(1); micros < 5; micros++ {
			out["money "+currency+" "+string(rune('0'+micros))] = g.Unmetered || micros <= g.Money[currency]
		}
	}
	for calls := int64(1); calls < 6; calls++ {
		out["calls "+string(rune('0'+calls))] = calls <= g.Calls
	}
	for at := int64(0); at < 6; at++ {
		out["time "+string(rune('0'+at))] = g.Endless || time.UnixMicro(at).Before(g.Until)
	}
	for what, may := range out {
		if !may {
			delete(out, what)
		}
	}
	return out
}

func subset(t *rapid.T, of string, a, b map[string]bool) {
	for what := range a {
		if !b[what] {
			t.Fatalf("%s is given %q, which is not had above", of, what)
		}
	}
}

// TestRule_B4_WithinIsAStrictOrder: never itself, never both ways, and through any
// number of steps; and what lies within permits nothing that the other does not.
func TestRule_B4_WithinIsAStrictOrder(t *testing.T) {
	met := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		c := grants(t, "c")
		b := narrowed(t, "b", c)
		a := narrowed(t, "a", b)
		if a.Within(a) {
			t.Fatal("a grant is a strict subset of itself")
		}
		if later := a; a.Within(Grant{a.Tools, a.Scopes, a.Targets, a.Money, a.Calls, later.Until.Add(time.Hour), false, false}) {
			t.Fatal("an earlier end alone makes it smaller")
		}
		if a.Within(b) {
			met["pairs"]++
			subset(t, "a", permits(a), permits(b))
			if b.Within(a) {
				t.Fatal("each is a strict subset of the other")
			}
			if b.Within(c) {
				met["chains"]++
				if !a.Within(c) {
					t.Fatal("it does not hold through two steps")
				}
			}
		} else if a.Beyond(b) == "" {
			met["equal but for the end"]++
		}
		open := Grant{Tools: b.Tools, Scopes: b.Scopes, Calls: b.Calls, Money: b.Money, Unmetered: rapid.Bool().Draw(t, "unmetered"), Endless: true}
		if a.Within(open) {
			met["below a root"]++
			subset(t, "a", permits(a), permits(open))
		}
	})
	if len(met) < 3 {
		t.Fatalf("too little was met: %v", met)
	}
}

// TestRule_B4_NoSequenceOfOpeningsWidens: whatever is opened below whatever, in any
// order, no run is given what a run above it lacks.
func TestRule_B4_NoSequenceOfOpeningsWidens(t *testing.T) {
	owner := Owner{Tenant: "acme", Principal: Principal{"urn:test", "anna"}, Agent: "bot"}
	deepest := 0
	rapid.Check(t, func(t *rapid.T) {
		whole := Grant{Tools: []string{"look", "pay", "send", "wait"}, Scopes: []string{"read", "write"}, Calls: 9, Unmetered: true, Endless: true}
		runs := []Run{{Owner: owner, ID: "root", Lineage: "lin", State: ModelPending, Version: 1}}
		for n := range rapid.IntRange(1, 12).Draw(t, "openings") {
			parent := runs[rapid.IntRange(0, len(runs)-1).Draw(t, "parent")]
			g := grants(t, "grant")
			if parent.Grant != nil {
				g = narrowed(t, "grant", *parent.Grant)
			}
			if parent.Grant == nil && !g.Within(whole) {
				continue
			}
			child := Run{Owner: owner, ID: RunID(rune('a' + n)), Grant: &g, Opened: time.UnixMicro(0).UTC()}
			child.Agent = AgentID(rapid.SampledFrom([]string{"bot", "helper"}).Draw(t, "agent"))
			c, err := OpenChild(parent, child, 8, 1, owner.By())
			if err != nil {
				continue
			}
			runs = append(runs, c.Facts().Run.After)
		}
		for _, r := range runs[1:] {
			depth := 0
			for above := r; above.Parent != ""; depth++ {
				i := slices.IndexFunc(runs, func(u Run) bool { return u.ID == above.Parent })
				above = runs[i]
				if above.Grant == nil {
					subset(t, string(r.ID), permits(*r.Grant), permits(whole))
					continue
				}
				subset(t, string(r.ID), permits(*r.Grant), permits(*above.Grant))
				if !r.Grant.Within(*above.Grant) {
					t.Fatalf("%s is no strict subset of %s", r.ID, above.ID)
				}
			}
			deepest = max(deepest, depth)
			if r.Lineage != "lin" || r.Principal != owner.Principal {
				t.Fatalf("it left its lineage: %+v", r)
			}
		}
	})
	if deepest < 2 {
		t.Fatalf("no run lay deeper than %d", deepest)
	}
}

// TestRule_B4_GrantsReadBack: what is stored with a run is what was granted.
func TestRule_B4_GrantsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := grants(t, "g")
		text, err := json.Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		var back Grant
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(permits(back), permits(g)) {
			t.Fatalf("%s reads back as %+v: %v", text, back, err)
		}
		again, err := g.Normal()
		if err != nil || !reflect.DeepEqual(again, g) {
			t.Fatalf("%+v has another form: %+v %v", g, again, err)
		}
	})
	for name, g := range map[string]Grant{
		"no tool":            {Calls: 1, Until: time.Unix(1, 0)},
		"a tool by no name":  {Tools: []string{""}, Calls: 1, Until: time.Unix(1, 0)},
		"no calls":           {Tools: []string{"a"}, Until: time.Unix(1, 0)},
		"no end":             {Tools: []string{"a"}, Calls: 1},
		"no JSON":            {Tools: []string{"a"}, Calls: 1, Until: time.Unix(1, 0), Targets: map[string][]string{"to": {"x"}}},
		"two values":         {Tools: []string{"a"}, Calls: 1, Until: time.Unix(1, 0), Targets: map[string][]string{"to": {`1,"w":2`}}},
		"a value twice over": {Tools: []string{"a"}, Calls: 1, Until: time.Unix(1, 0), Targets: map[string][]string{"to": {`{"a":1,"a":2}`}}},
		"money below 0":      {Tools: []string{"a"}, Calls: 1, Until: time.Unix(1, 0), Money: map[string]int64{"EUR": -1}},
		"too many tools":     {Tools: make([]string, 1), Calls: 1, Until: time.Unix(1, 0)},
	} {
		if name == "too many tools" {
			for i := range maxGrantTools + 1 {
				g.Tools = append(g.Tools[:i], "t"+string(rune('0'+i)), "u")
			}
		}
		if _, err := g.Normal(); KindOf(err) != Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRule_B4_WhatAChildRunIs(t *testing.T) {
	at := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	owner := Owner{Tenant: "acme", Principal: Principal{"urn:test", "anna"}, Agent: "bot"}
	parent := Run{Owner: owner, ID: "run_p", Lineage: "lin", Vouched: true, State: ModelPending, Version: 1, Turn: 3}
	g := Grant{Tools: []string{"a"}, Targets: map[string][]string{"to": {`"secret"`}}, Calls: 1, Until: at.Add(time.Hour)}
	child := Run{Owner: owner, ID: "run_c", Grant: &g, Opened: at}
	c, err := OpenChild(parent, child, 8, 1, owner.By())
	if err != nil {
		t.Fatal(err)
	}
	f := c.Facts()
	got := f.Run.After
	if got.Parent != parent.ID || got.Lineage != "lin" || !got.Vouched || f.Premise.Turn != 3 || f.Premise.Run != parent.ID || len(f.Charges) != 1 {
		t.Fatalf("%+v", f)
	}
	if text := string(f.Events[0].Body); text != `{"turn":1,"redacted":["targets"],"parent":"run_p","grant":{"tools":["a"],"targets":{"to":[]},"calls":1,"until":"2026-12-01T01:00:00Z"}}` {
		t.Fatalf("the event says %s", text)
	}
	end, err := EndRun(got, "done", owner.By(), at)
	if err != nil || len(end.Facts().Release) != 1 || end.Facts().Release[0].Counter != f.Charges[0].Counter {
		t.Fatalf("its place is not given back: %+v %v", end.Facts(), err)
	}
	if got.Over(at) || !got.Over(g.Until) || !(Run{Parent: "run_p"}).Over(at) || parent.Over(g.Until) {
		t.Fatal("when its time is over")
	}
	other := owner
	other.Principal.Subject = "bert"
	ended := parent
	ended.State = Terminated
	for name, try := range map[string]func() error{
		"of another principal": func() error {
			u := child
			u.Owner = other
			_, err := OpenChild(parent, u, 8, 1, owner.By())
			return err
		},
		"below a run that ended": func() error { _, err := OpenChild(ended, child, 8, 1, owner.By()); return err },
		"with no grant": func() error {
			u := child
			u.Grant = nil
			_, err := OpenChild(parent, u, 8, 1, owner.By())
			return err
		},
		"with all of its parent's": func() error { _, err := OpenChild(got, child, 8, 1, owner.By()); return err },
		"that has ended already": func() error {
			u := child
			u.Opened = g.Until
			_, err := OpenChild(parent, u, 8, 1, owner.By())
			return err
		},
		"given away": func() error { _, err := Transfer(got, other, owner.By(), at); return err },
	} {
		if err := try(); err == nil {
			t.Errorf("a child run %s", name)
		}
	}
	below := Sweep{Tenant: "acme", Run: parent.ID, To: Revoked, By: ByOperator, Code: CodeRevoked, At: at}
	c, err = below.Below(got)
	if s := c.Facts().Sweep; err != nil || s.To != Revoked || s.Code != CodeRevoked || s.Run != got.ID || c.Facts().Run.After.Live() {
		t.Fatalf("a revocation above: %+v %v", c.Facts(), err)
	}
}
