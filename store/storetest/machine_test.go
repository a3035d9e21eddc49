package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// machine tells two stores the same, one change after the other, and remembers every
// version of every record that it saw: what it moves next may be long past.
type machine struct {
	*bench // whose store is the first
	t      *testing.T
	both   [2]Store
	tenant string
	alone  bool // nobody else uses the stores: it may do what concerns all tenants
	said   []string

	runs        []record.Run
	calls       []dispatch.Loaded
	transcripts []record.Transcript
	shares      []record.Share
	schedules   []record.Schedule
	revocations []record.Revocation
	emissions   []record.Emission
	passkeys    []record.Passkey
	digests     []string // of versions
}

// actions are what may be tried. Each tells both stores one change, or skips what
// record's constructors do not let anybody write down.
func (m *machine) actions() map[string]func(*rapid.T) {
	all := map[string]func(*rapid.T){
		"open a run": m.openRun, "open a child": m.openChild, "start a turn": m.startTurn, "end a run": m.endRun, "transfer": m.transfer,
		"delegate": m.delegate, "withdraw": m.withdraw, "start fresh": m.startFresh, "state input": m.stateInput,
		"propose": m.propose, "propose again": m.propose, "propose more": m.propose, "answer": m.answer, "answer more": m.answer,
		"dispatch": m.dispatch, "dispatch more": m.dispatch, "settle": m.settle, "settle more": m.settle, "end a call": m.endCall, "move a call": m.moveCall,
		"ask a model": m.askModel, "witness": m.witness, "note": m.note, "hold a lineage": m.holdLineage,
		"passkey": m.passkey, "transcript": m.transcript, "share": m.share, "schedule": m.schedule, "fire": m.fire,
		"revoke": m.revoke, "undo": m.undo, "time passes": m.pass,
	}
	if m.alone {
		all["activate"], all["recover"], all["seal"] = m.activate, m.recover, m.seal
	}
	return all
}

func oneOf[T any](rt *rapid.T, what string, list ...T) T {
	return rapid.SampledFrom(list).Draw(rt, what)
}

// some picks one of what was seen, the newest more often.
func some[T any](rt *rapid.T, what string, list []T) T {
	if len(list) == 0 {
		rt.Skip("there is no " + what)
	}
	back := rapid.IntRange(0, len(list)-1).Draw(rt, what)
	return list[len(list)-1-back]
}

func seldom(rt *rapid.T, what string) bool { return rapid.IntRange(0, 7).Draw(rt, what) == 0 }

// do tells both stores a change; they answer the same, to the word.
func (m *machine) do(rt *rapid.T, c record.Change, err error) {
	rt.Helper()
	if err != nil {
		rt.Skip(err)
	}
	f := c.Facts()
	what := fmt.Sprint(kinds(f.Events))
	var got [2]string
	for i, s := range m.both {
		got[i] = told(s.Apply(m.ctx, c))
	}
	m.said = append(m.said, what+": "+got[0])
	if got[0] != got[1] {
		rt.Fatalf("of %s SQLite says %q and PostgreSQL %q, after\n%s", what, got[0], got[1], m.history())
	}
	if got[0] == fine {
		m.learn(rt, f)
	}
}

const fine = "ok"

// told is everything that a caller learns from an error.
func told(err error) string {
	var refusal *record.Refusal
	switch {
	case err == nil:
		return fine
	case errors.As(err, &refusal):
		return fmt.Sprintf("%s: %s, charge %+v, retry %s", refusal.Kind, refusal.What, refusal.Charge, refusal.Retry.UTC())
	}
	return fmt.Sprintf("%s: %v", record.KindOf(err), err)
}

func (m *machine) history() (text string) {
	for _, s := range m.said {
		text += "  " + s + "\n"
	}
	return text
}

func (m *machine) learn(rt *rapid.T, f record.Facts) {
	if f.Run != nil {
		m.runs = append(m.runs, f.Run.After)
	}
	if f.Call != nil {
		m.calls = append(m.calls, m.now(rt, f.Call.After.ID))
	} else if len(f.Approvals) > 0 {
		m.calls = append(m.calls, m.now(rt, f.Approvals[0].After.Call))
	}
	if f.Transcript != nil {
		m.transcripts = append(m.transcripts, f.Transcript.After)
	}
	if f.Share != nil {
		m.shares = append(m.shares, f.Share.After)
	}
	if f.Schedule != nil {
		m.schedules = append(m.schedules, f.Schedule.After)
	}
	if f.Revocation != nil {
		m.revocations = append(m.revocations, f.Revocation.After)
	}
	if f.Emissions != nil {
		m.emissions = append(m.emissions, f.Emissions.Add...)
	}
	if f.Passkey != nil && f.Passkey.Add != nil {
		m.passkeys = append(m.passkeys, *f.Passkey.Add)
	}
	if f.Version != nil {
		m.digests = append(m.digests, f.Version.Digest)
	}
}

// now is a call as it is recorded.
func (m *machine) now(rt *rapid.T, id record.CallID) dispatch.Loaded {
	rt.Helper()
	l, err := m.both[0].Call(m.ctx, record.TenantID(m.tenant), id)
	if err != nil {
		rt.Fatalf("%s: %v", id, err)
	}
	return l
}

// run is one that was opened, mostly as it is now.
func (m *machine) run(rt *rapid.T) record.Run {
	r := some(rt, "run", m.runs)
	if seldom(rt, "an old version of it") {
		return r
	}
	now, err := m.both[0].Run(m.ctx, r.Tenant, r.ID)
	if err != nil {
		rt.Fatal(err)
	}
	return now
}

// loaded is a call, mostly as it is now.
func (m *machine) loaded(rt *rapid.T) dispatch.Loaded {
	l := some(rt, "call", m.calls)
	if seldom(rt, "an old version of it") {
		return l
	}
	return m.now(rt, l.Call.ID)
}

func (m *machine) owner(rt *rapid.T) record.Owner {
	o := owner(m.tenant)
	o.Principal.Subject = oneOf(rt, "principal", "anna", "Änne")
	o.Agent = oneOf[record.AgentID](rt, "agent", "bot", "Rover")
	return o
}

func (m *machine) newID(prefix string) string { return id(m.t, prefix, m.at) }

func (m *machine) pass(rt *rapid.T) {
	m.at = m.at.Add(oneOf(rt, "for", time.Microsecond, time.Second, 20*time.Second, time.Hour, 25*time.Hour, -time.Second))
}

// step is what a decision rests on, mostly true.
func (m *machine) stepFor(rt *rapid.T, r record.Run, v record.Verdict) record.Step {
	s := m.bench.step(r, v)
	generation, _, err := m.both[0].Generation(m.ctx)
	if err != nil {
		rt.Fatal(err)
	}
	s.Premise.Generation, s.Decision.Generation = generation, generation
	if seldom(rt, "another version") {
		s.Premise.Generation++
	}
	s.OpenCap, s.OpenTurn, s.OpenBy = oneOf[int64](rt, "cap", 100, 0, 3), oneOf[int64](rt, "turn's cap", 100, 0, 2), oneOf[int64](rt, "principal's cap", 100, 0, 4)
	s.Premise.Touch, s.Premise.Delegated, s.Premise.Alone = seldom(rt, "touch"), seldom(rt, "delegated"), seldom(rt, "alone")
	if rapid.Bool().Draw(rt, "with labels") {
		l, err := m.both[0].Lineage(m.ctx, r.Tenant, r.Lineage)
		if err != nil {
			rt.Fatal(err)
		}
		s.Premise.Lineage, s.Premise.Labels = r.Lineage, l.Version
		if seldom(rt, "before a label") {
			s.Premise.Labels--
		}
	}
	if rapid.Bool().Draw(rt, "with a fence") {
		rs, err := m.both[0].Revocations(m.ctx, r.Tenant)
		if err != nil {
			rt.Fatal(err)
		}
		if s.Premise.Revoked = &rs.Fence; seldom(rt, "before a revocation") {
			s.Premise.Revoked = &record.Fence{}
		}
	}
	if len(m.passkeys) > 0 && seldom(rt, "with a passkey") {
		s.Premise.Passkeys = []record.PasskeyRef{some(rt, "passkey", m.passkeys).Ref()}
	}
	return s
}

// charges are of counters in no order, so that one may stand there twice.
func (m *machine) charges(rt *rapid.T, r record.Run) (out []record.Charge) {
	for range rapid.IntRange(0, 3).Draw(rt, "charges") {
		out = append(out, oneOf(rt, "charge",
			record.Charge{Counter: "minute|refund", Amount: 1, Limit: 4, Window: time.Minute, Code: record.CodeRateLimited},
			record.Charge{Counter: record.CounterFor("money", "EUR|x", `\`), Amount: 40, Limit: 100, Code: record.CodeLimitReached, Proof: true},
			record.Charge{Counter: record.CounterFor("Money_day", "Änne"), Amount: 3, Limit: 10, Window: 24 * time.Hour, Code: record.CodeLimitReached, Proof: true, Cost: true},
			record.Charge{Counter: "concurrent", Amount: 1, Limit: 2, Hold: true, Code: record.CodeRateLimited},
			record.Charge{Counter: "too much", Amount: 5, Limit: 4}))
	}
	return append(out, r.GrantCharges("EUR", 1, false)...)
}

func (m *machine) lineageMove(rt *rapid.T, r record.Run) *record.LineageMove {
	if rapid.Bool().Draw(rt, "brings nothing") {
		return nil
	}
	move := &record.LineageMove{Tenant: r.Tenant, ID: r.Lineage}
	if rapid.Bool().Draw(rt, "salt") {
		move.Salt = []byte("salt of " + m.at.String())
	}
	for range rapid.IntRange(0, 2).Draw(rt, "marks") {
		move.Marks = append(move.Marks, record.Mark{Label: oneOf(rt, "label", "untrusted", "sensitive", "unseen"), At: m.at, Tool: "read"})
	}
	for range rapid.IntRange(0, 2).Draw(rt, "pays") {
		move.Pays = append(move.Pays, oneOf(rt, "payment", "a", "b"))
	}
	for range rapid.IntRange(0, 2).Draw(rt, "materials") {
		move.Material = append(move.Material, record.Material{Kind: "result", At: m.at, Body: []byte(`{"text":"é <b>"}`), Counts: rapid.Bool().Draw(rt, "counts")})
	}
	return move
}

func (m *machine) openRun(rt *rapid.T) {
	o := m.owner(rt)
	r := record.Run{Owner: o, ID: record.RunID(m.newID("run")), Label: oneOf(rt, "label", "", "a", "Ä|b"), Turn: 1, Opened: m.at, Active: m.at,
		Vouched: rapid.Bool().Draw(rt, "vouched"), Lineage: record.LineageID(m.newID("lin"))}
	if len(m.runs) > 0 && seldom(rt, "one that exists") {
		r.ID = some(rt, "run", m.runs).ID
	}
	if !r.Vouched {
		epoch, err := m.both[0].Epoch(m.ctx, o)
		if err != nil {
			rt.Fatal(err)
		}
		r.Lineage = record.UnvouchedLineage(o, max(epoch-oneOf[int64](rt, "epochs ago", 0, 0, 0, 1), 0))
	}
	m.do(rt, record.OpenRun(r, o.By()), nil)
}

func (m *machine) openChild(rt *rapid.T) {
	parent := m.run(rt)
	o := parent.Owner
	o.Agent = oneOf(rt, "agent", o.Agent, "helper")
	g := &record.Grant{Tools: []string{"refund"}, Scopes: []string{"refunds"}, Targets: map[string][]string{"order": {`"ord_1"`}}, Money: map[string]int64{"EUR": 3},
		Calls: oneOf[int64](rt, "calls", 1, 5), Until: m.at.Add(oneOf(rt, "until", time.Minute, time.Hour))}
	generation, _, err := m.both[0].Generation(m.ctx)
	if err != nil {
		rt.Fatal(err)
	}
	child := record.Run{Owner: o, ID: record.RunID(m.newID("run")), Grant: g, Opened: m.at, Active: m.at}
	change, err := record.OpenChild(parent, child, oneOf[int64](rt, "fan-out", 8, 1), generation, parent.By())
	m.do(rt, change, err)
}

// keeps are calls that a turn keeps: of this run, and of another.
func (m *machine) keeps(rt *rapid.T) (out []record.CallID) {
	for range rapid.IntRange(0, 2).Draw(rt, "keeps") {
		if len(m.calls) > 0 {
			out = append(out, some(rt, "kept", m.calls).Call.ID)
		}
	}
	return out
}

func (m *machine) startTurn(rt *rapid.T) {
	r := m.run(rt)
	change, err := record.StartTurn(r, m.keeps(rt), r.By(), m.at)
	m.do(rt, change, err)
}

func (m *machine) endRun(rt *rapid.T) {
	if rapid.Bool().Draw(rt, "later") {
		rt.Skip("a run lasts a while")
	}
	r := m.run(rt)
	change, err := record.EndRun(r, "done", r.By(), m.at)
	m.do(rt, change, err)
}

func (m *machine) transfer(rt *rapid.T) {
	r := m.run(rt)
	change, err := record.Transfer(r, m.owner(rt), r.By(), m.at)
	m.do(rt, change, err)
}

func (m *machine) delegate(rt *rapid.T) {
	r := m.run(rt)
	change, err := record.Delegate(r, record.Delegation{Issuer: "https://idp", Sealed: []byte{0, 255, 1}, Scopes: []string{"a"}, Granted: m.at,
		Until: m.at.Add(oneOf(rt, "until", time.Minute, time.Hour))}, rapid.Bool().Draw(rt, "used"), r.By(), m.at)
	m.do(rt, change, err)
}

func (m *machine) withdraw(rt *rapid.T) {
	r := m.run(rt)
	m.do(rt, record.Withdraw(r, "over", r.By(), m.at), nil)
}

func (m *machine) startFresh(rt *rapid.T) {
	o := m.owner(rt)
	epoch, err := m.both[0].Epoch(m.ctx, o)
	if err != nil {
		rt.Fatal(err)
	}
	m.do(rt, record.StartFresh(o, max(epoch-oneOf[int64](rt, "epochs ago", 0, 0, 0, 1), 0), m.at), nil)
}

func (m *machine) stateInput(rt *rapid.T) {
	r := m.run(rt)
	s, move := m.stepFor(rt, r, record.Allow), m.lineageMove(rt, r)
	if move == nil {
		rt.Skip("nothing was typed")
	}
	m.do(rt, record.StateInput(r, s.Premise, *move, r.By(), m.at), nil)
}

// candidate is a call that does not exist yet.
func (m *machine) candidate(rt *rapid.T, r record.Run) (record.Call, []record.Seen) {
	c := m.call(m.t, r, fmt.Sprintf(`{"n":%d}`, rapid.IntRange(0, 3).Draw(rt, "n")))
	c.Tool.Name = oneOf(rt, "tool", "refund", "look", "Refund-2")
	c.Tool.ReadOnly = c.Tool.Name == "look"
	c.Effect = record.NewEffectKey(r.Owner, c.Tool.Name, c.Arguments)
	c.Occurrence, c.Purpose, c.Attempts = oneOf(rt, "occurrence", "", "", "first", "é"), oneOf(rt, "purpose", "", "why"), oneOf(rt, "attempts", 1, 3)
	c.Queued = seldom(rt, "queued")
	if len(m.emissions) > 0 && seldom(rt, "emitted") {
		c.Emission = some(rt, "emission", m.emissions).ID
	}
	return c, m.seen(rt, c)
}

// seen is how far the keys of a new call had come when it was decided, mostly true.
func (m *machine) seen(rt *rapid.T, c record.Call) []record.Seen {
	if c.Tool.ReadOnly {
		return nil
	}
	prior, err := m.both[0].Prior(m.ctx, c.Tenant, c.Lineage, c.Effect, c.Occurrence)
	if err != nil {
		rt.Fatal(err)
	}
	if seldom(rt, "before another call") {
		prior.Seen[len(prior.Seen)-1].Version--
	}
	return prior.Seen
}

func (m *machine) propose(rt *rapid.T) {
	r := m.run(rt)
	c, seen := m.candidate(rt, r)
	m.decide(rt, r, dispatch.Loaded{Call: c, Run: r}, seen)
}

// decide moves a call, new or not, on some decision.
func (m *machine) decide(rt *rapid.T, r record.Run, l dispatch.Loaded, seen []record.Seen) {
	c, open := l.Call, l.Approval
	var change record.Change
	var err error
	what := oneOf(rt, "decision", "reserve", "reserve", "reserve", "authorize", "hold", "hold", "refuse", "hold back")
	verdict := map[string]record.Verdict{"hold": record.RequiresApproval, "refuse": record.Deny, "hold back": record.Deny}[what]
	if verdict == "" {
		verdict = record.Allow
	}
	s := m.stepFor(rt, r, verdict)
	s.Premise.Seen = seen
	if c.Queued {
		s.Again = oneOf(rt, "again", time.Time{}, m.at, m.at.Add(time.Minute))
	}
	if open != nil && !record.MayApproval(open.State, record.Void) {
		open = nil
	}
	switch what {
	case "reserve":
		s.Charges, s.Lineage = m.charges(rt, r), m.lineageMove(rt, r)
		if seldom(rt, "leased") {
			s.Holder = record.LeaseHolder(c.ID, c.Attempt+1, "secret")
		}
		rest := l.Approval
		if rest != nil && rest.State != record.Approved && rest.State != record.Consumed || seldom(rt, "without its approval") {
			rest = nil
		}
		if rest != nil {
			open = nil
		}
		change, err = record.Reserve(c, s, m.at.Add(30*time.Second), rest, open)
	case "authorize":
		change, err = record.Authorize(c, s)
	case "hold":
		q := m.question(m.t, &c, oneOf(rt, "quorum", 1, 2))
		change, err = record.Hold(c, s, q, open)
	case "refuse":
		change, err = record.Refuse(c, s, open)
	case "hold back":
		change, err = record.HeldBack(c, s)
	}
	if err == nil && seldom(rt, "with a quota") {
		change = change.Counted(record.Quota{Events: 12, Window: time.Hour})
	}
	m.do(rt, change, err)
}

func (m *machine) dispatch(rt *rapid.T) {
	l := m.loaded(rt)
	m.decide(rt, l.Run, l, nil)
}

func (m *machine) answer(rt *rapid.T) {
	l := m.loaded(rt)
	if l.Approval == nil {
		rt.Skip("nobody is asked")
	}
	reply := m.reply(oneOf(rt, "person", "lena", "max", "Änne"), *l.Approval, oneOf(rt, "word", record.Yes, record.Yes, record.No))
	reply.Session = oneOf(rt, "session", "", "ses_a")
	if len(m.passkeys) > 0 && seldom(rt, "signed") {
		k := some(rt, "passkey", m.passkeys)
		reply.Person = k.Person
		reply.Proof = &record.Proof{Passkey: k, Authenticator: []byte("a"), Client: []byte("c"), Signature: []byte("s"), Seal: []byte("x"), Count: oneOf[uint32](rt, "count", 0, 1, 2)}
	}
	change, err := record.Answer(*l.Approval, l.Call, reply, m.decision(record.Allow), nil)
	m.do(rt, change, err)
}

func (m *machine) settle(rt *rapid.T) {
	l := m.loaded(rt)
	out := record.Outcome{Sent: rapid.Bool().Draw(rt, "sent"), Reported: seldom(rt, "reported"), Detail: "é"}
	to := oneOf(rt, "to", record.Succeeded, record.Failed, record.Unknown)
	if to == record.Succeeded {
		out.Result = []byte("{\"n\": 9007199254740993 }\n")
		out.Digest = canon.Of("r", out.Result)
	}
	if cost := oneOf[int64](rt, "cost", -1, 0, 1, 9); cost >= 0 {
		out.Cost = &cost
	}
	s := record.Step{At: m.at, Who: l.Call.By(), Lineage: m.lineageMove(rt, l.Run), Again: oneOf(rt, "again", time.Time{}, m.at.Add(time.Minute))}
	if s.Lineage != nil && len(s.Lineage.Marks) > 0 {
		s.Labels = []string{s.Lineage.Marks[0].Label}
	}
	change, err := record.Settle(l.Call, to, out, s, oneOf(rt, "by", record.ByBoundary, record.ByBoundary, record.ByReconcile, record.ByClock))
	m.do(rt, change, err)
}

func (m *machine) endCall(rt *rapid.T) {
	l := m.loaded(rt)
	open := l.Approval
	if open != nil && !record.MayApproval(open.State, record.Void) {
		open = nil
	}
	how := oneOf(rt, "how", 0, 1, 2)
	to := []record.State{record.Expired, record.Canceled, record.Revoked}[how]
	by := []record.Cause{record.ByClock, record.ByPrincipal, record.ByOperator}[how]
	change, err := record.End(l.Call, to, by, record.CodeCanceled, record.Step{At: m.at, Who: l.Call.By()}, open)
	m.do(rt, change, err)
}

// moveCall changes of a call what is no decision.
func (m *machine) moveCall(rt *rapid.T) {
	l := m.loaded(rt)
	s := m.stepFor(rt, l.Run, record.Deny)
	s.Decision.Code, s.Decision.RetryAfter = record.CodeRateLimited, m.at.Add(time.Minute)
	later := m.at.Add(oneOf(rt, "by", time.Second, time.Hour))
	var change record.Change
	var err error
	switch oneOf(rt, "what", "postpone", "requeue", "park", "extend", "give up", "ask anew", "label") {
	case "postpone":
		change = record.Postpone(l.Call, s)
	case "requeue":
		change, err = record.Requeue(l.Call, later, s)
	case "park":
		change, err = record.Park(l.Call, "no delegation", s)
	case "extend":
		change, err = record.Extend(l.Call, later, record.Step{At: m.at, Who: l.Call.By()})
	case "give up":
		change, err = record.GiveUp(l.Call, m.at.Add(time.Second), record.Outcome{Code: record.CodeFailed, Reported: true}, record.Step{At: m.at, Who: l.Call.By()})
	case "ask anew":
		if l.Approval == nil {
			rt.Skip("nobody is asked")
		}
		q := *l.Approval
		q.ID, q.Answers, q.Asked, q.Expires = record.ApprovalID(m.newID("apr")), nil, m.at, m.at.Add(time.Hour)
		change, err = record.Reask(l.Call, *l.Approval, q, "left", record.Step{At: m.at, Who: record.Who{Workload: "ops"}})
	case "label":
		move := m.lineageMove(rt, l.Run)
		if move == nil {
			rt.Skip("no label")
		}
		change = record.Labelling(l.Call, *move, m.at)
	}
	m.do(rt, change, err)
}

func (m *machine) askModel(rt *rapid.T) {
	r := m.run(rt)
	a := record.Asking{Turn: seldom(rt, "a new turn"), Request: record.ModelRequest{ID: m.newID("req"), Tenant: r.Tenant, Run: r.ID, Provider: "openai",
		Digest: canon.Of("request", []byte(oneOf(rt, "body", "a", "b"))), At: m.at}}
	if a.Turn {
		a.Keep = m.keeps(rt)
	}
	if len(m.emissions) > 0 && rapid.Bool().Draw(rt, "retires") {
		a.Retire = []record.EmissionID{some(rt, "emission", m.emissions).ID}
	}
	if seldom(rt, "labels") {
		a.Labels, a.Salt = []string{"unseen"}, []byte("salt")
	}
	change, err := record.AskModel(r, a, m.stepFor(rt, r, record.Allow).Premise, r.By())
	m.do(rt, change, err)
}

func (m *machine) witness(rt *rapid.T) {
	r := m.run(rt)
	a := record.Answered{Response: "resp", Request: record.ModelRequest{Provider: "openai"}}
	for n := range rapid.IntRange(0, 2).Draw(rt, "emissions") {
		arguments := fmt.Appendf(nil, `{"n":%d}`, rapid.IntRange(0, 3).Draw(rt, "n"))
		a.Emissions = append(a.Emissions, record.Emission{Owner: r.Owner, ID: record.EmissionID(m.newID("emi")), Run: r.ID, Lineage: r.Lineage, Turn: r.Turn, Provider: "openai",
			Request: canon.Of("request"), Response: "resp", Position: n, Label: oneOf(rt, "label", "call_1", "call_2"), Tool: "refund",
			Digest: record.ArgumentDigest(arguments, nil), Occurrence: "emission:" + m.newID("occ"), State: record.EmissionOpen, At: m.at})
	}
	if rapid.Bool().Draw(rt, "keeps") {
		a.Objects = []record.ModelObject{{Tenant: r.Tenant, Provider: "openai", ID: oneOf(rt, "object", "resp_1", "resp_2"), Run: r.ID}}
	}
	change, err := record.Witness(r, a, m.stepFor(rt, r, record.Allow).Premise, r.By(), m.at)
	m.do(rt, change, err)
}

func (m *machine) note(rt *rapid.T) {
	r := m.run(rt)
	e := record.Event{At: m.at, Tenant: r.Tenant, Kind: record.EventRefused, Run: r.ID, Who: r.By()}
	change := record.Note(e, record.Body{Tool: "refund", Detail: `"é" <b> \ ` + "\u2028"})
	if len(m.emissions) > 0 && seldom(rt, "returned") {
		e.Kind, e.Call = record.EventReturned, record.CallID(m.newID("call"))
		change = record.Return(e, record.Body{}, some(rt, "emission", m.emissions).ID)
	}
	if rapid.Bool().Draw(rt, "counted") {
		change = change.Counted(record.Quota{Events: 12, Window: time.Hour})
	}
	m.do(rt, change, nil)
}

func (m *machine) holdLineage(rt *rapid.T) {
	r := m.run(rt)
	l, err := m.both[0].Lineage(m.ctx, r.Tenant, r.Lineage)
	if err != nil {
		rt.Fatal(err)
	}
	if rapid.Bool().Draw(rt, "lift") {
		change, err := record.Lift(l, &record.Premise{Tenant: r.Tenant, Lineage: r.Lineage, Labels: l.Version - oneOf[int64](rt, "versions ago", 0, 0, 1), Generation: m.generation(rt)}, record.Who{Workload: "ops"}, "fine", m.at)
		m.do(rt, change, err)
		return
	}
	a := record.Alert{Rule: record.AlertTriedAgain, Subject: "x", Text: "é", Count: 2, Events: []int64{1}}
	if rapid.Bool().Draw(rt, "only an alert") {
		m.do(rt, record.Raise(a, r.Tenant, r.ID, "", m.at), nil)
		return
	}
	m.do(rt, record.RaiseHeld(a, r.Tenant, r.Lineage, r.ID, "", m.at), nil)
}

func (m *machine) generation(rt *rapid.T) int64 {
	g, _, err := m.both[0].Generation(m.ctx)
	if err != nil {
		rt.Fatal(err)
	}
	return g
}

func (m *machine) passkey(rt *rapid.T) {
	who := record.Who{System: "test"}
	if len(m.passkeys) > 0 && rapid.Bool().Draw(rt, "remove") {
		m.do(rt, record.RemovePasskey(some(rt, "passkey", m.passkeys), who, "lost", m.at), nil)
		return
	}
	k := key(m.tenant, oneOf(rt, "person", "lena", "max"), m.tenant+oneOf(rt, "id", "k1", "k2", "k3"), m.at)
	m.do(rt, record.AddPasskey(k, who, "first"), nil)
}

func (m *machine) transcript(rt *rapid.T) {
	if len(m.transcripts) == 0 || seldom(rt, "another") {
		o, label := m.owner(rt), oneOf(rt, "label", "", "é")
		m.do(rt, record.Import(record.Transcript{Owner: o, ID: record.TranscriptID(m.newID("trn")), Label: label, Format: "openai-chat", Digest: canon.Of("t", []byte(label)), Size: 7, Messages: 2,
			Imported: m.at, Items: []record.TranscriptItem{{Kind: "user", Text: "pay <b>"}, {Item: 1, Message: 1, Kind: record.ItemCall, Tool: "pay", Label: "c1", Text: "{}"},
				{Item: 2, Message: 1, Kind: record.ItemResult, Label: "c1", Text: "secret", Cut: true}}}, o.By()), nil)
		return
	}
	tr := some(rt, "transcript", m.transcripts)
	var change record.Change
	var err error
	switch oneOf(rt, "what", "redact", "compact", "delete", "import again") {
	case "redact":
		change, err = record.Redact(tr, []int{oneOf(rt, "item", 0, 1, 2)}, tr.By(), m.at)
	case "compact":
		change, err = record.Compact(tr, 0, 2, "paid", tr.By(), m.at)
	case "delete":
		change = record.DeleteTranscript(tr, tr.By(), m.at)
	case "import again":
		change = record.Import(tr, tr.By())
	}
	m.do(rt, change, err)
}

func (m *machine) share(rt *rapid.T) {
	if len(m.shares) > 0 && rapid.Bool().Draw(rt, "one that was given") {
		s := some(rt, "share", m.shares)
		if rapid.Bool().Draw(rt, "again") {
			m.do(rt, record.Give(s, s.By.By()), nil)
			return
		}
		m.do(rt, record.TakeBack(s, s.By.By(), m.at), nil)
		return
	}
	r := m.run(rt)
	m.do(rt, record.Give(record.Share{ID: record.ShareID(m.newID("shr")), By: r.Owner, To: record.Principal{Issuer: "https://idp", Subject: "bert"}, Run: r.ID,
		Given: m.at, Until: m.at.Add(time.Hour)}, r.By()), nil)
}

func (m *machine) schedule(rt *rapid.T) {
	if len(m.schedules) == 0 || seldom(rt, "another") {
		o := m.owner(rt)
		s := record.Schedule{Owner: o, ID: record.ScheduleID(m.newID("sch")), Tool: "refund", Arguments: []byte(`{"note":"<b>&"}`), Cron: "0 9 * * *", Zone: "UTC",
			Next: m.at.Add(oneOf(rt, "next", 0, time.Hour))}
		run := m.scheduleRun(rt, o, s)
		s.Run = run.ID
		m.do(rt, record.NewSchedule(s, run, m.at), nil)
		return
	}
	s := m.scheduled(rt)
	run, err := m.both[0].Run(m.ctx, s.Tenant, s.Run)
	if err != nil {
		rt.Fatal(err)
	}
	var change record.Change
	switch oneOf(rt, "what", "skip", "pause", "resume", "delete") {
	case "skip":
		change = record.Skip(s, oneOf(rt, "next", time.Time{}, m.at.Add(time.Hour)), "late", m.at)
	case "pause":
		change, err = record.PauseSchedule(s, "gone", record.Who{System: "test"}, m.at)
	case "resume":
		if !run.Live() || run.Delegation == nil {
			run = m.scheduleRun(rt, s.Owner, s)
		}
		change, err = record.ResumeSchedule(s, run, canon.Of("pin"), m.at.Add(time.Minute), m.at)
	case "delete":
		change, err = record.DeleteSchedule(s, run, m.at)
	}
	m.do(rt, change, err)
}

func (m *machine) scheduleRun(rt *rapid.T, o record.Owner, s record.Schedule) record.Run {
	epoch, err := m.both[0].Epoch(m.ctx, o)
	if err != nil {
		rt.Fatal(err)
	}
	return record.Run{Owner: o, ID: record.RunID(m.newID("run")), Lineage: record.UnvouchedLineage(o, epoch), Label: s.RunLabel(), Turn: 1, Opened: m.at, Active: m.at,
		Delegation: &record.Delegation{Issuer: "https://idp", Granted: m.at, Until: m.at.Add(time.Hour)}}
}

func (m *machine) scheduled(rt *rapid.T) record.Schedule {
	s := some(rt, "schedule", m.schedules)
	if seldom(rt, "an old version of it") {
		return s
	}
	now, err := m.both[0].Schedule(m.ctx, s.Tenant, s.ID)
	if err != nil {
		rt.Fatal(err)
	}
	return now
}

func (m *machine) fire(rt *rapid.T) {
	s := m.scheduled(rt)
	run, err := m.both[0].Run(m.ctx, s.Tenant, s.Run)
	if err != nil {
		rt.Fatal(err)
	}
	c := m.call(m.t, run, `{"note":"<b>&"}`)
	c.Queued, c.Occurrence, c.Route = true, s.Occurrence(), record.RouteSchedule
	step := m.stepFor(rt, run, record.Allow)
	step.Again, step.Premise.Delegated, step.Premise.Seen = m.at, true, m.seen(rt, c)
	change, err := record.Fire(s, c, oneOf(rt, "next", time.Time{}, m.at.Add(24*time.Hour)), step)
	m.do(rt, change, err)
}

func (m *machine) revoke(rt *rapid.T) {
	if rapid.Bool().Draw(rt, "later") {
		rt.Skip("what works is left alone for a while")
	}
	kind := oneOf(rt, "kind", record.RevokedKinds()...)
	rev := m.revocation(m.t, m.tenant, kind, "refund")
	rev.At = m.at
	switch kind {
	case record.RevokedServer:
		rev.Name = "desk"
	case record.RevokedVersion:
		rev.Version = canon.Of("v")
	case record.RevokedCredential:
		rev.Name, rev.Tools = "profile", []string{"refund"}
	case record.RevokedPrincipal:
		rev.Name, rev.People = "", []record.Principal{{Issuer: "https://idp", Subject: oneOf(rt, "who", "anna", "Änne", "lena")}}
	case record.RevokedAgent:
		rev.Name = oneOf(rt, "agent", "bot", "Rover", "helper")
	case record.RevokedRun:
		rev.Name = string(m.run(rt).ID)
	case record.RevokedSchedule:
		rev.Name = string(some(rt, "schedule", m.schedules).ID)
	case record.RevokedSession:
		rev.Name = "ses_a"
	}
	if rapid.Bool().Draw(rt, "ends") {
		rev.Expires = m.at.Add(oneOf(rt, "in", time.Second, time.Hour))
	}
	if m.alone && seldom(rt, "everywhere") {
		rev.Tenant = ""
	}
	change, err := record.Revoke(rev)
	m.do(rt, change, err)
}

func (m *machine) undo(rt *rapid.T) {
	rev := some(rt, "revocation", m.revocations)
	now, err := m.both[0].Revocation(m.ctx, rev.Tenant, rev.ID)
	if err != nil {
		rt.Fatal(err)
	}
	if seldom(rt, "an old version of it") {
		now = rev
	}
	change, err := record.Undo(now, record.Who{Workload: "ops"}, "over", m.at)
	m.do(rt, change, err)
}

func (m *machine) activate(rt *rapid.T) {
	g := m.generation(rt) - oneOf[int64](rt, "versions ago", 0, 0, 0, 1)
	digest, content := "sha256:"+oneOf(rt, "digest", "a", "b"), oneOf(rt, "content", `{"tools.yaml":"one"}`, `{"tools.yaml":"two"}`)
	v := record.NewVersion(digest, []byte(content), []record.Part{{Name: "tool x", Digest: canon.Of("test")}}, record.Needs(), record.Who{Workload: "ops"}, m.at)
	if seldom(rt, "keep only") {
		change, err := record.KeepVersion(v)
		m.do(rt, change, err)
		return
	}
	files := &v
	if rapid.Bool().Draw(rt, "without files") {
		files = nil
	}
	change, err := record.Activate(record.Activation{From: g, To: g + 1, Digest: digest, Who: record.Who{Workload: "ops"}, At: m.at, Files: record.FilesOwn, Plan: []string{"x"}}, files, []string{"tool x: sources"})
	m.do(rt, change, err)
}

func (m *machine) recover(rt *rapid.T) {
	if rapid.IntRange(0, 3).Draw(rt, "later") != 0 {
		rt.Skip("a store is seldom restored")
	}
	epoch, err := m.both[0].StoreEpoch(m.ctx)
	if err != nil {
		rt.Fatal(err)
	}
	epoch -= oneOf[int64](rt, "epochs ago", 0, 0, 1)
	change, err := record.Recover(record.Recovery{From: epoch, To: epoch + 1, Why: "restored", Who: record.Who{System: "recovery"}, At: m.at}, "ten events")
	m.do(rt, change, err)
}

func (m *machine) seal(rt *rapid.T) {
	from, err := m.both[0].Head(m.ctx)
	if err != nil {
		rt.Fatal(err)
	}
	size := from.Size + 1
	if seldom(rt, "from an old one") {
		from = record.Checkpoint{}
	}
	change, err := record.Seal(from, record.Checkpoint{Size: size, Seq: max(size, from.Seq+1), Epoch: max(from.Epoch, 1), At: m.at, Salt: []byte("salt"), Note: "note " + m.newID("n")},
		[]record.Tile{{Level: 0, N: size / 256, Data: []byte(m.at.String())}})
	m.do(rt, change, err)
}
