package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/placet-dev/placet/record"
)

// intent is something that a caller wants, once.
type intent struct {
	kind       string // a tool, or pair: note, asked for at two replicas at the same time
	n          int
	who        string
	purse      string
	amount     int
	occurrence bool // the caller names it
}

func (i intent) tool() string {
	if i.kind == "pair" {
		return "note"
	}
	return i.kind
}

// said is what the caller of an intent was told in the end.
type said struct {
	intent
	states []record.State // of each asking
}

// crowd is those who call and those who answer, on one side.
type crowd struct {
	side *side
	seed uint64

	mu   sync.Mutex
	next int
	told []said

	stop    chan struct{} // closed: nobody begins anything more
	callers sync.WaitGroup
	people  sync.WaitGroup
	home    context.CancelFunc // ends the people's work
}

func newCrowd(s *side, seed uint64) *crowd {
	return &crowd{side: s, seed: seed, stop: make(chan struct{})}
}

// begin sets n callers and two approvers to work.
func (c *crowd) begin(ctx context.Context, n int) {
	for i := range n {
		chance := rand.New(rand.NewPCG(c.seed, uint64(i)))
		c.callers.Go(func() {
			for {
				select {
				case <-c.stop:
					return
				case <-ctx.Done():
					return
				default:
				}
				c.play(ctx, c.wish(chance), chance)
				rest(ctx, 25*time.Millisecond) // the other side is to have its part of the machine
			}
		})
	}
	home, cancel := context.WithCancel(ctx)
	c.home = cancel
	for i, who := range []string{"lena", "lars"} {
		chance := rand.New(rand.NewPCG(c.seed, uint64(1000+i)))
		c.people.Go(func() { c.answers(home, who, chance) })
	}
}

// wish is the next intent. Fifty in a row share a purse, so that money and stamps are
// wanted by several at once, and more of them than there are.
func (c *crowd) wish(chance *rand.Rand) intent {
	c.mu.Lock()
	c.next++
	n := c.next
	c.mu.Unlock()
	i := intent{n: n, who: fmt.Sprintf("user-%d", n%5), occurrence: chance.IntN(2) == 0}
	switch p := chance.IntN(100); {
	case p < 30:
		i.kind = "note"
	case p < 40:
		i.kind = "pair"
	case p < 50:
		i.kind = "look"
	case p < 65:
		i.kind = "wire"
	case p < 75:
		i.kind = "line"
	case p < 90:
		i.kind, i.amount = "draw", 10+chance.IntN(20)
	default:
		i.kind = "stamp"
	}
	if i.kind == "draw" || i.kind == "stamp" {
		i.purse = fmt.Sprintf("purse-%d", n/50)
		i.who = i.purse
	}
	return i
}

// answer is what the server says of a call, as an answer or as a problem.
type answer struct {
	State    record.State
	Code     record.Code
	Call     record.CallID
	Approval record.ApprovalID
}

// play asks until there is an end, or nothing more to wait for.
func (c *crowd) play(ctx context.Context, i intent, chance *rand.Rand) {
	askers := 1
	if i.kind == "pair" {
		askers = 2
	}
	states := make([]record.State, askers)
	var all sync.WaitGroup
	for k := range askers {
		mine := rand.New(rand.NewPCG(chance.Uint64(), uint64(k)))
		all.Go(func() { states[k] = c.ask(ctx, i, mine) })
	}
	all.Wait()
	c.mu.Lock()
	c.told = append(c.told, said{i, states})
	c.mu.Unlock()
	for _, s := range states {
		if s == record.Succeeded {
			c.side.done.Add(1)
			return
		}
	}
}

func (c *crowd) ask(ctx context.Context, i intent, chance *rand.Rand) record.State {
	arguments := map[string]any{"n": i.n}
	if i.purse != "" {
		arguments["purse"] = i.purse
	}
	if i.amount != 0 {
		arguments["amount"] = i.amount
	}
	body, err := json.Marshal(map[string]any{"tool": i.tool(), "arguments": arguments})
	if err != nil {
		return record.None
	}
	header := http.Header{}
	if i.occurrence {
		header.Set("Idempotency-Key", fmt.Sprintf("n-%d", i.n))
	}
	var a answer
	if !c.patiently(ctx, chance, i.who, http.MethodPost, "/v1/calls", header, body, &a) {
		return record.None
	}
	for a.State == record.ApprovalPending || a.State == record.DispatchAuthorized {
		if !c.patiently(ctx, chance, i.who, http.MethodPost, "/v1/calls/"+string(a.Call)+"/dispatch?wait=3", nil, nil, &a) {
			return record.None
		}
	}
	if a.State == record.Proposed { // a limit holds it back, and nobody waits for tomorrow
		c.patiently(ctx, chance, i.who, http.MethodPost, "/v1/calls/"+string(a.Call)+"/cancel", nil, nil, &a)
	}
	return a.State
}

// patiently sends a request to whoever is there until somebody answers it.
func (c *crowd) patiently(ctx context.Context, chance *rand.Rand, who, method, path string, header http.Header, body []byte, out any) bool {
	for ctx.Err() == nil {
		if c.once(ctx, chance, who, method, path, header, body, out) {
			return true
		}
		c.side.refused.Add(1)
		rest(ctx, time.Duration(20+chance.IntN(80))*time.Millisecond)
	}
	return false
}

// once sends a request to a replica that a load balancer could have chosen. False: it
// has to be sent again.
func (c *crowd) once(ctx context.Context, chance *rand.Rand, who, method, path string, header http.Header, body []byte, out any) bool {
	r := c.side.replicas[chance.IntN(len(c.side.replicas))]
	if !r.up() {
		return false
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.address+path, strings.NewReader(string(body)))
	if err != nil {
		return false
	}
	req.GetBody = nil // what is sent again is sent by us
	for name, values := range header {
		req.Header[name] = values
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	switch who {
	case "operator":
		req.Header.Set("Placet-Workload", c.side.operator)
	default:
		text, err := c.side.bearer(who, who == "lena" || who == "lars")
		if err != nil {
			return false
		}
		req.Header.Set("Authorization", "Bearer "+text)
	}
	resp, err := c.side.http.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusInternalServerError {
		return false
	}
	return json.Unmarshal(text, out) == nil
}

// rest waits a little between two tries.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// answers is a person's work: yes to most, no to some, whichever replica shows it.
func (c *crowd) answers(ctx context.Context, who string, chance *rand.Rand) {
	for ctx.Err() == nil {
		var page struct {
			Approvals []struct {
				ID      record.ApprovalID
				Binding string
			}
		}
		if !c.patiently(ctx, chance, who, http.MethodGet, "/v1/approvals?state=pending", nil, nil, &page) {
			return
		}
		for _, q := range page.Approvals {
			word := "approve"
			if chance.IntN(10) == 0 {
				word = "reject"
			}
			body, err := json.Marshal(map[string]string{"binding": q.Binding})
			if err != nil {
				return
			}
			var ignored any // the other one may have been first
			c.patiently(ctx, chance, who, http.MethodPost, "/v1/approvals/"+string(q.ID)+"/"+word, nil, body, &ignored)
		}
		if len(page.Approvals) == 0 {
			rest(ctx, 50*time.Millisecond)
		}
	}
}

// finish lets the callers end what they began, and then sends the people home.
func (c *crowd) finish() {
	close(c.stop)
	c.callers.Wait()
	c.home()
	c.people.Wait()
}

// calls lists the calls of a state, as the operator sees them.
func (c *crowd) calls(ctx context.Context, chance *rand.Rand, state record.State) ([]call, error) {
	var all []call
	for before := ""; ; {
		var page struct {
			Calls []call
			Next  string
		}
		path := fmt.Sprintf("/v1/calls?limit=500&state=%s&before=%s", state, before)
		if !c.patiently(ctx, chance, "operator", http.MethodGet, path, nil, nil, &page) {
			return nil, ctx.Err()
		}
		all = append(all, page.Calls...)
		if before = page.Next; before == "" {
			return all, nil
		}
	}
}

// call is one as the operator sees it.
type call struct {
	ID        record.CallID
	State     record.State
	Tool      string
	Principal record.Principal
	Operators struct {
		Key string `json:"idempotency_key"`
	}
}

// settle waits until nothing is under way any more: leases end by themselves, and what
// waits for its caller is canceled by it. A request that a caller gave up may arrive
// late, and leave a call that it knows nothing of. What is still under way after all
// patience is the judge's to name.
func (c *crowd) settle(ctx context.Context, chance *rand.Rand) error {
	for end := time.Now().Add(patience); time.Now().Before(end); rest(ctx, 200*time.Millisecond) {
		open := 0
		for _, state := range []record.State{record.Executing, record.ApprovalPending, record.DispatchAuthorized, record.Proposed} {
			calls, err := c.calls(ctx, chance, state)
			if err != nil {
				return fmt.Errorf("%s: nobody says which calls are under way: %w", c.side.name, err)
			}
			open += len(calls)
			for _, u := range calls {
				if u.State.Waiting() {
					var ignored any
					c.patiently(ctx, chance, u.Principal.Subject, http.MethodPost, "/v1/calls/"+string(u.ID)+"/cancel", nil, nil, &ignored)
				}
			}
		}
		if open == 0 {
			return nil
		}
	}
	return nil
}

// reconcile settles every unknown call by the tool server's account, and returns how
// many had had their effect and how many not. A call that may still be on its way
// (rule E3) is asked about again.
func (c *crowd) reconcile(ctx context.Context, chance *rand.Rand, effects func() (map[string]int, error)) (happened, not int, err error) {
	settled := map[record.CallID]bool{}
	for {
		calls, err := c.calls(ctx, chance, record.Unknown)
		if err != nil {
			return 0, 0, fmt.Errorf("%s: calls could not be reconciled: %w", c.side.name, err)
		}
		if len(calls) == 0 {
			return happened, not, nil
		}
		n, err := effects()
		if err != nil {
			return 0, 0, err
		}
		for _, u := range calls {
			to, word := record.Failed, "no"
			if n[u.Operators.Key] > 0 {
				to, word = record.Succeeded, "a"
			}
			body, err := json.Marshal(map[string]any{"outcome": to, "evidence": "the tool's own account has " + word + " line with this key"})
			if err != nil {
				return 0, 0, err
			}
			var after call
			if !c.patiently(ctx, chance, "operator", http.MethodPost, "/v1/calls/"+string(u.ID)+"/reconcile", nil, body, &after) || after.State != to || settled[u.ID] {
				continue
			}
			settled[u.ID] = true
			if to == record.Succeeded {
				happened++
			} else {
				not++
			}
		}
		rest(ctx, 100*time.Millisecond)
	}
}
