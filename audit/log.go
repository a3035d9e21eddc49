package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/placet-dev/placet/record"
)

// Log is what is read of a store. It moves nothing.
type Log interface {
	// StoreEpoch is the epoch of the store; 1 before the first recovery.
	StoreEpoch(ctx context.Context) (int64, error)

	// Head returns the newest checkpoint; zero: nothing is sealed yet.
	Head(ctx context.Context) (record.Checkpoint, error)

	// Checkpoints returns those that hold more than size events, oldest first, at most n.
	Checkpoints(ctx context.Context, size int64, n int) ([]record.Checkpoint, error)

	// Sealed returns the checkpoint that gave an event its leaf and the one before it,
	// zero where there is none. found says whether it is sealed.
	Sealed(ctx context.Context, seq int64) (before, with record.Checkpoint, found bool, err error)

	// Logged returns events of all tenants after one and up to another, in the order of
	// the log, at most n.
	Logged(ctx context.Context, after, through int64, n int) ([]record.Event, error)

	// Tiles returns what is kept of tiles, in the order asked for. One that does not
	// exist is empty.
	Tiles(ctx context.Context, refs []record.Tile) ([]record.Tile, error)
}

// height is that of the tiles: 256 hashes each.
const height = 8

// tiles reads a store's tiles. What it returns is checked against a root before it is used.
type tiles struct {
	ctx context.Context
	log Log
}

func (t tiles) Height() int { return height }

func (t tiles) SaveTiles([]tlog.Tile, [][]byte) {}

func (t tiles) ReadTiles(want []tlog.Tile) ([][]byte, error) {
	refs := make([]record.Tile, len(want))
	for i, w := range want {
		refs[i] = record.Tile{Level: w.L, N: w.N}
	}
	have, err := t.log.Tiles(t.ctx, refs)
	if err != nil {
		return nil, err
	}
	out := make([][]byte, len(want))
	for i, w := range want {
		size := w.W * tlog.HashSize
		if i >= len(have) || len(have[i].Data) < size {
			return nil, record.Errorf(record.Internal, "the log's hashes are damaged: tile %s is missing or short", w.Path())
		}
		out[i] = have[i].Data[:size]
	}
	return out, nil
}

// hashes reads hashes of the tree under a checkpoint, and proves each to be in it.
func hashes(ctx context.Context, log Log, c Checkpoint) tlog.HashReader {
	read := tlog.TileHashReader(tlog.Tree{N: c.Size, Hash: c.Root}, tiles{ctx, log})
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		if len(indexes) == 0 {
			return nil, nil
		}
		return read.ReadHashes(indexes)
	})
}

// leaf is the text of an event's leaf: a line of an export.
func leaf(salt []byte, index int64, e record.Event) []byte {
	b := append(make([]byte, 0, 64+256+len(e.Body)), `{"salt":"`...)
	b = append(b, saltOf(salt, index)...)
	b = append(b, `","event":`...)
	return append(e.AppendJSON(b), '}')
}

// saltOf is a leaf's own salt, which says nothing of any other's.
func saltOf(salt []byte, index int64) string {
	h := sha256.New()
	h.Write([]byte("placet/leaf/1 " + strconv.FormatInt(index, 10) + " "))
	h.Write(salt)
	return hex.EncodeToString(h.Sum(nil)[:16])
}
