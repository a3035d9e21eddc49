package audit

import (
	"context"
	"encoding/json"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/placet-dev/placet/record"
)

// Receipt shows that events stand in the log, to whoever has the log's key.
type Receipt struct {
	Receipt    int     `json:"placet_receipt"` // the version of this format
	Key        string  `json:"key"`            // who verifies with it believes the receipt's own word
	Checkpoint string  `json:"checkpoint"`
	Entries    []Entry `json:"entries" nullable:"false"`
}

// Entry is an event with the proof that it is a leaf of the tree.
type Entry struct {
	Seq   int64    `json:"seq"`
	Leaf  int64    `json:"leaf"`                   // its index
	Entry string   `json:"entry"`                  // the leaf's text, byte for byte: salt and event
	Proof []string `json:"proof" nullable:"false"` // RFC 6962 audit path, base64
}

// Receipts proves events under the newest checkpoint. One that is not sealed yet is an
// error of kind record.Conflict: it will be in a moment.
func Receipts(ctx context.Context, log Log, key string, events []record.Event) (Receipt, error) {
	out := Receipt{Receipt: 1, Key: key, Entries: []Entry{}}
	head, err := log.Head(ctx)
	if err != nil {
		return out, err
	}
	if head.Size == 0 {
		return out, unsealed()
	}
	newest, err := read(head)
	if err != nil {
		return out, err
	}
	out.Checkpoint = head.Note
	tree := hashes(ctx, log, newest)
	for _, e := range events {
		if e.Seq > head.Seq {
			return out, unsealed()
		}
		entry, err := prove(ctx, log, tree, newest.Size, e)
		if err != nil {
			return out, err
		}
		out.Entries = append(out.Entries, entry)
	}
	return out, nil
}

func unsealed() error {
	return record.Errorf(record.Conflict, "this event is not sealed yet; ask again in a moment")
}

func prove(ctx context.Context, log Log, tree tlog.HashReader, size int64, e record.Event) (Entry, error) {
	before, with, found, err := log.Sealed(ctx, e.Seq)
	if err != nil {
		return Entry{}, err
	}
	if !found {
		return Entry{}, unsealed()
	}
	index := before.Size - 1
	for after := before.Seq; after < e.Seq; {
		page, err := log.Logged(ctx, after, e.Seq, most)
		if err != nil {
			return Entry{}, err
		}
		if len(page) == 0 {
			break
		}
		index, after = index+int64(len(page)), page[len(page)-1].Seq
	}
	proof, err := tlog.ProveRecord(size, index, tree)
	if err != nil {
		return Entry{}, damaged(err)
	}
	out := Entry{Seq: e.Seq, Leaf: index, Entry: string(leaf(with.Salt, index, e)), Proof: make([]string, len(proof))}
	for i, h := range proof {
		out.Proof[i] = h.String()
	}
	return out, nil
}

// VerifyReceipt checks every entry, and returns the events. keys nil takes the
// receipt's own word for its key.
func VerifyReceipt(text []byte, keys note.Verifiers) ([]record.Event, Checkpoint, error) {
	var r Receipt
	if err := strict(text, &r); err != nil || r.Receipt != 1 {
		return nil, Checkpoint{}, broken(Malformed, "this is no receipt that this program knows")
	}
	if keys == nil {
		own, err := Verifiers(r.Key)
		if err != nil {
			return nil, Checkpoint{}, broken(Malformed, "the receipt names no key, and none was given")
		}
		keys = own
	}
	c, err := Open(r.Checkpoint, keys)
	if err != nil {
		return nil, c, broken(Unsigned, "%s", err)
	}
	if len(r.Entries) == 0 {
		return nil, c, broken(Malformed, "the receipt is for no event")
	}
	var out []record.Event
	for _, entry := range r.Entries {
		e, err := entry.check(c)
		if err != nil {
			return nil, c, err
		}
		out = append(out, e)
	}
	return out, c, nil
}

func (entry Entry) check(c Checkpoint) (record.Event, error) {
	var one struct {
		Salt  string       `json:"salt"`
		Event record.Event `json:"event"`
	}
	if err := json.Unmarshal([]byte(entry.Entry), &one); err != nil || one.Event.Seq != entry.Seq {
		return one.Event, broken(Malformed, "the entry of event %d is another one's", entry.Seq)
	}
	proof := make(tlog.RecordProof, len(entry.Proof))
	for i, text := range entry.Proof {
		h, err := tlog.ParseHash(text)
		if err != nil {
			return one.Event, broken(Malformed, "the proof of event %d cannot be read", entry.Seq)
		}
		proof[i] = h
	}
	if entry.Leaf < 0 || entry.Leaf >= c.Size || tlog.CheckRecord(proof, c.Size, c.Root, entry.Leaf, tlog.RecordHash([]byte(entry.Entry))) != nil {
		return one.Event, broken(Changed, "event %d is not what was sealed under the checkpoint of %d events", entry.Seq, c.Size)
	}
	return one.Event, nil
}
