package dispatch_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

const revokedYAML = `
version: 1
servers:
  desk: {url: "http://127.0.0.1:1/mcp"}
  bank: {url: "http://127.0.0.1:2/mcp", credential: bank-profile}
defaults: {per_minute: 0, concurrent: 0}
tools:
  look: {server: desk, scope: read, read: true}
  refund:
    server: desk
    scope: refunds
    destructive: true
    financial: true
    sources: [direct, vouched, witnessed]
    same_effect: [order, amount]
    autonomous_limit: {argument: amount, max: 200}
    approval: {when: above_limit, approvers: ["group:leads"], expires: 2h}
  pay: {server: desk, scope: refunds, financial: true, sources: [direct, vouched, witnessed], approval: {when: asked}}
  move: {server: bank, scope: refunds, financial: true, sources: [direct, vouched, witnessed], approval: {when: asked}}
  wipe: {server: desk, scope: refunds, destructive: true, sources: [direct, vouched, witnessed], approval: {when: always, approvers: ["group:leads"], quorum: 2}}
`

// noCredential is what the bank is called with: nothing.
type noCredential struct{}

func (noCredential) Obtain(context.Context, identity.Caller, *registry.Server, *registry.Tool) (dispatch.Credential, error) {
	return dispatch.Credential{}, nil
}

func revocable(s *scene) { s.yaml, s.credentials = revokedYAML, noCredential{} }

func (s *scene) operates(tenant string, groups ...string) identity.Operator {
	s.t.Helper()
	token, err := s.issuer.Sign(identity.TokenSpec{Audience: "console", Subject: "olga", Tenant: tenant, Groups: groups})
	if err != nil {
		s.t.Fatal(err)
	}
	o, err := s.verifier.Operator(s.ctx, identity.Credentials{Bearer: token})
	if err != nil {
		s.t.Fatal(err)
	}
	return o
}

func (s *scene) revoke(order dispatch.RevokeOrder) record.Revocation {
	s.t.Helper()
	order.Reason = "a leaked key"
	r, err := s.Revoke(s.ctx, s.operates("acme", "owners"), order)
	if err != nil {
		s.t.Fatalf("revoke %s %s: %v", order.Kind, order.Name, err)
	}
	return r
}

func (s *scene) undo(r record.Revocation) {
	s.t.Helper()
	if _, err := s.UndoRevocation(s.ctx, s.operates("acme", "owners"), r.Tenant, r.ID, "rotated"); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) lists(w who, tool string) bool {
	return slices.ContainsFunc(s.Tools(s.ctx, s.caller(w)), func(t *registry.Tool) bool { return t.Name == tool })
}

// TestRule_C3_RevokedWhatItNames: of each kind, what it names does nothing, is not
// listed and is on record; its neighbour runs once; undone, it runs once.
func TestRule_C3_RevokedWhatItNames(t *testing.T) {
	s := newScene(t, revocable)
	tool, _ := s.Current().Registry.Tool("pay")
	ben, other, globex := anna, anna, anna
	ben.subject, other.agent, globex.tenant = "ben", "bot2", "globex"
	n, seen := 0, 0
	for _, c := range []struct {
		order     dispatch.RevokeOrder
		hit       func(*who, *string)
		miss      func(*who, *string) // nil: there is no neighbour
		stillList bool
	}{
		{dispatch.RevokeOrder{Kind: record.RevokedTool, Name: "pay"}, nil, func(_ *who, t *string) { *t = "move" }, false},
		{dispatch.RevokeOrder{Kind: record.RevokedVersion, Name: "pay", Version: tool.Digest}, nil, func(_ *who, t *string) { *t = "move" }, false},
		{dispatch.RevokeOrder{Kind: record.RevokedServer, Name: "desk"}, nil, func(_ *who, t *string) { *t = "move" }, false},
		{dispatch.RevokeOrder{Kind: record.RevokedCredential, Name: "bank-profile"}, func(_ *who, t *string) { *t = "move" }, func(*who, *string) {}, false},
		{dispatch.RevokeOrder{Kind: record.RevokedTenant, Name: "acme"}, nil, func(w *who, _ *string) { *w = globex }, false},
		{dispatch.RevokeOrder{Kind: record.RevokedTenant, Name: "globex"}, func(w *who, _ *string) { *w = globex }, func(*who, *string) {}, false},
		{dispatch.RevokeOrder{Kind: record.RevokedPrincipal, Person: login("anna", "urn:test")}, nil, func(w *who, _ *string) { *w = ben }, false},
		{dispatch.RevokeOrder{Kind: record.RevokedAgent, Name: "bot"}, nil, func(w *who, _ *string) { *w = other }, false},
		{dispatch.RevokeOrder{Kind: record.RevokedAll}, nil, func(w *who, _ *string) { *w = globex }, false},
		{dispatch.RevokeOrder{Kind: record.RevokedTool, Name: "pay", Everywhere: true}, func(w *who, _ *string) { *w = globex }, func(w *who, t *string) { *w, *t = globex, "move" }, false},
		{dispatch.RevokeOrder{Kind: record.RevokedAll, Everywhere: true}, nil, nil, false},
	} {
		name := fmt.Sprintf("%s %s everywhere=%t", c.order.Kind, c.order.Name, c.order.Everywhere)
		call := func(aim func(*who, *string)) dispatch.Answer {
			n++
			w, tool := anna, "pay"
			if aim != nil {
				aim(&w, &tool)
			}
			return s.do(w, tool, fmt.Sprintf(`{"order":"ord_%d"}`, n))
		}
		r := s.revoke(c.order)
		a := call(c.hit)
		if a.Verdict != record.Deny || a.Code != record.CodeRevoked || a.State() != record.Denied || len(s.desk.effects()) != seen {
			t.Fatalf("%s: %s %q in state %q, %d effects; %+v", name, a.Verdict, a.Code, a.State(), len(s.desk.effects())-seen, a.Decision.Reasons)
		}
		if a.Instead == "" || strings.Contains(a.Text()+a.Instead+a.Note, "leaked") {
			t.Fatalf("%s: the agent is told %q, %q", name, a.Text(), a.Instead)
		}
		w, listed := anna, "pay"
		if c.hit != nil {
			c.hit(&w, &listed)
		}
		if s.lists(w, listed) {
			t.Errorf("%s: what is revoked is listed", name)
		}
		if c.miss != nil {
			if a := call(c.miss); a.Code != record.CodeNone || a.State() != record.Succeeded {
				t.Fatalf("%s: its neighbour: %s %q %+v", name, a.Verdict, a.Code, a.Decision.Reasons)
			}
			seen++
		}
		s.ran(seen)
		s.undo(r)
		if a := call(c.hit); a.State() != record.Succeeded || !s.lists(w, listed) {
			t.Fatalf("%s, undone: %s %q", name, a.Verdict, a.Code)
		}
		seen++
		s.ran(seen)
	}

	// Another version of the tool is not what was named.
	s.revoke(dispatch.RevokeOrder{Kind: record.RevokedVersion, Name: "pay", Version: record.ArgumentDigest(nil, nil)})
	s.wants(s.do(anna, "pay", `{"order":"other"}`), record.Allow, record.CodeNone, record.Succeeded)
}

// TestRule_C3_RevocationExpires: its end needs no command.
func TestRule_C3_RevocationExpires(t *testing.T) {
	s := newScene(t, revocable)
	s.revoke(dispatch.RevokeOrder{Kind: record.RevokedTool, Name: "pay", For: time.Hour})
	s.wants(s.do(anna, "pay", `{"order":"1"}`), record.Deny, record.CodeRevoked, record.Denied)
	s.clock.pass(time.Hour - time.Microsecond)
	s.wants(s.do(anna, "pay", `{"order":"1"}`), record.Deny, record.CodeRevoked, record.Denied)
	s.ran(0)
	s.clock.pass(time.Microsecond)
	s.wants(s.do(anna, "pay", `{"order":"1"}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
}

// TestRule_C3_RevokingEndsWhatWaits: with its question, whatever people said, for good;
// a neighbour's question stays and its call runs once. A run takes all below it along.
func TestRule_C3_RevokingEndsWhatWaits(t *testing.T) {
	s := newScene(t, revocable)
	ben := anna
	ben.subject = "ben"
	asked := s.do(anna, "refund", `{"order":"1","amount":300}`)
	approved := s.do(anna, "refund", `{"order":"2","amount":300}`)
	s.reply(approved, "lena", record.Yes, "leads")
	neighbour := s.do(ben, "refund", `{"order":"3","amount":300}`)
	s.reply(neighbour, "lena", record.Yes, "leads")
	r := s.revoke(dispatch.RevokeOrder{Kind: record.RevokedPrincipal, Person: login("anna", "urn:test")})
	if r.Caught.Ended != 2 || r.Caught.Running != 0 {
		t.Fatalf("it caught %+v", r.Caught)
	}
	for _, a := range []dispatch.Answer{asked, approved} {
		l, err := s.store.Call(s.ctx, "acme", a.Call.ID)
		if err != nil || l.Call.State != record.Revoked || l.Approval.State != record.Void {
			t.Fatalf("call %s, question %s, %v", l.Call.State, l.Approval.State, err)
		}
		if events := s.events(a.Call.ID); !slices.Contains(events, record.EventRevoked) || !slices.Contains(events, record.EventApprovalVoided) {
			t.Errorf("events %v", events)
		}
	}
	s.undo(r)
	for _, a := range []dispatch.Answer{asked, approved} {
		again, err := s.Dispatch(s.ctx, s.caller(anna), a.Call.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.wants(again, record.Deny, record.CodeRevoked, record.Revoked) // undone, it stays ended
	}
	s.ran(0)
	s.wants(s.do(ben, "refund", `{"order":"3","amount":300}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)

	run, err := s.OpenRun(s.ctx, s.caller(anna), "one")
	if err != nil {
		t.Fatal(err)
	}
	beside, err := s.OpenRun(s.ctx, s.caller(anna), "two")
	if err != nil {
		t.Fatal(err)
	}
	in := func(r record.Run) func(*dispatch.Proposal) { return func(p *dispatch.Proposal) { p.Run = r.ID } }
	held := s.do(anna, "refund", `{"order":"4","amount":300}`, in(run))
	stays := s.do(anna, "refund", `{"order":"5","amount":300}`, in(beside))
	if r := s.revoke(dispatch.RevokeOrder{Kind: record.RevokedRun, Name: string(run.ID)}); r.Caught.Runs != 1 || r.Caught.Ended != 1 {
		t.Fatalf("the run: %+v", r.Caught)
	}
	if l, err := s.store.Call(s.ctx, "acme", held.Call.ID); err != nil || l.Call.State != record.Revoked || l.Run.Live() {
		t.Fatalf("call %s, run %s, %v", l.Call.State, l.Run.State, err)
	}
	if _, err := s.Do(s.ctx, dispatch.Proposal{Caller: s.caller(anna), Run: run.ID, Tool: "pay", Arguments: json.RawMessage(`{}`)}); record.KindOf(err) != record.Conflict {
		t.Fatalf("a call in a revoked run: %v", err)
	}
	s.reply(stays, "lena", record.Yes, "leads")
	s.wants(s.do(anna, "refund", `{"order":"5","amount":300}`, in(beside)), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(2)
}

// TestRule_D5_RevokedPersonsAndLoginsAnswerNothing: an unused yes is void in the
// revoking change, a later one does not count; a no, and other people's yes, do.
func TestRule_D5_RevokedPersonsAndLoginsAnswerNothing(t *testing.T) {
	s := newScene(t, revocable)
	say := func(a dispatch.Answer, name, session string, word record.Word) error {
		token, err := s.issuer.Sign(identity.TokenSpec{Audience: "console", Subject: name, Tenant: "acme", Groups: []string{"leads"}, Session: session})
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.verifier.Person(s.ctx, token)
		if err != nil {
			t.Fatal(err)
		}
		l, err := s.store.Call(s.ctx, "acme", a.Call.ID)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Reply(s.ctx, p, l.Approval.ID, l.Approval.Binding, word, "")
		return err
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	lenas, maxs := s.do(anna, "refund", `{"order":"1","amount":300}`), s.do(anna, "refund", `{"order":"2","amount":300}`)
	must(say(lenas, "lena", "laptop", record.Yes))
	must(say(maxs, "max", "phone", record.Yes))
	byPerson := s.revoke(dispatch.RevokeOrder{Kind: record.RevokedPrincipal, Person: login("lena", "urn:test")})
	if byPerson.Caught.Questions != 1 {
		t.Fatalf("it caught %+v", byPerson.Caught)
	}
	s.wants(s.do(anna, "refund", `{"order":"1","amount":300}`), record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)
	if err := say(lenas, "lena", "laptop", record.Yes); record.KindOf(err) != record.Forbidden {
		t.Fatalf("a revoked person says yes: %v", err)
	}
	s.wants(s.do(anna, "refund", `{"order":"2","amount":300}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
	must(say(lenas, "max", "phone", record.Yes))
	session := record.SessionName("urn:test", "sid:phone")
	if r := s.revoke(dispatch.RevokeOrder{Kind: record.RevokedSession, Name: session}); r.Caught.Questions != 1 {
		t.Fatalf("the login: %+v", r.Caught)
	}
	s.wants(s.do(anna, "refund", `{"order":"1","amount":300}`), record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)
	if err := say(lenas, "max", "phone", record.Yes); record.KindOf(err) != record.Forbidden {
		t.Fatalf("a revoked login says yes: %v", err)
	}
	s.ran(1)
	must(say(lenas, "max", "desk", record.Yes)) // the same person, signed in anew
	s.wants(s.do(anna, "refund", `{"order":"1","amount":300}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(2)

	// A yes that is recorded just after the revocation that it did not see counts for
	// nothing either.
	s.undo(byPerson)
	late := s.do(anna, "refund", `{"order":"3","amount":300}`)
	var once sync.Once
	s.store.fail(func(f record.Facts) error {
		if len(f.Approvals) > 0 && f.Approvals[0].Answer != nil {
			once.Do(func() {
				s.revoke(dispatch.RevokeOrder{Kind: record.RevokedSession, Name: record.SessionName("urn:test", "sid:laptop")})
			})
		}
		return nil
	}, nil)
	must(say(late, "lena", "laptop", record.Yes))
	if l, err := s.store.Call(s.ctx, "acme", late.Call.ID); err != nil || l.Approval.State != record.Approved {
		t.Fatalf("the late answer is not there: %+v, %v", l.Approval, err)
	}
	s.wants(s.do(anna, "refund", `{"order":"3","amount":300}`), record.RequiresApproval, record.CodeNewQuestion, record.ApprovalPending)
	must(say(late, "lena", "laptop", record.No)) // a no only takes away
	s.ran(2)
}

// TestRule_C3_RevokedWhileItRuns: it is asked to stop, listed, and watched to its end.
func TestRule_C3_RevokedWhileItRuns(t *testing.T) {
	s := newScene(t, revocable)
	started := make(chan struct{}, 2)
	release := make(chan struct{})
	s.desk.on(func(ctx context.Context, w dispatch.Work) (dispatch.Reached, bool) {
		started <- struct{}{}
		select {
		case <-ctx.Done():
			return dispatch.Reached{Sent: true, Err: ctx.Err()}, true
		case <-release:
			return dispatch.Reached{}, false
		}
	})
	answers := make(chan dispatch.Answer, 2)
	for _, tool := range []string{"pay", "move"} {
		go func() {
			a, err := s.Do(s.ctx, dispatch.Proposal{Caller: s.caller(anna), Tool: tool, Arguments: json.RawMessage(`{"order":"1"}`)})
			if err != nil {
				t.Error(err)
			}
			answers <- a
		}()
		<-started
	}
	r := s.revoke(dispatch.RevokeOrder{Kind: record.RevokedTool, Name: "pay"})
	if r.Caught.Running != 1 || len(r.Caught.Calls) != 1 {
		t.Fatalf("it caught %+v", r.Caught)
	}
	stopped := <-answers
	if stopped.Tool != "pay" || stopped.State() != record.Unknown {
		t.Fatalf("the stopped call of %s is %s", stopped.Tool, stopped.State())
	}
	caught, err := s.Caught(s.ctx, "acme", r)
	if err != nil || len(caught) != 1 || caught[0].State != record.Unknown || caught[0].Tool != "pay" {
		t.Fatalf("watched: %+v, %v", caught, err)
	}
	if elsewhere, err := s.Caught(s.ctx, "globex", r); err != nil || len(elsewhere) != 0 {
		t.Fatalf("another tenant sees %+v, %v", elsewhere, err)
	}
	close(release)
	if a := <-answers; a.Tool != "move" || a.State() != record.Succeeded {
		t.Fatalf("its neighbour of %s is %s", a.Tool, a.State())
	}
	s.ran(1)
}

// TestRule_C3_RevokedElsewhere: a process that another one revokes beside stops what it
// runs by itself.
func TestRule_C3_RevokedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, revocable)
		other, err := dispatch.New(dispatch.Options{Store: s.store, Invoker: s.desk, Clock: s.clock.Now, Random: rand.Reader})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { s.Work(ctx) })
		defer work.Wait()
		defer cancel()
		started := make(chan struct{})
		s.desk.on(func(ctx context.Context, w dispatch.Work) (dispatch.Reached, bool) {
			close(started)
			<-ctx.Done()
			return dispatch.Reached{Sent: true, Err: ctx.Err()}, true
		})
		answer := make(chan dispatch.Answer)
		go func() {
			a, err := s.Do(s.ctx, dispatch.Proposal{Caller: s.caller(anna), Tool: "pay", Arguments: json.RawMessage(`{}`)})
			if err != nil {
				t.Error(err)
			}
			answer <- a
		}()
		<-started
		if _, err := other.Revoke(t.Context(), s.operates("acme", "ops"), dispatch.RevokeOrder{Kind: record.RevokedAgent, Name: "bot", Reason: "a test"}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if a := <-answer; a.State() != record.Unknown || time.Since(began) > time.Second {
			t.Fatalf("it is %s after %s", a.State(), time.Since(began))
		}
	})
}

// TestRule_E6_RevokedLeases: the holder of a lease is told to stop, and its report is
// the outcome all the same.
func TestRule_E6_RevokedLeases(t *testing.T) {
	f := newFramework(t)
	a := f.do(anna, "note", `{"note":"x"}`)
	if a.Lease == nil {
		t.Fatalf("no lease: %+v", a)
	}
	f.revoke(dispatch.RevokeOrder{Kind: record.RevokedTool, Name: "note"})
	beat, err := f.Heartbeat(f.ctx, f.caller(anna), a.Call.ID, a.Lease.Attempt, a.Lease.Secret)
	if err != nil || !beat.Stop {
		t.Fatalf("a heartbeat: %+v, %v", beat, err)
	}
	if _, err := f.Report(f.ctx, f.caller(anna), a.Call.ID, dispatch.Report{Attempt: a.Lease.Attempt, Secret: a.Lease.Secret, Said: dispatch.SaidSucceeded}); err != nil {
		t.Fatal(err)
	}
	if l := f.state(a); l.Call.State != record.Succeeded || !l.Call.Outcome.Reported {
		t.Fatalf("reported: %s", l.Call.State)
	}
}

// TestRule_I3_RevokingInOnesOwnTenant: an operator reaches no further than the tenant.
func TestRule_I3_RevokingInOnesOwnTenant(t *testing.T) {
	s := newScene(t, revocable)
	ops, owners, globex := s.operates("acme", "ops"), s.operates("acme", "owners"), s.operates("globex", "ops")
	made, err := s.Revoke(s.ctx, ops, dispatch.RevokeOrder{Kind: record.RevokedAll, Reason: "a test"})
	if err != nil || made.Tenant != "acme" {
		t.Fatalf("%+v, %v", made, err)
	}
	for _, c := range []struct {
		o     identity.Operator
		order dispatch.RevokeOrder
		want  record.Kind
	}{
		{ops, dispatch.RevokeOrder{Kind: record.RevokedAll, Everywhere: true}, record.Forbidden},
		{ops, dispatch.RevokeOrder{Kind: record.RevokedTenant, Name: "globex"}, record.Forbidden},
		{ops, dispatch.RevokeOrder{Kind: record.RevokedTool, Name: "pay", Tenant: "globex"}, record.Forbidden},
		{identity.Operator{}, dispatch.RevokeOrder{Kind: record.RevokedAll}, record.Forbidden},
		{ops, dispatch.RevokeOrder{Kind: record.RevokedTool, Name: "pya"}, record.Invalid},
		{ops, dispatch.RevokeOrder{Kind: record.RevokedServer, Name: "dsk"}, record.Invalid},
		{ops, dispatch.RevokeOrder{Kind: record.RevokedCredential, Name: "none"}, record.Invalid},
		{ops, dispatch.RevokeOrder{Kind: "anything", Name: "x"}, record.Invalid},
		{ops, dispatch.RevokeOrder{Kind: record.RevokedAgent}, record.Invalid},
		{globex, dispatch.RevokeOrder{Kind: record.RevokedRun, Name: string(s.run())}, record.NotFound},
	} {
		c.order.Reason = "a test"
		if _, err := s.Revoke(s.ctx, c.o, c.order); record.KindOf(err) != c.want {
			t.Errorf("%+v: %v, want %s", c.order, err, c.want)
		}
	}
	if _, err := s.Revoke(s.ctx, ops, dispatch.RevokeOrder{Kind: record.RevokedAll, Reason: " "}); record.KindOf(err) != record.Invalid {
		t.Errorf("without a reason: %v", err)
	}
	if _, err := s.UndoRevocation(s.ctx, globex, "", made.ID, "why not"); record.KindOf(err) != record.NotFound {
		t.Errorf("another tenant's operator undoes it: %v", err)
	}
	if _, err := s.UndoRevocation(s.ctx, globex, "acme", made.ID, "why not"); record.KindOf(err) != record.NotFound {
		t.Errorf("another tenant's operator undoes it by name: %v", err)
	}
	everywhere, err := s.Revoke(s.ctx, owners, dispatch.RevokeOrder{Kind: record.RevokedTool, Name: "pay", Everywhere: true, Reason: "a test"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.UndoRevocation(s.ctx, globex, "", everywhere.ID, "why not"); record.KindOf(err) != record.Forbidden {
		t.Errorf("a tenant's operator undoes what holds everywhere: %v", err)
	}
	if _, err := s.UndoRevocation(s.ctx, owners, "", everywhere.ID, "over"); err != nil {
		t.Error(err)
	}
	if _, err := s.UndoRevocation(s.ctx, ops, "", made.ID, "over"); err != nil {
		t.Error(err)
	}
	if _, err := s.UndoRevocation(s.ctx, ops, "", made.ID, "again"); record.KindOf(err) != record.Conflict {
		t.Errorf("undone twice: %v", err)
	}
}

func (s *scene) run() record.RunID {
	s.t.Helper()
	r, err := s.OpenRun(s.ctx, s.caller(anna), "mine")
	if err != nil {
		s.t.Fatal(err)
	}
	return r.ID
}

// replicas are n boundaries on the scene's records: on PostgreSQL each with a store of
// its own, as in a process of its own.
func (s *scene) replicas(n int) []*dispatch.Boundary {
	s.t.Helper()
	out, first := []*dispatch.Boundary{s.Boundary}, s.Boundary
	for range n - 1 {
		store := dispatch.Store(s.store)
		if onPostgres != nil {
			own, err := s.openStore()
			if err != nil {
				s.t.Fatal(err)
			}
			s.t.Cleanup(func() { _ = own.Close() })
			store = own
		}
		b, err := dispatch.New(dispatch.Options{Store: store, Invoker: s.desk, Clock: s.clock.Now, Random: rand.Reader, Credentials: s.credentials, Limits: s.limits})
		if err != nil {
			s.t.Fatal(err)
		}
		s.Boundary = b
		s.activate()
		out = append(out, b)
	}
	s.Boundary = first
	return out
}

// TestRule_C3_NothingStartsOnceRevoked: 64 callers over three replicas call without a
// pause while an operator revokes on one of them. What takes effect after the command
// returned was reserved before it, and is listed with it.
func TestRule_C3_NothingStartsOnceRevoked(t *testing.T) {
	s := newScene(t, revocable, func(s *scene) { s.limits = dispatch.Limits{CallsPerRun: 1 << 30} })
	replicas := s.replicas(3)
	var returned, enough atomic.Bool
	var mu sync.Mutex
	var after []record.CallID
	var effects atomic.Int64
	warm := make(chan struct{})
	s.desk.on(func(ctx context.Context, w dispatch.Work) (dispatch.Reached, bool) {
		if w.Tool.Name != "pay" {
			return dispatch.Reached{}, false
		}
		if ctx.Err() != nil {
			return dispatch.Reached{Err: ctx.Err()}, true
		}
		if effects.Add(1) == 200 {
			close(warm)
		}
		if returned.Load() {
			mu.Lock()
			after = append(after, w.Call)
			mu.Unlock()
		}
		return dispatch.Reached{Sent: true, Result: json.RawMessage(`{"content":[]}`)}, true
	})
	var callers sync.WaitGroup
	for i := range 64 {
		w := anna
		w.subject = fmt.Sprintf("p%d", i)
		c := s.caller(w)
		callers.Go(func() {
			for n := 0; !enough.Load(); n++ {
				_, err := replicas[i%3].Do(s.ctx, dispatch.Proposal{Caller: c, Tool: "pay", Arguments: fmt.Appendf(nil, `{"order":"%d"}`, n)})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	<-warm
	r := s.revoke(dispatch.RevokeOrder{Kind: record.RevokedTool, Name: "pay"})
	returned.Store(true)
	denied, err := replicas[1].Do(s.ctx, dispatch.Proposal{Caller: s.caller(anna), Tool: "pay", Arguments: json.RawMessage(`{"order":"x"}`)})
	if err != nil {
		t.Fatal(err)
	}
	s.wants(denied, record.Deny, record.CodeRevoked, record.Denied)
	neighbour, err := replicas[2].Do(s.ctx, dispatch.Proposal{Caller: s.caller(anna), Tool: "move", Arguments: json.RawMessage(`{"order":"x"}`)})
	if err != nil {
		t.Fatal(err)
	}
	s.wants(neighbour, record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1) // the ledger proper has the neighbour alone
	enough.Store(true)
	callers.Wait()
	for _, id := range after {
		if !slices.Contains(r.Caught.Calls, record.CallRef{Tenant: "acme", ID: id}) {
			t.Errorf("the call %s took effect after it was revoked, and was not running before", id)
		}
	}
	t.Logf("%d effects before, %d of %d that ran ended after", effects.Load(), len(after), r.Caught.Running)
}
