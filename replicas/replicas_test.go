package replicas

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/placet-dev/placet/verify"
)

// What one replica begins another goes on with, and each effect happens once.
func TestReplicasServeOneAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.start(), w.start()
	anna := w.token("anna")

	// Every replica signs with the same keys; the desk takes them from whichever is next.
	keys := [2]string{}
	for i, r := range []*replica{a, b} {
		keys[i] = w.must(r.url, "", "GET", verify.KeysPath, "").body
	}
	if keys[0] != keys[1] {
		t.Fatalf("the replicas publish different keys:\n%s\n%s", keys[0], keys[1])
	}
	for i := range 4 {
		if r, err := w.call(w.balancer.URL, anna, "act", fmt.Sprintf(`{"id":"direct %d"}`, i), ""); err != nil || !strings.Contains(r.body, "done act") {
			t.Fatalf("a plain call through the balancer: %+v %v", r, err)
		}
	}

	// Held on A, answered on B: the request on A gets the result.
	held := make(chan reply, 1)
	go func() {
		r, err := w.call(a.url, anna, "file", `{"id":"held"}`, "")
		if err != nil {
			t.Error(err)
		}
		held <- r
	}()
	w.approve(b.url, w.question(b.url))
	if r := <-held; !strings.Contains(r.body, "done file") {
		t.Errorf("the request that was held on A: %+v", r)
	}

	// Proposed on A, come back for on B.
	var q answer
	w.must(a.url, anna, "POST", "/v1/calls", `{"tool":"file","arguments":{"id":"waited for"}}`).into(t, &q)
	w.approve(a.url, w.question(a.url))
	if r, err := w.call(b.url, anna, "placet_wait", `{"call":"`+q.Call+`"}`, ""); err != nil || !strings.Contains(r.body, "done file") {
		t.Errorf("placet_wait on B: %+v %v", r, err)
	}

	// A lease of A is extended and reported on B; what is not its secret is refused there too.
	w.must(a.url, anna, "POST", "/v1/calls", `{"tool":"here","arguments":{"id":"leased"}}`).into(t, &q)
	holder := fmt.Sprintf(`"attempt":%d,"secret":%q`, q.Lease.Attempt, q.Lease.Secret)
	w.must(b.url, anna, "POST", "/v1/calls/"+q.Call+"/heartbeat", "{"+holder+"}")
	if r, err := w.send(b.url, anna, "POST", "/v1/calls/"+q.Call+"/report", `{"attempt":1,"secret":"guessed","outcome":"succeeded","result":{}}`); err != nil || r.status != http.StatusForbidden {
		t.Errorf("a guessed secret: %+v %v", r, err)
	}
	var reported answer
	w.must(b.url, anna, "POST", "/v1/calls/"+q.Call+"/report", "{"+holder+`,"outcome":"succeeded","result":{"ok":true}}`).into(t, &reported)
	if reported.State != "succeeded" {
		t.Errorf("a lease of A, reported on B: %+v", reported)
	}

	// Canceled on B, the attempt that runs on A ends.
	gone := make(chan reply, 1)
	go func() {
		r, err := w.call(a.url, anna, "slow", `{"id":"canceled"}`, "")
		if err != nil {
			t.Error(err)
		}
		gone <- r
	}()
	<-w.desk.began
	var calls struct{ Calls []struct{ ID string } }
	w.must(b.url, w.token("otto", "ops"), "GET", "/v1/calls?state=executing", "").into(t, &calls)
	if len(calls.Calls) != 1 {
		t.Fatalf("executing: %+v", calls)
	}
	if _, err := w.send(b.url, anna, "POST", "/v1/calls/"+calls.Calls[0].ID+"/cancel", ""); err != nil {
		t.Fatal(err)
	}
	if err := <-w.desk.ended; err == nil {
		t.Error("the tool ran to its end")
	}
	if r := <-gone; strings.Contains(r.body, "done slow") {
		t.Errorf("the canceled call: %+v", r)
	}

	// One that nobody cancels runs on.
	go func() {
		r, err := w.call(a.url, anna, "slow", `{"id":"finished"}`, "")
		if err != nil {
			t.Error(err)
		}
		gone <- r
	}()
	<-w.desk.began
	w.desk.gate <- struct{}{}
	if r := <-gone; !strings.Contains(r.body, "done slow") {
		t.Errorf("the call that nobody canceled: %+v", r)
	}

	did := w.desk.did()
	slices.Sort(did)
	want := []string{`act {"id":"direct 0"}`, `act {"id":"direct 1"}`, `act {"id":"direct 2"}`, `act {"id":"direct 3"}`,
		`file {"id":"held"}`, `file {"id":"waited for"}`, `slow {"id":"finished"}`}
	if !slices.Equal(did, want) {
		t.Errorf("the desk did %q, want %q", did, want)
	}
}

// A server that stops says so first, lets go who is held, finishes what executes, and
// ends well; another one goes on with what waited.
func TestAServerThatStopsIsMissedByNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.start(), w.start()
	anna := w.token("anna")
	var wg sync.WaitGroup
	var held, slow reply
	wg.Go(func() { held, _ = w.call(a.url, anna, "file", `{"id":"held"}`, "") })
	q := w.question(b.url)
	wg.Go(func() { slow, _ = w.call(a.url, anna, "slow", `{"id":"under way"}`, "") })
	<-w.desk.began
	if r, err := w.send(a.url, "", "GET", "/readyz", ""); err != nil || r.status != http.StatusOK {
		t.Fatalf("before: %+v %v", r, err)
	}
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// It says no while it still serves.
	until(t, "it is not ready", func() bool {
		r, err := w.send(a.url, "", "GET", "/readyz", "")
		if err != nil {
			t.Fatalf("it refuses requests before it said so: %v", err)
		}
		return r.status == http.StatusServiceUnavailable
	})
	if r, err := w.call(a.url, anna, "act", `{"id":"in between"}`, ""); err != nil || !strings.Contains(r.body, "done act") {
		t.Errorf("a request that the balancer still sent: %+v %v", r, err)
	}
	w.desk.gate <- struct{}{}
	wg.Wait()
	if !strings.Contains(held.body, "placet_wait") || !strings.Contains(held.body, q.call) {
		t.Errorf("who was held: %+v", held)
	}
	if !strings.Contains(slow.body, "done slow") {
		t.Errorf("what executed: %+v", slow)
	}
	if err := <-a.done; err != nil {
		t.Errorf("it ended with %v, and said %s", err, a.errs)
	}
	for line := range strings.Lines(a.errs.String()) {
		if !strings.Contains(line, "about to stop") {
			t.Errorf("it complains of more than that it stops: %s", line)
		}
	}
	w.approve(b.url, q)
	if r, err := w.call(b.url, anna, "placet_wait", `{"call":"`+q.call+`"}`, ""); err != nil || !strings.Contains(r.body, "done file") {
		t.Errorf("who came back to B: %+v %v", r, err)
	}
	did := w.desk.did()
	slices.Sort(did)
	if want := []string{`act {"id":"in between"}`, `file {"id":"held"}`, `slow {"id":"under way"}`}; !slices.Equal(did, want) {
		t.Errorf("the desk did %q, want %q", did, want)
	}
}

// A server with other keys, or with none, does not join.
func TestAServerWithOtherKeysIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	for what, secret := range map[string]string{"another secret": "PLACET_SECRET=" + strings.Repeat("f", 32), "a short one": "PLACET_SECRET=short"} {
		cmd := w.command("serve", "--json")
		cmd.Env = append(slices.Clone(w.env), secret)
		out, err := cmd.CombinedOutput()
		var said struct{ Error, Message string }
		_ = json.Unmarshal(out, &said)
		if err == nil || !strings.Contains(string(out), "secret") {
			t.Errorf("%s: %v %s", what, err, out)
		}
		if strings.Contains(string(out), strings.Repeat("f", 32)) {
			t.Errorf("%s is in what the server says", what)
		}
	}
	without := strings.Replace(fmt.Sprintf(settings, w.balancer.URL), "secret: env:PLACET_SECRET\n", "", 1)
	w.write("alone.yaml", without)
	if out, err := w.command("serve", "-c", "alone.yaml").CombinedOutput(); err == nil || !strings.Contains(string(out), "secret") {
		t.Errorf("without a secret: %v %s", err, out)
	}
	w.start() // with the same one it does
}
