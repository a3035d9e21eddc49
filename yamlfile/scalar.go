package yamlfile

import (
	"encoding"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// scalar reads one text, number, duration or true/false. Types are not mixed:
// an unquoted 12 or true is no text, since YAML readers differ on what is one.
func (d *decoder) scalar(n ast.Node, v reflect.Value, s spot) {
	switch n.(type) {
	case nil, *ast.NullNode:
		d.fail(s, "has no value; give one or remove the key")
		return
	case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode:
		d.fail(s, "wants %s; this is %s", want(v.Type()), kindOf(n))
		return
	}
	text, isString := textOf(n)
	if isText(v.Type()) {
		d.text(text, isString, v, s)
		return
	}
	if message := set(v, text, isString); message != "" {
		d.fail(s, "%s", message)
	}
}

// textOf returns the value of a text, or the characters of any other scalar.
func textOf(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return n.GetToken().Value, false
}

// Number is a scalar type that may be written as an unquoted number. It gets
// the characters as written, so that no decimal becomes a float on the way.
type Number interface {
	encoding.TextUnmarshaler
	YAMLNumber()
}

func (d *decoder) text(text string, isString bool, v reflect.Value, s spot) {
	u, ok := v.Addr().Interface().(encoding.TextUnmarshaler)
	if !ok {
		d.fail(s, "cannot be read into %s", v.Type())
		return
	}
	if _, number := u.(Number); !isString && !number {
		d.fail(s, "wants text; write it in quotes")
		return
	}
	if err := u.UnmarshalText([]byte(text)); err != nil {
		d.fail(s, "%s", err)
	}
}

func want(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "a duration such as 20s or 4h"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		return "a whole number"
	case len(choices(t)) > 0:
		return "one of " + strings.Join(choices(t), ", ")
	default:
		return "text"
	}
}

// set assigns text to v and returns what is wrong with it, if anything is.
func set(v reflect.Value, text string, isString bool) string {
	t := v.Type()
	switch {
	case t == reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return "wants a duration such as 20s or 4h"
		}
		v.SetInt(int64(d))
	case t.Kind() == reflect.Bool:
		if isString || text != "true" && text != "false" {
			return "wants true or false"
		}
		v.SetBool(text == "true")
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 32)
		if isString || err != nil || !regexp.MustCompile(`^(0|[1-9][0-9]*)$`).MatchString(text) {
			return "wants a whole number, 0 or more"
		}
		v.SetInt(n)
	case t.Kind() == reflect.String:
		return setString(v, text, isString)
	}
	return ""
}

func setString(v reflect.Value, text string, isString bool) string {
	if !isString {
		return "wants text; write it in quotes"
	}
	if list := choices(v.Type()); len(list) > 0 {
		for _, c := range list {
			if c == text {
				v.SetString(text)
				return ""
			}
		}
		message := "wants one of " + strings.Join(list, ", ")
		if c := Closest(text, list); c != "" {
			message += "; did you mean " + c + "?"
		}
		return message
	}
	if text == "" {
		return "is empty; give a value or remove the key"
	}
	v.SetString(text)
	return ""
}

func choices(t reflect.Type) []string {
	if c, ok := reflect.Zero(t).Interface().(interface{ Choices() []string }); ok && t.Kind() == reflect.String {
		return c.Choices()
	}
	return nil
}

// fallback sets the default of an absent key, and the defaults inside an absent
// part. A default that cannot be read is a defect of ours, and reported like any
// other problem so that it cannot pass.
func (d *decoder) fallback(f field, v reflect.Value, s spot) {
	s.path = strings.TrimPrefix(s.path+"."+f.key, ".")
	if v.Kind() == reflect.Struct && !isText(v.Type()) {
		for _, inner := range fieldsOf(v.Type()) {
			d.fallback(inner, v.FieldByIndex(inner.index), s)
		}
		return
	}
	if f.fallback == "" {
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch {
	case v.Type() == reflect.TypeFor[Strings]():
		v.Set(reflect.ValueOf(Strings(strings.Split(f.fallback, ","))))
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.String:
		parts := strings.Split(f.fallback, ",")
		v.Set(reflect.MakeSlice(v.Type(), len(parts), len(parts)))
		for i, part := range parts {
			v.Index(i).SetString(strings.TrimSpace(part))
		}
	case isText(v.Type()):
		d.text(f.fallback, true, v, s)
	default:
		if message := set(v, f.fallback, v.Kind() == reflect.String); message != "" {
			d.fail(s, "the default %q cannot be read: %s", f.fallback, message)
		}
	}
}
