package record

import (
	"strconv"
	"time"

	"github.com/placet-dev/placet/canon"
)

// Checkpoint is how far the log was sealed at a time (rule J4): its first Size events,
// in the order of their numbers, have the leaves 0 to Size-1 of a Merkle tree. Note
// says so, signed; package audit reads and writes it.
type Checkpoint struct {
	Size  int64 // events under it
	Seq   int64 // of the last of them
	Epoch int64
	At    time.Time
	Salt  []byte // of the leaves that it added; it leaves the store only by single leaves
	Note  string
}

// Tile holds hashes of the tree, from the left: of leaves, or of nodes that many levels
// of tiles above them.
type Tile struct {
	Level int
	N     int64
	Data  []byte
}

// SealMove gives leaves to the events that From does not hold, up to number To.Seq. It
// is refused with RefusedConflict where another checkpoint follows From already. What
// sealed is the one record of it: it has no event, which would have to be sealed again.
type SealMove struct {
	From  Checkpoint // zero: nothing was sealed
	To    Checkpoint
	Tiles []Tile // those that the new leaves change, whole
}

// Seal makes the newest part of the log's order final.
func Seal(from, to Checkpoint, tiles []Tile) (Change, error) {
	if to.Size <= from.Size || to.Seq < to.Size || to.Seq <= from.Seq || to.Epoch < from.Epoch || to.Note == "" || len(to.Salt) == 0 {
		return Change{}, Errorf(Internal, "a checkpoint holds more than the one before it, and is signed")
	}
	return Change{Facts{At: to.At, Seal: &SealMove{From: from, To: to, Tiles: tiles}}}, nil
}

// Follows reports whether the move goes on from the newest checkpoint.
func (m SealMove) Follows(newest Checkpoint) bool {
	return m.From.Size == newest.Size && m.From.Seq == newest.Seq && m.From.Note == newest.Note
}

// AppendJSON appends the one form of an event that is hashed: compact JSON, its
// members in this order, the body byte for byte as it was recorded.
func (e Event) AppendJSON(dst []byte) []byte {
	m := members{b: append(dst, '{')}
	m.name("seq")
	m.b = strconv.AppendInt(m.b, e.Seq, 10)
	m.time("at", e.At.UTC().Truncate(time.Microsecond))
	m.name("tenant")
	m.b = canon.AppendText(m.b, string(e.Tenant))
	m.text("kind", string(e.Kind))
	m.text("run", string(e.Run))
	m.text("call", string(e.Call))
	m.text("approval", string(e.Approval))
	m.name("who")
	m.b = e.Who.AppendJSON(m.b)
	m.name("body")
	m.b = append(m.b, e.Body...)
	return append(m.b, '}')
}
