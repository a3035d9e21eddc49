package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
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
	states    []record.State // of each asking
	abandoned bool           // its caller was told that the store is put back to an earlier state
}

// seen is a call that somebody knows of.
type seen struct {
	call record.CallID
	who  string
}

// planted is a call that waits when a backup is made.
type planted struct {
	intent
	answer
}

// asked is a question that somebody has seen.
type asked struct {
	question record.ApprovalID
	binding  string
	who      string
}

// crowd is those who call and those who answer, on one side.
type crowd struct {
	side *side
	seed uint64

	mu    sync.Mutex
	next  int
	told  []said
	calls []seen
	asked []asked
	timed int // schedules that were made

	planted []planted // by whoever makes backups, alone

	life context.Context    // of what callers do at the moment
	drop context.CancelFunc // ends it

	open    sync.RWMutex  // held by whoever asks for something
	stop    chan struct{} // closed: nobody begins anything more
	callers sync.WaitGroup
	people  sync.WaitGroup
	home    context.CancelFunc // ends the people's work
}

func newCrowd(s *side, seed uint64) *crowd {
	return &crowd{side: s, seed: seed, stop: make(chan struct{})}
}

// ahead is how many calls callers get done beyond what somebody waits for.
const ahead = 20

// begin sets n callers and two approvers to work.
func (c *crowd) begin(ctx context.Context, n int) {
	c.life, c.drop = context.WithCancel(ctx)
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
				if c.side.done.Load() < c.side.allowed.Load() {
					c.open.RLock()
					c.play(c.now(), c.wish(chance), chance)
					c.open.RUnlock()
				}
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
	case p < 25:
		i.kind = "note"
	case p < 34:
		i.kind = "pair"
	case p < 42:
		i.kind = "look"
	case p < 56:
		i.kind = "wire"
	case p < 64:
		i.kind = "line"
	case p < 75:
		i.kind, i.amount = "draw", 10+chance.IntN(20)
	case p < 82:
		i.kind = "stamp"
	case p < 87:
		i.kind = "later"
	case p < 91:
		i.kind = "once"
	case p < 94:
		i.kind = "chime"
	default:
		i.kind = "here"
	}
	switch i.kind {
	case "draw", "stamp":
		i.purse = fmt.Sprintf("purse-%d", n/50)
		i.who = i.purse
	case "later", "once":
		i.who = fmt.Sprintf("away-%d", n%3)
	case "chime":
		i.who = fmt.Sprintf("clock-%d", n/200) // a hundred schedules of one principal are too many
	case "here":
		i.who = fmt.Sprintf("holder-%d", n) // what a lease brings labels all that its caller does
	}
	return i
}

func (c *crowd) now() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.life
}

// pause has callers give up what they do, and begin nothing more until resume. What they
// want afterwards is something else, from other purses.
func (c *crowd) pause() {
	c.mu.Lock()
	c.drop()
	c.mu.Unlock()
	c.open.Lock()
}

func (c *crowd) resume(ctx context.Context) {
	c.mu.Lock()
	c.life, c.drop = context.WithCancel(ctx)
	c.next += 400
	c.mu.Unlock()
	c.open.Unlock()
}

// answer is what the server says of a call, as an answer or as a problem.
type answer struct {
	State    record.State
	Code     record.Code
	Call     record.CallID
	Approval record.ApprovalID
	Lease    *held
}

// held is what the holder of a lease runs.
type held struct {
	Attempt int
	Secret  string
	Key     string    `json:"idempotency_key"`
	Ends    time.Time `json:"ends_at"`
}

// play asks until there is an end, or nothing more to wait for.
func (c *crowd) play(ctx context.Context, i intent, chance *rand.Rand) {
	if i.kind == "chime" {
		c.schedule(ctx, i, chance)
		return
	}
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
	c.told = append(c.told, said{i, states, ctx.Err() != nil})
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
	c.remember(a.Call, i.who)
	switch {
	case a.Lease != nil:
		return c.run(ctx, i, a, chance)
	case a.State == record.DispatchAuthorized && (i.kind == "later" || i.kind == "once"):
		return c.leave(ctx, i, a, chance)
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

func (c *crowd) remember(call record.CallID, who string) {
	if call == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, seen{call, who})
}

// leave leaves a queued call to the clock, or comes back for it at the same time, and
// looks for its end for a while. The run of whoever is away holds a delegation.
func (c *crowd) leave(ctx context.Context, i intent, a answer, chance *rand.Rand) record.State {
	back := chance.IntN(4) == 0
	for end := time.Now().Add(6 * time.Second); time.Now().Before(end) && ctx.Err() == nil; rest(ctx, 200*time.Millisecond) {
		var now struct {
			Run   record.RunID
			State record.State
			Again *time.Time `json:"again_at"`
		}
		if !c.patiently(ctx, chance, i.who, http.MethodGet, "/v1/calls/"+string(a.Call), nil, nil, &now) {
			return record.None
		}
		switch {
		case now.State.Terminal() || now.State == record.Unknown:
			return now.State
		case now.State == record.DispatchAuthorized && now.Again == nil:
			var ignored any // it is asked again where it was not taken
			c.patiently(ctx, chance, i.who, http.MethodPost, "/v1/runs/"+string(now.Run)+"/delegation", nil,
				[]byte(`{"until":"`+time.Now().Add(2*time.Hour).UTC().Format(time.RFC3339)+`"}`), &ignored)
		case back:
			back = false
			c.patiently(ctx, chance, i.who, http.MethodPost, "/v1/calls/"+string(a.Call)+"/dispatch?wait=0", nil, nil, &a)
		}
	}
	return record.None
}

// run is what the holder of a lease does: it acts once, before the end that it was told,
// and reports. One in ten dies before it reports.
func (c *crowd) run(ctx context.Context, i intent, a answer, chance *rand.Rand) record.State {
	if chance.IntN(5) == 0 {
		rest(ctx, time.Duration(chance.IntN(2000))*time.Millisecond)
	}
	shown := map[string]any{"attempt": a.Lease.Attempt, "secret": a.Lease.Secret}
	if body, err := json.Marshal(shown); err == nil && chance.IntN(3) == 0 {
		var ignored any
		c.patiently(ctx, chance, i.who, http.MethodPost, "/v1/calls/"+string(a.Call)+"/heartbeat", nil, body, &ignored)
	}
	if ctx.Err() != nil || !time.Now().Before(a.Lease.Ends) {
		return record.None
	}
	if c.side.account.write(effect{Side: c.side.name, Tool: i.tool(), Key: a.Lease.Key, N: i.n}) != nil || chance.IntN(10) == 0 {
		return record.None
	}
	shown["outcome"], shown["result"] = "succeeded", "done"
	body, err := json.Marshal(shown)
	if err != nil || !c.patiently(ctx, chance, i.who, http.MethodPost, "/v1/calls/"+string(a.Call)+"/report", nil, body, &a) {
		return record.None
	}
	return a.State
}

// schedule has a tool called once in some seconds, or every minute for a while. What is
// asked twice makes two schedules, so nobody counts what was wanted: the judge looks at
// firings.
func (c *crowd) schedule(ctx context.Context, i intent, chance *rand.Rand) {
	wanted := map[string]any{"tool": "chime", "arguments": map[string]any{"n": i.n}}
	if chance.IntN(8) == 0 {
		wanted["cron"], wanted["until"] = "* * * * *", time.Now().Add(3*time.Minute).UTC()
	} else {
		wanted["at"] = time.Now().Add(time.Duration(1000+chance.IntN(5000)) * time.Millisecond).UTC()
	}
	body, err := json.Marshal(wanted)
	var made struct{ ID record.ScheduleID }
	if err != nil || !c.patiently(ctx, chance, i.who, http.MethodPost, "/v1/schedules", nil, body, &made) || made.ID == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timed++
}

// revoke takes a tool away for a moment, and gives back all that was taken.
func (c *crowd) revoke(ctx context.Context, tool string, chance *rand.Rand) {
	var ignored any // an order that is sent again makes a second one, and both are undone
	c.patiently(ctx, chance, "operator", http.MethodPost, "/v1/revocations", nil, []byte(`{"target":"tool:`+tool+`","reason":"on purpose"}`), &ignored)
	rest(ctx, time.Duration(500+chance.IntN(1000))*time.Millisecond)
	c.giveBack(ctx, chance)
}

// giveBack undoes every revocation.
func (c *crowd) giveBack(ctx context.Context, chance *rand.Rand) {
	for ctx.Err() == nil {
		var page struct {
			Revocations []struct{ ID record.RevocationID }
		}
		if !c.patiently(ctx, chance, "operator", http.MethodGet, "/v1/revocations", nil, nil, &page) || len(page.Revocations) == 0 {
			return
		}
		for _, r := range page.Revocations {
			var ignored any
			c.patiently(ctx, chance, "operator", http.MethodPost, "/v1/revocations/"+string(r.ID)+"/undo", nil, []byte(`{"reason":"it is over"}`), &ignored)
		}
	}
}

// noMore has owners delete their schedules, so that nothing begins by itself.
func (c *crowd) noMore(ctx context.Context, chance *rand.Rand) {
	for ctx.Err() == nil {
		var page struct {
			Schedules []struct {
				ID        record.ScheduleID
				Principal record.Principal
			}
		}
		if !c.patiently(ctx, chance, "operator", http.MethodGet, "/v1/schedules?limit=500", nil, nil, &page) || len(page.Schedules) == 0 {
			return
		}
		for _, s := range page.Schedules {
			var ignored any
			c.patiently(ctx, chance, s.Principal.Subject, http.MethodDelete, "/v1/schedules/"+string(s.ID), nil, nil, &ignored)
		}
	}
}

// plant has calls wait, so that a backup finds them: some that people were asked about and
// have answered, and some that are queued and wait for their agent. use has them run.
func (c *crowd) plant(ctx context.Context, chance *rand.Rand) {
	for k := range 12 {
		c.mu.Lock()
		c.next++
		i := intent{n: c.next, kind: "wire"}
		c.mu.Unlock()
		if k%3 == 0 {
			i.kind = "once"
		}
		i.who = fmt.Sprintf("waiting-%d", i.n)
		var a answer
		body := fmt.Sprintf(`{"tool":%q,"arguments":{"n":%d}}`, i.kind, i.n)
		if !c.patiently(ctx, chance, i.who, http.MethodPost, "/v1/calls", nil, []byte(body), &a) {
			return
		}
		c.planted = append(c.planted, planted{i, a})
	}
	for _, p := range c.planted {
		for end := time.Now().Add(10 * time.Second); p.Approval != "" && time.Now().Before(end) && ctx.Err() == nil; rest(ctx, 50*time.Millisecond) {
			var q struct{ State record.ApprovalState }
			if c.patiently(ctx, chance, "lena", http.MethodGet, "/v1/approvals/"+string(p.Approval), nil, nil, &q) && q.State != record.Pending {
				break
			}
		}
	}
}

// use has what was planted run.
func (c *crowd) use(ctx context.Context, chance *rand.Rand) (ran int) {
	for _, p := range c.planted {
		a := p.answer
		for end := time.Now().Add(10 * time.Second); a.State.Waiting() && time.Now().Before(end) && ctx.Err() == nil; {
			c.patiently(ctx, chance, p.who, http.MethodPost, "/v1/calls/"+string(a.Call)+"/dispatch?wait=3", nil, nil, &a)
		}
		c.mu.Lock()
		c.told = append(c.told, said{p.intent, []record.State{a.State}, false})
		c.mu.Unlock()
		if a.State == record.Succeeded {
			ran++
		}
	}
	return ran
}

// haunt asks for everything that is known from before a restore: each call is to go on,
// and each question is answered with a yes. It returns how many of both.
func (c *crowd) haunt(ctx context.Context, chance *rand.Rand) (calls, questions int) {
	c.mu.Lock()
	known, put := slices.Clone(c.calls[max(0, len(c.calls)-200):]), slices.Clone(c.asked[max(0, len(c.asked)-50):])
	c.mu.Unlock()
	for _, p := range c.planted {
		known = append(known, seen{p.Call, p.who})
	}
	var ignored any
	for _, q := range put {
		c.patiently(ctx, chance, q.who, http.MethodPost, "/v1/approvals/"+string(q.question)+"/approve", nil, []byte(`{"binding":"`+q.binding+`"}`), &ignored)
	}
	for _, k := range known {
		c.patiently(ctx, chance, k.who, http.MethodPost, "/v1/calls/"+string(k.call)+"/dispatch?wait=0", nil, nil, &ignored)
	}
	return len(known), len(put)
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
			c.mu.Lock()
			c.asked = append(c.asked, asked{q.ID, q.Binding, who})
			c.mu.Unlock()
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

// dead lists the queued calls that came to nothing, as the operator sees them.
func (c *crowd) dead(ctx context.Context, chance *rand.Rand) ([]call, error) {
	return c.list(ctx, chance, "dead=true")
}

// list lists calls as the operator sees them.
func (c *crowd) list(ctx context.Context, chance *rand.Rand, which string) ([]call, error) {
	var all []call
	for before := ""; ; {
		var page struct {
			Calls []call
			Next  string
		}
		path := fmt.Sprintf("/v1/calls?limit=500&%s&before=%s", which, before)
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
			calls, err := c.list(ctx, chance, "state="+string(state))
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
		calls, err := c.list(ctx, chance, "state="+string(record.Unknown))
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
