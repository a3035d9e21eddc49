package storetest

import (
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// revocation is one of a kind, in a tenant or everywhere.
func (b *bench) revocation(t *testing.T, tenant string, kind record.RevokedKind, name string) record.Revocation {
	return record.Revocation{ID: record.RevocationID(id(t, "rev", b.at)), Tenant: record.TenantID(tenant), Kind: kind, Name: name,
		Reason: "a test", Who: record.Who{Workload: "ops"}, At: b.at.Add(time.Second)}
}

func (b *bench) revoke(t *testing.T, r record.Revocation) record.Revocation {
	t.Helper()
	change, err := record.Revoke(r)
	b.apply(t, change, err)
	made, err := b.Revocation(b.ctx, r.Tenant, r.ID)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (b *bench) revoked(t *testing.T, tenant record.TenantID) record.Revocations {
	t.Helper()
	rs, err := b.Store.Revocations(b.ctx, tenant)
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// running reserves a call of a tool.
func (b *bench) running(t *testing.T, r record.Run, tool, arguments string) record.Call {
	t.Helper()
	c := b.call(t, r, arguments)
	c.Tool.Name, c.Effect = tool, record.NewEffectKey(r.Owner, tool, []byte(arguments))
	change, err := record.Reserve(c, b.step(r, record.Allow), b.at.Add(time.Minute), nil, nil)
	b.apply(t, change, err)
	return change.Facts().Call.After
}

// revocations: what waits and loses its authority is revoked with its question in the
// revoking transaction, in one tenant or in all; what runs is listed and left; what a
// revocation does not name is left alone; undoing it works once (rules C3, C4).
func revocations(t *testing.T, b *bench) {
	r, other := b.openRun(t, owner("acme"), false), b.openRun(t, owner("globex"), false)
	waits, q := b.held(t, r, `{"n":1}`, 1)
	theirs, _ := b.held(t, other, `{"n":1}`, 1)
	runs := b.running(t, r, "refund", `{"n":2}`)
	neighbour := b.call(t, r, `{"n":3}`)
	neighbour.Tool.Name, neighbour.Effect = "look", record.NewEffectKey(r.Owner, "look", []byte(`{"n":3}`))
	change, err := record.Authorize(neighbour, b.step(r, record.Allow))
	b.apply(t, change, err)
	before := b.revoked(t, "acme")
	moves, err := b.RevocationMoves(b.ctx)
	if err != nil || len(before.List) != 0 {
		t.Fatalf("before: %+v, %d moves, %v", before, moves, err)
	}

	made := b.revoke(t, b.revocation(t, "acme", record.RevokedTool, "refund"))
	if made.Caught.Ended != 1 || made.Caught.Running != 1 || len(made.Caught.Calls) != 1 || made.Caught.Calls[0] != (record.CallRef{Tenant: "acme", ID: runs.ID}) {
		t.Fatalf("it caught %+v", made.Caught)
	}
	l := b.load(t, "acme", waits.ID)
	if l.Call.State != record.Revoked || l.Call.Outcome.Code != record.CodeRevoked || l.Approval.ID != q.ID || l.Approval.State != record.Void {
		t.Fatalf("the call that waited is %s, its question %s", l.Call.State, l.Approval.State)
	}
	for _, left := range []record.Call{runs, theirs, change.Facts().Call.After} {
		if got := b.load(t, left.Tenant, left.ID).Call.State; got != left.State {
			t.Errorf("a call of %s for %s was %s and is %s", left.Tenant, left.Tool.Name, left.State, got)
		}
	}
	after := b.revoked(t, "acme")
	if len(after.List) != 1 || after.Fence == before.Fence || len(b.revoked(t, "globex").List) != 0 {
		t.Fatalf("after: %+v", after)
	}
	if n, err := b.RevocationMoves(b.ctx); err != nil || n != moves+1 {
		t.Fatalf("%d moves, want %d, %v", n, moves+1, err)
	}

	// Everywhere reaches the other tenant.
	all := b.revoke(t, b.revocation(t, "", record.RevokedAll, ""))
	if all.Caught.Ended != 2 || all.Caught.Running != 1 || b.load(t, "globex", theirs.ID).Call.State != record.Revoked {
		t.Fatalf("everywhere caught %+v", all.Caught)
	}
	if rs := b.revoked(t, "globex"); len(rs.List) != 1 || rs.List[0].ID != all.ID {
		t.Fatalf("globex sees %+v", rs)
	}

	// Each is undone once, and is kept.
	undo, err := record.Undo(made, record.Who{Workload: "ops"}, "done", b.at.Add(time.Minute))
	b.apply(t, undo, err)
	if err := b.Apply(b.ctx, undo); refused(err) != record.RefusedConflict {
		t.Fatalf("undone twice: %v", err)
	}
	if rs := b.revoked(t, "acme"); len(rs.List) != 1 || rs.List[0].ID != all.ID {
		t.Fatalf("after the undo: %+v", rs)
	}
	kept, err := b.Revocation(b.ctx, "acme", made.ID)
	if err != nil || kept.Undone.IsZero() || kept.Caught.Ended != 1 {
		t.Fatalf("kept: %+v, %v", kept, err)
	}
	if _, err := b.Revocation(b.ctx, "globex", made.ID); record.KindOf(err) != record.NotFound {
		t.Fatalf("another tenant reads it: %v", err)
	}
	for _, q := range []struct {
		dispatch.RevocationQuery
		want int
	}{
		{dispatch.RevocationQuery{Tenant: "acme"}, 0}, {dispatch.RevocationQuery{Tenant: "acme", Ended: true}, 1},
		{dispatch.RevocationQuery{Tenant: "globex", Ended: true}, 0}, {dispatch.RevocationQuery{}, 1},
		{dispatch.RevocationQuery{Tenant: "acme", Ended: true, Before: made.ID}, 0},
	} {
		if got, err := b.ListRevocations(b.ctx, q.RevocationQuery); err != nil || len(got) != q.want {
			t.Errorf("%+v lists %d, want %d, %v", q.RevocationQuery, len(got), q.want, err)
		}
	}

	// One whose time is over is not listed once another one is made.
	short := b.revocation(t, "acme", record.RevokedTool, "refund")
	short.Expires = short.At.Add(time.Second)
	b.revoke(t, short)
	next := b.revocation(t, "acme", record.RevokedTool, "look")
	next.At = short.Expires
	b.revoke(t, next)
	if rs := b.revoked(t, "acme"); len(rs.List) != 2 {
		t.Fatalf("after one expired: %+v", rs.List)
	}
}

// revokedRun: a run ends with all below it, their calls with them, and no other run.
func revokedRun(t *testing.T, b *bench) {
	root, beside := b.openRun(t, owner("acme"), true), b.openRun(t, owner("acme"), true)
	under := func(parent record.Run) record.Run {
		c := record.OpenRun(record.Run{Owner: parent.Owner, ID: record.RunID(id(t, "run", b.at)), Lineage: parent.Lineage, Parent: parent.ID,
			Grant: &record.Grant{Tools: []string{"refund"}, Calls: 9, Until: b.at.Add(time.Hour)}, Vouched: true, Turn: 1, Opened: b.at, Active: b.at}, parent.By())
		b.apply(t, c, nil)
		return c.Facts().Run.After
	}
	child := under(root)
	grandchild := under(child)
	deep, q := b.held(t, grandchild, `{"n":1}`, 1)
	left, _ := b.held(t, beside, `{"n":1}`, 1)
	made := b.revoke(t, b.revocation(t, "acme", record.RevokedRun, string(root.ID)))
	if made.Caught.Runs != 3 || made.Caught.Ended != 1 {
		t.Fatalf("it caught %+v", made.Caught)
	}
	for _, r := range []record.Run{root, child, grandchild, beside} {
		if got, err := b.Run(b.ctx, "acme", r.ID); err != nil || got.Live() != (r.ID == beside.ID) {
			t.Errorf("the run %s is %s, %v", r.ID, got.State, err)
		}
	}
	if l := b.load(t, "acme", deep.ID); l.Call.State != record.Revoked || l.Approval.State != record.Void || l.Approval.ID != q.ID {
		t.Errorf("the call below is %s, its question %s", l.Call.State, l.Approval.State)
	}
	if l := b.load(t, "acme", left.ID); l.Call.State != record.ApprovalPending {
		t.Errorf("the call beside is %s", l.Call.State)
	}
}

// revokedAnswers: a person's, or a login's, unused yes is void in the revoking
// transaction, and the question asked anew (rule D5); another's stays.
func revokedAnswers(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), false)
	say := func(n, person, session string, word record.Word) record.Call {
		c, q := b.held(t, r, n, 2)
		reply := b.reply(person, q, word)
		reply.Session = session
		change, err := record.Answer(q, c, reply, b.decision(record.Allow), nil)
		b.apply(t, change, err)
		return b.load(t, "acme", c.ID).Call
	}
	lena, max := say(`{"n":1}`, "lena", "ses_a", record.Yes), say(`{"n":2}`, "max", "ses_b", record.Yes)
	if got := b.load(t, "acme", max.ID).Approval.Answers[0].Session; got != "ses_b" {
		t.Fatalf("the answer's login is %q", got)
	}
	byPerson := b.revocation(t, "acme", record.RevokedPrincipal, "")
	byPerson.People = []record.Principal{{Issuer: "https://idp", Subject: "lena"}}
	if made := b.revoke(t, byPerson); made.Caught.Questions != 1 || made.Caught.Ended != 0 {
		t.Fatalf("it caught %+v", made.Caught)
	}
	asked := b.load(t, "acme", lena.ID)
	if asked.Approval.ID == lena.Approval || asked.Approval.State != record.Pending || len(asked.Approval.Answers) != 0 ||
		asked.Approval.Replaces != lena.Approval || asked.Call.State != record.ApprovalPending || asked.Call.Binding != asked.Approval.Binding {
		t.Fatalf("asked anew: %+v", asked.Approval)
	}
	if old, err := b.Approval(b.ctx, "acme", lena.Approval); err != nil || old.Approval.State != record.Void {
		t.Fatalf("the old question: %+v, %v", old.Approval, err)
	}
	if got := b.load(t, "acme", max.ID); got.Approval.ID != max.Approval {
		t.Fatal("another person's answer was void")
	}
	if made := b.revoke(t, b.revocation(t, "acme", record.RevokedSession, "ses_b")); made.Caught.Questions != 1 {
		t.Fatalf("the login's answer: %+v", made.Caught)
	}
	if got := b.load(t, "acme", max.ID); got.Approval.ID == max.Approval {
		t.Fatal("the answer of a revoked login stays")
	}
}

// revocationFence: of many who reserve while it is revoked, those that came first are
// caught, and nobody after: no reservation that was decided before is made after.
func revocationFence(t *testing.T, b *bench) {
	b.linger()
	r := b.openRun(t, owner("acme"), false)
	fence := b.revoked(t, "acme").Fence
	reserve := func(step record.Step) (record.Call, error) {
		c := b.call(t, r, `{"n":"`+id(t, "call", b.at)+`"}`)
		change, err := record.Reserve(c, step, b.at.Add(time.Minute), nil, nil)
		if err != nil {
			return c, err
		}
		return c, b.Apply(b.ctx, change)
	}
	decided := func(f record.Fence) record.Step {
		s := b.step(r, record.Allow)
		s.Premise.Revoked = &f
		return s
	}
	var made record.Revocation
	errs := together(33, func(i int) error {
		if i == 16 {
			made = b.revocation(t, "acme", record.RevokedTool, "refund")
			change, err := record.Revoke(made)
			if err != nil {
				return err
			}
			return b.Apply(b.ctx, change)
		}
		_, err := reserve(decided(fence))
		return err
	})
	if errs[16] != nil {
		t.Fatal(errs[16])
	}
	made, err := b.Revocation(b.ctx, "acme", made.ID)
	if err != nil {
		t.Fatal(err)
	}
	won := count(errs, isNil) - 1
	late := count(errs, func(err error) bool { return refused(err) == record.RefusedPremise })
	if won != made.Caught.Running || won+late != 32 {
		t.Fatalf("%d were reserved, %d refused, and it caught %d: %v", won, late, made.Caught.Running, errs)
	}
	b.setPause(nil)
	if _, err := reserve(decided(fence)); refused(err) != record.RefusedPremise {
		t.Fatalf("decided before, reserved after: %v", err)
	}
	if _, err := reserve(decided(b.revoked(t, "acme").Fence)); err != nil {
		t.Fatalf("decided after: %v", err)
	}
	// The fence of everywhere holds in each tenant, that of another tenant does not.
	now := b.revoked(t, "acme").Fence
	b.revoke(t, b.revocation(t, "globex", record.RevokedTool, "other"))
	if _, err := reserve(decided(now)); err != nil {
		t.Fatalf("another tenant's revocation: %v", err)
	}
	b.revoke(t, b.revocation(t, "", record.RevokedTool, "other"))
	if _, err := reserve(decided(now)); refused(err) != record.RefusedPremise {
		t.Fatalf("after one of everywhere: %v", err)
	}
}
