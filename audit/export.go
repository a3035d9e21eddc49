package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"io"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/placet-dev/placet/record"
)

// An export is lines of JSON: a header, then each leaf of the log in its order, an
// event or a hash alone, and each checkpoint behind the last leaf that it holds.
type (
	header struct {
		Export int              `json:"placet_export"` // the version of this format
		Origin string           `json:"origin"`
		Key    string           `json:"key"`              // who verifies with it believes the export's own word
		Tenant *record.TenantID `json:"tenant,omitempty"` // whose events are shown; absent: everybody's
		Base   *base            `json:"base,omitempty"`   // where it does not begin with the first event
		Size   int64            `json:"size"`             // of the log at the export's end
	}
	// base is what an export goes on from.
	base struct {
		Size       int64       `json:"size"`
		Edge       []tlog.Hash `json:"edge"`
		Checkpoint string      `json:"checkpoint"`
	}
	hidden struct {
		Leaf tlog.Hash `json:"leaf"`
	}
)

// Export is what to write out.
type Export struct {
	Tenant *record.TenantID // shows its events, and those of the server; nil: all
	After  int64            // go on from the checkpoint of this size; 0: from the beginning
}

// shows reports whether an event is shown.
func (x Export) shows(e record.Event) bool {
	return x.Tenant == nil || e.Tenant == *x.Tenant || e.Tenant == ""
}

// WriteTo writes the sealed log. What the store holds is written as it is found: it
// is [Verify] that tells whether it is what was sealed.
func (x Export) WriteTo(ctx context.Context, w io.Writer, log Log, key string) error {
	head, err := log.Head(ctx)
	if err != nil {
		return err
	}
	if head.Size == 0 {
		return record.Errorf(record.NotFound, "nothing is sealed yet")
	}
	newest, err := read(head)
	if err != nil {
		return err
	}
	out := exporting{x, ctx, log, w, hashes(ctx, log, newest)}
	before, err := out.begin(newest, key)
	if err != nil {
		return err
	}
	for before.Size < head.Size {
		page, err := log.Checkpoints(ctx, before.Size, 100)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return record.Errorf(record.Internal, "checkpoints are missing after %d events", before.Size)
		}
		for _, c := range page {
			if c.Size > head.Size {
				return nil // sealed since the export began
			}
			if err := out.span(before, c); err != nil {
				return err
			}
			before = c
		}
	}
	return nil
}

type exporting struct {
	Export
	ctx  context.Context
	log  Log
	w    io.Writer
	tree tlog.HashReader
}

// begin writes the header.
func (x exporting) begin(newest Checkpoint, key string) (from record.Checkpoint, err error) {
	h := header{Export: 1, Origin: newest.Origin, Key: key, Tenant: x.Tenant, Size: newest.Size}
	if x.After > 0 {
		page, err := x.log.Checkpoints(x.ctx, x.After-1, 1)
		if err != nil {
			return from, err
		}
		if len(page) == 0 || page[0].Size != x.After || x.After >= newest.Size {
			return from, record.Errorf(record.NotFound, "there is no checkpoint of %d events that others follow", x.After)
		}
		from = page[0]
		edge, err := edgeOf(from.Size, x.tree)
		if err != nil {
			return from, damaged(err)
		}
		h.Base = &base{from.Size, edge.edge, from.Note}
	}
	return from, x.line(h)
}

func (x exporting) line(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = x.w.Write(append(b, '\n'))
	return err
}

// span writes what one checkpoint added, and the checkpoint.
func (x exporting) span(before, c record.Checkpoint) error {
	var b bytes.Buffer
	n := before.Size
	for after := before.Seq; ; {
		events, err := x.log.Logged(x.ctx, after, c.Seq, most)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			break
		}
		kept, err := x.leaves(n, events)
		if err != nil {
			return err
		}
		for i, e := range events {
			if x.shows(e) {
				b.Write(leaf(c.Salt, n+int64(i), e))
			} else {
				line, err := json.Marshal(hidden{kept[i]})
				if err != nil {
					return err
				}
				b.Write(line)
			}
			b.WriteByte('\n')
		}
		n, after = n+int64(len(events)), events[len(events)-1].Seq
	}
	line, err := json.Marshal(published{c.Note})
	if err != nil {
		return err
	}
	b.Write(append(line, '\n'))
	_, err = x.w.Write(b.Bytes())
	return err
}

// leaves reads the hashes of leaves that are not shown; the others are zero.
func (x exporting) leaves(from int64, events []record.Event) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(events))
	var indexes []int64
	var at []int
	for i, e := range events {
		if !x.shows(e) {
			indexes, at = append(indexes, tlog.StoredHashIndex(0, from+int64(i))), append(at, i)
		}
	}
	if len(indexes) == 0 {
		return out, nil
	}
	found, err := x.tree.ReadHashes(indexes)
	if err != nil {
		return nil, damaged(err)
	}
	for i, h := range found {
		out[at[i]] = h
	}
	return out, nil
}
