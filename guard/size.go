package guard

import (
	"encoding/json"

	"github.com/placet-dev/placet/canon"
)

// isSized is the rule for a list or an object of any form: it bounds what a schema
// leaves open.
type isSized struct {
	items, members, bytes, depth int
}

func newSize(s Spec) (rule, error) {
	if s.MaxItems == 0 && s.MaxMembers == 0 && s.MaxBytes == 0 && s.MaxDepth == 0 {
		return nil, wrong("max_items", "or max_members, max_bytes or max_depth is needed: what the argument may hold")
	}
	if s.MaxMembers < 0 || s.MaxBytes < 0 || s.MaxDepth < 0 {
		return nil, wrong("max_members", "and its like must be more than 0")
	}
	return isSized{s.MaxItems, s.MaxMembers, s.MaxBytes, s.MaxDepth}, nil
}

func (s isSized) accept(v value) (json.RawMessage, *Refusal) {
	var n measure
	n.add(v.raw, 0)
	switch {
	case s.items > 0 && n.items > s.items, s.members > 0 && n.members > s.members,
		s.bytes > 0 && len(v.raw) > s.bytes, s.depth > 0 && n.depth > s.depth:
		return nil, refuse("holds more than this tool may be given")
	}
	return v.raw, nil
}

// measure is what a value holds: the longest list, all members, the deepest nesting.
type measure struct{ items, members, depth int }

func (n *measure) add(raw []byte, depth int) {
	if len(raw) == 0 || raw[0] != '[' && raw[0] != '{' {
		return
	}
	depth++
	n.depth = max(n.depth, depth)
	if raw[0] == '[' {
		count := 0
		for e := range canon.Elements(raw) {
			count++
			n.add(e, depth)
		}
		n.items = max(n.items, count)
		return
	}
	for _, m := range canon.Members(raw) {
		n.members++
		n.add(m, depth)
	}
}
