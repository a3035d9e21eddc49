package isolation_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/placet-dev/placet/record"
)

// total counts the cells of all matrices, which are played side by side.
var total struct{ passed, cells atomic.Int64 }

// row is one thing that can be asked for, and who may.
type row struct {
	name   string // of the operation, method or command; after a blank, which case of it
	door   door
	object func(*world) *object
	ask    func(*world, credentials, target) reply

	may    who // it does what it says; each on an object of its own
	own    who // they are served, with what is theirs alone
	lacks  who // the object is theirs to know, and the right is missing: refused
	absent int // status for the others, to whom there is no such object; 0: 404

	done    func(w *world, name string, o *object, r reply) error // whether may, or own, got what it should
	also    func(*world, *object) string                          // state to keep beside the object's own
	columns who                                                   // fewer callers than everybody
	exits   bool                                                  // status is an exit code
	// unlike: the request names nothing that could be missing, or own answers are
	// whole lists: nothing to compare with.
	unlike bool
	// together: nothing moves in this row, and its cells may be played at once.
	together bool
	// decides: refusing who lacks a right is a decision about the call, and moves it.
	decides bool
}

// operation is the row's name without its case.
func (r row) operation() string { name, _, _ := strings.Cut(r.name, " "); return name }

// target is what a request names.
type target struct {
	call, run, approval, binding, session, state, marker, secret string

	transcript, share, revocation string
}

// object is something of the owner's with all that must not be told of it.
type object struct {
	target
	receipt string
}

// missing has the object's shape and does not exist.
func (o *object) missing(t testing.TB) target {
	m := o.target
	m.call, m.run, m.approval = newID(t, "call"), newID(t, "run"), newID(t, "apr")
	m.transcript, m.share = newID(t, "trn"), newID(t, "shr")
	if m.session != "" {
		m.session = strings.Map(func(c rune) rune {
			if c >= '2' && c < '7' || c >= 'A' && c < 'Z' {
				return c + 1
			}
			return c
		}, m.session)
	}
	if m.state != "" {
		m.state = m.state[:len(m.state)-8] + "AAAAAAAA"
	}
	return m
}

// secrets is what nobody but who may must find in an answer.
func (o *object) secrets() []string {
	all := []string{o.marker, o.receipt, o.call, o.run, o.approval, o.binding, o.transcript, o.share, o.secret}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// plain is an answer without what differs from one request to the next: the date,
// and the IDs that the request named.
func (r reply) plain(t target) string {
	var b strings.Builder
	fmt.Fprintln(&b, r.status)
	var names []string
	for name := range r.header {
		if name != "Date" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintln(&b, name, r.header[name])
	}
	b.WriteString(r.body)
	text := b.String()
	for name, id := range map[string]string{"CALL": t.call, "RUN": t.run, "APPROVAL": t.approval, "TRANSCRIPT": t.transcript, "SHARE": t.share, "SESSION": t.session, "STATE": t.state} {
		if id != "" {
			text = strings.ReplaceAll(text, id, name)
		}
	}
	return text
}

// all is the whole of an answer, to search in.
func (r reply) all() string { return fmt.Sprint(r.status, r.header, r.body) }

// check plays every cell of the rows.
func check(t *testing.T, w *world, rows []row) {
	defer func() { t.Logf("isolation: %d/%d", total.passed.Load(), total.cells.Load()) }()
	for _, r := range rows {
		t.Run(strings.ReplaceAll(r.name, "/", "_"), func(t *testing.T) {
			w.t = t
			r.whole(t)
			shared := r.object(w)
			columns := r.columns
			if columns == nil {
				columns = everybody
			}
			for n, err := range r.play(w, columns, shared) {
				total.cells.Add(1)
				if err != nil {
					t.Errorf("%s, by %s: %v", r.name, columns[n], err)
					continue
				}
				total.passed.Add(1)
			}
		})
	}
}

// play plays the cells, one after the other where anything may move.
func (r row) play(w *world, columns who, shared *object) []error {
	results := make([]error, len(columns))
	var all sync.WaitGroup
	for n, name := range columns {
		own := shared
		if r.may.has(name) || r.lacks.has(name) {
			own = r.object(w)
		}
		results[n] = fmt.Errorf("it was not played to its end")
		cell := func() { results[n] = r.cell(w, name, own) }
		if r.together {
			all.Go(cell)
		} else {
			cell()
		}
	}
	all.Wait()
	return results
}

// whole checks the table itself: no caller has two places in a row.
func (r row) whole(t *testing.T) {
	seen := map[string]int{}
	for _, list := range []who{r.may, r.own, r.lacks, r.door.unknown, r.door.forbidden} {
		for _, name := range list {
			if seen[name]++; seen[name] > 1 || !everybody.has(name) {
				t.Fatalf("the table of %s names %q twice, or knows no such caller", r.name, name)
			}
		}
	}
}

// cell plays one, with an object that is its own if the caller may move it.
func (r row) cell(w *world, name string, o *object) error {
	switch {
	case r.may.has(name):
		return r.allowed(w, name, o)
	case r.own.has(name):
		return r.apart(w, name, o)
	case r.lacks.has(name):
		return r.lacking(w, name, o)
	case r.door.unknown.has(name):
		return r.refused(w, name, o, http.StatusUnauthorized)
	case r.door.forbidden.has(name):
		return r.refused(w, name, o, http.StatusForbidden)
	case r.absent != 0:
		return r.refused(w, name, o, r.absent)
	}
	return r.refused(w, name, o, http.StatusNotFound)
}

// good reports whether an answer is none of refusal.
func (r row) good(a reply) bool {
	if r.exits {
		return a.status == 0 || a.status == 11 // 11: not finished
	}
	return a.status >= 200 && a.status < 300
}

// allowed: the neighbouring legitimate case (P10).
func (r row) allowed(w *world, name string, o *object) error {
	a := r.ask(w, w.callers[name], o.target)
	if !r.good(a) {
		return fmt.Errorf("refused, and may: %d %s", a.status, short(a.body))
	}
	if r.done == nil {
		return nil
	}
	return r.done(w, name, o, a)
}

// apart: they are served and neither see nor move what is the owner's.
func (r row) apart(w *world, name string, o *object) error {
	before := r.state(w, o)
	a := r.ask(w, w.callers[name], o.target)
	if !r.good(a) {
		return fmt.Errorf("refused, and may for itself: %d %s", a.status, short(a.body))
	}
	if err := leaks(o, a); err != nil {
		return err
	}
	if !r.unlike {
		m := o.missing(w.t)
		if err := alike(a.plain(o.target), r.ask(w, w.callers[name], m).plain(m)); err != nil {
			return err
		}
	}
	if r.done != nil {
		if err := r.done(w, name, o, a); err != nil {
			return err
		}
	}
	return moved(before, r.state(w, o))
}

// lacking: what is theirs is refused for want of a right, and nothing runs.
func (r row) lacking(w *world, name string, o *object) error {
	before, ledger := r.state(w, o), w.ledger.all()
	a := r.ask(w, w.callers[name], o.target)
	if r.good(a) && !strings.Contains(a.body, "missing_scope") {
		return fmt.Errorf("served without the right: %d %s", a.status, short(a.body))
	}
	if o.receipt != "" && strings.Contains(a.all(), o.receipt) {
		return fmt.Errorf("learned a result without the right: %s", short(a.body))
	}
	if err := effects(ledger, w.ledger.all()); err != nil || r.decides {
		return err
	}
	return moved(before, r.state(w, o))
}

// refused: nothing is told, nothing moves, and a missing object looks the same.
func (r row) refused(w *world, name string, o *object, status int) error {
	before, ledger := r.state(w, o), w.ledger.all()
	a := r.ask(w, w.callers[name], o.target)
	if r.exits {
		status = exitOf(status)
	}
	if a.status != status {
		return fmt.Errorf("status %d, want %d: %s", a.status, status, short(a.body))
	}
	for _, secret := range []string{o.marker, o.receipt} {
		if secret != "" && strings.Contains(a.all(), secret) {
			return fmt.Errorf("the refusal tells %q: %s", secret, short(a.body))
		}
	}
	m := o.missing(w.t)
	if err := alike(a.plain(o.target), r.ask(w, w.callers[name], m).plain(m)); err != nil {
		return err
	}
	if err := effects(ledger, w.ledger.all()); err != nil {
		return err
	}
	return moved(before, r.state(w, o))
}

// exitOf is the exit code for a status.
func exitOf(status int) int {
	for _, k := range record.Kinds() {
		if record.SurfaceOf(k).HTTP == status {
			return record.SurfaceOf(k).Exit
		}
	}
	return -1
}

// short keeps a failure readable.
func short(text string) string {
	const most = 800
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

func alike(there, missing string) error {
	if there != missing {
		return fmt.Errorf("it differs from what does not exist.\nthere:\n%s\nmissing:\n%s", short(there), short(missing))
	}
	return nil
}

func effects(before, after []string) error {
	if !slices.Equal(before, after) {
		return fmt.Errorf("the ledger has new effects: %q", after[len(before):])
	}
	return nil
}

func moved(before, after string) error {
	if before != after {
		return fmt.Errorf("the owner's object changed.\nbefore:\n%s\nafter:\n%s", before, after)
	}
	return nil
}

func leaks(o *object, a reply) error {
	for _, secret := range o.secrets() {
		if strings.Contains(a.all(), secret) {
			return fmt.Errorf("the answer tells of the owner's: %q in %s", secret, short(a.body))
		}
	}
	return nil
}

// state is the object as an operator sees it.
func (r row) state(w *world, o *object) string {
	var b strings.Builder
	for _, path := range []string{"/v1/calls/" + o.call, "/v1/approvals/" + o.approval, "/v1/runs/" + o.run} {
		if strings.HasSuffix(path, "/") {
			continue
		}
		var members map[string]json.RawMessage
		w.ok(w.callers["operator"], request{method: http.MethodGet, path: path}, &members)
		delete(members, "seconds_left")
		text, err := json.Marshal(members)
		if err != nil {
			w.t.Fatal(err)
		}
		b.Write(append(text, '\n'))
	}
	if r.also != nil {
		b.WriteString(r.also(w, o))
	}
	return b.String()
}
