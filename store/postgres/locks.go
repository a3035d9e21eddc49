package postgres

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Kinds of locks, in the order of rule C3. What rows cannot lock, because they may
// not exist yet, is locked by name (pg_advisory_xact_lock): the kind is in the
// lock's highest bits, so that the order of numbers is the order of the rule.
// Calls and approvals that exist are locked by their rows, after all of these.
type lockKind int64

const (
	lockGlobal  lockKind = iota + 1 // the active version: shared by whoever decides under it
	lockTenant                      // a tenant's fence
	lockLineage                     // a lineage's: what it has read, and what of it is open
	lockRun                         // a run of it
	lockCounter                     // by key
	lockName                        // what calls are made for and from: effects, emissions, passkeys, standing
	lockLog                         // the log's order is that of commits
)

// These are no kind's: nothing else can have their numbers.
const (
	lockMigrations int64 = 1
	lockLead       int64 = 2 // who does what is done once (Lead)
)

func lockOf(kind lockKind, parts ...string) int64 {
	h := sha256.New()
	var size [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(size[:], uint64(len(p)))
		h.Write(size[:])
		h.Write([]byte(p))
	}
	sum := h.Sum(nil)
	return int64(kind)<<59 | int64(binary.BigEndian.Uint64(sum)>>5)
}

// locks is what a batch takes; true is for itself alone.
type locks map[int64]bool

func (l locks) share(kind lockKind, parts ...string) {
	k := lockOf(kind, parts...)
	if _, ok := l[k]; !ok {
		l[k] = false
	}
}

func (l locks) own(kind lockKind, parts ...string) { l[lockOf(kind, parts...)] = true }

// upTo takes out those of kinds up to one, in order, as the statement takes them.
func (l locks) upTo(kind lockKind) (keys []int64, own []bool) {
	for k := range l {
		if k < int64(kind+1)<<59 {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		own = append(own, l[k])
		delete(l, k)
	}
	return keys, own
}

// takeLocks takes locks in the order given. The rows of unnest come in that order.
const takeLocks = `SELECT count(CASE WHEN own THEN pg_advisory_xact_lock(key)::text ELSE pg_advisory_xact_lock_shared(key)::text END)
	FROM unnest($1::bigint[], $2::boolean[]) AS t (key, own)`
