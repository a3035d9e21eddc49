package query

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// refused is an error that the caller may read, of something that did not happen.
type refused struct{ text string }

func (r refused) Error() string { return r.text }

func refuse(format string, args ...any) error { return refused{fmt.Sprintf(format, args...)} }

// value is what is bound to one placeholder.
type value struct {
	kind Kind
	null bool
	text string // a string, or a number or boolean as JSON writes it
}

// values are what is bound to a query's placeholders: the caller's arguments, and
// who the caller is.
func (q *Query) values(arguments json.RawMessage, o record.Owner) (map[string]value, error) {
	out := map[string]value{}
	for _, name := range q.Names {
		switch name {
		case tenant:
			if o.Tenant == "" {
				return nil, refuse("the caller has no tenant")
			}
			out[name] = value{kind: String, text: string(o.Tenant)}
		case principal:
			// SUBJECT@ISSUER, as configuration writes it: a subject alone is a
			// different person at each issuer (rule I1).
			if o.Principal.Subject == "" || o.Principal.Issuer == "" || strings.Contains(o.Principal.Issuer, "@") {
				return nil, refuse("the caller has no name that a query can be bound to")
			}
			out[name] = value{kind: String, text: o.Principal.Subject + "@" + o.Principal.Issuer}
		}
	}
	for _, p := range q.Parameters {
		v, err := p.value(arguments)
		if err != nil {
			return nil, err
		}
		out[p.Name] = v
	}
	return out, nil
}

// value is an argument as the parameter's kind. The schema was checked; what it
// cannot say is refused here.
func (p Parameter) value(arguments json.RawMessage) (value, error) {
	raw, given := canon.Lookup(arguments, p.Name)
	if !given && p.Optional {
		return value{kind: p.Kind, null: true}, nil
	}
	v := value{kind: p.Kind, text: string(raw)}
	ok := given
	switch p.Kind {
	case String:
		ok = ok && json.Unmarshal(raw, &v.text) == nil && string(raw) != "null"
		if ok && strings.ContainsRune(v.text, 0) {
			return v, refuse("%s holds a zero byte, which no database takes in a text", p.Name)
		}
	case Integer:
		_, err := strconv.ParseInt(v.text, 10, 64)
		ok = ok && err == nil
	case Number:
		_, err := strconv.ParseFloat(v.text, 64)
		ok = ok && err == nil
	case Boolean:
		ok = v.text == "true" || v.text == "false"
	}
	if !ok {
		return v, refuse("%s must be given as %s", p.Name, p.Kind)
	}
	return v, nil
}
