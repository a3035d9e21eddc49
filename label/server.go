package label

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/placet-dev/placet/canon"
)

// metaLabels is where servers state labels of what they return. Such a statement
// can only add to what the registry says (rule F2).
const metaLabels = "com.github.ifc/labels"

// Stated are the labels that a result or a progress message states of itself, in
// its _meta or in that of one of its parts. What it states in another form counts
// as untrusted: it is no reason to trust anything.
func Stated(message []byte) []string {
	if !bytes.Contains(message, []byte(metaLabels)) {
		return nil
	}
	c, err := canon.Canonical(message, canon.Limits{Bytes: len(message) + 1, Members: maxNodes})
	if err != nil {
		return []string{Untrusted}
	}
	var out []string
	add := func(l string) {
		for _, have := range out {
			if have == l {
				return
			}
		}
		out = append(out, l)
	}
	found := false
	var walk func(v []byte, depth int)
	walk = func(v []byte, depth int) {
		if depth > maxDepth || len(v) == 0 {
			return
		}
		switch v[0] {
		case '{':
			for name, m := range canon.Members(v) {
				if name == metaLabels {
					found = true
					readStated(m, add)
					continue
				}
				walk(m, depth+1)
			}
		case '[':
			for e := range canon.Elements(v) {
				walk(e, depth+1)
			}
		}
	}
	walk(c, 0)
	if !found {
		return nil // the name stood in a text
	}
	return out
}

func readStated(v []byte, add func(string)) {
	var statement any
	if json.Unmarshal(v, &statement) != nil {
		add(Untrusted)
		return
	}
	known := false
	var walk func(any)
	walk = func(x any) {
		switch x := x.(type) {
		case string:
			known = word1(x, add) || known
		case []any:
			for _, e := range x {
				walk(e)
			}
		case map[string]any:
			for name, e := range x {
				if set, ok := e.(bool); ok {
					if set {
						known = word1(name, add) || known
					} else {
						known = true // it says that something is not so, which lowers nothing
					}
					continue
				}
				walk(e)
			}
		}
	}
	if walk(statement); !known {
		add(Untrusted)
	}
}

// word1 reads one word of a statement. What says that all is well adds nothing.
func word1(s string, add func(string)) (known bool) {
	switch w := strings.ToLower(strings.TrimSpace(s)); {
	case strings.Contains(w, "untrust"), w == "low", w == "tainted", w == "public_write":
		add(Untrusted)
	case w == "sensitive", w == "private", w == "secret", w == "confidential", w == "high_confidentiality":
		add(Sensitive)
	case w == "trusted", w == "public", w == "high", w == "clean":
	case strings.HasPrefix(w, ClassOf) && len(w) > len(ClassOf):
		add(w)
	default:
		return false
	}
	return true
}
