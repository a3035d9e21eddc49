package label

import (
	"encoding/json"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/placet-dev/placet/canon"
)

// value is a parsed result: a scalar, a list or an object. Scalars are their text.
type value struct {
	scalar string
	list   []value
	object []member
	kind   byte // 's', 'l', 'o'; 0: null
	bare   bool // a scalar that was a number, true or false
}

type member struct {
	name string
	value
}

// maxDepth and maxNodes bound a parsed result; what is larger is free text.
const (
	maxDepth = 32
	maxNodes = 200_000
)

func (v value) get(name string) (value, bool) {
	for _, m := range v.object {
		if m.name == name {
			return m.value, true
		}
	}
	return value{}, false
}

// at follows a dotted path into objects; "" is the value itself.
func (v value) at(path string) (value, bool) {
	for part := range strings.SplitSeq(path, ".") {
		if path == "" {
			break
		}
		next, ok := v.get(part)
		if !ok {
			return value{}, false
		}
		v = next
	}
	return v, true
}

// leaves are the scalars of a value, lists and objects walked. Names of members
// are structure and no values.
func (v value) leaves(yield func(string) bool) bool {
	switch v.kind {
	case 's':
		return yield(v.scalar)
	case 'l':
		for _, e := range v.list {
			if !e.leaves(yield) {
				return false
			}
		}
	case 'o':
		for _, m := range v.object {
			if !m.leaves(yield) {
				return false
			}
		}
	}
	return true
}

// one is the only scalar of a value, if there is exactly one.
func (v value) one() (string, bool) {
	var only string
	n := 0
	v.leaves(func(s string) bool { only = s; n++; return n < 2 })
	return only, n == 1
}

// parsed reads a tool result. ok is false when it is free text, or larger or
// deeper than anything that is read here.
func parsed(result []byte, r Results) (value, bool) {
	text, single := Text(result)
	if r.Format != YAML {
		if s, ok := canon.Lookup(result, "structuredContent"); ok {
			return parseJSON(s)
		}
		if !single {
			return value{}, false
		}
		v, ok := parseJSON([]byte(text))
		if ok || r.Format == JSON || len(r.Fields) == 0 && !r.Listed {
			return v, ok
		}
		// The entry says that there are records, and not how they are written.
	}
	if !single {
		return value{}, false
	}
	return parseYAML(text)
}

// Text is the text of a tool result's content; single says that it is one piece.
func Text(result []byte) (text string, single bool) {
	content, ok := canon.Lookup(result, "content")
	if !ok || len(content) == 0 || content[0] != '[' {
		return "", false
	}
	var b strings.Builder
	n := 0
	for e := range canon.Elements(content) {
		if len(e) == 0 || e[0] != '{' {
			continue
		}
		if raw, ok := canon.Lookup(e, "text"); ok {
			if s, ok := canon.Text(raw); ok {
				if n > 0 {
					b.WriteByte('\n')
				}
				b.WriteString(s)
			}
		}
		n++
	}
	return b.String(), n == 1
}

func parseJSON(text []byte) (value, bool) {
	var content any
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if d.Decode(&content) != nil || d.More() {
		return value{}, false
	}
	// Duplicate names have no one meaning: such a text is no record of anything.
	if _, err := canon.Canonical(text, canon.Limits{}); err != nil {
		return value{}, false
	}
	nodes := 0
	return fromAny(content, 0, &nodes)
}

func fromAny(v any, depth int, nodes *int) (value, bool) {
	if *nodes++; depth > maxDepth || *nodes > maxNodes {
		return value{}, false
	}
	switch x := v.(type) {
	case nil:
		return value{}, true
	case string:
		return value{kind: 's', scalar: x}, true
	case json.Number:
		return value{kind: 's', scalar: x.String(), bare: true}, true
	case bool:
		return value{kind: 's', scalar: map[bool]string{true: "true", false: "false"}[x], bare: true}, true
	case []any:
		out := value{kind: 'l'}
		for _, e := range x {
			c, ok := fromAny(e, depth+1, nodes)
			if !ok {
				return value{}, false
			}
			out.list = append(out.list, c)
		}
		return out, true
	case map[string]any:
		out := value{kind: 'o'}
		for name, e := range x {
			c, ok := fromAny(e, depth+1, nodes)
			if !ok {
				return value{}, false
			}
			out.object = append(out.object, member{name, c})
		}
		return out, true
	}
	return value{}, false
}

// parseYAML reads one document of plain YAML. Anchors, aliases, tags and merges
// are not what a tool writes of records, and could make one value stand in many
// places: such a text is free text.
func parseYAML(text string) (value, bool) {
	if len(text) > 4<<20 {
		return value{}, false
	}
	file, err := parser.ParseBytes([]byte(text), 0)
	if err != nil || len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return value{}, false
	}
	nodes := 0
	return fromYAML(file.Docs[0].Body, 0, &nodes)
}

func fromYAML(n ast.Node, depth int, nodes *int) (value, bool) {
	if *nodes++; depth > maxDepth || *nodes > maxNodes {
		return value{}, false
	}
	switch x := n.(type) {
	case *ast.NullNode:
		return value{}, true
	case *ast.StringNode:
		return value{kind: 's', scalar: x.Value}, true
	case *ast.LiteralNode:
		return value{kind: 's', scalar: x.Value.Value}, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return value{kind: 's', scalar: x.GetToken().Value, bare: true}, true
	case *ast.SequenceNode:
		out := value{kind: 'l'}
		for _, e := range x.Values {
			c, ok := fromYAML(e, depth+1, nodes)
			if !ok {
				return value{}, false
			}
			out.list = append(out.list, c)
		}
		return out, true
	case *ast.MappingNode:
		return fromPairs(x.Values, depth, nodes)
	case *ast.MappingValueNode:
		return fromPairs([]*ast.MappingValueNode{x}, depth, nodes)
	}
	return value{}, false
}

func fromPairs(pairs []*ast.MappingValueNode, depth int, nodes *int) (value, bool) {
	out := value{kind: 'o'}
	for _, p := range pairs {
		key, ok := p.Key.(ast.Node)
		if !ok {
			return value{}, false
		}
		switch key.(type) {
		case *ast.StringNode, *ast.IntegerNode, *ast.BoolNode, *ast.FloatNode:
		default:
			return value{}, false // a merge, an alias, a tag
		}
		name := key.GetToken().Value
		if _, twice := out.get(name); twice {
			return value{}, false
		}
		c, ok := fromYAML(p.Value, depth+1, nodes)
		if !ok {
			return value{}, false
		}
		out.object = append(out.object, member{name, c})
	}
	return out, true
}

// records are the records of a result: the elements of the list at path, or the
// one object there.
func records(v value, path string) []value {
	at, ok := v.at(path)
	if !ok {
		return nil
	}
	switch at.kind {
	case 'l':
		return at.list
	case 'o':
		return []value{at}
	}
	return nil
}

// ValueAt is an argument's value by its name, which dots may lead into objects and
// lists: several values are given as a list.
func ValueAt(arguments []byte, name string) (json.RawMessage, bool) {
	if v, ok := canon.Lookup(arguments, name); ok || !strings.Contains(name, ".") {
		return v, ok
	}
	var found []json.RawMessage
	for _, l := range leaves(arguments) {
		if l.of(name) {
			raw := []byte(l.text)
			if l.isText {
				raw = canon.AppendText(nil, l.text)
			}
			found = append(found, raw)
		}
	}
	switch len(found) {
	case 0:
		return nil, false
	case 1:
		return found[0], true
	}
	out, err := canon.Marshal(found)
	return out, err == nil
}
