package main

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/placet-dev/placet/record"
)

// TestFailpointsFit: every place of a failpoint is in the source once, and what comes
// of it is Go.
func TestFailpointsFit(t *testing.T) {
	texts, err := applied("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range texts {
		if _, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution); err != nil {
			t.Error(err)
		}
	}
}

// history plays events of one call to a judge.
func history(t *testing.T, v *verdict, l *log, events ...record.Event) {
	t.Helper()
	for i, e := range events {
		e.Seq = int64(i + 1)
		if e.Body == nil {
			e.Body = json.RawMessage(`{}`)
		}
		if err := v.read("sqlite", l, e); err != nil {
			t.Fatal(err)
		}
	}
}

func keyed(key string) json.RawMessage {
	return json.RawMessage(`{"tool":"wire","idempotency_key":"` + key + `"}`)
}

// TestJudge: each kind of violation is one, and an ordinary history is none.
func TestJudge(t *testing.T) {
	ordinary := []record.Event{{Kind: record.EventProposed, Call: "call_1"}, {Kind: record.EventApprovalConsumed, Call: "call_1", Approval: "apr_1"},
		{Kind: record.EventExecuting, Call: "call_1", Body: keyed("k1")}, {Kind: record.EventSucceeded, Call: "call_1"}}
	about := json.RawMessage(`{"detail":"tool:wire"}`)
	revoked, givenBack := record.Event{Kind: record.EventRevocation, Body: about}, record.Event{Kind: record.EventRevocationUndone, Body: about}
	wired := effect{Side: "sqlite", Tool: "wire", Key: "k1", N: 1}
	told := []said{{intent: intent{kind: "wire", n: 1}, states: []record.State{record.Succeeded}}}
	for name, c := range map[string]struct {
		events  []record.Event
		account []effect
		told    []said
		want    string
	}{
		"ordinary":                       {ordinary, []effect{wired}, told, ""},
		"two effects of a key":           {ordinary, []effect{wired, wired}, told, "has 2 effects"},
		"an effect without a record":     {ordinary, []effect{wired, {Side: "sqlite", Tool: "note", Key: "k2", N: 2}}, told, "no executing record"},
		"an effect without its approval": {append(ordinary[:1:1], ordinary[2:]...), []effect{wired}, told, "no approval was consumed"},
		"an approval consumed twice":     {append([]record.Event{ordinary[1]}, ordinary...), []effect{wired}, told, "was consumed 2 times"},
		"something after the end":        {append(ordinary[:4:4], record.Event{Kind: record.EventUnknown, Call: "call_1"}), []effect{wired}, told, "and then unknown"},
		"told and not done":              {ordinary, nil, told, "has 0 effects"},
		"a key of two calls": {append(ordinary[:4:4], record.Event{Kind: record.EventExecuting, Call: "call_2", Body: keyed("k1")}), []effect{wired}, told,
			"key k1 is that of call_1 and of call_2"},
		"reserved while revoked":          {append([]record.Event{revoked}, ordinary...), []effect{wired}, told, "while its tool wire was revoked"},
		"reserved when it was given back": {append([]record.Event{revoked, givenBack}, ordinary...), []effect{wired}, told, ""},
		"more than there was": {ordinary, []effect{wired, {Side: "sqlite", Tool: "draw", Key: "k1", N: 3, Purse: "p", Amount: purse + 1}}, told,
			"p spent"},
	} {
		t.Run(name, func(t *testing.T) {
			v, l := &verdict{}, newLog()
			history(t, v, l, c.events...)
			v.effects("sqlite", l, c.account)
			v.limits("sqlite", c.account)
			v.answers("sqlite", c.told, c.account)
			all := strings.Join(v.violations, "\n")
			if c.want == "" && all != "" || !strings.Contains(all, c.want) {
				t.Errorf("want %q, the judge says:\n%s", c.want, all)
			}
		})
	}
}

// TestJudgeRestore: what only the lost store tells of is a record too, and neither an
// effect nor an approval of it comes twice.
func TestJudgeRestore(t *testing.T) {
	shared := []record.Event{{Kind: record.EventProposed, Call: "call_1"}}
	ran := []record.Event{{Kind: record.EventApprovalConsumed, Call: "call_1", Approval: "apr_1"}, {Kind: record.EventExecuting, Call: "call_1", Body: keyed("k1")}}
	anew := record.Event{Kind: record.EventRecovered}
	wired := effect{Side: "sqlite", Tool: "wire", Key: "k1", N: 1}
	for name, c := range map[string]struct {
		after   []record.Event // in the store that was put back
		account []effect
		want    string
	}{
		"canceled, and it had run":   {[]record.Event{{Kind: record.EventCanceled, Call: "call_1"}}, []effect{wired}, ""},
		"a second effect":            {[]record.Event{{Kind: record.EventCanceled, Call: "call_1"}}, []effect{wired, wired}, "has 2 effects"},
		"its approval is used again": {ran, []effect{wired}, "was consumed 2 times"},
		"its key is another call's":  {[]record.Event{{Kind: record.EventExecuting, Call: "call_2", Body: keyed("k1")}}, []effect{wired}, "is that of"},
		"an effect of neither store": {nil, []effect{wired, {Side: "sqlite", Tool: "wire", Key: "k2", N: 2}}, "no executing record"},
	} {
		t.Run(name, func(t *testing.T) {
			v, before, after := &verdict{}, newLog(), newLog()
			history(t, v, before, append(shared[:1:1], ran...)...)
			history(t, v, after, append(append(shared[:1:1], anew), c.after...)...)
			v.effects("sqlite", v.with("sqlite", after, before), c.account)
			all := strings.Join(v.violations, "\n")
			if c.want == "" && all != "" || !strings.Contains(all, c.want) {
				t.Errorf("want %q, the judge says:\n%s", c.want, all)
			}
			if r := (reckoning{log: after, other: before}); len(c.account) == 1 && c.want == "" && !r.elsewhere("k1") || r.elsewhere("k2") {
				t.Error("where a call had its attempts is not known")
			}
		})
	}
}
