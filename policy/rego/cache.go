package rego

import (
	"encoding/binary"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
)

// cache keeps built terms by the content they were built from. It is keyed by
// the whole content and not by a pointer, so that changing a structure after
// the fact cannot make a decision rest on what it was before.
type cache struct {
	mu          sync.RWMutex
	limit       int // entries of one generation; at most twice as many are kept
	young, aged map[string]*ast.Term
}

func newCache(limit int) *cache { return &cache{limit: limit, young: map[string]*ast.Term{}} }

func (c *cache) get(key []byte) (*ast.Term, bool) {
	c.mu.RLock()
	t, ok := c.young[string(key)]
	if ok {
		c.mu.RUnlock()
		return t, true
	}
	t, ok = c.aged[string(key)]
	c.mu.RUnlock()
	if ok {
		c.put(key, t)
	}
	return t, ok
}

func (c *cache) put(key []byte, t *ast.Term) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.young) >= c.limit {
		c.aged, c.young = c.young, make(map[string]*ast.Term, c.limit/4)
	}
	c.young[string(key)] = t
}

// content builds cache keys: each field with its length before it, so that no
// two lists of fields run together.
type content []byte

func text[T ~string | ~[]byte](k content, s T) content {
	k = binary.AppendUvarint(k, uint64(len(s)))
	return append(k, s...)
}

func (k content) count(n int) content { return binary.AppendUvarint(k, uint64(n)) }

func (k content) flag(b bool) content {
	if b {
		return append(k, 1)
	}
	return append(k, 0)
}
