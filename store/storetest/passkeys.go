package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/placet-dev/placet/record"
)

func key(tenant, subject, id string, at time.Time) record.Passkey {
	return record.Passkey{Tenant: record.TenantID(tenant), Person: record.Principal{Issuer: "https://idp", Subject: subject}, ID: []byte(id),
		Public: []byte("public of " + id), Name: "laptop", RPID: "tools.example.com", Added: at, Seal: []byte("seal of " + id)}
}

// passkeys: a passkey is one person's, kept whole; its counter only rises; what
// rests on it is refused when it is gone; and an answer keeps its proof.
func passkeys(t *testing.T, b *bench) {
	who := record.Who{System: "test"}
	have := func(tenant, subject string) []record.Passkey {
		t.Helper()
		out, err := b.Passkeys(b.ctx, record.TenantID(tenant), record.Principal{Issuer: "https://idp", Subject: subject})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	lena := key("acme", "lena", "k1", b.at)
	b.apply(t, record.AddPasskey(lena, who, "first"), nil)
	if diff := cmp.Diff([]record.Passkey{lena}, have("acme", "lena"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("what was added is not what is there: %s", diff)
	}
	if n := len(have("globex", "lena")) + len(have("acme", "lars")); n != 0 {
		t.Errorf("%d passkeys of others", n)
	}
	for _, twice := range []record.Passkey{lena, key("acme", "lars", "k1", b.at), key("globex", "lena", "k1", b.at)} {
		if got := refused(b.Apply(b.ctx, record.AddPasskey(twice, who, ""))); got != record.RefusedConflict {
			t.Errorf("the same credential twice: %q", got)
		}
	}

	r := b.openRun(t, owner("acme"), true)
	answer := func(arguments string, count uint32) (record.Call, record.Approval, error) {
		c, q := b.held(t, r, arguments, 1)
		reply := b.reply("lena", q, record.Yes)
		reply.Proof = &record.Proof{Passkey: lena, Authenticator: []byte("a"), Client: []byte("c"), Signature: []byte("s"), Seal: []byte("x"), Count: count}
		change, err := record.Answer(q, c, reply, c.Decision, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c, q, b.Apply(b.ctx, change)
	}
	c, _, err := answer(`{"n":1}`, 7)
	if err != nil {
		t.Fatal(err)
	}
	l := b.load(t, "acme", c.ID)
	want := record.Proof{Passkey: lena, Authenticator: []byte("a"), Client: []byte("c"), Signature: []byte("s"), Seal: []byte("x")}
	if len(l.Approval.Answers) != 1 || l.Approval.Answers[0].Proof == nil {
		t.Fatalf("the answer lost its proof: %+v", l.Approval.Answers)
	}
	if diff := cmp.Diff(want, *l.Approval.Answers[0].Proof); diff != "" {
		t.Errorf("another proof came back: %s", diff)
	}
	if l.Approval.Answers[0].Proved {
		t.Error("a store says that an answer was verified")
	}
	if got := have("acme", "lena")[0]; got.Count != 7 || got.Used.IsZero() {
		t.Errorf("the use was not noted: %+v", got)
	}
	if _, _, err := answer(`{"n":2}`, 7); refused(err) != record.RefusedConflict {
		t.Errorf("a counter that did not rise: %v", err)
	}
	if _, _, err := answer(`{"n":3}`, 8); err != nil {
		t.Errorf("a counter that rose: %v", err)
	}

	reserve := func() error {
		l := b.load(t, "acme", c.ID)
		step := b.step(r, record.RequiresApproval)
		step.Premise.Passkeys = []record.PasskeyRef{lena.Ref()}
		change, err := record.Reserve(l.Call, step, b.at.Add(time.Minute), l.Approval, nil)
		if err != nil {
			t.Fatal(err)
		}
		return b.Apply(b.ctx, change)
	}
	b.apply(t, record.RemovePasskey(lena, who, "lost", b.at), nil)
	if got := refused(reserve()); got != record.RefusedPremise {
		t.Errorf("a call runs on a removed passkey: %q", got)
	}
	if got := refused(b.Apply(b.ctx, record.RemovePasskey(lena, who, "", b.at))); got != record.RefusedConflict {
		t.Errorf("removed twice: %q", got)
	}
	b.apply(t, record.AddPasskey(lena, who, "again"), nil)
	if err := reserve(); err != nil {
		t.Errorf("with its passkey it does not run: %v", err)
	}
	for n := range record.MaxPasskeys + 1 {
		err := b.Apply(b.ctx, record.AddPasskey(key("acme", "otto", string(rune('a'+n)), b.at), who, ""))
		if full := n == record.MaxPasskeys; (refused(err) == record.RefusedConflict) != full || !full && err != nil {
			t.Errorf("passkey %d: %v", n+1, err)
		}
	}
}
