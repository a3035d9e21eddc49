package storetest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/store/postgres"
	"github.com/placet-dev/placet/store/postgres/pgtest"
	"github.com/placet-dev/placet/store/sqlite"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

var compareFor = flag.Duration("compare", 4*time.Second, "for how long TestStoresAgree tries sequences of changes")

// TestStoresAgree: SQLite and PostgreSQL are told the same random sequences of changes.
// They answer each with the same words, and hold the same records afterwards. Some
// sequences have the stores for themselves; of the others several run at once, each in
// a tenant of its own, so that their changes are committed together.
func TestStoresAgree(t *testing.T) {
	alone, shared := openBoth(t), openBoth(t)
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		compare(t, alone, "alone", true)
	})
	for i := range 4 {
		t.Run(fmt.Sprintf("together %d", i), func(t *testing.T) {
			t.Parallel()
			compare(t, shared, fmt.Sprintf("tenant-%d", i), false)
		})
	}
}

// openBoth opens an empty store of each kind. The database sorts texts as English
// readers do, which is not how SQLite does.
func openBoth(t *testing.T) [2]Store {
	t.Helper()
	server := pgtest.Shared(t)
	name := fmt.Sprintf("sorted_%d", time.Now().UnixNano())
	server.Do(t, "postgres", "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'en-US'")
	server.Do(t, name, "CREATE ROLE "+name+" LOGIN PASSWORD 's3cret-"+name+"'")
	if err := postgres.Migrate(t.Context(), server.DSN("owner", name), name); err != nil {
		t.Fatal(err)
	}
	shared, err := postgres.Open(t.Context(), server.DSN(name, name), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shared.Close() })
	file, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return [2]Store{file, shared}
}

// compare tries sequences until the time is over; one that fails is made as short as
// can be first.
func compare(t *testing.T, both [2]Store, name string, alone bool) {
	var sequences, changes int
	failed, at := false, time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for end := time.Now().Add(*compareFor); !t.Failed() && time.Now().Before(end); {
		rapid.Check(t, func(rt *rapid.T) {
			if !failed && time.Now().After(end) {
				return
			}
			defer func() { failed = failed || rt.Failed() }()
			sequences++
			m := &machine{bench: &bench{Store: both[0], ctx: t.Context(), at: at}, t: t, both: both, tenant: fmt.Sprintf("%s-%d", name, sequences), alone: alone}
			actions := m.actions()
			actions["look"] = m.look
			rt.Repeat(actions)
			m.look(rt)
			changes += len(m.said)
			at = m.at // time goes on for what is nobody's
		})
	}
	t.Logf("%d sequences, %d changes", sequences, changes)
}

// reading is one thing to read of a store.
type reading struct {
	what string
	of   func(Store) (any, error)
}

// look reads everything there is, of both.
func (m *machine) look(rt *rapid.T) {
	for _, r := range slices.Concat(m.ofTenant(rt), m.ofOwners(), m.ofCalls(), m.ofRuns(), m.ofOthers(), m.ofEverybody()) {
		var got [2]any
		var words [2]string
		for i, s := range m.both {
			v, err := r.of(s)
			got[i], words[i] = v, told(err)
		}
		diff := cmp.Diff(got[0], got[1], cmpopts.EquateEmpty(), cmpopts.IgnoreFields(record.Event{}, "Seq"))
		if diff != "" || words[0] != words[1] {
			rt.Fatalf("%s (-SQLite +PostgreSQL): %s %s\n%s\nafter\n%s", r.what, words[0], words[1], diff, m.history())
		}
	}
}

func read[T any](what string, of func(Store) (T, error)) reading {
	return reading{what, func(s Store) (any, error) { v, err := of(s); return v, err }}
}

// ofTenant are lists, whole and page by page.
func (m *machine) ofTenant(rt *rapid.T) []reading {
	tenant, size := record.TenantID(m.tenant), oneOf(rt, "page", 500, 3, 1)
	var all []reading
	add := func(what string, of func(Store) (any, error)) { all = append(all, reading{what, of}) }
	add("calls", func(s Store) (any, error) {
		return pages(func(last record.Call) ([]record.Call, error) {
			return s.Calls(m.ctx, dispatch.CallQuery{Tenant: tenant, Before: last.ID, Limit: size})
		})
	})
	for _, states := range [][]record.State{{record.ApprovalPending, record.Executing}, {record.Denied, record.Canceled, record.Unknown}} {
		add(fmt.Sprint("calls that are ", states), func(s Store) (any, error) {
			return s.Calls(m.ctx, dispatch.CallQuery{Tenant: tenant, States: states, Limit: 500})
		})
	}
	add("dead calls", func(s Store) (any, error) {
		return s.Calls(m.ctx, dispatch.CallQuery{Tenant: tenant, Dead: true, Limit: 500})
	})
	for _, newest := range []bool{false, true} {
		add(fmt.Sprint("approvals, the newest first: ", newest), func(s Store) (any, error) {
			return pages(func(last dispatch.Loaded) ([]dispatch.Loaded, error) {
				q := dispatch.ApprovalQuery{Tenant: tenant, Newest: newest, Limit: size}
				if last.Approval != nil {
					q.After = last.Approval.ID
				}
				return s.Approvals(m.ctx, q)
			})
		})
		add(fmt.Sprint("events, the newest first: ", newest), func(s Store) (any, error) {
			return s.Events(m.ctx, dispatch.EventQuery{Tenant: tenant, Newest: newest, Limit: 500})
		})
		add(fmt.Sprint("live runs only: ", newest), func(s Store) (any, error) {
			return pages(func(last record.Run) ([]record.Run, error) {
				return s.Runs(m.ctx, dispatch.RunQuery{Tenant: tenant, Live: newest, Before: last.ID, Limit: size})
			})
		})
		add(fmt.Sprint("revocations that ended too: ", newest), func(s Store) (any, error) {
			return s.ListRevocations(m.ctx, dispatch.RevocationQuery{Tenant: tenant, Ended: newest, Limit: 500})
		})
		add(fmt.Sprint("schedules that are over too: ", newest), func(s Store) (any, error) {
			return s.Schedules(m.ctx, dispatch.ScheduleQuery{Tenant: tenant, Over: newest, Limit: 500})
		})
	}
	add("questions of some states", func(s Store) (any, error) {
		return s.Approvals(m.ctx, dispatch.ApprovalQuery{Tenant: tenant, States: []record.ApprovalState{record.Pending, record.Consumed}, Limit: 500})
	})
	add("events, page by page", func(s Store) (any, error) {
		return pages(func(last record.Event) ([]record.Event, error) {
			return s.Events(m.ctx, dispatch.EventQuery{Tenant: tenant, After: last.Seq, Limit: 50})
		})
	})
	add("counters", func(s Store) (any, error) {
		counted, err := pages(func(last dispatch.Counted) ([]dispatch.Counted, error) {
			return s.Counters(m.ctx, tenant, last.Counter, size)
		})
		if err != nil {
			return nil, err
		}
		names := []record.Counter{"nothing"}
		for _, c := range counted {
			names = append(names, c.Counter)
		}
		levels, err := s.Levels(m.ctx, tenant, names)
		return []any{counted, levels}, err
	})
	add("lineages that are held", func(s Store) (any, error) {
		return pages(func(last record.Lineage) ([]record.Lineage, error) { return s.Held(m.ctx, tenant, last.ID, size) })
	})
	add("live revocations", func(s Store) (any, error) { return s.Revocations(m.ctx, tenant) })
	add("transcripts", func(s Store) (any, error) {
		return pages(func(last record.Transcript) ([]record.Transcript, error) {
			return s.ListTranscripts(m.ctx, dispatch.TranscriptQuery{Tenant: tenant, Before: last.ID, Limit: size})
		})
	})
	add("alerts", func(s Store) (any, error) { return s.Alerts(m.ctx, dispatch.AlertQuery{Tenant: tenant, Limit: 500}) })
	add("another tenant's calls", func(s Store) (any, error) {
		return s.Calls(m.ctx, dispatch.CallQuery{Tenant: tenant + "-x", Limit: 500})
	})
	return append(all, m.asked(rt, tenant, size)...)
}

// asked is what people find, by whatever they ask for.
func (m *machine) asked(rt *rapid.T, tenant record.TenantID, size int) (all []reading) {
	leads := []record.Group{{Issuer: "https://idp", Name: "leads"}}
	for _, q := range []dispatch.AskedQuery{{}, {For: "ÄNNE"}, {For: "ANNA"}, {Agent: "rover"}, {Tool: "REFUND-2"}, {Tool: "refund", For: "anna"}, {Run: some(rt, "run", append(m.runs, record.Run{})).ID}} {
		for _, person := range []string{"lena", "anna"} {
			q.Tenant, q.Person, q.Groups, q.Limit = tenant, record.Principal{Issuer: "https://idp", Subject: person}, leads, size
			q.States = []record.ApprovalState{record.Pending, record.Approved}
			all = append(all, read(fmt.Sprintf("what %s may answer: %+v", person, q), func(s Store) ([]dispatch.Loaded, error) {
				var found []dispatch.Loaded
				for q := q; ; {
					page, err := s.Asked(m.ctx, q)
					found = append(found, page.Found...)
					if q.After = page.Next; err != nil || q.After == "" {
						return found, err
					}
				}
			}))
		}
	}
	for _, person := range []string{"lena", "max", "Änne"} {
		p := record.Principal{Issuer: "https://idp", Subject: person}
		all = append(all,
			read("passkeys of "+person, func(s Store) ([]record.Passkey, error) { return s.Passkeys(m.ctx, tenant, p) }),
			read("answers of "+person, func(s Store) ([]record.ApprovalID, error) {
				return pages(func(last record.ApprovalID) ([]record.ApprovalID, error) {
					return s.Answered(m.ctx, tenant, p, last, size)
				})
			}))
	}
	return all
}

// pages reads page after page, each from after the last of the one before.
func pages[T any](next func(last T) ([]T, error)) (all []T, err error) {
	for last := *new(T); ; last = all[len(all)-1] {
		page, err := next(last)
		if err != nil || len(page) == 0 {
			return all, err
		}
		if all = append(all, page...); len(all) > 10_000 {
			return all, fmt.Errorf("the pages do not end")
		}
	}
}

// seen are the values of a key among records, each once, in their order.
func seen[T any, K comparable](list []T, key func(T) K) (out []K) {
	had := map[K]bool{}
	for _, v := range list {
		if k := key(v); !had[k] {
			had[k] = true
			out = append(out, k)
		}
	}
	return out
}

func (m *machine) ofOwners() (all []reading) {
	add := func(what string, of func(Store) (any, error)) { all = append(all, reading{what, of}) }
	for _, o := range seen(m.runs, func(r record.Run) record.Owner { return r.Owner }) {
		for _, label := range []string{"", "a", "Ä|b"} {
			add(fmt.Sprintf("the live run %q of %v", label, o), func(s Store) (any, error) { return s.LiveRun(m.ctx, o, label) })
		}
		add(fmt.Sprint("live runs of ", o), func(s Store) (any, error) {
			runs, err := s.LiveRuns(m.ctx, o)
			slices.SortFunc(runs, func(a, b record.Run) int { return cmpText(a.ID, b.ID) })
			return runs, err
		})
		add(fmt.Sprint("the epoch of ", o), func(s Store) (any, error) { return s.Epoch(m.ctx, o) })
		add(fmt.Sprint("standing of ", o.Principal), func(s Store) (any, error) { return s.Standing(m.ctx, o.Tenant, o.Principal) })
		add(fmt.Sprint("calls of ", o), func(s Store) (any, error) {
			return s.Calls(m.ctx, dispatch.CallQuery{Tenant: o.Tenant, Owner: &o, Limit: 500})
		})
		add(fmt.Sprint("runs of ", o), func(s Store) (any, error) {
			return s.Runs(m.ctx, dispatch.RunQuery{Tenant: o.Tenant, Owner: &o, Limit: 500})
		})
		add(fmt.Sprint("schedules of ", o), func(s Store) (any, error) {
			return s.Schedules(m.ctx, dispatch.ScheduleQuery{Tenant: o.Tenant, Owner: &o, Over: true, Limit: 500})
		})
		add(fmt.Sprint("questions of ", o), func(s Store) (any, error) {
			return s.Approvals(m.ctx, dispatch.ApprovalQuery{Tenant: o.Tenant, Owner: &o, Limit: 500})
		})
		add(fmt.Sprint("transcripts of ", o), func(s Store) (any, error) {
			return s.ListTranscripts(m.ctx, dispatch.TranscriptQuery{Tenant: o.Tenant, Owner: &o, Limit: 500})
		})
		add(fmt.Sprint("shares of ", o), func(s Store) (any, error) {
			return s.ListShares(m.ctx, dispatch.ShareQuery{Tenant: o.Tenant, By: &o, Limit: 500})
		})
		for _, tool := range []string{"refund", "Refund-2"} {
			add(fmt.Sprintf("what was approved of %s for %v", tool, o), func(s Store) (any, error) {
				return s.Approved(m.ctx, dispatch.ApprovedQuery{Owner: o, Tool: tool})
			})
		}
	}
	return all
}

func cmpText[T ~string](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (m *machine) ofCalls() (all []reading) {
	tenant := record.TenantID(m.tenant)
	add := func(what string, of func(Store) (any, error)) { all = append(all, reading{what, of}) }
	type effect struct {
		lineage    record.LineageID
		effect     record.EffectKey
		occurrence string
	}
	for _, id := range seen(m.calls, func(l dispatch.Loaded) record.CallID { return l.Call.ID }) {
		add("the call "+string(id), func(s Store) (any, error) { return s.Call(m.ctx, tenant, id) })
		add("another tenant's call "+string(id), func(s Store) (any, error) { return s.Call(m.ctx, tenant+"-x", id) })
		add("events of "+string(id), func(s Store) (any, error) {
			return s.Events(m.ctx, dispatch.EventQuery{Tenant: tenant, Call: id, Limit: 500})
		})
	}
	for _, e := range seen(m.calls, func(l dispatch.Loaded) effect { return effect{l.Call.Lineage, l.Call.Effect, l.Call.Occurrence} }) {
		add(fmt.Sprintf("what is known of %+v", e), func(s Store) (any, error) {
			p, err := s.Prior(m.ctx, tenant, e.lineage, e.effect, e.occurrence)
			slices.SortFunc(p.Unsettled, func(a, b record.Call) int { return cmpText(a.ID, b.ID) })
			return p, err
		})
		add(fmt.Sprintf("the no to %+v", e), func(s Store) (any, error) { return s.Rejected(m.ctx, tenant, e.lineage, e.effect) })
	}
	for _, id := range seen(m.calls, func(l dispatch.Loaded) record.ApprovalID { return l.Call.Approval }) {
		if id != "" {
			add("the question "+string(id), func(s Store) (any, error) { return s.Approval(m.ctx, tenant, id) })
		}
	}
	for i := range m.calls {
		if c := m.calls[i].Call; c.State == record.Denied {
			add("what was denied like "+string(c.ID), func(s Store) (any, error) {
				return s.Calls(m.ctx, dispatch.CallQuery{Tenant: tenant, Denied: &c, Limit: 500})
			})
		}
	}
	return all
}

func (m *machine) ofRuns() (all []reading) {
	tenant := record.TenantID(m.tenant)
	add := func(what string, of func(Store) (any, error)) { all = append(all, reading{what, of}) }
	for _, id := range seen(m.runs, func(r record.Run) record.RunID { return r.ID }) {
		add("the run "+string(id), func(s Store) (any, error) { return s.Run(m.ctx, tenant, id) })
		add("open calls of "+string(id), func(s Store) (any, error) { return s.OpenCalls(m.ctx, tenant, id, 100) })
		add("calls of "+string(id), func(s Store) (any, error) {
			return s.Calls(m.ctx, dispatch.CallQuery{Tenant: tenant, Run: id, Limit: 500})
		})
		add("children of "+string(id), func(s Store) (any, error) { return s.Children(m.ctx, tenant, id, 100) })
		add("emissions of "+string(id), func(s Store) (any, error) { return s.OpenEmissions(m.ctx, tenant, id, 100) })
		add("events of "+string(id), func(s Store) (any, error) {
			return s.Events(m.ctx, dispatch.EventQuery{Tenant: tenant, Run: id, Kinds: []record.EventKind{record.EventProposed, record.EventRunEnded, record.EventCanceled}, Limit: 500})
		})
		for _, body := range []string{"a", "b"} {
			add("requests of "+string(id), func(s Store) (any, error) {
				newest, equal, err := s.Requests(m.ctx, tenant, id, canon.Of("request", []byte(body)))
				return []record.ModelRequest{newest, equal}, err
			})
		}
	}
	for _, lineage := range seen(m.runs, func(r record.Run) record.LineageID { return r.Lineage }) {
		add("the lineage "+string(lineage), func(s Store) (any, error) { return s.Lineage(m.ctx, tenant, lineage) })
		add("material of "+string(lineage), func(s Store) (any, error) { return s.Materials(m.ctx, tenant, lineage, 1, m.at.Add(-time.Minute), 3) })
		add("what was not used of "+string(lineage), func(s Store) (any, error) { return s.Unused(m.ctx, tenant, lineage, "refund", m.at) })
		for n := range 4 {
			digest := record.ArgumentDigest(fmt.Appendf(nil, `{"n":%d}`, n), nil)
			add("an emission of "+string(lineage), func(s Store) (any, error) {
				return s.Emission(m.ctx, tenant, lineage, "refund", digest, m.at.Add(-time.Hour))
			})
		}
		for _, label := range []string{"call_1", "call_2", "first", "é"} {
			add("what is called "+label+" in "+string(lineage), func(s Store) (any, error) { return s.Labelled(m.ctx, tenant, lineage, label, 10) })
		}
	}
	return all
}

func (m *machine) ofOthers() (all []reading) {
	tenant := record.TenantID(m.tenant)
	add := func(what string, of func(Store) (any, error)) { all = append(all, reading{what, of}) }
	for _, id := range seen(m.transcripts, func(t record.Transcript) record.TranscriptID { return t.ID }) {
		add("the transcript "+string(id), func(s Store) (any, error) { return s.Transcript(m.ctx, tenant, id) })
	}
	for _, id := range seen(m.shares, func(s record.Share) record.ShareID { return s.ID }) {
		add("the share "+string(id), func(s Store) (any, error) { return s.Share(m.ctx, tenant, id) })
	}
	for _, id := range seen(m.schedules, func(s record.Schedule) record.ScheduleID { return s.ID }) {
		add("the schedule "+string(id), func(s Store) (any, error) { return s.Schedule(m.ctx, tenant, id) })
	}
	for _, r := range m.revocations {
		add("the revocation "+string(r.ID), func(s Store) (any, error) { return s.Revocation(m.ctx, r.Tenant, r.ID) })
	}
	for _, object := range []string{"resp_1", "resp_2"} {
		add("whose "+object+" is", func(s Store) (any, error) { return s.KeptFor(m.ctx, tenant, "openai", object) })
	}
	for _, digest := range seen(m.digests, func(d string) string { return d }) {
		add("the version "+digest, func(s Store) (any, error) { return s.Version(m.ctx, digest) })
	}
	return all
}

// ofEverybody is what the clock and those who follow the log read. Where others use the
// stores, it is looked through for this tenant's.
func (m *machine) ofEverybody() (all []reading) {
	const most = 1 << 20
	add := func(what string, of func(Store) (any, error)) { all = append(all, reading{what, of}) }
	mine := func(list []dispatch.Loaded, err error) ([]record.CallID, error) {
		var out []record.CallID
		for _, l := range list {
			if m.alone || string(l.Call.Tenant) == m.tenant {
				out = append(out, l.Call.ID)
			}
		}
		slices.Sort(out) // of equal times
		return out, err
	}
	for _, at := range []time.Time{m.at, m.at.Add(2 * time.Hour)} {
		add(fmt.Sprint("what is due ", at), func(s Store) (any, error) {
			list, next, err := s.Due(m.ctx, at, most)
			ids, err := mine(list, err)
			return []any{ids, m.onlyAlone(next)}, err
		})
		add(fmt.Sprint("what is queued ", at), func(s Store) (any, error) {
			list, next, err := s.Queued(m.ctx, at, most)
			of := map[record.TenantID][]record.CallID{}
			for _, q := range list {
				if m.alone || string(q.Tenant) == m.tenant {
					of[q.Tenant] = q.Calls
				}
			}
			for _, calls := range of {
				slices.Sort(calls)
			}
			return []any{of, m.onlyAlone(next)}, err
		})
		add(fmt.Sprint("what fires ", at), func(s Store) (any, error) {
			list, next, err := s.Firing(m.ctx, at, most)
			list = slices.DeleteFunc(list, func(s record.Schedule) bool { return !m.alone && string(s.Tenant) != m.tenant })
			slices.SortFunc(list, func(a, b record.Schedule) int { return cmpText(a.ID, b.ID) })
			return []any{list, m.onlyAlone(next)}, err
		})
		add(fmt.Sprint("runs that are over ", at), func(s Store) (any, error) {
			list, next, err := s.RunsOver(m.ctx, at, most)
			list = slices.DeleteFunc(list, func(r record.Run) bool { return !m.alone && string(r.Tenant) != m.tenant })
			slices.SortFunc(list, func(a, b record.Run) int { return cmpText(a.ID, b.ID) })
			return []any{list, m.onlyAlone(next)}, err
		})
	}
	add("what is ready", func(s Store) (any, error) { return mine(s.Ready(m.ctx, "", "", most)) })
	add("what waits for answers", func(s Store) (any, error) { return mine(s.Pending(m.ctx, "", most)) })
	add("what was approved and not used", func(s Store) (any, error) { return mine(s.Unconsumed(m.ctx, "", most)) })
	add("the generation", func(s Store) (any, error) { g, d, err := s.Generation(m.ctx); return []any{g, d}, err })
	if !m.alone {
		return all
	}
	add("how often it was revoked", func(s Store) (any, error) { return s.RevocationMoves(m.ctx) })
	add("revocations everywhere", func(s Store) (any, error) {
		return s.ListRevocations(m.ctx, dispatch.RevocationQuery{Ended: true, Limit: 500})
	})
	add("open calls", func(s Store) (any, error) {
		list, err := s.Open(m.ctx)
		slices.SortFunc(list, func(a, b dispatch.OpenCount) int { return cmpText(a.State, b.State) })
		return list, err
	})
	add("the backlog", func(s Store) (any, error) { return s.Backlog(m.ctx) })
	add("activations", func(s Store) (any, error) { return s.Activations(m.ctx, 0, 50) })
	add("the store's epoch", func(s Store) (any, error) { return s.StoreEpoch(m.ctx) })
	add("the newest checkpoint", func(s Store) (any, error) { return s.Head(m.ctx) })
	add("checkpoints", func(s Store) (any, error) { return s.Checkpoints(m.ctx, 2, 20) })
	add("tiles", func(s Store) (any, error) { return s.Tiles(m.ctx, []record.Tile{{Level: 0, N: 0}, {Level: 1, N: 7}}) })
	add("the newest events of all", func(s Store) (any, error) {
		return s.Events(m.ctx, dispatch.EventQuery{All: true, Newest: true, Limit: 100})
	})
	add("the last event", func(s Store) (any, error) { _, at, err := s.Last(m.ctx, time.Time{}); return at, err })
	return all
}

// onlyAlone is a time that others who use the stores may have changed meanwhile.
func (m *machine) onlyAlone(at time.Time) time.Time {
	if m.alone {
		return at
	}
	return time.Time{}
}
