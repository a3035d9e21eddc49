package audit

import (
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"
)

// tree is the right edge of a Merkle tree: the roots of the full subtrees that a log of
// its size falls into, from the largest on. It is all that appending needs.
type tree struct {
	size int64
	edge []tlog.Hash
}

func (t *tree) add(h tlog.Hash) {
	for n := t.size; n&1 == 1; n >>= 1 {
		last := len(t.edge) - 1
		h = tlog.NodeHash(t.edge[last], h)
		t.edge = t.edge[:last]
	}
	t.edge = append(t.edge, h)
	t.size++
}

// root is the hash of the whole; that of nothing is the hash of the empty string.
func (t *tree) root() tlog.Hash {
	if len(t.edge) == 0 {
		h, _ := tlog.TreeHash(0, nil) // reads nothing
		return h
	}
	h := t.edge[len(t.edge)-1]
	for i := len(t.edge) - 2; i >= 0; i-- {
		h = tlog.NodeHash(t.edge[i], h)
	}
	return h
}

// edgeOf reads the edge of a tree of some size from one that goes on from it.
func edgeOf(size int64, r tlog.HashReader) (tree, error) {
	var indexes []int64
	for level := bits.Len64(uint64(size)) - 1; level >= 0; level-- {
		if size>>level&1 == 1 {
			indexes = append(indexes, tlog.StoredHashIndex(level, size>>level-1))
		}
	}
	if len(indexes) == 0 {
		return tree{}, nil
	}
	edge, err := r.ReadHashes(indexes)
	return tree{size, edge}, err
}

// fits reports whether the edge is one of its size.
func (t *tree) fits() bool { return t.size >= 0 && len(t.edge) == bits.OnesCount64(uint64(t.size)) }
