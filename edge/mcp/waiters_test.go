package mcp_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// Hundreds wait at once and go without a word. Nothing of them stays in the
// server, every question is still open, and who comes back gets the call, once.
func TestManyWaitersLeaveNothingBehind(t *testing.T) {
	const waiters = 500
	w := newWorld(t, patient)
	tokens := make([]string, waiters) // the cap on open proposals is each user's own
	for n := range tokens {
		tokens[n] = w.token(fmt.Sprintf("user-%d", n))
	}
	pending := func() []record.Call {
		calls, err := w.store.Calls(t.Context(), dispatch.CallQuery{Tenant: "acme", States: []record.State{record.ApprovalPending}, Limit: 2 * waiters})
		if err != nil {
			t.Fatal(err)
		}
		return calls
	}
	before := runtime.NumGoroutine()
	ctx, leave := context.WithCancel(t.Context())
	var gone sync.WaitGroup
	for n := range waiters {
		gone.Go(func() {
			_, err := w.send(ctx, tokens[n], fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, n, callParams("ask_pay", fmt.Sprintf(`{"n":%d}`, n), `"progressToken":1`)),
				map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "ask_pay"})
			if ctx.Err() == nil {
				t.Errorf("waiter %d was let go: %v", n, err)
			}
		})
	}
	w.until("all questions", func() bool { return len(pending()) == waiters })
	if now := runtime.NumGoroutine(); now < before+waiters {
		t.Fatalf("%d goroutines, %d before: nobody waits, so the test shows nothing", now, before)
	}
	leave()
	gone.Wait()
	w.until("the last goroutine of a waiter", func() bool { return runtime.NumGoroutine() < before+waiters/10 })
	open := pending()
	if len(open) != waiters {
		t.Fatalf("%d questions are open", len(open))
	}
	w.approve(open[0].ID, record.Yes)
	w.effects()
	var user int
	if _, err := fmt.Sscanf(open[0].Principal.Subject, "user-%d", &user); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w.call(tokens[user], "placet_wait", `{"call":"`+string(open[0].ID)+`"}`)
	}
	w.effects("pay " + string(open[0].Arguments))
}
