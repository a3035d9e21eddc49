package dispatch_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// flood proposes n different calls that wait for people, as several callers at once,
// and returns those that are waiting now.
func (s *scene) flood(n int, name string, callers []who, edits ...func(*dispatch.Proposal)) (waiting []dispatch.Answer) {
	s.t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range n {
		p := dispatch.Proposal{Caller: s.caller(callers[i%len(callers)]), Tool: "wipe", Arguments: json.RawMessage(fmt.Sprintf(`{"order":"%s_%d"}`, name, i))}
		for _, edit := range edits {
			edit(&p)
		}
		wg.Go(func() {
			a, err := s.Do(s.ctx, p)
			if err != nil {
				s.t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case a.State() == record.ApprovalPending:
				waiting = append(waiting, a)
			case a.Verdict != record.Deny || a.Code != record.CodeLimitReached || a.State() != record.Denied:
				s.t.Errorf("%s %s %s", a.Verdict, a.Code, a.State())
			}
		})
	}
	wg.Wait()
	return waiting
}

// Rule J3: proposals that wait are capped per turn, lineage and principal, exactly,
// with 64 callers at once. A place is free as soon as one of them ends, and nobody
// else's are taken.
func TestRule_J3_OpenProposalsAreCapped(t *testing.T) {
	bot2, bert := anna, anna
	bot2.agent, bert.subject = "bot2", "bert"
	for name, c := range map[string]struct {
		limits dispatch.Limits
		limit  string
		others who // whose proposals have places of their own
	}{
		"turn":      {dispatch.Limits{OpenInTurn: 5}, "proposals_open_turn", bot2},
		"lineage":   {dispatch.Limits{ProposalsOpen: 5}, "proposals_open", bot2},
		"principal": {dispatch.Limits{OpenOfOne: 5}, "proposals_open_principal", bert},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, func(s *scene) { s.limits = c.limits })
			callers := []who{anna}
			if name == "principal" {
				callers = append(callers, bot2)
			}
			s.do(anna, "look", `{}`) // the run is there
			s.ran(1)
			open := s.flood(64, "a", callers)
			if len(open) != 5 {
				t.Fatalf("%d proposals wait, want 5", len(open))
			}
			if n := len(s.flood(3, "b", []who{c.others})); n != 3 {
				t.Errorf("%d of 3 proposals that have places of their own wait", n)
			}
			counted, err := s.store.Counters(s.ctx, "acme", "", 100)
			if err != nil {
				t.Fatal(err)
			}
			shown := false
			for _, u := range s.Used(counted) {
				shown = shown || u.Limit == c.limit && u.Used == 5 && u.Most == 5 && u.Bounded
			}
			if !shown {
				t.Errorf("%s is not shown as used up", c.limit)
			}
			// One runs, one is canceled, one is rejected: three places are free.
			a := open[0]
			s.reply(a, "lena", record.Yes, "leads", "finance")
			s.reply(a, "lars", record.Yes, "leads", "finance")
			owner := func(a dispatch.Answer) who {
				w := anna
				w.agent = string(a.Call.Agent)
				return w
			}
			ran, err := s.Dispatch(s.ctx, s.caller(owner(a)), a.Call.ID, nil)
			if err != nil {
				t.Fatal(err)
			}
			s.wants(ran, record.Allow, record.CodeNone, record.Succeeded)
			s.ran(2)
			if _, err := s.Cancel(s.ctx, s.caller(owner(open[1])), open[1].Call.ID); err != nil {
				t.Fatal(err)
			}
			s.reply(open[2], "lena", record.No, "leads")
			if n := len(s.flood(64, "c", callers)); n != 3 {
				t.Errorf("%d proposals took the 3 places that were free", n)
			}
			s.ran(2)
		})
	}
}

// Rule J3: a turn's cap is the turn's: the next turn has places of its own, and what
// the turn ended leaves none taken.
func TestRule_J3_ATurnsCapIsTheTurns(t *testing.T) {
	s := newScene(t, func(s *scene) { s.limits = dispatch.Limits{OpenInTurn: 2} })
	vouching := anna
	vouching.vouch = true
	run, err := s.OpenRun(s.ctx, s.caller(vouching), "case")
	if err != nil {
		t.Fatal(err)
	}
	in := func(p *dispatch.Proposal) { p.Run = run.ID }
	for _, turn := range []string{"a", "b"} {
		if n := len(s.flood(8, turn, []who{vouching}, in)); n != 2 {
			t.Errorf("turn %s: %d proposals wait, want 2", turn, n)
		}
		if run, err = s.StartTurn(s.ctx, s.caller(vouching), run.ID, nil); err != nil {
			t.Fatal(err)
		}
	}
	s.ran(0)
}

// Rule J3: a tenant whose quota of events is used up proposes nothing more; what
// exists goes on and is recorded, other tenants work, and the window moves on.
func TestRule_J3_AQuotaOfEvents(t *testing.T) {
	s := newScene(t, func(s *scene) { s.limits = dispatch.Limits{Quota: record.Quota{Events: 40, Window: time.Hour}} })
	held := s.wants(s.do(anna, "refund", `{"order":"o","amount":300}`), record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)
	other := s.wants(s.do(anna, "refund", `{"order":"p","amount":300}`), record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)
	ran, refused := 0, 0
	var last dispatch.Answer
	for i := range 40 {
		a := s.do(anna, "every", fmt.Sprintf(`{"n":%d}`, i))
		switch {
		case a.Verdict == record.Allow:
			ran++
		case a.Code == record.CodeLimitReached && a.Call == nil:
			refused++
			last = a
		default:
			t.Fatalf("%s %s", a.Verdict, a.Code)
		}
	}
	if ran == 0 || refused == 0 || last.Retry.IsZero() {
		t.Fatalf("%d ran, %d were refused, again at %s", ran, refused, last.Retry)
	}
	s.ran(ran)
	before := s.count("acme")
	s.do(anna, "nothing_of_that_name", `{}`)
	s.do(anna, "every", `{"n":"x"}`)
	if after := s.count("acme"); after != before {
		t.Errorf("%d events were written of proposals beyond the quota", after-before)
	}
	// What people answer, what runs and what is canceled is recorded all the same.
	s.reply(held, "lena", record.Yes, "leads")
	done, err := s.Dispatch(s.ctx, s.caller(anna), held.Call.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.wants(done, record.Allow, record.CodeNone, record.Succeeded)
	s.ran(ran + 1)
	if _, err := s.Cancel(s.ctx, s.caller(anna), other.Call.ID); err != nil {
		t.Fatal(err)
	}
	gail := anna
	gail.tenant = "globex"
	s.wants(s.do(gail, "every", `{"n":1}`), record.Allow, record.CodeNone, record.Succeeded)
	s.clock.pass(61 * time.Minute)
	s.wants(s.do(anna, "every", `{"n":1000}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(ran + 3)
}

// count is how many events a tenant has.
func (s *scene) count(tenant record.TenantID) int {
	s.t.Helper()
	events, err := s.store.Events(s.ctx, dispatch.EventQuery{Tenant: tenant, Limit: 500})
	if err != nil {
		s.t.Fatal(err)
	}
	return len(events)
}
