package rego

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/open-policy-agent/opa/v1/ast"
)

func pair(k, v *ast.Term) [2]*ast.Term       { return [2]*ast.Term{k, v} }
func object(pairs ...[2]*ast.Term) *ast.Term { return ast.NewTerm(ast.NewObject(pairs...)) }
func str[T ~string](s T) *ast.Term           { return ast.InternedTerm(string(s)) }
func boolean(b bool) *ast.Term               { return ast.InternedTerm(b) }
func integer(n int64) *ast.Term              { return ast.InternedTerm(n) }
func number(text string) *ast.Term           { return ast.NewTerm(ast.Number(json.Number(text))) }

const maxDepth = 500

var (
	errNotObject = errors.New("not a JSON object")
	errTooDeep   = errors.New("nested too deeply")
)

// object reads a JSON object strictly: no duplicate names, no invalid UTF-8,
// nothing after it. Nothing at all is {}.
func (e *Engine) object(what string, raw []byte) (*ast.Term, error) {
	if len(raw) == 0 || string(raw) == "{}" {
		return e.empty.object, nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw)) // a *bytes.Buffer is read in place
	if dec.PeekKind() != '{' {
		return nil, fmt.Errorf("%s: %w", what, errNotObject)
	}
	t, err := value(dec, maxDepth)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return nil, fmt.Errorf("%s: text after the object", what)
	}
	return t, nil
}

// value reads one JSON value. Numbers keep their text.
func value(dec *jsontext.Decoder, depth int) (*ast.Term, error) {
	tok, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	if depth == 0 {
		return nil, errTooDeep
	}
	switch tok.Kind() {
	case 'n':
		return ast.InternedNullTerm, nil
	case 't', 'f':
		return boolean(tok.Bool()), nil
	case '"':
		return str(tok.String()), nil
	case '0':
		return number(tok.String()), nil
	case '[':
		var items []*ast.Term
		for dec.PeekKind() != ']' {
			item, err := value(dec, depth-1)
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		_, err = dec.ReadToken()
		return ast.ArrayTerm(items...), err
	case '{':
		var space [8][2]*ast.Term
		pairs := space[:0]
		for dec.PeekKind() != '}' {
			name, err := dec.ReadToken()
			if err != nil {
				return nil, err
			}
			key := str(name.String())
			item, err := value(dec, depth-1)
			if err != nil {
				return nil, err
			}
			pairs = append(pairs, pair(key, item))
		}
		_, err = dec.ReadToken()
		return object(pairs...), err
	default:
		return nil, fmt.Errorf("unexpected %s", tok.Kind())
	}
}

var errNotDecimal = errors.New("not a decimal number")

// decimal reads decimal text as a number, without trailing zeros. Exponents
// are refused: an amount has none, and a huge one costs memory.
func decimal(text string) (*ast.Term, error) {
	digits := strings.TrimPrefix(text, "-")
	whole, fraction, dotted := strings.Cut(digits, ".")
	switch {
	case len(text) > 64, !allDigits(whole), dotted && !allDigits(fraction), len(whole) > 1 && whole[0] == '0':
		return nil, errNotDecimal
	}
	if dotted {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	if text == "-0" {
		text = "0"
	}
	return number(text), nil
}

func allDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
