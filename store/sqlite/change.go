package sqlite

import (
	"encoding/json"
	"errors"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// change makes one change within the open transaction. Whatever can refuse is
// asked before anything is written, so that a refusal leaves no trace and no
// savepoint is needed: this goroutine is the only writer, and what it read stays
// true until it writes.
func (w *writer) change(p prepared) error {
	f := p.facts
	if err := w.premise(f); err != nil {
		return err
	}
	if err := w.guards(f); err != nil {
		return err
	}
	levels, err := w.charges(f)
	if err != nil {
		return err
	}
	if w.pause != nil {
		w.pause()
	}
	// The insert of a call is the last thing that can refuse (the unique index),
	// and a refused statement changes nothing.
	if err := w.move(p); err != nil {
		return err
	}
	for _, l := range levels {
		w.counters[l.key] = l.level
		w.dirty[l.key] = struct{}{}
	}
	return w.rest(p)
}

// rest writes what cannot refuse any more; an error here is the file's.
func (w *writer) rest(ready prepared) error {
	f := ready.facts
	if f.Run != nil {
		if err := w.putRun(*f.Run); err != nil {
			return err
		}
		if f.Run.From == 0 {
			if err := w.opened(f.Run.After); err != nil {
				return err
			}
		}
	}
	if p := f.Premise; p != nil {
		if f.Call != nil && f.Call.From == record.None {
			for _, seen := range p.Seen {
				if err := w.run(upsertEffect, p.Tenant, seen.Key[:]); err != nil {
					return err
				}
			}
		}
		if p.Touch {
			if err := w.touch(*p, f.At); err != nil {
				return err
			}
		}
	}
	if err := w.putPasskey(f.Passkey); err != nil {
		return err
	}
	if err := w.putEmissions(f.Emissions); err != nil {
		return err
	}
	if err := w.putTranscript(f.Transcript); err != nil {
		return err
	}
	if err := w.putShare(f.Share); err != nil {
		return err
	}
	if err := w.putSeal(f.Seal); err != nil {
		return err
	}
	if f.Lineage != nil {
		if err := w.putLineage(*f.Lineage); err != nil {
			return err
		}
	}
	for _, a := range f.Approvals {
		var tool string
		if f.Call != nil { // a question is always asked with its call
			tool = f.Call.After.Tool.Name
		}
		if err := w.putApproval(a, tool); err != nil {
			return err
		}
	}
	if r := f.Rejection; r != nil {
		w.rejections.Add(1) // before the commit: too early reads the table for nothing, too late would miss a no
		if err := w.run(insertRejection, r.Tenant, r.Lineage, r.Effect[:], r.Approval, r.Note, micro(r.At)); err != nil {
			return err
		}
	}
	if err := errors.Join(w.keepVersion(f.Version), w.activate(f.Activate)); err != nil {
		return err
	}
	for i, e := range f.Events {
		if err := w.run(insertEvent, micro(e.At), e.Tenant, string(e.Kind), e.Run, e.Call, e.Approval, ready.who[i], text(e.Body)); err != nil {
			return err
		}
	}
	if err := w.putSchedule(f.Schedule); err != nil {
		return err
	}
	if err := w.wake(f.Wake); err != nil {
		return err
	}
	if f.Fresh != nil {
		return w.startFresh(*f.Fresh)
	}
	if f.Revocation != nil {
		return w.revoke(*f.Revocation)
	}
	if f.Recover != nil {
		return w.recover(*f.Recover)
	}
	if f.Sweep != nil {
		return w.sweep(*f.Sweep)
	}
	return nil
}

// premise checks that what the decision read is still so.
func (w *writer) premise(f record.Facts) error {
	p := f.Premise
	if p == nil {
		return nil
	}
	refuse := func(what string) error { return &record.Refusal{Kind: record.RefusedPremise, What: what} }
	if p.Generation != w.generation {
		return refuse(record.OtherVersion)
	}
	if p.Revoked != nil && *p.Revoked != w.revocations(p.Tenant).Fence {
		return refuse("authority was withdrawn, or given back")
	}
	if p.Run != "" {
		run, ok, err := w.loadRun(runKey{p.Tenant, p.Run})
		switch {
		case err != nil:
			return err
		case !ok || !run.Live():
			return refuse("the run has ended")
		case run.Owner != p.Owner:
			return refuse("the run belongs to somebody else")
		case run.Turn != p.Turn:
			return refuse("a new turn began")
		case p.Delegated && !run.Delegation.Live(f.At):
			return refuse("the delegation has ended")
		case p.Alone && run.Delegation.Live(f.At):
			return refuse("a delegation began")
		}
		if err := w.above(run, f.At); err != nil {
			return err
		}
	}
	if err := w.passkeysStay(p.Passkeys); err != nil {
		return err
	}
	if p.Lineage != "" {
		l, err := w.lineage(lineageKey{p.Tenant, p.Lineage})
		if err != nil {
			return err
		}
		if l.Version != p.Labels {
			return refuse("the lineage's labels changed")
		}
	}
	for _, seen := range p.Seen {
		var now int64
		if _, err := w.row(selectEffect, func(s *sqlite.Stmt) { now = s.ColumnInt64(0) }, p.Tenant, seen.Key[:]); err != nil {
			return err
		}
		if now != seen.Version {
			return refuse("another call for this effect came first")
		}
	}
	return nil
}

// guards checks the expected state and version of every row the change updates,
// except a call's, which its own UPDATE names.
func (w *writer) guards(f record.Facts) error {
	conflict := func(what string) error { return &record.Refusal{Kind: record.RefusedConflict, What: what} }
	if m := f.Run; m != nil {
		run, ok, err := w.loadRun(runKey{m.After.Tenant, m.After.ID})
		switch {
		case err != nil:
			return err
		case m.From == 0 && ok:
			return conflict("the run exists")
		case m.From != 0 && (!ok || run.Version != m.From):
			return conflict("the run has changed")
		case m.From == 0:
			if err := w.opens(m.After); err != nil {
				return err
			}
		}
	}
	if fresh := f.Fresh; fresh != nil {
		epoch, err := epochOf(w.conn, fresh.Owner)
		switch {
		case err != nil:
			return err
		case epoch != fresh.From:
			return conflict("it was started fresh")
		}
	}
	if a := f.Activate; a != nil && a.From != w.generation {
		return conflict("another version was activated")
	}
	for _, m := range f.Approvals {
		var state string
		var version int64
		found, err := w.row(selectApprovalState, func(s *sqlite.Stmt) {
			state, version = s.ColumnText(0), s.ColumnInt64(1)
		}, m.After.Tenant, m.After.ID)
		switch {
		case err != nil:
			return err
		case m.From == "" && found:
			return conflict("the approval exists")
		case m.From != "" && (!found || state != string(m.From) || version != m.FromVersion):
			return conflict("the approval has changed")
		}
		if m.Answer != nil {
			answered, err := w.row(selectAnswer, func(*sqlite.Stmt) {}, m.After.Tenant, m.After.ID, m.Answer.Person.Issuer, m.Answer.Person.Subject)
			if err != nil {
				return err
			}
			if answered {
				return conflict("this person has answered")
			}
		}
	}
	if err := w.mayEmit(f.Emissions); err != nil {
		return err
	}
	if err := w.mayTranscript(f.Transcript); err != nil {
		return err
	}
	if err := w.mayShare(f.Share, f.At); err != nil {
		return err
	}
	if err := w.mayUndo(f.Revocation); err != nil {
		return err
	}
	if err := w.mayRecover(f.Recover); err != nil {
		return err
	}
	if err := w.maySchedule(f.Schedule); err != nil {
		return err
	}
	if err := w.maySeal(f.Seal); err != nil {
		return err
	}
	return w.mayPasskey(f.Passkey)
}

type newLevel struct {
	key   counterKey
	level record.Level
}

// charges computes the counters' new levels, or refuses.
func (w *writer) charges(f record.Facts) ([]newLevel, error) {
	if len(f.Charges)+len(f.Release) == 0 {
		return nil, nil
	}
	tenant := f.Tenant()
	out := make([]newLevel, 0, len(f.Charges)+len(f.Release))
	level := func(k counterKey) (record.Level, error) {
		for i := len(out) - 1; i >= 0; i-- {
			if out[i].key == k {
				return out[i].level, nil
			}
		}
		return w.level(k)
	}
	for _, c := range f.Release {
		k := counterKey{tenant, c.Counter}
		have, err := level(k)
		if err != nil {
			return nil, err
		}
		out = append(out, newLevel{k, have.Give(c, f.At)})
	}
	for i, c := range f.Charges {
		k := counterKey{tenant, c.Counter}
		have, err := level(k)
		if err != nil {
			return nil, err
		}
		next, ok, retry := have.Add(c, f.At)
		if !ok {
			return nil, &record.Refusal{Kind: record.RefusedLimit, What: string(c.Code), Charge: &f.Charges[i], Retry: retry}
		}
		out = append(out, newLevel{k, next})
	}
	return out, nil
}

func (w *writer) level(k counterKey) (record.Level, error) {
	if l, ok := w.counters[k]; ok {
		return l, nil
	}
	var text string
	found, err := w.row(selectCounter, func(s *sqlite.Stmt) { text = s.ColumnText(0) }, k.tenant, k.counter)
	if err != nil || !found {
		return record.Level{}, err
	}
	return record.ParseLevel(text)
}

// flush writes the counters that the batch changed, each once.
func (w *writer) flush() error {
	for k := range w.dirty {
		if err := w.run(upsertCounter, k.tenant, k.counter, w.counters[k].Marshal()); err != nil {
			return err
		}
	}
	clear(w.dirty)
	return nil
}

// move writes the call.
func (w *writer) move(p prepared) error {
	m := p.facts.Call
	if m == nil {
		return nil
	}
	statement := updateCall
	switch {
	case m.Redacts:
		statement = redactCall
	case m.From == record.None:
		err := w.run(insertCall, p.call...)
		switch sqlite.ErrCode(err) {
		case sqlite.ResultConstraintUnique, sqlite.ResultConstraintPrimaryKey:
			return &record.Refusal{Kind: record.RefusedEqual, What: "an equal call is open"}
		}
		return err
	case m.From == record.Executing:
		statement = settleCall
	}
	if err := w.run(statement, p.call...); err != nil {
		return err
	}
	if w.conn.Changes() == 0 {
		return &record.Refusal{Kind: record.RefusedConflict, What: "the call has changed"}
	}
	if m.Redacts {
		return w.run(redactPreviews, m.After.Tenant, m.After.ID)
	}
	return nil
}

func (w *writer) touch(p record.Premise, at time.Time) error {
	k := runKey{p.Tenant, p.Run}
	run, ok, err := w.loadRun(k)
	if err != nil || !ok {
		return err
	}
	run.Active = at
	w.fresh[k] = run
	return w.run(touchRun, micro(at), p.Tenant, p.Run)
}

func (w *writer) putApproval(m record.ApprovalMove, tool string) error {
	a := m.After
	if m.From == "" {
		rule, err := json.Marshal(a.Rule)
		if err != nil {
			return err
		}
		whom := a.Rule
		whom.Preview = canon.Digest{} // it says nothing of who may answer
		audience, err := json.Marshal(whom)
		if err != nil {
			return err
		}
		return w.run(insertApproval, a.Tenant, a.ID, a.Call, a.Run, a.Lineage, a.Principal.Issuer, a.Principal.Subject, a.Agent,
			a.Binding[:], text(rule), string(a.Code), string(a.State), a.Version, a.Replaces, micro(a.Asked), micro(a.Expires), micro(a.Changed), preview(a.Preview), audienceOf(audience), tool)
	}
	if r := m.Answer; r != nil {
		groups, err := json.Marshal(r.Groups)
		if err != nil {
			return err
		}
		if err := w.run(insertAnswer, a.Tenant, a.ID, r.Person.Issuer, r.Person.Subject, string(r.Word), r.Note, text(groups), r.Binding[:], micro(r.At), proof(r.Proof), r.Session); err != nil {
			return err
		}
	}
	return w.run(updateApproval, string(a.State), a.Version, micro(a.Changed), a.Tenant, a.ID)
}

func preview(p *record.Preview) text {
	if p == nil {
		return text("")
	}
	return encode(p)
}

func (w *writer) putRun(m record.RunMove) error {
	r := m.After
	w.fresh[runKey{r.Tenant, r.ID}] = r
	return w.run(upsertRun, r.Tenant, r.ID, r.Lineage, r.Parent, r.Principal.Issuer, r.Principal.Subject, r.Agent, r.Label,
		flag(r.Vouched), int64(r.Turn), flag(r.Turns), string(r.State), r.Version, micro(r.Opened), micro(r.Active), micro(r.Ended), r.Why, delegation(r.Delegation), r.Replays, grantText(r.Grant), untilOf(r.Grant))
}

func delegation(d *record.Delegation) text {
	if d == nil {
		return text("")
	}
	return encode(d)
}

func (w *writer) loadRun(k runKey) (record.Run, bool, error) {
	if r, ok := w.fresh[k]; ok {
		return r, true, nil
	}
	if r, ok := w.runs.get(k); ok {
		return r, true, nil
	}
	r, ok, err := selectRun(w.conn, k)
	if ok {
		w.runs.put(k, r)
	}
	return r, ok, err
}

// sweep ends a run's waiting calls, and the runs below it. They were read in this
// transaction and nothing else writes, so their guards hold.
func (w *writer) sweep(s record.Sweep) error {
	var ids []record.CallID
	err := each(w.conn, selectWaiting, func(stmt *sqlite.Stmt) error {
		ids = append(ids, record.CallID(stmt.ColumnText(0)))
		return nil
	}, s.Tenant, s.Run)
	if err != nil {
		return err
	}
	for _, id := range ids {
		loaded, err := load(w.conn, s.Tenant, id)
		if err != nil {
			return err
		}
		c, err := s.Of(loaded.Call, loaded.Approval)
		if err != nil {
			return err
		}
		if err := w.within(c); err != nil {
			return err
		}
	}
	return w.endBelow(s)
}

// within makes a change as a part of another one.
func (w *writer) within(c record.Change) error {
	err := w.change(prepare(c.Facts()))
	var refused *record.Refusal
	if errors.As(err, &refused) {
		// It cannot happen; if it did, half a change would stand. The batch fails.
		return errors.New("a record changed within its own transaction")
	}
	return err
}
