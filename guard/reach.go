package guard

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// member is the name of an argument or of a member within one.
var member = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,127}$`)

// waysTo are the ways into arguments that a name in the file stands for. A dot
// goes into an object; since an argument's own name may hold dots too, the whole
// name is a way of its own, and both are guarded. Arrays are always gone into; []
// only says so.
func waysTo(name string) ([][]string, bool) {
	steps := strings.Split(name, ".")
	for i, s := range steps {
		steps[i] = strings.TrimSuffix(s, "[]")
		if !member.MatchString(steps[i]) {
			return nil, false
		}
	}
	ways := [][]string{steps}
	if len(steps) > 1 && !strings.Contains(name, "[]") {
		ways = append(ways, []string{name})
	}
	return ways, true
}

// Top is the argument that a name in the file begins at.
func Top(name string) string {
	first, _, _ := strings.Cut(name, ".")
	return strings.TrimSuffix(first, "[]")
}

// visit calls f for every value that the guard is about and puts in its place
// what f returns.
func (g *Guard) visit(arguments []byte, o record.Owner, f func(value) (json.RawMessage, *Refusal)) ([]byte, *Refusal) {
	out := arguments
	for _, way := range g.ways {
		w := walk{g: g, f: f, owner: o}
		next, refusal := w.object(out, way, "")
		if refusal != nil {
			if refusal.Argument == "" {
				refusal.Argument = g.spec.Argument
			}
			refusal.Type, refusal.Instead = g.spec.Type, g.spec.Instead
			return nil, refusal
		}
		out = next
	}
	return out, nil
}

// walk is one visit on one way.
type walk struct {
	g     *Guard
	f     func(value) (json.RawMessage, *Refusal)
	owner record.Owner
	seen  int
}

// object rewrites the member that the way names; the rest stays as it is.
func (w *walk) object(object []byte, way []string, at string) ([]byte, *Refusal) {
	old, ok := canon.Lookup(object, way[0])
	if !ok {
		return object, nil
	}
	place := way[0]
	if at != "" {
		place = at + "." + place
	}
	fresh, refusal := w.under(old, object, way[1:], place)
	if refusal != nil {
		if refusal.Argument == "" {
			refusal.Argument = place
		}
		return nil, refusal
	}
	if bytes.Equal(fresh, old) {
		return object, nil
	}
	var b []byte
	for name, value := range canon.Members(object) {
		b = append(b, ","...)
		b = canon.AppendText(b, name)
		b = append(b, ':')
		if name == way[0] {
			value = fresh
		}
		b = append(b, value...)
	}
	b[0] = '{'
	return append(b, '}'), nil
}

// under goes on below a member: through arrays, and along the way.
func (w *walk) under(v, beside []byte, way []string, at string) ([]byte, *Refusal) {
	if len(v) > 0 && v[0] == '[' && (len(way) > 0 || w.g.spec.Type != Size) {
		return w.array(v, beside, way, at)
	}
	if len(way) > 0 {
		if len(v) == 0 || v[0] != '{' {
			return nil, refuse("has not the form that its guard reads")
		}
		return w.object(v, way, at)
	}
	if w.seen++; w.seen > w.g.items {
		return nil, refuse("names more than " + strconv.Itoa(w.g.items) + " things at once")
	}
	return w.f(value{v, beside, w.owner})
}

func (w *walk) array(v, beside []byte, way []string, at string) ([]byte, *Refusal) {
	var b []byte
	n := 0
	for e := range canon.Elements(v) {
		place := at + "[" + strconv.Itoa(n) + "]"
		if n++; len(e) > 0 && e[0] == '[' {
			no := refuse("has not the form that its guard reads")
			no.Argument = place
			return nil, no
		}
		fresh, refusal := w.under(e, beside, way, place)
		if refusal != nil {
			if refusal.Argument == "" {
				refusal.Argument = place
			}
			return nil, refusal
		}
		b = append(append(b, ','), fresh...)
	}
	if n == 0 {
		return v, nil
	}
	b[0] = '['
	return append(b, ']'), nil
}
