package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/placet-dev/placet/record"
)

// truth is what a batch read under its locks, with what its changes have done to it
// so far. Until the end of the transaction it is so.
type truth struct {
	generation int64
	epoch, own int64 // of the store, and the one that this process opened
	runs       map[runKey]record.Run
	calls      map[callKey]callAt
	open       map[equalKey]record.CallID
	approvals  map[approvalKey]approvalAt
	answers    map[answerKey]bool
	counters   map[counterKey]counterAt
	effects    map[effectKey]int64
	lineages   map[lineageKey]record.Lineage
	epochs     map[record.Owner]int64
	emissions  map[emissionKey]record.Emission
	objects    map[objectKey]record.RunID
	passkeys   map[personKey]map[string]uint32 // how far each one's counter has come
	taken      map[string]bool

	transcripts map[transcriptKey]int64 // versions
	kept        map[record.Owner]int64  // how many transcripts
	shares      map[shareKey]record.Share
	given       map[record.Owner]int64 // how many shares that have not ended

	fences      map[record.TenantID]int64
	revocations map[revocationKey]bool // live
	caught      record.Caught          // by the revocation that the batch makes
	head        record.Checkpoint      // the newest; read only where the batch seals
	schedules   map[scheduleKey]int64  // versions
}

type callAt struct {
	state   record.State
	version int64
}

type approvalAt struct {
	state   record.ApprovalState
	version int64
}

type counterAt struct {
	level   record.Level
	version int64 // of its row; 0: there is none
}

func newTruth() *truth {
	return &truth{0, 0, 0, map[runKey]record.Run{}, map[callKey]callAt{}, map[equalKey]record.CallID{}, map[approvalKey]approvalAt{}, map[answerKey]bool{},
		map[counterKey]counterAt{}, map[effectKey]int64{}, map[lineageKey]record.Lineage{}, map[record.Owner]int64{}, map[emissionKey]record.Emission{},
		map[objectKey]record.RunID{}, map[personKey]map[string]uint32{}, map[string]bool{},
		map[transcriptKey]int64{}, map[record.Owner]int64{}, map[shareKey]record.Share{}, map[record.Owner]int64{},
		map[record.TenantID]int64{}, map[revocationKey]bool{}, record.Caught{}, record.Checkpoint{}, map[scheduleKey]int64{}}
}

const (
	readGeneration = `SELECT coalesce(max(generation), 0), (SELECT coalesce(max(epoch), 1) FROM epochs) FROM activations`
	readRuns       = `SELECT ` + runFields + ` FROM unnest($1::text[], $2::text[]) AS k (t, i) JOIN runs ON runs.tenant = k.t AND runs.id = k.i`
	// Rows are locked in the order of their keys.
	readCalls = `SELECT tenant, id, state, version FROM unnest($1::text[], $2::text[]) AS k (t, i)
		JOIN calls ON calls.tenant = k.t AND calls.id = k.i ORDER BY tenant, id FOR NO KEY UPDATE OF calls`
	// The order, which is that of the one index that fits, keeps the planner from taking
	// another one and reading every open call first.
	readEquals = `SELECT k.t, k.l, k.e, k.o, found.id FROM unnest($1::text[], $2::text[], $3::bytea[], $4::text[]) AS k (t, l, e, o) CROSS JOIN LATERAL
		(SELECT id FROM calls WHERE tenant = k.t AND lineage = k.l AND effect = k.e AND occurrence >= k.o AND occurrence <= k.o AND NOT read_only AND ` + isOpen + `
			ORDER BY occurrence LIMIT 1) AS found`
	readApprovals = `SELECT tenant, id, state, version FROM unnest($1::text[], $2::text[]) AS k (t, i)
		JOIN approvals ON approvals.tenant = k.t AND approvals.id = k.i ORDER BY tenant, id FOR NO KEY UPDATE OF approvals`
	readAnswers = `SELECT tenant, approval, issuer, subject FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS k (t, a, i, s)
		JOIN answers ON answers.tenant = k.t AND answers.approval = k.a AND answers.issuer = k.i AND answers.subject = k.s`
	readCounters = `SELECT tenant, counter, level, version FROM unnest($1::text[], $2::text[]) AS k (t, c) JOIN counters ON counters.tenant = k.t AND counters.counter = k.c`
	readEffects  = `SELECT tenant, effect, version FROM unnest($1::text[], $2::bytea[]) AS k (t, e) JOIN effects ON effects.tenant = k.t AND effects.effect = k.e`
	readLineages = `SELECT tenant, id, version, seq, salt, marks, paid, hold FROM unnest($1::text[], $2::text[]) AS k (t, i)
		JOIN lineages ON lineages.tenant = k.t AND lineages.id = k.i`
	readStanding = `SELECT tenant, issuer, subject, agent, epoch FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS k (t, i, s, a)
		JOIN standing ON standing.tenant = k.t AND standing.issuer = k.i AND standing.subject = k.s AND standing.agent = k.a`
	readEmissions = `SELECT ` + emissionFields + ` FROM unnest($1::text[], $2::text[]) AS k (t, i) JOIN emissions ON emissions.tenant = k.t AND emissions.id = k.i`
	readObjects   = `SELECT tenant, provider, id, run FROM unnest($1::text[], $2::text[], $3::text[]) AS k (t, p, i)
		JOIN model_objects ON model_objects.tenant = k.t AND model_objects.provider = k.p AND model_objects.id = k.i`
	readPasskeys = `SELECT tenant, issuer, subject, id, count FROM unnest($1::text[], $2::text[], $3::text[]) AS k (t, i, s)
		JOIN passkeys ON passkeys.tenant = k.t AND passkeys.issuer = k.i AND passkeys.subject = k.s`
	readTaken = `SELECT id FROM passkeys WHERE id = ANY ($1::bytea[])`
)

// list is one parameter of a statement that takes many rows.
func list[K comparable, V any](keys map[K]bool, f func(K) V) []V {
	out := make([]V, 0, len(keys))
	for k := range keys {
		out = append(out, f(k))
	}
	return out
}

// keysOf fixes the order of a set, so that several parameters agree.
func keysOf[K comparable](set map[K]bool) []K {
	out := make([]K, 0, len(set))
	for k := range set {
		out = append(out, k)
	}
	return out
}

func texts[K any](keys []K, f func(K) string) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = f(k)
	}
	return out
}

// read queues what the batch wants to know.
func (t *truth) read(b *pgx.Batch, w *wants) {
	queue := func(n int, scan func(*columns) error, sql string, args ...any) {
		if n > 0 {
			b.Queue(sql, args...).Query(each(scan))
		}
	}
	b.Queue(readGeneration).Query(each(func(c *columns) error { t.generation, t.epoch = c.int(), c.int(); return nil }))
	t.readRuns(b, keysOf(w.runs))
	calls := keysOf(w.calls)
	queue(len(calls), func(c *columns) error {
		t.calls[callKey{record.TenantID(c.text()), record.CallID(c.text())}] = callAt{record.State(c.text()), c.int()}
		return nil
	}, readCalls, texts(calls, func(k callKey) string { return string(k.tenant) }), texts(calls, func(k callKey) string { return string(k.id) }))
	approvals := keysOf(w.approvals)
	queue(len(approvals), func(c *columns) error {
		t.approvals[approvalKey{record.TenantID(c.text()), record.ApprovalID(c.text())}] = approvalAt{record.ApprovalState(c.text()), c.int()}
		return nil
	}, readApprovals, texts(approvals, func(k approvalKey) string { return string(k.tenant) }), texts(approvals, func(k approvalKey) string { return string(k.id) }))
	equals := keysOf(w.equals)
	effects := make([][]byte, len(equals))
	for i := range equals {
		effects[i] = equals[i].effect[:]
	}
	queue(len(equals), func(c *columns) error {
		k := equalKey{record.TenantID(c.text()), record.LineageID(c.text()), c.digest(), c.text()}
		t.open[k] = record.CallID(c.text())
		return nil
	}, readEquals, texts(equals, func(k equalKey) string { return string(k.tenant) }), texts(equals, func(k equalKey) string { return string(k.lineage) }),
		effects, texts(equals, func(k equalKey) string { return k.occurrence }))
	answers := keysOf(w.answers)
	queue(len(answers), func(c *columns) error {
		k := approvalKey{record.TenantID(c.text()), record.ApprovalID(c.text())}
		t.answers[answerKey{k, record.Principal{Issuer: c.text(), Subject: c.text()}}] = true
		return nil
	}, readAnswers, texts(answers, func(k answerKey) string { return string(k.tenant) }), texts(answers, func(k answerKey) string { return string(k.id) }),
		texts(answers, func(k answerKey) string { return k.person.Issuer }), texts(answers, func(k answerKey) string { return k.person.Subject }))
	counters := keysOf(w.counters)
	queue(len(counters), func(c *columns) error {
		k := counterKey{record.TenantID(c.text()), record.Counter(c.text())}
		level, err := record.ParseLevel(c.text())
		t.counters[k] = counterAt{level, c.int()}
		return err
	}, readCounters, texts(counters, func(k counterKey) string { return string(k.tenant) }), texts(counters, func(k counterKey) string { return string(k.counter) }))
	raised := keysOf(w.effects)
	keys := make([][]byte, len(raised))
	for i := range raised {
		keys[i] = raised[i].key[:]
	}
	queue(len(raised), func(c *columns) error {
		t.effects[effectKey{record.TenantID(c.text()), c.digest()}] = c.int()
		return nil
	}, readEffects, texts(raised, func(k effectKey) string { return string(k.tenant) }), keys)
	lineages := keysOf(w.lineages)
	queue(len(lineages), func(c *columns) error {
		l, err := scanLineage(c)
		t.lineages[lineageKey{l.Tenant, l.ID}] = l
		return err
	}, readLineages, texts(lineages, func(k lineageKey) string { return string(k.tenant) }), texts(lineages, func(k lineageKey) string { return string(k.id) }))
	t.readRare(queue, w)
}

func (t *truth) readRuns(b *pgx.Batch, keys []runKey) {
	if len(keys) == 0 {
		return
	}
	b.Queue(readRuns, texts(keys, func(k runKey) string { return string(k.tenant) }), texts(keys, func(k runKey) string { return string(k.id) })).
		Query(each(func(c *columns) error {
			r, err := scanRun(c)
			t.runs[runKey{r.Tenant, r.ID}] = r
			return err
		}))
}

func (t *truth) readRare(queue func(int, func(*columns) error, string, ...any), w *wants) {
	owners := keysOf(w.standing)
	queue(len(owners), func(c *columns) error {
		o := record.Owner{Tenant: record.TenantID(c.text()), Principal: record.Principal{Issuer: c.text(), Subject: c.text()}, Agent: record.AgentID(c.text())}
		t.epochs[o] = c.int()
		return nil
	}, readStanding, texts(owners, func(o record.Owner) string { return string(o.Tenant) }), texts(owners, func(o record.Owner) string { return o.Principal.Issuer }),
		texts(owners, func(o record.Owner) string { return o.Principal.Subject }), texts(owners, func(o record.Owner) string { return string(o.Agent) }))
	emissions := keysOf(w.emissions)
	queue(len(emissions), func(c *columns) error {
		e, err := scanEmission(c)
		t.emissions[emissionKey{e.Tenant, e.ID}] = e
		return err
	}, readEmissions, texts(emissions, func(k emissionKey) string { return string(k.tenant) }), texts(emissions, func(k emissionKey) string { return string(k.id) }))
	objects := keysOf(w.objects)
	queue(len(objects), func(c *columns) error {
		t.objects[objectKey{record.TenantID(c.text()), c.text(), c.text()}] = record.RunID(c.text())
		return nil
	}, readObjects, texts(objects, func(k objectKey) string { return string(k.tenant) }), texts(objects, func(k objectKey) string { return k.provider }),
		texts(objects, func(k objectKey) string { return k.id }))
	people := keysOf(w.passkeys)
	queue(len(people), func(c *columns) error {
		k := personKey{record.TenantID(c.text()), record.Principal{Issuer: c.text(), Subject: c.text()}}
		if t.passkeys[k] == nil {
			t.passkeys[k] = map[string]uint32{}
		}
		id := c.text()
		t.passkeys[k][id] = uint32(c.int())
		return nil
	}, readPasskeys, texts(people, func(k personKey) string { return string(k.tenant) }), texts(people, func(k personKey) string { return k.person.Issuer }),
		texts(people, func(k personKey) string { return k.person.Subject }))
	queue(len(w.taken), func(c *columns) error { t.taken[c.text()] = true; return nil }, readTaken,
		list(w.taken, func(id string) []byte { return []byte(id) }))
	t.readTranscripts(queue, w)
	t.readRevoked(queue, w)
	t.readHead(queue, w)
	t.readSchedules(queue, w)
}

// beyond are runs that what was read names, and that are not read yet: those above a
// run, and those of emissions.
func (t *truth) beyond() []runKey {
	missing := map[runKey]bool{}
	add := func(k runKey) {
		if _, ok := t.runs[k]; k.id != "" && !ok {
			missing[k] = true
		}
	}
	for _, r := range t.runs {
		add(runKey{r.Tenant, r.Parent})
	}
	for _, e := range t.emissions {
		if e.State == record.EmissionOpen {
			add(runKey{e.Tenant, e.Run})
		}
	}
	return keysOf(missing)
}
