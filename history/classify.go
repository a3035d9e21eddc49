package history

import (
	"context"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Class says how far an item is to be trusted: by what the server's own records
// say, never by what the item says of itself.
type Class string

const (
	// ClassRecord is a call that the server has a record of. The record decides;
	// the item only shows which.
	ClassRecord Class = "record"
	// ClassWitnessed is model output that the server saw in the current turn. It may
	// become a proposal, by its emission and once.
	ClassWitnessed Class = "witnessed"
	// ClassReturned is a result that the server returned, digest equal. It may inform
	// the model, and carries its labels.
	ClassReturned Class = "returned"
	// ClassVouched is user input vouched for in this run. It may anchor origins.
	ClassVouched Class = "vouched"
	// ClassClient is everything else: it may be shown, marked, and nothing more.
	ClassClient Class = "client"
)

// Recorded is what the server knows of one call or emission that carries a label.
type Recorded struct {
	Call      record.CallID // empty: seen from the model, and not proposed yet
	Run       record.RunID
	Tool      string
	Digest    canon.Digest // of the proposed arguments, as [record.ArgumentDigest] makes it
	State     record.State
	Witnessed bool         // emitted by the model in the current turn, and not consumed
	Result    canon.Digest // what was returned, as [ResultDigest] makes it; zero: nothing was
	Answer    string       // that text, to fill gaps with; empty: not kept, or not to be shown
	Failed    bool         // whether that answer says that the call failed
}

// Records is what an item is compared with. The implementation answers for one
// tenant, principal and lineage, those of the verified caller; what belongs to
// anybody else is not there.
type Records interface {
	// Labelled returns what carries a label that a client or provider gave, oldest
	// first. A label is not unique: items are matched by tool and digest, and each
	// record is matched once.
	Labelled(ctx context.Context, label string) ([]Recorded, error)
	// Vouched reports whether a text with this digest ([TextDigest]) is typed user
	// input that was vouched for in the current run.
	Vouched(ctx context.Context, digest canon.Digest) (bool, error)
}

// NoRecords knows nothing: every item is a client's.
type NoRecords struct{}

// Labelled finds nothing.
func (NoRecords) Labelled(context.Context, string) ([]Recorded, error) { return nil, nil }

// Vouched denies.
func (NoRecords) Vouched(context.Context, canon.Digest) (bool, error) { return false, nil }

// Judgement is an item's class, and the record it was matched with.
type Judgement struct {
	Item   int       `json:"item"`
	Class  Class     `json:"class"`
	Record *Recorded `json:"-"`
}

// Classification is the class of each item, in order, and what comparing showed.
type Classification struct {
	Judgements []Judgement `json:"judgements"` // by item index; items outside the list come last
	Findings   []Finding   `json:"findings"`
}

// Of returns an item's judgement.
func (c *Classification) Of(item int) Judgement {
	if item < len(c.Judgements) {
		return c.Judgements[item]
	}
	return Judgement{Item: item, Class: ClassClient}
}

// Classify compares each item with the records. An item whose label is known and
// whose digest is another is a client's, and is reported: it is never merged with
// the record. An error of the records ends it, and then nothing is classified.
func Classify(ctx context.Context, t *Transcript, records Records) (*Classification, error) {
	c := &classifier{ctx: ctx, records: records, known: map[string][]*Recorded{}, used: map[*Recorded]bool{}, byCall: map[int]*Recorded{}}
	pairs := pairsOf(t)
	n := 0
	for i := range t.Items {
		n = max(n, i.Index+1)
	}
	c.out.Judgements = make([]Judgement, n)
	for k := range c.out.Judgements {
		c.out.Judgements[k] = Judgement{Item: k, Class: ClassClient}
	}
	c.out.Findings = []Finding{}
	for i := range t.Items {
		j, err := c.judge(i, pairs)
		if err != nil {
			return nil, err
		}
		c.out.Judgements[i.Index] = j
	}
	return &c.out, nil
}

type classifier struct {
	ctx     context.Context
	records Records
	known   map[string][]*Recorded // by label, as the records said
	used    map[*Recorded]bool
	byCall  map[int]*Recorded // by the item of the call
	run     record.RunID      // of the first call that was matched
	out     Classification
}

func (c *classifier) found(code string, i *Item, format string, args ...any) {
	f := finding(code, i.At, format, args...)
	f.Message, f.Item = i.Message, i.Index
	c.out.Findings = append(c.out.Findings, f)
}

func (c *classifier) judge(i *Item, pairs *pairing) (Judgement, error) {
	j := Judgement{Item: i.Index, Class: ClassClient}
	switch i.Kind {
	case Call:
		r, err := c.call(i)
		if err != nil || r == nil {
			return j, err
		}
		c.byCall[i.Index] = r
		j.Record, j.Class = r, ClassRecord
		if r.Witnessed {
			j.Class = ClassWitnessed
		}
		c.compare(i, r, pairs)
	case Result:
		call, ok := pairs.call[i.Index]
		r := c.byCall[call]
		if !ok || r == nil || r.Result.IsZero() {
			return j, nil
		}
		if i.Digest != r.Result || i.Failed && !r.Failed {
			c.found(CodeEditedResult, i, "%s", shownName(i.ID))
			return j, nil
		}
		j.Record, j.Class = r, ClassReturned
	case User:
		text, ok := oneText(i.Content)
		if !ok {
			return j, nil
		}
		vouched, err := c.records.Vouched(c.ctx, TextDigest(string(text)))
		if err == nil && vouched {
			j.Class = ClassVouched
		}
		return j, err
	}
	return j, nil
}

// call finds the record of a call: the oldest one under its label that is not
// matched yet and has the same tool and the same arguments.
func (c *classifier) call(i *Item) (*Recorded, error) {
	if i.ID == "" || i.Again {
		return nil, nil
	}
	known, asked := c.known[i.ID]
	if !asked {
		rs, err := c.records.Labelled(c.ctx, i.ID)
		if err != nil {
			return nil, err
		}
		for k := range rs {
			known = append(known, &rs[k])
		}
		c.known[i.ID] = known
	}
	free := 0
	for _, r := range known {
		if c.used[r] {
			continue
		}
		free++
		if r.Tool == i.Tool && r.Digest == i.Digest && i.Bad == "" {
			c.used[r] = true
			return r, nil
		}
	}
	switch {
	case free > 0:
		c.found(CodeEditedArguments, i, "%s is recorded with another tool or other arguments", shownName(i.ID))
	case len(known) > 0:
		c.found(CodeReusedID, i, "%s is recorded less often than it stands here", shownName(i.ID))
	}
	return nil, nil
}

// compare looks at what the history makes of a recorded call.
func (c *classifier) compare(i *Item, r *Recorded, pairs *pairing) {
	switch {
	case r.Run == "":
	case c.run == "":
		c.run = r.Run
	case c.run != r.Run:
		c.found(CodeSplicedRuns, i, "%s is of another run than the calls before it", shownName(i.ID))
	}
	switch r.State {
	case record.Canceled, record.Denied, record.Revoked, record.Expired:
	default:
		return
	}
	result := pairs.result[i.Index]
	if result == nil || !result.Failed && (r.Result.IsZero() || result.Digest != r.Result) {
		c.found(CodeDroppedCancellation, i, "%s ended as %s", shownName(i.ID), r.State)
	}
}

// pairing is what the walk makes of each item of a transcript.
type pairing struct {
	verdicts map[int]verdict
	of       map[int]*occurrence // of calls that count, by item
	call     map[int]int         // result to call
	result   map[int]*Item       // call to result
	settled  map[string]bool     // requests for approval whose call has run as asked
	report   Report
}

// pairsOf walks over a transcript once.
func pairsOf(t *Transcript) *pairing {
	p := &pairing{verdicts: map[int]verdict{}, of: map[int]*occurrence{}, call: map[int]int{}, result: map[int]*Item{}}
	c := NewChecker(t.Format, Limits{})
	c.decide = func(i *Item, v verdict, o *occurrence) {
		p.verdicts[i.Index] = v
		switch {
		case i.Kind == Call && v == kept:
			p.of[i.Index] = o
		case i.Kind == Result && (v == paired || v == ambiguous):
			p.call[i.Index], p.result[o.item] = o.item, i
		}
	}
	for m := range t.Messages {
		c.Message(&t.Messages[m])
	}
	c.report.Unseen = c.report.Unseen || len(t.outside) > 0
	p.report = c.Report(true)
	p.settled = map[string]bool{}
	for id, q := range c.asked {
		p.settled[id] = q.settled && !q.edited && q.answers > 0 && q.approved
	}
	return p
}
