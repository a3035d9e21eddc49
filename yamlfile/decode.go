package yamlfile

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Later is the type of a key that is known and whose feature is not built yet.
// Its presence in a file is refused as "not supported yet".
type Later struct{}

// Entry is one key of a mapping whose keys are names, with its value.
type Entry[T any] struct {
	Key   string
	Place Place
	Value T
}

// Entries is a mapping whose keys are names, in the order of the file.
type Entries[T any] []Entry[T]

// Strings is a list of texts that may also be written as one text.
type Strings []string

// Choice is a text out of a fixed list.
type Choice interface {
	~string
	Choices() []string
}

// Hinter is a struct that knows words people use for its keys. Hints maps such
// a word to what to write instead.
type Hinter interface{ Hints() map[string]string }

// Checker is a struct with rules of its own. Check is called once its fields
// are read without a problem, and reports through fail; an empty key means the
// struct as a whole.
type Checker interface {
	Check(fail func(key, message string))
}

// Decode reads the text of a file into the struct that into points to. The name
// is what problems call the file. It returns everything that is wrong, in the
// order of the file; what into then holds must not be used.
func Decode(name string, src []byte, into any) Problems {
	root := reflect.ValueOf(into)
	if root.Kind() != reflect.Pointer || root.Elem().Kind() != reflect.Struct {
		return Problems{{File: name, Message: fmt.Sprintf("cannot be read into %T", into)}}
	}
	node, ps := parse(name, src)
	if len(ps) > 0 {
		return ps
	}
	d := &decoder{file: name}
	if node == nil {
		d.fields(nil, root.Elem(), spot{})
	} else {
		d.value(node, root.Elem(), spot{line: 1})
	}
	return d.problems.Sorted()
}

// spot is where a value stands: the dotted path and the position of its key.
type spot struct {
	path         string
	line, column int
}

func (s spot) at(key string, t *token.Token) spot {
	s.path = strings.TrimPrefix(s.path+"."+cut(key), ".")
	s.line, s.column = t.Position.Line, t.Position.Column
	return s
}

type decoder struct {
	file     string
	problems Problems
}

// maxProblems bounds a report: beyond it nobody reads on.
const maxProblems = 200

func (d *decoder) fail(s spot, format string, args ...any) {
	if len(d.problems) < maxProblems {
		d.problems = append(d.problems, Problem{d.file, s.line, s.column, s.path, fmt.Sprintf(format, args...)})
	}
}

func (d *decoder) place(s spot) Place { return Problem{File: d.file, Line: s.line}.Place() }

// value reads a node into v, which is of one of the types that the package
// comment and this switch name.
func (d *decoder) value(n ast.Node, v reflect.Value, s spot) {
	if v.Kind() == reflect.Pointer {
		fresh := reflect.New(v.Type().Elem())
		d.value(n, fresh.Elem(), s)
		v.Set(fresh)
		return
	}
	switch {
	case v.Type() == reflect.TypeFor[Later]():
		d.fail(s, "is not supported yet; remove the key")
	case isScalar(v.Type()):
		d.scalar(n, v, s)
	case v.Type() == reflect.TypeFor[Strings]():
		d.strings(n, v, s)
	case isEntries(v.Type()):
		d.entries(n, v, s)
	case v.Kind() == reflect.Slice:
		d.list(n, v, s)
	case v.Kind() == reflect.Struct:
		d.structure(n, v, s)
	default:
		d.fail(s, "cannot be read into %s", v.Type())
	}
}

func isText(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) ||
		reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func isScalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64:
		return true
	}
	return isText(t)
}

func isEntries(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && strings.HasPrefix(t.Name(), "Entries[") &&
		t.PkgPath() == reflect.TypeFor[Place]().PkgPath()
}

func (d *decoder) strings(n ast.Node, v reflect.Value, s spot) {
	if _, ok := n.(*ast.SequenceNode); ok {
		d.list(n, v, s)
		return
	}
	var one string
	d.scalar(n, reflect.ValueOf(&one).Elem(), s)
	v.Set(reflect.ValueOf(Strings{one}))
}

func (d *decoder) list(n ast.Node, v reflect.Value, s spot) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.fail(s, "wants a list, such as [a, b]; this is %s", kindOf(n))
		return
	}
	if len(seq.Values) == 0 && isScalar(v.Type().Elem()) {
		// No key means everyone, everything or a default; an empty list could be
		// read as either that or its opposite.
		d.fail(s, "is empty; list something or remove the key")
		return
	}
	out := reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values))
	for i, e := range seq.Values {
		at := s
		at.path = fmt.Sprintf("%s[%d]", s.path, i)
		if t := tokenOf(e); t != nil {
			at.line, at.column = t.Position.Line, t.Position.Column
		}
		d.value(e, out.Index(i), at)
	}
	v.Set(out)
}

// pairs returns a mapping's keys and values; ok is false when n is none.
func pairs(n ast.Node) (out []*ast.MappingValueNode, ok bool) {
	switch m := n.(type) {
	case *ast.MappingNode:
		return m.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{m}, true
	}
	return nil, false
}

// key returns a mapping key, which must be text, and refuses it when seen.
func (d *decoder) key(p *ast.MappingValueNode, seen map[string]int, s spot) (string, spot, bool) {
	k, ok := p.Key.(*ast.StringNode)
	if !ok {
		t := p.Key.GetToken()
		d.fail(s.at(t.Value, t), "a key must be text; write it in quotes")
		return "", s, false
	}
	at := s.at(k.Value, k.Token)
	if line, twice := seen[k.Value]; twice {
		d.fail(at, "is given twice, first on line %d", line)
		return "", s, false
	}
	seen[k.Value] = at.line
	return k.Value, at, true
}

func (d *decoder) entries(n ast.Node, v reflect.Value, s spot) {
	ps, ok := pairs(n)
	if !ok {
		d.fail(s, "wants names with a value each, such as {name: …}; this is %s", kindOf(n))
		return
	}
	out := reflect.MakeSlice(v.Type(), 0, len(ps))
	seen := map[string]int{}
	for _, p := range ps {
		name, at, ok := d.key(p, seen, s)
		if !ok {
			continue
		}
		e := reflect.New(v.Type().Elem()).Elem()
		e.FieldByName("Key").SetString(name)
		e.FieldByName("Place").SetString(string(d.place(at)))
		d.value(p.Value, e.FieldByName("Value"), at)
		out = reflect.Append(out, e)
	}
	v.Set(out)
}

func (d *decoder) structure(n ast.Node, v reflect.Value, s spot) {
	ps, ok := pairs(n)
	if !ok {
		d.fail(s, "wants keys: %s; this is %s", strings.Join(keysOf(v.Type()), ", "), kindOf(n))
		return
	}
	d.fields(ps, v, s)
}

// fields reads the pairs of a mapping into a struct. A key is matched exactly,
// never by case.
func (d *decoder) fields(ps []*ast.MappingValueNode, v reflect.Value, s spot) {
	before := len(d.problems)
	seen := map[string]int{}
	spots := map[string]spot{}
	known := fieldsOf(v.Type())
	for _, p := range ps {
		name, at, ok := d.key(p, seen, s)
		if !ok {
			continue
		}
		spots[name] = at
		i := slices.IndexFunc(known, func(f field) bool { return f.key == name })
		if i < 0 {
			d.fail(at, "%s", unknown(name, v.Type()))
			continue
		}
		if _, mapping := pairs(p.Value); mapping && known[i].mapping != "" {
			d.named(p.Value, v.FieldByIndex(known[i].index), v.FieldByName(known[i].mapping), at)
			continue
		}
		d.value(p.Value, v.FieldByIndex(known[i].index), at)
	}
	for _, f := range known {
		if _, given := seen[f.key]; given {
			continue
		}
		if f.required {
			d.fail(s, "needs the key %s%s", f.key, because(f.doc))
		}
		d.fallback(f, v.FieldByIndex(f.index), s)
	}
	if f := v.FieldByName("Place"); f.IsValid() && f.Type() == reflect.TypeFor[Place]() && f.CanSet() {
		f.SetString(string(d.place(s)))
	}
	if c, ok := v.Addr().Interface().(Checker); ok && len(d.problems) == before {
		c.Check(func(key, message string) {
			at, given := spots[key]
			if !given {
				at = s
				if key != "" {
					at.path = strings.TrimPrefix(s.path+"."+key, ".")
				}
			}
			d.fail(at, "%s", message)
		})
	}
}

func because(doc string) string {
	if doc == "" {
		return ""
	}
	return ": " + doc
}

// field is a struct field that a file may give.
type field struct {
	key, fallback, doc string
	required           bool
	mapping            string // the field that takes the mapping form of a list of names
	index              []int
	typ                reflect.Type
}

func fieldsOf(t reflect.Type) []field {
	var out []field
	for _, f := range reflect.VisibleFields(t) {
		tag, ok := f.Tag.Lookup("yaml")
		if !ok || tag == "-" || f.Anonymous {
			continue
		}
		key, option, _ := strings.Cut(tag, ",")
		out = append(out, field{
			key: key, fallback: f.Tag.Get("default"), doc: f.Tag.Get("doc"),
			required: option == "required", mapping: f.Tag.Get("mapping"),
			index: f.Index, typ: f.Type,
		})
	}
	return out
}

// named reads the mapping form of a list of names: the list holds the names, and a
// field beside it what each of them maps to.
func (d *decoder) named(n ast.Node, list, mapping reflect.Value, s spot) {
	d.entries(n, mapping, s)
	names := reflect.MakeSlice(list.Type(), mapping.Len(), mapping.Len())
	for i := range mapping.Len() {
		names.Index(i).SetString(mapping.Index(i).FieldByName("Key").String())
	}
	list.Set(names)
}

func keysOf(t reflect.Type) []string {
	var keys []string
	for _, f := range fieldsOf(t) {
		if f.typ != reflect.TypeFor[Later]() {
			keys = append(keys, f.key)
		}
	}
	return keys
}

// unknown says what a key that is not known may have been meant to be: a word
// people use for it, a key of a part of this struct, or one spelled alike.
func unknown(name string, t reflect.Type) string {
	if h, ok := reflect.New(t).Interface().(Hinter); ok {
		if hint, ok := h.Hints()[strings.ToLower(name)]; ok {
			return "is not a key here; did you mean " + hint + "?"
		}
	}
	var keys []string
	for _, f := range fieldsOf(t) {
		keys = append(keys, f.key)
	}
	if c := Closest(name, keys); c != "" {
		return "is not a key here; did you mean " + c + "?"
	}
	for _, f := range fieldsOf(t) {
		part := f.typ
		if part.Kind() == reflect.Pointer {
			part = part.Elem()
		}
		if part.Kind() == reflect.Struct && !isText(part) && slices.Contains(keysOf(part), name) {
			return "is not a key here; did you mean " + f.key + ": {" + name + ": …}?"
		}
	}
	return "is not a key here; the keys are " + strings.Join(keysOf(t), ", ")
}

func kindOf(n ast.Node) string {
	switch n.(type) {
	case nil, *ast.NullNode:
		return "empty"
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.BoolNode:
		return "true or false"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	default:
		return "text"
	}
}

func tokenOf(n ast.Node) *token.Token {
	if n == nil {
		return nil
	}
	return n.GetToken()
}
