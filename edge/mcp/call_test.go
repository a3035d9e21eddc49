package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

func TestCallRunsAndReturnsTheBytesOfTheTool(t *testing.T) {
	w := newWorld(t, nil)
	a := w.call(w.token("anna"), "echo", `{"b":1,"a":"x"}`)
	if got := a.tool(t).text(); a.status != 200 || got != `echo {"a":"x","b":1}` {
		t.Fatalf("status %d, text %q", a.status, got)
	}
	w.effects(`echo {"a":"x","b":1}`)

	a = w.call(w.token("anna"), "raw", `{}`)
	want := `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete",` + rawResult[1:] + `}`
	if a.body != want {
		t.Fatalf("got  %s\nwant %s", a.body, want)
	}
}

// FACTS, trap 4: numbers and unknown members survive in a session too.
func TestSessionKeepsNumbersAndUnknownMembers(t *testing.T) {
	w := newWorld(t, nil)
	s := w.open(w.token("anna"))
	got := s.call("raw", `{}`).rpc(t).Result
	if string(got) != rawResult {
		t.Fatalf("got  %s\nwant %s", got, rawResult)
	}
}

func TestDenialIsAToolErrorWithOneTextAndTheDecision(t *testing.T) {
	w := newWorld(t, nil)
	for _, name := range []string{"delete_file", "no_such_tool", "bobs"} {
		r := w.call(w.token("anna"), name, `{}`).tool(t)
		if !r.IsError || len(r.Content) != 1 || r.Structured != nil || r.ResultType != "complete" {
			t.Fatalf("%s: %+v", name, r)
		}
		want := "Denied: `" + name + "` is not available to you. Nothing ran."
		if d := r.decision(t); !strings.HasPrefix(r.text(), want) || d.Verdict != record.Deny || d.Code != record.CodeNotAvailable {
			t.Fatalf("%s: %q %+v", name, r.text(), d)
		}
	}
	w.effects()
}

func TestMissingScopeChallenges(t *testing.T) {
	w := newWorld(t, nil)
	check := func(t *testing.T, a answer) {
		t.Helper()
		if a.status != http.StatusForbidden || a.header.Get("WWW-Authenticate") != `Bearer error="insufficient_scope", scope="admin:use"` {
			t.Fatalf("status %d, %q, %s", a.status, a.header.Get("WWW-Authenticate"), a.body)
		}
		if m := a.rpc(t); m.Error == nil || !strings.HasPrefix(m.Error.Message, "Denied: ") {
			t.Fatalf("%s", a.body)
		}
	}
	t.Run("modern", func(t *testing.T) { check(t, w.call(w.token("anna"), "secret_pay", `{}`)) })
	t.Run("session", func(t *testing.T) { check(t, w.open(w.token("anna")).call("secret_pay", `{}`)) })
	w.effects()
	admin := w.token("anna", func(s *identity.TokenSpec) { s.Scopes = []string{"admin:use"} })
	w.call(admin, "secret_pay", `{}`)
	w.effects(`pay {}`)
}

// A program without the permission to propose is named what it lacks, on record once.
func TestMissingPermissionChallenges(t *testing.T) {
	w := newWorld(t, nil)
	a := w.modern("", "tools/call", callParams("pay", `{}`), "Mcp-Name", "pay", "Placet-Workload", readKey)
	if got := a.header.Get("WWW-Authenticate"); a.status != http.StatusForbidden || !strings.HasPrefix(got, `Bearer error="insufficient_scope", scope="propose"`) {
		t.Fatalf("status %d, %q, %s", a.status, got, a.body)
	}
	w.effects()
	if n := w.refusals(); n != 1 {
		t.Fatalf("%d refusals on record", n)
	}
	w.call(w.token("anna"), "pay", `{}`)
	w.effects(`pay {}`)
}

func TestInvalidArgumentsDoNotRun(t *testing.T) {
	w := newWorld(t, nil)
	r := w.call(w.token("anna"), "mirror", `{"region":7}`, "", "").rpc(t)
	if r.Error == nil || r.Error.Code != -32020 {
		t.Fatalf("%+v", r)
	}
	a := w.call(w.token("anna"), "mirror", `{"other":7}`).tool(t)
	if d := a.decision(t); d.Code != record.CodeInvalidArguments {
		t.Fatalf("%+v", d)
	}
	w.effects()
}

// Rule A7: a lost answer never doubles an effect, and the answer says so.
func TestRule_A7_RepeatReturnsTheRecordedResultAndSaysSo(t *testing.T) {
	w := newWorld(t, nil)
	for _, era := range []string{"modern", "session"} {
		first := w.any(era, "anna", "pay", `{"n":"`+era+`"}`).tool(t)
		second := w.any(era, "anna", "pay", `{"n":"`+era+`"}`).tool(t)
		if first.IsError || second.IsError || !strings.HasPrefix(second.text(), "Already done at ") {
			t.Fatalf("%q, then %q", first.text(), second.text())
		}
		if !strings.HasSuffix(second.text(), first.text()) || second.decision(t).Code != record.CodeAlreadyDone {
			t.Fatalf("%+v", second)
		}
	}
	w.effects(`pay {"n":"modern"}`, `pay {"n":"session"}`)
}

// Rule E1: the error of a tool that writes leaves the effect unknown; its own
// text is not hidden.
func TestRule_E1_ErrorOfAWriteIsUnknownAndShown(t *testing.T) {
	w := newWorld(t, nil)
	r := w.call(w.token("anna"), "breaks", `{"n":1}`).tool(t)
	if !r.IsError || !strings.HasPrefix(r.text(), "Outcome unknown: ") || !strings.HasSuffix(r.text(), `breaks {"n":1}`) {
		t.Fatalf("%+v", r)
	}
	if r = w.call(w.token("anna"), "breaks", `{"n":1}`).tool(t); !strings.HasPrefix(r.text(), "Outcome unknown: ") {
		t.Fatalf("%+v", r)
	}
	w.effects(`breaks {"n":1}`)
}

// Rule A4: the client's ID is a label: equal IDs are different calls.
func TestRule_A4_EqualClientIDsDoNotMix(t *testing.T) {
	w := newWorld(t, nil)
	token := w.token("anna")
	type got struct{ sent, text string }
	results := make(chan got)
	for i := range 80 {
		go func() {
			arguments := `{"i":` + string(mustJSON(i)) + `}`
			a, err := w.send(context.Background(), token, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+callParams("echo", arguments)+`}`,
				map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo"})
			if err != nil {
				results <- got{arguments, err.Error()}
				return
			}
			var m struct{ Result toolResult }
			_ = json.Unmarshal([]byte(a.body), &m)
			results <- got{arguments, m.Result.text()}
		}()
	}
	for range 80 {
		if r := <-results; r.text != "echo "+r.sent {
			t.Errorf("sent %s, got %q", r.sent, r.text)
		}
	}
}

func mustJSON(v any) []byte { text, _ := json.Marshal(v); return text }

// Rule A12: labels label, and vouch counts only with the workload's own key.
func TestRule_A12_VouchCountsOnlyWithTheWorkload(t *testing.T) {
	w := newWorld(t, nil)
	vouch := `"dev.placet/vouch":{"turn":1,"response":"resp_1","position":0}`
	w.call(w.token("anna"), "pay", `{"n":1}`, vouch+`,"dev.placet/run":"r1","dev.placet/purpose":"because"`)
	calls := w.calls()
	if len(calls) != 1 || calls[0].Source != record.Direct || calls[0].Purpose != "because" || w.ignored["vouch"] != 1 {
		t.Fatalf("%+v, ignored %v", calls, w.ignored)
	}
	w.modern(w.token("anna"), "tools/call", callParams("pay", `{"n":2}`, vouch), "Mcp-Name", "pay", "Placet-Workload", vouchKey)
	if calls = w.calls(); len(calls) != 2 || calls[0].Source != record.Vouched || calls[0].Route != record.RouteModel {
		t.Fatalf("%+v", calls)
	}
	a := w.modern(w.token("anna"), "tools/call", callParams("pay", `{"n":3}`, `"dev.placet/vouch":{"turn":"1"}`), "Mcp-Name", "pay", "Placet-Workload", vouchKey)
	if m := a.rpc(t); m.Error == nil || m.Error.Code != -32602 {
		t.Fatalf("%s", a.body)
	}
	w.effects(`pay {"n":1}`, `pay {"n":2}`)
}

// A workload that may not propose is told so, with one event; beside a user's token
// its key takes nothing away.
func TestAWorkloadThatMayNotPropose(t *testing.T) {
	w := newWorld(t, nil)
	before := len(w.events())
	a := w.modern("", "tools/call", callParams("pay", `{"n":1}`), "Mcp-Name", "pay", "Placet-Workload", readKey)
	if got := a.header.Get("WWW-Authenticate"); a.status != 403 || !strings.Contains(got, `error="insufficient_scope", scope="propose"`) || !strings.Contains(a.body, "propose") {
		t.Fatalf("%d %q %s", a.status, got, a.body)
	}
	events := w.events()
	if len(events) != before+1 || events[len(events)-1].Kind != record.EventRefused || events[len(events)-1].Who.Workload != "eyes" {
		t.Fatalf("%d events, then %+v", before, events)
	}
	w.effects()
	w.modern(w.token("anna"), "tools/call", callParams("pay", `{"n":2}`), "Mcp-Name", "pay", "Placet-Workload", readKey)
	w.effects(`pay {"n":2}`)
}

func TestOccurrenceMakesEqualCallsTwo(t *testing.T) {
	w := newWorld(t, nil)
	for _, occurrence := range []string{"a", "b", "a"} {
		w.call(w.token("anna"), "pay", `{"n":1}`, `"dev.placet/occurrence":"`+occurrence+`"`)
	}
	if n := len(w.ledger.all()); n != 2 && n != 3 {
		t.Fatalf("%d effects: %v", n, w.ledger.all())
	}
}

func TestProgressArrivesInOrderWithTheClientsToken(t *testing.T) {
	w := newWorld(t, nil)
	check := func(t *testing.T, a answer) {
		t.Helper()
		var got []float64
		for _, e := range a.events[:len(a.events)-1] {
			var n struct {
				Method string
				Params struct {
					Token    string `json:"progressToken"`
					Progress float64
				}
			}
			if err := json.Unmarshal([]byte(e), &n); err != nil || n.Method != "notifications/progress" || n.Params.Token != "mine" {
				t.Fatalf("%s: %v", e, err)
			}
			got = append(got, n.Params.Progress)
		}
		if len(got) != 3 || got[0] != 1 || got[1] != 2 || got[2] != 3 || a.tool(t).text() != "done" {
			t.Fatalf("%v %s", got, a.body)
		}
	}
	t.Run("modern", func(t *testing.T) {
		check(t, w.call(w.token("anna"), "steps", `{}`, `"progressToken":"mine"`))
	})
	t.Run("session", func(t *testing.T) {
		s := w.open(w.token("anna"))
		check(t, s.send(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"steps","arguments":{},"_meta":{"progressToken":"mine"}}}`))
	})
	t.Run("modern, nobody asked", func(t *testing.T) {
		if a := w.call(w.token("anna"), "steps", `{}`); len(a.events) != 0 || a.tool(t).text() != "done" {
			t.Fatalf("%s", a.body)
		}
	})
}

// A client that goes does not undo what runs: the outcome is learned and kept.
func TestDisconnectDoesNotLoseTheOutcome(t *testing.T) {
	w := newWorld(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := w.send(ctx, w.token("anna"), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+callParams("slow", `{}`)+`}`,
			map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "slow"})
		done <- err
	}()
	<-w.started
	cancel()
	if err := <-done; err == nil {
		t.Fatal("the client was not cut off")
	}
	close(w.slow)
	w.until("the outcome", func() bool { return len(w.calls(record.Succeeded)) == 1 })
	if r := w.call(w.token("anna"), "slow", `{}`).tool(t); !strings.HasPrefix(r.text(), "Already done") {
		t.Fatalf("%+v", r)
	}
	w.effects(`slow {}`)
}
