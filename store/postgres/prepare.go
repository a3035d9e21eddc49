package postgres

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/placet-dev/placet/record"
)

// prepared is a change with its rows made ready. Callers do it, in parallel: a
// process has one committer, and no time for encoding in it.
type prepared struct {
	facts record.Facts
	call  []any // the columns of the call's insert or update
	event [][]any
}

func prepare(f record.Facts) (prepared, error) {
	p := prepared{facts: f, event: make([][]any, len(f.Events))}
	if m := f.Call; m != nil {
		switch {
		case m.Redacts:
			p.call = redactColumns(&m.After, m)
		case m.From == record.None:
			p.call = callColumns(&m.After)
		case m.From == record.Executing:
			p.call = settleColumns(&m.After, m)
		default:
			p.call = updateColumns(&m.After, m)
		}
	}
	for i, e := range f.Events {
		p.event[i] = []any{micro(e.At), string(e.Tenant), string(e.Kind), string(e.Run), string(e.Call), string(e.Approval), string(e.Who.AppendJSON(nil)), string(e.Body)}
	}
	if f.Run != nil && !storable(runColumns(f.Run.After)) || !storable(p.call) {
		return p, unstorable()
	}
	for _, e := range p.event {
		if !storable(e) {
			return p, unstorable()
		}
	}
	return p, nil
}

// storable reports whether the database takes the texts: it has no U+0000, and would
// refuse the whole batch.
func storable(row []any) bool {
	for _, v := range row {
		if s, ok := v.(string); ok && (!utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0) {
			return false
		}
	}
	return true
}

func unstorable() error {
	return record.Errorf(record.Invalid, "a text in it holds a character that cannot be recorded (U+0000, or no valid UTF-8)")
}

// sweeps reports whether a change finds the rows that it moves in the store.
func (p prepared) sweeps() bool {
	return p.facts.Sweep != nil || p.facts.Fresh != nil || p.facts.Recover != nil || p.facts.Revocation != nil && p.facts.Revocation.New
}

// Keys of what a batch reads. All but that of a passkey begin with their tenant.
type (
	runKey struct {
		tenant record.TenantID
		id     record.RunID
	}
	callKey struct {
		tenant record.TenantID
		id     record.CallID
	}
	equalKey struct {
		tenant     record.TenantID
		lineage    record.LineageID
		effect     record.EffectKey
		occurrence string
	}
	approvalKey struct {
		tenant record.TenantID
		id     record.ApprovalID
	}
	answerKey struct {
		approvalKey
		person record.Principal
	}
	counterKey struct {
		tenant  record.TenantID
		counter record.Counter
	}
	effectKey struct {
		tenant record.TenantID
		key    record.EffectKey
	}
	lineageKey struct {
		tenant record.TenantID
		id     record.LineageID
	}
	emissionKey struct {
		tenant record.TenantID
		id     record.EmissionID
	}
	objectKey struct {
		tenant       record.TenantID
		provider, id string
	}
	personKey struct {
		tenant record.TenantID
		person record.Principal
	}
	transcriptKey struct {
		tenant record.TenantID
		id     record.TranscriptID
	}
	shareKey struct {
		tenant record.TenantID
		id     record.ShareID
	}
)

// wants is what a batch locks and reads.
type wants struct {
	locks   locks
	tenants map[record.TenantID]bool

	runs      map[runKey]bool
	calls     map[callKey]bool
	equals    map[equalKey]bool
	approvals map[approvalKey]bool
	answers   map[answerKey]bool
	counters  map[counterKey]bool
	effects   map[effectKey]bool
	lineages  map[lineageKey]bool
	standing  map[record.Owner]bool
	emissions map[emissionKey]bool
	objects   map[objectKey]bool
	passkeys  map[personKey]bool
	taken     map[string]bool // IDs of passkeys, of whatever tenant

	transcripts map[transcriptKey]bool
	keepers     map[record.Owner]bool // of transcripts
	shares      map[shareKey]bool
	givers      map[record.Owner]time.Time // of shares, at a time

	fences      map[record.TenantID]bool
	revocations map[revocationKey]bool
	everywhere  bool // something in it is of every tenant
	head        bool // the newest checkpoint
	recovers    bool
	schedules   map[scheduleKey]bool
}

func newWants() *wants {
	return &wants{locks{}, map[record.TenantID]bool{}, map[runKey]bool{}, map[callKey]bool{}, map[equalKey]bool{}, map[approvalKey]bool{}, map[answerKey]bool{},
		map[counterKey]bool{}, map[effectKey]bool{}, map[lineageKey]bool{}, map[record.Owner]bool{}, map[emissionKey]bool{},
		map[objectKey]bool{}, map[personKey]bool{}, map[string]bool{},
		map[transcriptKey]bool{}, map[record.Owner]bool{}, map[shareKey]bool{}, map[record.Owner]time.Time{},
		map[record.TenantID]bool{}, map[revocationKey]bool{}, false, false, false, map[scheduleKey]bool{}}
}

// add says what a change rests on and moves.
func (w *wants) add(f record.Facts) {
	w.locks.share(lockGlobal) // no change passes a new epoch
	if f.Recover != nil {
		w.recovers = true
		w.locks.own(lockGlobal)
	}
	for _, e := range f.Events {
		w.tenants[e.Tenant] = true
	}
	w.premise(f)
	w.call(f)
	w.charges(f)
	if m := f.Run; m != nil {
		r := m.After
		w.fence(r.Tenant)
		w.locks.own(lockRun, string(r.Tenant), string(r.ID))
		if f.Sweep != nil {
			w.locks.own(lockLineage, string(r.Tenant), string(r.Lineage))
		} else {
			w.locks.share(lockLineage, string(r.Tenant), string(r.Lineage))
		}
		w.runs[runKey{r.Tenant, r.ID}] = true
		if m.From == 0 && !r.Vouched && r.Parent == "" {
			w.owner(r.Owner)
		}
	}
	if fresh := f.Fresh; fresh != nil {
		w.fence(fresh.Owner.Tenant)
		w.locks.own(lockLineage, string(fresh.Owner.Tenant), string(record.UnvouchedLineage(fresh.Owner, fresh.From)))
		w.owner(fresh.Owner)
	}
	if m := f.Lineage; m != nil {
		w.locks.own(lockLineage, string(m.Tenant), string(m.ID))
		w.lineages[lineageKey{m.Tenant, m.ID}] = true
		w.tenants[m.Tenant] = true
	}
	if f.Activate != nil {
		w.locks.own(lockGlobal)
	}
	for _, m := range f.Approvals {
		a := m.After
		k := approvalKey{a.Tenant, a.ID}
		w.fence(a.Tenant)
		w.locks.share(lockLineage, string(a.Tenant), string(a.Lineage))
		w.approvals[k] = true
		if m.Answer != nil {
			w.answers[answerKey{k, m.Answer.Person}] = true
		}
	}
	if r := f.Rejection; r != nil {
		w.locks.own(lockName, "effect", string(r.Tenant), string(r.Effect[:]))
		w.tenants[r.Tenant] = true
	}
	w.revocation(f.Revocation)
	w.emitted(f.Emissions)
	w.passkey(f.Passkey)
	w.wake(f.Wake)
	w.schedule(f.Schedule)
	w.transcript(f.Transcript)
	w.share(f)
	w.seal(f.Seal)
}

// fence is what every decision shares (rule C3).
func (w *wants) fence(tenant record.TenantID) {
	w.tenants[tenant] = true
	w.locks.share(lockGlobal)
	w.locks.share(lockTenant, string(tenant))
}

func (w *wants) premise(f record.Facts) {
	p := f.Premise
	if p == nil {
		return
	}
	w.fence(p.Tenant)
	if p.Revoked != nil {
		w.revoked(p.Tenant)
	}
	if p.Run != "" {
		if p.Touch {
			w.locks.own(lockRun, string(p.Tenant), string(p.Run))
		} else {
			w.locks.share(lockRun, string(p.Tenant), string(p.Run))
		}
		w.runs[runKey{p.Tenant, p.Run}] = true
	}
	if p.Lineage != "" {
		w.locks.share(lockLineage, string(p.Tenant), string(p.Lineage))
		w.lineages[lineageKey{p.Tenant, p.Lineage}] = true
	}
	for _, seen := range p.Seen {
		w.locks.own(lockName, "effect", string(p.Tenant), string(seen.Key[:]))
		w.effects[effectKey{p.Tenant, seen.Key}] = true
	}
	for _, r := range p.Passkeys {
		w.locks.share(lockName, "passkeys", string(r.Tenant), r.Person.Issuer, r.Person.Subject)
		w.passkeys[personKey{r.Tenant, r.Person}] = true
	}
}

func (w *wants) call(f record.Facts) {
	m := f.Call
	if m == nil {
		return
	}
	c := m.After
	w.fence(c.Tenant)
	w.locks.share(lockLineage, string(c.Tenant), string(c.Lineage))
	w.calls[callKey{c.Tenant, c.ID}] = true
	if m.From == record.None {
		w.locks.own(lockName, "effect", string(c.Tenant), string(c.Effect[:]))
		if !c.Tool.ReadOnly {
			w.equals[equalOf(c)] = true
		}
	}
}

func (w *wants) charges(f record.Facts) {
	if len(f.Charges)+len(f.Release) == 0 {
		return
	}
	tenant := f.Tenant()
	w.tenants[tenant] = true
	for _, list := range [][]record.Charge{f.Charges, f.Release} {
		for _, ch := range list {
			w.locks.own(lockCounter, string(tenant), string(ch.Counter))
			w.counters[counterKey{tenant, ch.Counter}] = true
		}
	}
}

func equalOf(c record.Call) equalKey { return equalKey{c.Tenant, c.Lineage, c.Effect, c.Occurrence} }

func (w *wants) owner(o record.Owner) {
	w.tenants[o.Tenant] = true
	w.locks.own(lockName, "standing", string(o.Tenant), o.Principal.Issuer, o.Principal.Subject, string(o.Agent))
	w.standing[o] = true
}

func (w *wants) emitted(m *record.EmissionMove) {
	if m == nil {
		return
	}
	use := func(r record.EmissionRef) {
		w.tenants[r.Tenant] = true
		w.locks.own(lockName, "emission", string(r.Tenant), string(r.ID))
		w.emissions[emissionKey{r.Tenant, r.ID}] = true
	}
	if m.Consume != nil {
		use(m.Consume.EmissionRef)
	}
	for _, r := range m.Retire {
		use(r)
	}
	for _, e := range m.Add {
		w.tenants[e.Tenant] = true
	}
	for _, o := range m.Objects {
		w.tenants[o.Tenant] = true
		w.locks.own(lockName, "object", string(o.Tenant), o.Provider, o.ID)
		w.objects[objectKey{o.Tenant, o.Provider, o.ID}] = true
	}
	if a := m.Asked; a != nil {
		w.tenants[a.Tenant] = true
		w.locks.own(lockName, "asked", string(a.Tenant), string(a.Run))
	}
}

func (w *wants) passkey(m *record.PasskeyMove) {
	if m == nil {
		return
	}
	var ref record.PasskeyRef
	switch {
	case m.Add != nil:
		ref = m.Add.Ref()
		w.locks.own(lockName, "passkey", string(m.Add.ID))
		w.taken[string(m.Add.ID)] = true
	case m.Remove != nil:
		ref = *m.Remove
	case m.Used != nil:
		ref = m.Used.PasskeyRef
	}
	w.tenants[ref.Tenant] = true
	w.locks.own(lockName, "passkeys", string(ref.Tenant), ref.Person.Issuer, ref.Person.Subject)
	w.passkeys[personKey{ref.Tenant, ref.Person}] = true
}
