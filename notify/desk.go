package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const (
	page = 500
	// alertLasts is how long it is tried to tell of an alert.
	alertLasts = 24 * time.Hour
	// lost is how many tries in a row must fail until a receiver counts as not reachable.
	lost = 5
)

// Records is what is read and written. The log says what is to be told.
type Records interface {
	dispatch.Follower
	Events(context.Context, dispatch.EventQuery) ([]record.Event, error)
	Approval(context.Context, record.TenantID, record.ApprovalID) (dispatch.Loaded, error)
	Apply(context.Context, record.Change) error
}

// Options is what a desk is made of. Records, Receivers and PublicURL are required.
type Options struct {
	Records   Records
	Receivers []Receiver
	PublicURL string                // links begin with it
	People    func() *record.People // who is one person, by what is active; nil: nothing is stated

	HTTP    *http.Client     // nil: a plain one; its redirects are never followed
	Clock   func() time.Time // nil: time.Now
	Log     *slog.Logger     // nil: discarded
	Poll    time.Duration    // how often the log is looked at; 0: 1 s
	Pause   time.Duration    // before the second try, doubled for each later one; 0: 5 s
	Timeout time.Duration    // of one try; 0: 10 s
}

func (o Options) withDefaults() Options {
	if o.HTTP == nil {
		o.HTTP = &http.Client{}
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.People == nil {
		o.People = func() *record.People { return nil }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for d, fallback := range map[*time.Duration]time.Duration{&o.Poll: time.Second, &o.Pause: 5 * time.Second, &o.Timeout: 10 * time.Second} {
		if *d <= 0 {
			*d = fallback
		}
	}
	o.PublicURL = strings.TrimRight(o.PublicURL, "/")
	return o
}

// Desk sends notices.
type Desk struct {
	o    Options
	http *http.Client

	mu     sync.Mutex
	queues []*queue
}

// queue is what a receiver is still to be told.
type queue struct {
	Receiver
	wake   chan struct{}
	items  map[string]*item // by what they tell of
	paused time.Time
	failed int // tries in a row
	count  Count
}

// item is one thing that a receiver is to be told.
type item struct {
	key      string
	tenant   record.TenantID
	approval record.ApprovalID // or
	alert    *record.Event     // an alert, with
	found    record.Alert      // what its event says
	reminder int
	due      time.Time
	tries    int
	taken    bool // only its record is missing
	asked    *asked
}

// asked is what the items of one question share.
type asked struct {
	tenant  record.TenantID
	id      record.ApprovalID
	of      []*queue // whose receivers it is for
	reached bool     // one of them took it
	untold  bool     // it is recorded that nobody can be told
}

// Count is how a receiver fared since the start.
type Count struct {
	Taken  int64 // notices that it took
	Failed int64 // tries that failed
	Wait   int   // what it is still to be told, reminders among them
}

// New makes a desk. Nothing is sent until it runs.
func New(o Options) (*Desk, error) {
	o = o.withDefaults()
	if o.Records == nil || o.PublicURL == "" {
		return nil, errors.New("a desk needs records and the server's public URL")
	}
	d := &Desk{o: o, http: &http.Client{Transport: o.HTTP.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	names := map[string]bool{}
	for _, r := range o.Receivers {
		if r.Name == "" || names[r.Name] || r.Address == nil {
			return nil, fmt.Errorf("the receiver %q needs a name of its own and an address", r.Name)
		}
		names[r.Name] = true
		d.queues = append(d.queues, &queue{Receiver: r, wake: make(chan struct{}, 1), items: map[string]*item{}})
	}
	return d, nil
}

// Counts is how each receiver fared, by name.
func (d *Desk) Counts() map[string]Count {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make(map[string]Count, len(d.queues))
	for _, q := range d.queues {
		c := q.count
		c.Wait = len(q.items)
		out[q.Name] = c
	}
	return out
}

// Run follows the log and sends notices until ctx ends.
func (d *Desk) Run(ctx context.Context) {
	if len(d.queues) == 0 {
		return
	}
	seq, known, err := d.begin(ctx)
	for ; err != nil; seq, known, err = d.begin(ctx) {
		d.o.Log.Error("notify: the records cannot be read", "error", err)
		if !pause(ctx, d.o.Poll) {
			return
		}
	}
	var work sync.WaitGroup
	defer work.Wait()
	for _, q := range d.queues {
		work.Go(func() { d.serve(ctx, q) })
	}
	for ctx.Err() == nil {
		next, err := d.follow(ctx, seq, known)
		if err != nil && ctx.Err() == nil {
			d.o.Log.Error("notify: the log cannot be read", "error", err)
		}
		if err == nil {
			known = nil
		}
		seq = next
		pause(ctx, d.o.Poll)
	}
}

// pause waits, and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// begin finds what is still to be told of what was recorded before: questions
// that wait, and alerts of the last day. known are the questions it found.
func (d *Desk) begin(ctx context.Context) (seq int64, known map[record.ApprovalID]bool, err error) {
	if seq, _, err = d.o.Records.Last(ctx, time.Time{}); err != nil {
		return 0, nil, err
	}
	known = map[record.ApprovalID]bool{}
	for after := record.ApprovalID(""); ; {
		waiting, err := d.o.Records.Pending(ctx, after, page)
		if err != nil {
			return 0, nil, err
		}
		for _, l := range waiting {
			after = l.Approval.ID
			known[after] = true
			told, err := d.told(ctx, l)
			if err != nil {
				return 0, nil, err
			}
			d.ask(l, told)
		}
		if len(waiting) < page {
			break
		}
	}
	return seq, known, d.beginAlerts(ctx, seq)
}

// told returns the last notice of a question that each receiver took.
func (d *Desk) told(ctx context.Context, l dispatch.Loaded) (map[string]record.Event, error) {
	events, err := d.o.Records.Events(ctx, dispatch.EventQuery{Tenant: l.Call.Tenant, Call: l.Call.ID,
		Kinds: []record.EventKind{record.EventNotified}, Limit: page})
	if err != nil {
		return nil, err
	}
	out := map[string]record.Event{}
	for _, e := range events {
		if n := noticeOf(e); n != nil && e.Approval == l.Approval.ID {
			out[n.Receiver] = e
		}
	}
	return out, nil
}

func noticeOf(e record.Event) *record.Notice {
	var b record.Body
	if json.Unmarshal(e.Body, &b) != nil {
		return nil
	}
	return b.Notice
}

func (d *Desk) beginAlerts(ctx context.Context, until int64) error {
	after, _, err := d.o.Records.Last(ctx, d.o.Clock().Add(-alertLasts))
	if err != nil {
		return err
	}
	told := map[string]bool{}
	var alerts []record.Event
	for after < until {
		events, err := d.o.Records.Events(ctx, dispatch.EventQuery{All: true, After: after,
			Kinds: []record.EventKind{record.EventAlert, record.EventNotified}, Limit: page})
		if err != nil {
			return err
		}
		for _, e := range events {
			after = e.Seq
			if e.Kind == record.EventAlert && e.Seq <= until {
				alerts = append(alerts, e)
			} else if n := noticeOf(e); n != nil && n.Alert != 0 {
				told[n.ID] = true
			}
		}
		if len(events) < page {
			break
		}
	}
	for _, e := range alerts {
		d.warn(e, told)
	}
	return nil
}

// follow reads what was recorded since, and returns how far it came.
func (d *Desk) follow(ctx context.Context, after int64, known map[record.ApprovalID]bool) (int64, error) {
	// Everything up to here is seen, of whatever kind it is: the next look begins behind it.
	top, _, err := d.o.Records.Last(ctx, time.Time{})
	if err != nil {
		return after, err
	}
	for {
		events, err := d.o.Records.Events(ctx, dispatch.EventQuery{All: true, After: after,
			Kinds: []record.EventKind{record.EventAsked, record.EventAlert}, Limit: page})
		if err != nil {
			return after, err
		}
		for _, e := range events {
			if e.Kind == record.EventAlert {
				d.warn(e, nil)
			} else if !known[e.Approval] {
				l, err := d.o.Records.Approval(ctx, e.Tenant, e.Approval)
				if err != nil {
					return after, err
				}
				d.ask(l, nil)
			}
			after = e.Seq
		}
		if len(events) < page {
			return max(after, top), nil
		}
	}
}

// ask puts a question into the queues of those it is for. told is what they know already.
func (d *Desk) ask(l dispatch.Loaded, told map[string]record.Event) {
	a := l.Approval
	if a == nil || a.State != record.Pending {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	shared := &asked{tenant: a.Tenant, id: a.ID, reached: len(told) > 0}
	for _, q := range d.queues {
		if !q.asks(*a) {
			continue
		}
		shared.of = append(shared.of, q)
		it := &item{key: string(a.ID), tenant: a.Tenant, approval: a.ID, due: d.o.Clock(), asked: shared}
		if e, ok := told[q.Name]; ok {
			it.reminder = noticeOf(e).Reminder
			if !q.again(it, *a, e.At) {
				continue
			}
		}
		q.add(it)
	}
}

// again makes an item the next reminder, and reports whether there is one.
func (q *queue) again(it *item, a record.Approval, told time.Time) bool {
	if it.reminder >= q.Reminders || q.Remind == nil {
		return false
	}
	*it = item{key: it.key, tenant: it.tenant, approval: it.approval, asked: it.asked, reminder: it.reminder + 1,
		due: told.Add(q.Remind(a.Expires.Sub(a.Asked)))}
	return it.due.Before(a.Expires)
}

// warn puts an alert into the queues of those who are told.
func (d *Desk) warn(e record.Event, told map[string]bool) {
	var b record.Body
	if json.Unmarshal(e.Body, &b) != nil || b.Alert == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.queues {
		key := "alert " + strconv.FormatInt(e.Seq, 10)
		if !q.Alerts || !q.tells(e.Tenant) || told[noticeID(q.Name, key, 0)] {
			continue
		}
		q.add(&item{key: key, tenant: e.Tenant, alert: &e, found: *b.Alert, due: d.o.Clock()})
	}
}

// add and everything below it that touches a queue holds the desk's lock.
func (q *queue) add(it *item) {
	if _, there := q.items[it.key]; there {
		return
	}
	q.items[it.key] = it
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// next returns what is due, the oldest first; nil: nothing yet.
func (d *Desk) next(q *queue) *item {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.o.Clock()
	if now.Before(q.paused) {
		return nil
	}
	var first *item
	for _, it := range q.items {
		if !it.due.After(now) && (first == nil || it.due.Before(first.due)) {
			first = it
		}
	}
	return first
}

// serve sends what a receiver is to be told, one notice after the other.
func (d *Desk) serve(ctx context.Context, q *queue) {
	for ctx.Err() == nil {
		if it := d.next(q); it != nil {
			d.tell(ctx, q, it)
			continue
		}
		t := time.NewTimer(d.o.Poll)
		select {
		case <-ctx.Done():
		case <-q.wake:
		case <-t.C:
		}
		t.Stop()
	}
}

// tell sends one notice and records that it was taken. Where the record fails,
// the notice is not sent again, only the record is.
func (d *Desk) tell(ctx context.Context, q *queue, it *item) {
	now := d.o.Clock()
	id := noticeID(q.Name, it.key, it.reminder)
	body, l, err := d.body(ctx, q, it, now)
	switch {
	case err != nil:
		d.later(q, it, "the records cannot be read", err)
		return
	case body == nil:
		d.done(q, it)
		return
	}
	if !it.taken {
		if f := d.post(ctx, &q.Receiver, id, body); f != nil {
			if ctx.Err() == nil {
				d.failed(ctx, q, it, f)
			}
			return
		}
		it.taken = true
		d.mu.Lock()
		q.failed, q.count.Taken = 0, q.count.Taken+1
		if it.asked != nil {
			it.asked.reached = true
		}
		d.mu.Unlock()
	}
	notice := record.Notice{ID: id, Receiver: q.Name, Reminder: it.reminder}
	var change record.Change
	if it.alert != nil {
		notice.Alert = it.alert.Seq
		change = record.ToldAlert(notice, *it.alert, now)
	} else {
		change = record.Told(notice, *l.Approval, now)
	}
	// It has left: that is recorded also while this process ends.
	if err := d.o.Records.Apply(context.WithoutCancel(ctx), change); err != nil {
		d.later(q, it, "that a notice was taken could not be recorded", err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if it.alert != nil || !q.again(it, *l.Approval, now) {
		delete(q.items, it.key)
	}
}

// body is what is to be sent now; nil: there is nothing to tell any more.
func (d *Desk) body(ctx context.Context, q *queue, it *item, now time.Time) ([]byte, dispatch.Loaded, error) {
	var none dispatch.Loaded
	if it.alert != nil {
		if now.Sub(it.alert.At) > alertLasts {
			return nil, none, nil
		}
		body, err := d.alert(&q.Receiver, *it.alert, it.found)
		return body, none, err
	}
	l, err := d.o.Records.Approval(ctx, it.tenant, it.approval)
	if err != nil {
		return nil, none, err
	}
	a := l.Approval
	if !it.taken && (a.State != record.Pending || !now.Before(a.Expires) || it.reminder > 0 && q.answered(*a, d.o.People())) {
		return nil, none, nil
	}
	body, err := d.question(&q.Receiver, l, it.reminder, now)
	return body, l, err
}

func (d *Desk) done(q *queue, it *item) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(q.items, it.key)
}

func (d *Desk) later(q *queue, it *item, what string, err error) {
	d.o.Log.Error("notify: "+what, "receiver", q.Name, "error", err)
	d.mu.Lock()
	defer d.mu.Unlock()
	it.tries++
	it.due = d.o.Clock().Add(d.backoff(it.tries))
}

func (d *Desk) backoff(tries int) time.Duration {
	return min(d.o.Pause<<min(max(tries-1, 0), 10), longestPause)
}

// failed puts a notice off: alone where the receiver refuses just this one, else
// with everything that the receiver is to be told.
func (d *Desk) failed(ctx context.Context, q *queue, it *item, f *failure) {
	d.mu.Lock()
	it.tries++
	q.failed++
	q.count.Failed++
	now := d.o.Clock()
	it.due = now.Add(max(d.backoff(it.tries), f.after))
	if !f.only {
		q.paused = now.Add(max(d.backoff(q.failed), f.after))
	}
	untold := q.untold()
	d.mu.Unlock()
	d.o.Log.Warn("notify: a notice was not taken", "receiver", q.Name, "try", it.tries, "why", f.why)
	for _, u := range untold {
		d.lost(ctx, u)
	}
}

// untold returns the questions of a receiver of which nobody can be told: each
// receiver that they are for has failed again and again. Each is returned once.
func (q *queue) untold() (out []*asked) {
	if q.failed < lost {
		return nil
	}
	for _, it := range q.items {
		a := it.asked
		if a == nil || a.reached || a.untold || slices.ContainsFunc(a.of, func(q *queue) bool { return q.failed < lost }) {
			continue
		}
		a.untold = true
		out = append(out, a)
	}
	return out
}

// lost records that nobody can be told of a question, if it is still open.
func (d *Desk) lost(ctx context.Context, a *asked) {
	l, err := d.o.Records.Approval(ctx, a.tenant, a.id)
	if err == nil && l.Approval.State == record.Pending {
		var names []string
		for _, q := range a.of {
			names = append(names, q.Name)
		}
		err = d.o.Records.Apply(ctx, record.Untold(*l.Approval, "not reached: "+strings.Join(names, ", "), d.o.Clock()))
	}
	if err != nil {
		d.o.Log.Error("notify: that nobody could be told was not recorded", "approval", a.id, "error", err)
	}
}
