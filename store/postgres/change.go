package postgres

import (
	"errors"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// change decides one change of a batch and, where nothing refuses it, makes it true
// and notes what is to be written. Whatever can refuse is asked before.
func (t *truth) change(p prepared, w *writes) error {
	f := p.facts
	if err := t.mayRecover(f.Recover); err != nil {
		return err
	}
	if err := t.premise(f); err != nil {
		return err
	}
	if err := t.guards(f); err != nil {
		return err
	}
	levels, err := t.charges(f)
	if err != nil {
		return err
	}
	if err := t.moves(f); err != nil {
		return err
	}
	for _, l := range levels {
		t.counters[l.key] = l.at
		w.counters[l.key] = l.at
	}
	t.made(p, w)
	w.told(f)
	return nil
}

func refusePremise(what string) error {
	return &record.Refusal{Kind: record.RefusedPremise, What: what}
}

func conflict(what string) error { return &record.Refusal{Kind: record.RefusedConflict, What: what} }

// premise checks that what the decision read is still so.
func (t *truth) premise(f record.Facts) error {
	p := f.Premise
	if p == nil {
		return nil
	}
	if p.Generation != t.generation {
		return refusePremise(record.OtherVersion)
	}
	if p.Revoked != nil && *p.Revoked != t.fence(p.Tenant) {
		return refusePremise("authority was withdrawn, or given back")
	}
	if p.Run != "" {
		run, ok := t.runs[runKey{p.Tenant, p.Run}]
		switch {
		case !ok || !run.Live():
			return refusePremise("the run has ended")
		case run.Owner != p.Owner:
			return refusePremise("the run belongs to somebody else")
		case run.Turn != p.Turn:
			return refusePremise("a new turn began")
		case p.Delegated && !run.Delegation.Live(f.At):
			return refusePremise("the delegation has ended")
		case p.Alone && run.Delegation.Live(f.At):
			return refusePremise("a delegation began")
		}
		if err := t.above(run, f.At); err != nil {
			return err
		}
	}
	for _, r := range p.Passkeys {
		if _, ok := t.passkeys[personKey{r.Tenant, r.Person}][string(r.ID)]; !ok {
			return refusePremise("a passkey was removed")
		}
	}
	if p.Lineage != "" && t.lineages[lineageKey{p.Tenant, p.Lineage}].Version != p.Labels {
		return refusePremise("the lineage's labels changed")
	}
	for _, seen := range p.Seen {
		if t.effects[effectKey{p.Tenant, seen.Key}] != seen.Version {
			return refusePremise("another call for this effect came first")
		}
	}
	return nil
}

// guards checks the expected state and version of every row the change updates,
// except the call's.
func (t *truth) guards(f record.Facts) error {
	if m := f.Run; m != nil {
		run, ok := t.runs[runKey{m.After.Tenant, m.After.ID}]
		switch {
		case m.From == 0 && ok:
			return conflict("the run exists")
		case m.From != 0 && (!ok || run.Version != m.From):
			return conflict("the run has changed")
		case m.From == 0 && !m.After.Vouched && m.After.Parent == "":
			// Its lineage is the owner's present one (rule B1).
			if epoch := t.epochs[m.After.Owner]; epoch > 0 && m.After.Lineage != record.UnvouchedLineage(m.After.Owner, epoch) {
				return refusePremise("the person started fresh")
			}
		}
	}
	if fresh := f.Fresh; fresh != nil && t.epochs[fresh.Owner] != fresh.From {
		return conflict("it was started fresh")
	}
	if a := f.Activate; a != nil && a.From != t.generation {
		return conflict("another version was activated")
	}
	for _, m := range f.Approvals {
		k := approvalKey{m.After.Tenant, m.After.ID}
		at, found := t.approvals[k]
		switch {
		case m.From == "" && found:
			return conflict("the approval exists")
		case m.From != "" && (!found || at != approvalAt{m.From, m.FromVersion}):
			return conflict("the approval has changed")
		case m.Answer != nil && t.answers[answerKey{k, m.Answer.Person}]:
			return conflict("this person has answered")
		}
	}
	if err := t.mayEmit(f.Emissions); err != nil {
		return err
	}
	if err := t.mayPasskey(f.Passkey); err != nil {
		return err
	}
	if err := t.mayTranscript(f.Transcript); err != nil {
		return err
	}
	if err := t.mayUndo(f.Revocation); err != nil {
		return err
	}
	if err := t.maySchedule(f.Schedule); err != nil {
		return err
	}
	if err := t.maySeal(f.Seal); err != nil {
		return err
	}
	return t.mayShare(f.Share)
}

func (t *truth) mayEmit(m *record.EmissionMove) error {
	if m == nil {
		return nil
	}
	if use := m.Consume; use != nil {
		e, found := t.emissions[emissionKey{use.Tenant, use.ID}]
		if !found {
			return conflict("there is no such emission")
		}
		if run, ok := t.runs[runKey{e.Tenant, e.Run}]; !ok || !run.Live() || run.Turn != e.Turn || e.State != record.EmissionOpen {
			return conflict("the emission counts no longer")
		}
	}
	for _, o := range m.Objects {
		if run := t.objects[objectKey{o.Tenant, o.Provider, o.ID}]; run != "" && run != o.Run {
			return conflict("the provider's object is another run's")
		}
	}
	return nil
}

func (t *truth) mayPasskey(m *record.PasskeyMove) error {
	switch {
	case m == nil:
	case m.Add != nil:
		if t.taken[string(m.Add.ID)] {
			return conflict("the passkey is enrolled")
		}
		if len(t.passkeys[personKey{m.Add.Tenant, m.Add.Person}]) >= record.MaxPasskeys {
			return conflict("the person has too many passkeys")
		}
	case m.Remove != nil:
		if _, ok := t.passkeys[personKey{m.Remove.Tenant, m.Remove.Person}][string(m.Remove.ID)]; !ok {
			return conflict("the passkey is not enrolled")
		}
	case m.Used != nil:
		u := m.Used
		if count, ok := t.passkeys[personKey{u.Tenant, u.Person}][string(u.ID)]; !ok || !record.Rises(count, u.Count) {
			return conflict("the passkey is not enrolled, or its counter did not rise")
		}
	}
	return nil
}

type newLevel struct {
	key counterKey
	at  counterAt
}

// charges computes the counters' new levels, or refuses.
func (t *truth) charges(f record.Facts) ([]newLevel, error) {
	if len(f.Charges)+len(f.Release) == 0 {
		return nil, nil
	}
	tenant := f.Tenant()
	out := make([]newLevel, 0, len(f.Charges)+len(f.Release))
	level := func(k counterKey) counterAt {
		for i := len(out) - 1; i >= 0; i-- {
			if out[i].key == k {
				return out[i].at
			}
		}
		return t.counters[k]
	}
	for _, c := range f.Release {
		k := counterKey{tenant, c.Counter}
		have := level(k)
		out = append(out, newLevel{k, counterAt{have.level.Give(c, f.At), have.version}})
	}
	for i, c := range f.Charges {
		k := counterKey{tenant, c.Counter}
		have := level(k)
		next, ok, retry := have.level.Add(c, f.At)
		if !ok {
			return nil, &record.Refusal{Kind: record.RefusedLimit, What: string(c.Code), Charge: &f.Charges[i], Retry: retry}
		}
		out = append(out, newLevel{k, counterAt{next, have.version}})
	}
	return out, nil
}

// moves is the last that can refuse: the call's own guard.
func (t *truth) moves(f record.Facts) error {
	m := f.Call
	if m == nil {
		return nil
	}
	k := callKey{m.After.Tenant, m.After.ID}
	at, found := t.calls[k]
	if m.From == record.None {
		_, equal := t.open[equalOf(m.After)]
		if found || equal && !m.After.Tool.ReadOnly && m.After.State.Open() {
			return &record.Refusal{Kind: record.RefusedEqual, What: "an equal call is open"}
		}
		return nil
	}
	if !found || at != (callAt{m.From, m.FromVersion}) {
		return conflict("the call has changed")
	}
	return nil
}

// made makes a change true for those behind it in the batch, and notes its rows.
func (t *truth) made(p prepared, w *writes) {
	f := p.facts
	if m := f.Call; m != nil {
		c := m.After
		t.calls[callKey{c.Tenant, c.ID}] = callAt{c.State, c.Version}
		if !c.Tool.ReadOnly {
			if c.State.Open() {
				t.open[equalOf(c)] = c.ID
			} else if t.open[equalOf(c)] == c.ID {
				delete(t.open, equalOf(c))
			}
		}
		w.call(m, p.call)
	}
	if m := f.Run; m != nil {
		r := m.After
		k := runKey{r.Tenant, r.ID}
		t.runs[k] = r
		w.runs[k] = r
		if m.From == 0 && !r.Vouched && r.Parent == "" {
			w.queue(upsertStanding, string(r.Tenant), r.Principal.Issuer, r.Principal.Subject, string(r.Agent), t.epochs[r.Owner], micro(r.Opened), string(r.Lineage))
		}
	}
	if p := f.Premise; p != nil {
		if f.Call != nil && f.Call.From == record.None {
			for _, seen := range p.Seen {
				k := effectKey{p.Tenant, seen.Key}
				t.effects[k]++
				w.effects[k] = t.effects[k]
			}
		}
		if run, ok := t.runs[runKey{p.Tenant, p.Run}]; ok && p.Touch {
			run.Active = f.At
			t.runs[runKey{p.Tenant, p.Run}] = run
			w.touched[runKey{p.Tenant, p.Run}] = micro(f.At)
		}
	}
	t.putPasskey(f.Passkey, w)
	t.putEmissions(f.Emissions, w)
	t.putTranscript(f.Transcript, w)
	t.putShare(f.Share, w)
	t.putRevocation(f.Revocation, w)
	t.putSeal(f.Seal, w)
	if f.Lineage != nil {
		t.putLineage(*f.Lineage, w)
	}
	for _, a := range f.Approvals {
		t.putApproval(a, f, w)
	}
	if r := f.Rejection; r != nil {
		w.queue(upsertRejection, string(r.Tenant), string(r.Lineage), r.Effect[:], string(r.Approval), r.Note, micro(r.At))
	}
	t.keepVersion(f.Version, w)
	t.activate(f.Activate, w)
	t.putSchedule(f.Schedule, w)
	w.wake(f.Wake)
	for _, e := range p.event {
		w.events.add(e)
	}
	t.putRecovery(f.Recover, w)
	if fresh := f.Fresh; fresh != nil {
		o := fresh.Owner
		t.epochs[o] = fresh.From + 1
		w.queue(upsertStanding, string(o.Tenant), o.Principal.Issuer, o.Principal.Subject, string(o.Agent), fresh.From+1, int64(0), string(record.UnvouchedLineage(o, fresh.From+1)))
	}
}

// within makes changes that are parts of one that stands. They were read in this
// transaction, so their guards hold.
func (t *truth) within(parts []prepared, w *writes) error {
	for _, p := range parts {
		if err := t.change(p, w); err != nil {
			// It cannot happen; if it did, half a change would stand. The batch fails.
			return errors.New("a record changed within its own transaction")
		}
	}
	return nil
}

func (t *truth) putApproval(m record.ApprovalMove, f record.Facts, w *writes) {
	a := m.After
	k := approvalKey{a.Tenant, a.ID}
	t.approvals[k] = approvalAt{a.State, a.Version}
	if m.From == "" {
		var tool string
		if f.Call != nil { // a question is always asked with its call
			tool = f.Call.After.Tool.Name
		}
		rule, whom, preview := encode(a.Rule), a.Rule, ""
		whom.Preview = canon.Digest{} // it says nothing of who may answer
		if a.Preview != nil {
			preview = encode(a.Preview)
		}
		w.queue(insertApproval, string(a.Tenant), string(a.ID), string(a.Call), string(a.Run), string(a.Lineage), a.Principal.Issuer, a.Principal.Subject, string(a.Agent),
			a.Binding[:], rule, string(a.Code), string(a.State), a.Version, string(a.Replaces), micro(a.Asked), micro(a.Expires), micro(a.Changed), preview, audienceOf([]byte(encode(whom))), tool)
		return
	}
	if r := m.Answer; r != nil {
		t.answers[answerKey{k, r.Person}] = true
		proof := ""
		if r.Proof != nil {
			proof = encode(r.Proof)
		}
		w.queue(insertAnswer, string(a.Tenant), string(a.ID), r.Person.Issuer, r.Person.Subject, string(r.Word), r.Note, encode(r.Groups), r.Binding[:], micro(r.At), proof, r.Session)
	}
	w.queue(updateApproval, string(a.State), a.Version, micro(a.Changed), string(a.Tenant), string(a.ID), string(m.From), m.FromVersion)
}

// putLineage adds to a lineage what a change brings.
func (t *truth) putLineage(m record.LineageMove, w *writes) {
	k := lineageKey{m.Tenant, m.ID}
	was := t.lineages[k]
	now := was.Apply(m)
	for i, material := range m.Material {
		w.queue(insertMaterial, string(m.Tenant), string(m.ID), was.Seq+int64(i)+1, material.Kind, micro(material.At), string(material.Call), string(material.Body))
	}
	t.lineages[k] = now
	w.lineages[k] = now
}

func (t *truth) putPasskey(m *record.PasskeyMove, w *writes) {
	switch {
	case m == nil:
	case m.Add != nil:
		p := m.Add
		k := personKey{p.Tenant, p.Person}
		if t.passkeys[k] == nil {
			t.passkeys[k] = map[string]uint32{}
		}
		t.passkeys[k][string(p.ID)], t.taken[string(p.ID)] = p.Count, true
		w.queue(insertPasskey, string(p.Tenant), p.Person.Issuer, p.Person.Subject, p.ID, p.Public, p.Name, p.RPID, micro(p.Added), p.Seal, int64(p.Count), micro(p.Used))
	case m.Remove != nil:
		r := m.Remove
		delete(t.passkeys[personKey{r.Tenant, r.Person}], string(r.ID))
		delete(t.taken, string(r.ID))
		w.queue(deletePasskey, string(r.Tenant), r.Person.Issuer, r.Person.Subject, r.ID)
	case m.Used != nil:
		u := m.Used
		t.passkeys[personKey{u.Tenant, u.Person}][string(u.ID)] = u.Count
		w.queue(usePasskey, int64(u.Count), micro(u.At), string(u.Tenant), u.Person.Issuer, u.Person.Subject, u.ID)
	}
}

func (t *truth) putEmissions(m *record.EmissionMove, w *writes) {
	if m == nil {
		return
	}
	for _, e := range m.Add {
		t.emissions[emissionKey{e.Tenant, e.ID}] = e
		w.queue(insertEmission, string(e.Tenant), string(e.ID), e.Principal.Issuer, e.Principal.Subject, string(e.Agent), string(e.Run), string(e.Lineage), int64(e.Turn),
			e.Provider, e.Request[:], e.Response, int64(e.Position), e.Label, e.Tool, e.Digest[:], e.Occurrence, string(e.State), string(e.Call), micro(e.At))
	}
	for _, r := range m.Retire {
		k := emissionKey{r.Tenant, r.ID}
		if e, ok := t.emissions[k]; ok && e.State == record.EmissionOpen {
			e.State = record.EmissionRetired
			t.emissions[k] = e
			w.queue(moveEmission, string(e.State), "", string(r.Tenant), string(r.ID))
		}
	}
	if use := m.Consume; use != nil {
		k := emissionKey{use.Tenant, use.ID}
		e := t.emissions[k]
		e.State, e.Call = record.EmissionConsumed, use.Call
		t.emissions[k] = e
		w.queue(moveEmission, string(e.State), string(use.Call), string(use.Tenant), string(use.ID))
	}
	for _, o := range m.Objects {
		k := objectKey{o.Tenant, o.Provider, o.ID}
		if t.objects[k] == "" {
			t.objects[k] = o.Run
			w.queue(insertModelObject, string(o.Tenant), o.Provider, o.ID, string(o.Run))
		}
	}
	if a := m.Asked; a != nil {
		w.queue(upsertModelRequest, string(a.Tenant), string(a.Run), a.Digest[:], a.ID, a.Provider, micro(a.At))
	}
}
