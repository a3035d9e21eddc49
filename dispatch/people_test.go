package dispatch_test

import (
	"crypto/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// twoIssuers lets people sign in at urn:test and at urn:abroad; a name ends in
// @abroad there. Both have the groups leads and finance.
func twoIssuers(t testing.TB, people *record.People) func(*scene) {
	return func(s *scene) {
		var err error
		if s.abroad, err = identity.NewLocal("urn:abroad", rand.Reader, s.clock.Now); err != nil {
			t.Fatal(err)
		}
		s.people = people
		for _, group := range []string{"leads", "finance"} {
			s.yaml = strings.ReplaceAll(s.yaml, `"group:`+group+`"`, `"group:`+group+`@urn:test", "group:`+group+`@urn:abroad"`)
		}
	}
}

func login(subject, issuer string) record.Principal {
	return record.Principal{Issuer: issuer, Subject: subject}
}

func stated(t testing.TB, persons []record.Individual, alike, apart [][]string) *record.People {
	t.Helper()
	p, err := record.NewPeople([]string{"urn:test", "urn:abroad"}, persons, alike, apart)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func both() [][]string { return [][]string{{"urn:test", "urn:abroad"}} }

// lenaTwice is a person with a login at each issuer, and annaTwice too.
func lenaTwice(t testing.TB) *record.People {
	return stated(t, []record.Individual{
		{Name: "Lena Klein", Logins: []record.Principal{login("lena", "urn:test"), login("l.klein", "urn:abroad")}},
		{Name: "Anna Berg", Logins: []record.Principal{login("anna", "urn:test"), login("a.berg", "urn:abroad")}},
	}, nil, nil)
}

// said gives an answer and returns what became of it.
func (s *scene) said(a dispatch.Answer, name string, word record.Word, note string, groups ...string) error {
	s.t.Helper()
	l, err := s.store.Call(s.ctx, a.Call.Tenant, a.Call.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = s.Reply(s.ctx, s.person(name, groups...), l.Approval.ID, l.Approval.Binding, word, note)
	return err
}

// TestRule_D5_AQuorumCountsPersons: the tool wipe wants two persons, for anna of
// urn:test. Whoever is not certainly another person does not make the second.
func TestRule_D5_AQuorumCountsPersons(t *testing.T) {
	for name, tc := range map[string]struct {
		people *record.People
		yes    []string
		runs   bool
	}{
		"two of one issuer":                         {nil, []string{"lena", "max"}, true},
		"one and an unmapped login elsewhere":       {stated(t, nil, nil, nil), []string{"lena", "max@abroad"}, false},
		"one person with two logins":                {lenaTwice(t), []string{"lena", "l.klein@abroad"}, false},
		"a mapped person and another of one issuer": {lenaTwice(t), []string{"l.klein@abroad", "max"}, true},
		"equal subjects are one person":             {stated(t, nil, both(), nil), []string{"lena", "lena@abroad"}, false},
		"and other subjects are two":                {stated(t, nil, both(), nil), []string{"lena", "max@abroad"}, true},
		"issuers with nobody in common":             {stated(t, nil, nil, both()), []string{"lena", "lena@abroad"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, twoIssuers(t, tc.people))
			a := s.do(anna, "wipe", `{"n":1}`)
			for _, who := range tc.yes {
				_ = s.said(a, who, record.Yes, "", "leads") // whether it counts is seen by what runs
			}
			s.do(anna, "wipe", `{"n":1}`)
			if tc.runs {
				s.ran(1)
				return
			}
			s.ran(0)
			if err := s.said(a, "mia", record.Yes, "", "leads"); err != nil { // certainly another person
				t.Fatal(err)
			}
			s.wants(s.do(anna, "wipe", `{"n":1}`), record.Allow, record.CodeNone, record.Succeeded)
			s.ran(1)
		})
	}
}

// TestRule_D5_TheRequesterIsNoApprover, by whatever login.
func TestRule_D5_TheRequesterIsNoApprover(t *testing.T) {
	for name, tc := range map[string]struct {
		people *record.People
		by     who
		no     string // whose yes does not count
		yes    string // whose does
	}{
		"the same login":              {nil, anna, "anna", "lena"},
		"a mapped login elsewhere":    {lenaTwice(t), anna, "a.berg@abroad", "l.klein@abroad"},
		"an equal subject elsewhere":  {stated(t, nil, both(), nil), anna, "anna@abroad", "lena@abroad"},
		"perhaps the same":            {stated(t, nil, nil, nil), anna, "lena@abroad", "lena"},
		"the agent's own login":       {nil, anna, "bot", "lena"},
		"the caller is from abroad":   {lenaTwice(t), who{"acme", "a.berg@abroad", "bot", anna.scopes, false}, "anna", "lena"},
		"nobody in common, agent too": {stated(t, nil, nil, both()), anna, "bot", "anna@abroad"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, twoIssuers(t, tc.people))
			a := s.do(tc.by, "refund", `{"order":"ord_1","amount":300}`)
			err := s.said(a, tc.no, record.Yes, "", "leads")
			if kind := record.KindOf(err); kind != record.Forbidden && kind != record.NotFound {
				t.Fatalf("%s: %v", tc.no, err)
			}
			s.wants(s.do(tc.by, "refund", `{"order":"ord_1","amount":300}`), record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)
			s.ran(0)
			if err := s.said(a, tc.yes, record.Yes, "", "leads"); err != nil {
				t.Fatal(err)
			}
			s.wants(s.do(tc.by, "refund", `{"order":"ord_1","amount":300}`), record.Allow, record.CodeNone, record.Succeeded)
			s.ran(1)
		})
	}
}

// TestRule_D5_CountedAgainAtDispatch: who counts is what is active when the call runs.
func TestRule_D5_CountedAgainAtDispatch(t *testing.T) {
	for name, tc := range map[string]struct {
		yes []string
		now *record.People
	}{
		"two turn out to be one":        {[]string{"lena", "max@abroad"}, stated(t, []record.Individual{{Name: "Lena", Logins: []record.Principal{login("lena", "urn:test"), login("max", "urn:abroad")}}}, nil, nil)},
		"one turns out to be requester": {[]string{"lena", "max@abroad"}, stated(t, []record.Individual{{Name: "Anna", Logins: []record.Principal{login("anna", "urn:test"), login("max", "urn:abroad")}}}, nil, nil)},
		"nothing is stated any more":    {[]string{"lena", "max@abroad"}, stated(t, nil, nil, nil)},
		"an issuer is gone": {[]string{"lena@abroad", "max@abroad"}, func() *record.People {
			p, err := record.NewPeople([]string{"urn:test"}, nil, nil, both())
			if err != nil {
				t.Fatal(err)
			}
			return p
		}()},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, twoIssuers(t, stated(t, nil, nil, both())))
			a := s.do(anna, "wipe", `{"n":1}`)
			other := s.do(anna, "wipe", `{"n":2}`)
			for _, call := range []dispatch.Answer{a, other} {
				for _, who := range tc.yes {
					if err := s.said(call, who, record.Yes, "", "leads"); err != nil {
						t.Fatal(err)
					}
				}
			}
			s.wants(s.do(anna, "wipe", `{"n":2}`), record.Allow, record.CodeNone, record.Succeeded)
			s.people = tc.now
			s.activate()
			next := s.wants(s.do(anna, "wipe", `{"n":1}`), record.RequiresApproval, record.CodeNewQuestion, record.ApprovalPending)
			s.ran(1)
			for _, who := range []string{"mia", "otto"} {
				if err := s.said(next, who, record.Yes, "", "leads"); err != nil {
					t.Fatal(err)
				}
			}
			s.wants(s.do(anna, "wipe", `{"n":1}`), record.Allow, record.CodeNone, record.Succeeded)
			s.ran(2)
		})
	}
}

// TestRule_D6_OnePersonAnswersOnce, with whichever login.
func TestRule_D6_OnePersonAnswersOnce(t *testing.T) {
	s := newScene(t, twoIssuers(t, lenaTwice(t)))
	a := s.do(anna, "wipe", `{"n":1}`)
	for _, who := range []string{"lena", "l.klein@abroad", "lena"} {
		if err := s.said(a, who, record.Yes, "", "leads"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.said(a, "l.klein@abroad", record.No, "", "leads"); record.KindOf(err) != record.Conflict {
		t.Fatalf("a conflicting answer with another login: %v", err)
	}
	l, err := s.store.Call(s.ctx, "acme", a.Call.ID)
	if err != nil || len(l.Approval.Answers) != 1 {
		t.Fatalf("%d answers, %v", len(l.Approval.Answers), err)
	}
	s.ran(0)
}

// TestTheRequesterMayStopWhatPerhapsIsTheirs: a no only takes away.
func TestTheRequesterMayStopWhatPerhapsIsTheirs(t *testing.T) {
	s := newScene(t, twoIssuers(t, nil))
	a := s.do(anna, "refund", `{"order":"ord_1","amount":300}`)
	if err := s.said(a, "max@abroad", record.No, "", "leads"); err != nil {
		t.Fatal(err)
	}
	s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":300}`), record.Deny, record.CodeRejected, record.Denied)
	s.ran(0)
}

// reasoned has a tool whose rule wants a reason, and one that its principal approves.
const reasoned = `
version: 1
servers:
  desk: {url: "http://127.0.0.1:1/mcp"}
defaults: {per_minute: 0, concurrent: 0}
tools:
  careful: {server: desk, scope: refunds, write: true, sources: [direct], approval: {when: always, approvers: ["group:leads"], reason: required}}
  plain: {server: desk, scope: refunds, write: true, sources: [direct], approval: {when: always, approvers: ["group:leads"]}}
  own: {server: desk, scope: refunds, write: true, sources: [direct], approval: {when: always, approvers: [principal], self: true}}
  few: {server: desk, scope: refunds, write: true, sources: [direct], approval: {when: always, approvers: ["principal:anna@urn:test", "principal:lena@urn:test"], quorum: 2}}
`

func TestAReasonIsDemanded(t *testing.T) {
	for name, tc := range map[string]struct{ tool, rego string }{
		"by the registry": {"careful", ""},
		"by a layer": {"plain", `package agent.call
import rego.v1
decision := {"decision": "requires-approval", "reason": "r", "approval": {"approvers": ["group:leads"], "reason": "required"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, func(s *scene) { s.yaml, s.rego = reasoned, tc.rego })
			a, denied := s.do(anna, tc.tool, `{"n":1}`), s.do(anna, tc.tool, `{"n":2}`)
			for _, word := range []record.Word{record.Yes, record.No} {
				if err := s.said(a, "lena", word, " \n", "leads"); record.KindOf(err) != record.Invalid {
					t.Fatalf("%s without a reason: %v", word, err)
				}
			}
			if _, err := s.RejectRun(s.ctx, s.person("lena", "leads"), a.Call.Run, []dispatch.Shown{{ID: a.Call.Approval, Binding: a.Call.Binding}}, ""); record.KindOf(err) != record.Invalid {
				t.Fatalf("all without a reason: %v", err)
			}
			s.wants(s.do(anna, tc.tool, `{"n":1}`), record.RequiresApproval, a.Code, record.ApprovalPending)
			s.ran(0)
			if err := s.said(a, "lena", record.Yes, "the order is hers", "leads"); err != nil {
				t.Fatal(err)
			}
			if err := s.said(denied, "lena", record.No, "not that one", "leads"); err != nil {
				t.Fatal(err)
			}
			s.wants(s.do(anna, tc.tool, `{"n":2}`), record.Deny, record.CodeRejected, record.Denied)
			s.wants(s.do(anna, tc.tool, `{"n":1}`), record.Allow, record.CodeNone, record.Succeeded)
			s.ran(1)
		})
	}
}

func TestALayerDemandsAPurpose(t *testing.T) {
	s := newScene(t, func(s *scene) {
		s.yaml, s.rego = reasoned, `package agent.call
import rego.v1
decision := {"decision": "requires-approval", "reason": "r", "approval": {"approvers": ["group:leads"], "purpose": "required"}}`
	})
	s.wants(s.do(anna, "plain", `{"n":1}`), record.Deny, record.CodeInvalidArguments, record.Denied)
	s.ran(0)
	purposeful := func(p *dispatch.Proposal) { p.Purpose = "the customer asked" }
	a := s.do(anna, "plain", `{"n":1}`, purposeful)
	s.reply(a, "lena", record.Yes, "leads")
	s.wants(s.do(anna, "plain", `{"n":1}`, purposeful), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
}

// TestNoApproverIsSaidAtOnce: a question that nobody could answer is none.
func TestNoApproverIsSaidAtOnce(t *testing.T) {
	s := newScene(t, func(s *scene) { s.yaml = reasoned })
	s.wants(s.do(anna, "few", `{"n":1}`), record.Deny, record.CodeNoApprover, record.Denied) // one of the two is anna herself
	berta := who{"acme", "berta", "bot", anna.scopes, false}
	a := s.do(berta, "few", `{"n":1}`)
	s.reply(a, "lena", record.Yes)
	s.reply(a, "anna", record.Yes)
	s.wants(s.do(berta, "few", `{"n":1}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)

	s = newScene(t, twoIssuers(t, nil), func(s *scene) {
		s.yaml = strings.ReplaceAll(reasoned, `"group:leads"`, `"group:leads@urn:abroad"`)
	})
	s.wants(s.do(anna, "plain", `{"n":1}`), record.Deny, record.CodeNoApprover, record.Denied) // nobody there is certainly not anna
	s.ran(0)
	s.people = lenaTwice(t)
	s.activate()
	s.clock.pass(time.Second)
	a = s.do(anna, "plain", `{"n":1}`)
	if err := s.said(a, "l.klein@abroad", record.Yes, "", "leads"); err != nil {
		t.Fatal(err)
	}
	s.wants(s.do(anna, "plain", `{"n":1}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
}

// TestThePrincipalAnswersWithEitherLogin, where the rule permits it at all.
func TestThePrincipalAnswersWithEitherLogin(t *testing.T) {
	s := newScene(t, twoIssuers(t, lenaTwice(t)), func(s *scene) { s.yaml = strings.ReplaceAll(reasoned, `"group:leads"`, `"group:leads@urn:test"`) })
	a := s.do(anna, "own", `{"n":1}`)
	if err := s.said(a, "l.klein@abroad", record.Yes, ""); record.KindOf(err) != record.NotFound {
		t.Fatalf("somebody else: %v", err)
	}
	if err := s.said(a, "a.berg@abroad", record.Yes, ""); err != nil {
		t.Fatal(err)
	}
	s.wants(s.do(anna, "own", `{"n":1}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
}

// race starts all at once and waits for all.
func race(all ...func()) {
	var ready, done sync.WaitGroup
	ready.Add(len(all))
	for _, f := range all {
		done.Go(func() {
			ready.Done()
			ready.Wait()
			f()
		})
	}
	done.Wait()
}
