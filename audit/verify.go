package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Fault is what is wrong with an export or a receipt.
type Fault string

const (
	Malformed Fault = "malformed" // it is no export, or no receipt
	Unsigned  Fault = "signature" // a checkpoint was not signed by the key
	Changed   Fault = "changed"   // events are not those that were sealed
	Missing   Fault = "missing"   // there are fewer events, or more, than were sealed
	Reordered Fault = "order"     // events or checkpoints are not in their order
	Truncated Fault = "truncated" // it ends before a checkpoint that is known from elsewhere
	Forked    Fault = "fork"      // it goes another way than a checkpoint that is known from elsewhere
	Recovered Fault = "recovered" // a new epoch began before what a known checkpoint held
)

// Broken is the error of whatever does not verify.
type Broken struct {
	Fault Fault
	Text  string
}

func (b *Broken) Error() string { return string(b.Fault) + ": " + b.Text }

// Unwrap makes it a record.Invalid for whoever does not look closer.
func (b *Broken) Unwrap() error { return record.Errorf(record.Invalid, "%s", b.Text) }

func broken(f Fault, format string, args ...any) error {
	return &Broken{f, fmt.Sprintf(format, args...)}
}

// Verified is what was found to be so.
type Verified struct {
	Origin      string
	Tenant      *record.TenantID
	From, Size  int64 // the leaves From to Size-1
	Events      int   // that are shown
	Hidden      int   // leaves of others
	Checkpoints int
	Epoch       int64
	Newest      Checkpoint
	Known       int  // checkpoints from elsewhere that it was compared with
	OwnKey      bool // the key is the export's own word
}

// lineBytes bounds a line: events are bounded where they are recorded.
const lineBytes = 16 << 20

// Verify reads an export. keys are those of its log; nil takes the export's own word
// for them, which shows that it is whole, and not whose. since are checkpoints that were
// kept outside, each a line of a file of [File] or the signed text itself: the export must hold all
// that they hold.
func Verify(r io.Reader, keys note.Verifiers, since []string) (Verified, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), lineBytes)
	if !lines.Scan() {
		return Verified{}, broken(Malformed, "the file is empty")
	}
	var h header
	if err := strict(lines.Bytes(), &h); err != nil || h.Export != 1 {
		return Verified{}, broken(Malformed, "the first line is no header of an export that this program knows")
	}
	v := &verifying{out: Verified{Origin: h.Origin, Tenant: h.Tenant}, keys: keys}
	if keys == nil {
		own, err := Verifiers(h.Key)
		if err != nil {
			return v.out, broken(Malformed, "the export names no key, and none was given")
		}
		v.keys, v.out.OwnKey = own, true
	}
	if err := v.begin(h, since); err != nil {
		return v.out, err
	}
	for n := 2; lines.Scan(); n++ {
		if err := v.line(lines.Bytes()); err != nil {
			return v.out, err
		}
	}
	if err := lines.Err(); err != nil {
		return v.out, broken(Malformed, "the file cannot be read to its end")
	}
	return v.out, v.end(h)
}

// strict reads an object with no other members than those of into.
func strict(line []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return io.ErrUnexpectedEOF
	}
	return nil
}

type verifying struct {
	out    Verified
	keys   note.Verifiers
	tree   tree
	seq    int64        // of the last event that is shown
	last   canon.Digest // of the checkpoint before
	at     time.Time    // of the same
	sealed int64        // its size
	known  []Checkpoint // from elsewhere, not reached yet, by size
}

func (v *verifying) begin(h header, since []string) error {
	if b := h.Base; b != nil {
		c, err := v.open(b.Checkpoint)
		if err != nil {
			return err
		}
		v.tree = tree{b.Size, b.Edge}
		if !v.tree.fits() || c.Size != b.Size || v.tree.root() != c.Root {
			return broken(Changed, "what the export goes on from is not what its checkpoint of %d events holds", b.Size)
		}
		v.seq, v.last, v.at, v.sealed, v.out.From, v.out.Epoch = c.Seq, c.Digest(), c.Time, c.Size, c.Size, c.Epoch
	}
	for _, signed := range since {
		c, err := v.open(signed)
		if err != nil {
			return err
		}
		v.known = append(v.known, c)
	}
	slices.SortStableFunc(v.known, func(a, b Checkpoint) int { return int(a.Size - b.Size) })
	v.out.Known = len(v.known)
	if len(v.known) > 0 && v.known[0].Size < v.tree.size {
		return record.Errorf(record.Invalid, "the export begins after %d events, and the checkpoint to compare it with holds %d; export from there on, or from the beginning", v.tree.size, v.known[0].Size)
	}
	return v.compare()
}

func (v *verifying) open(signed string) (Checkpoint, error) {
	c, err := Open(signed, v.keys)
	if err != nil {
		return c, broken(Unsigned, "%s", err)
	}
	if c.Origin != v.out.Origin {
		return c, broken(Unsigned, "a checkpoint is of the log %q, and the export of %q", c.Origin, v.out.Origin)
	}
	return c, nil
}

// line reads one line behind the header.
func (v *verifying) line(line []byte) error {
	var one struct {
		Salt       *string         `json:"salt"`
		Event      json.RawMessage `json:"event"`
		Leaf       *tlog.Hash      `json:"leaf"`
		Checkpoint *string         `json:"checkpoint"`
	}
	if err := strict(line, &one); err != nil {
		return broken(Malformed, "line after leaf %d is neither an event, nor a hash, nor a checkpoint", v.tree.size)
	}
	switch {
	case one.Salt != nil && one.Event != nil && one.Leaf == nil && one.Checkpoint == nil:
		if err := v.event(one.Event); err != nil {
			return err
		}
		v.tree.add(tlog.RecordHash(line))
	case one.Leaf != nil && one.Salt == nil && one.Event == nil && one.Checkpoint == nil:
		v.out.Hidden++
		v.tree.add(*one.Leaf)
	case one.Checkpoint != nil && one.Salt == nil && one.Event == nil && one.Leaf == nil:
		return v.checkpoint(*one.Checkpoint)
	default:
		return broken(Malformed, "line after leaf %d is neither an event, nor a hash, nor a checkpoint", v.tree.size)
	}
	return v.compare()
}

func (v *verifying) event(text []byte) error {
	var e record.Event
	if err := json.Unmarshal(text, &e); err != nil || e.Seq <= 0 {
		return broken(Malformed, "leaf %d is no event", v.tree.size)
	}
	if e.Seq <= v.seq {
		return broken(Reordered, "event %d stands behind event %d", e.Seq, v.seq)
	}
	if t := v.out.Tenant; t != nil && e.Tenant != *t && e.Tenant != "" {
		return broken(Changed, "event %d is not of the tenant whose export this is", e.Seq)
	}
	v.seq = e.Seq
	v.out.Events++
	return nil
}

func (v *verifying) checkpoint(signed string) error {
	c, err := v.open(signed)
	if err != nil {
		return err
	}
	span := fmt.Sprintf("between the checkpoint of %d events and that of %d, sealed %s", v.sealed, c.Size, c.Time.Format(time.RFC3339))
	switch {
	case c.Previous != v.last || c.Size <= v.sealed || c.Epoch < v.out.Epoch || c.Time.Before(v.at) && c.Epoch == v.out.Epoch:
		return broken(Reordered, "the checkpoint of %d events does not follow the one before it, of %d", c.Size, v.sealed)
	case c.Size != v.tree.size:
		return broken(Missing, "there are %d events %s, and %d were sealed", v.tree.size-v.sealed, span, c.Size-v.sealed)
	case c.Root != v.tree.root():
		return broken(Changed, "what stands %s is not what was sealed", span)
	case c.Seq < v.seq:
		return broken(Reordered, "event %d stands before the checkpoint of events up to %d", v.seq, c.Seq)
	}
	v.last, v.at, v.sealed, v.out.Epoch, v.out.Newest = c.Digest(), c.Time, c.Size, c.Epoch, c
	v.out.Checkpoints++
	return nil
}

// compare holds what is known from elsewhere against the log at its size.
func (v *verifying) compare() error {
	for len(v.known) > 0 && v.known[0].Size == v.tree.size {
		c := v.known[0]
		if c.Root != v.tree.root() && v.out.Epoch > c.Epoch {
			return v.recovered(c)
		}
		if c.Root != v.tree.root() {
			return broken(Forked, "the checkpoint of %d events that was kept, sealed %s, holds other events than this log", c.Size, c.Time.Format(time.RFC3339))
		}
		v.known = v.known[1:]
	}
	return nil
}

func (v *verifying) end(h header) error {
	v.out.Size = v.tree.size
	switch {
	case v.tree.size != v.sealed:
		return broken(Missing, "the last %d events stand under no checkpoint", v.tree.size-v.sealed)
	case v.tree.size != h.Size:
		return broken(Missing, "the export says it holds %d events and ends after %d", h.Size, v.tree.size)
	case len(v.known) > 0:
		c := v.known[len(v.known)-1]
		if v.out.Epoch > c.Epoch {
			return v.recovered(c)
		}
		return broken(Truncated, "the log ends at %d events, and a checkpoint of %d is known, sealed %s", v.tree.size, c.Size, c.Time.Format(time.RFC3339))
	}
	return nil
}

// recovered tells of a checkpoint of an earlier epoch that this log does not go on from.
func (v *verifying) recovered(c Checkpoint) error {
	return broken(Recovered, "the checkpoint of %d events that was kept, sealed %s in epoch %d, holds what this log does not: epoch %d was opened over an older state of the store", c.Size, c.Time.Format(time.RFC3339), c.Epoch, v.out.Epoch)
}

// Holds reports whether a store's sealed log goes on from a checkpoint that was kept
// outside of it. One of an earlier epoch is given up: the newer one was opened knowingly.
func Holds(ctx context.Context, log Log, kept Checkpoint, keys note.Verifiers) error {
	head, err := log.Head(ctx)
	if err != nil {
		return err
	}
	var newest Checkpoint
	if head.Size > 0 {
		if newest, err = Open(head.Note, keys); err != nil {
			return broken(Unsigned, "the log's newest checkpoint was signed by another key")
		}
	}
	switch {
	case newest.Epoch > kept.Epoch:
		return nil
	case newest.Epoch < kept.Epoch:
		return broken(Truncated, "the store is in epoch %d, and a checkpoint of epoch %d was published", newest.Epoch, kept.Epoch)
	case newest.Size < kept.Size:
		return broken(Truncated, "the log holds %d sealed events, and the checkpoint that was published %s holds %d", newest.Size, kept.Time.Format(time.RFC3339), kept.Size)
	}
	edge, err := edgeOf(kept.Size, hashes(ctx, log, newest))
	if err != nil {
		return damaged(err)
	}
	if edge.root() != kept.Root {
		return broken(Forked, "the log's first %d events are not those of the checkpoint that was published %s", kept.Size, kept.Time.Format(time.RFC3339))
	}
	return nil
}
