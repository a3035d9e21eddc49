package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/placet-dev/placet/record"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

const (
	// quickSteps is the worst case up to which a check runs without counting.
	// The bound is far above what any check of that size really takes.
	quickSteps = 1 << 24
	// maxSteps ends a counted check. It is some tenths of a second.
	maxSteps = 1 << 20
	// maxParts bounds the schemas within one schema.
	maxParts = 5000
)

// schema is a compiled JSON Schema. A check has no side effect, fetches nothing
// and ends after a bounded number of steps, whatever the schema says.
type schema struct {
	compiled *jsonschema.Schema
	paths    int // ways down the schema; math.MaxInt when it refers to itself
	closed   bool
	known    *members
	counted  func() (*counted, error) // compiled at first need
}

// counted is a copy of the schema that counts its steps. The library has no
// place for the count but the schema itself, hence one check at a time.
type counted struct {
	mu       sync.Mutex
	compiled *jsonschema.Schema
	steps    int
}

// errTooManySteps ends a counted check. It is thrown through the library, which
// has no other way out of a check, and caught in run.
var errTooManySteps = errors.New("takes too many steps to check")

// Validate makes counted a schema extension that the library calls in each step.
func (c *counted) Validate(*jsonschema.ValidatorContext, any) {
	if c.steps++; c.steps > maxSteps {
		panic(errTooManySteps)
	}
}

// noFetch refuses every reference to something outside the schema, so that
// neither a file nor a network is ever read on a server's word.
type noFetch struct{}

func (noFetch) Load(string) (any, error) {
	return nil, errors.New("refers to a schema elsewhere, which is never fetched")
}

// compile reads a pinned schema. With closed, members that it does not name are
// refused, which is how arguments are checked.
func compile(raw json.RawMessage, closed bool) (*schema, error) {
	c, err := compileDocument(raw)
	if err != nil {
		return nil, err
	}
	n := 0
	walk(c, func(*jsonschema.Schema) { n++ })
	if n > maxParts {
		return nil, fmt.Errorf("has more than %d parts", maxParts)
	}
	s := &schema{compiled: c, paths: countPaths(c), closed: closed}
	if closed {
		s.known = newMembers()
	}
	s.counted = sync.OnceValues(func() (*counted, error) {
		copied, err := compileDocument(raw)
		if err != nil {
			return nil, err
		}
		n := &counted{compiled: copied}
		walk(copied, func(sub *jsonschema.Schema) { sub.Extensions = append(sub.Extensions, n) })
		return n, nil
	})
	return s, nil
}

func compileDocument(raw json.RawMessage) (compiled *jsonschema.Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			compiled, err = nil, errors.New("cannot be compiled")
		}
	}()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, errors.New("is not JSON")
	}
	const name = "https://pinned.invalid/schema.json"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noFetch{})
	if err := c.AddResource(name, document); err != nil {
		return nil, compileError(err)
	}
	compiled, err = c.Compile(name)
	if err != nil {
		return nil, compileError(err)
	}
	return compiled, nil
}

// compileError keeps the kinds of fault that help a person, and no server text.
func compileError(err error) error {
	var load *jsonschema.LoadURLError
	var pattern *jsonschema.InvalidRegexError
	var anchor *jsonschema.AnchorNotFoundError
	var pointer *jsonschema.JSONPointerNotFoundError
	switch {
	case errors.As(err, &load):
		return errors.New("refers to a schema elsewhere, which is never fetched")
	case errors.As(err, &pattern), badPattern(err):
		return errors.New("holds a pattern that is no RE2 expression (look-around is not supported)")
	case errors.As(err, &anchor), errors.As(err, &pointer):
		return errors.New("refers to a part of itself that does not exist")
	}
	return errors.New("is not a valid JSON Schema")
}

// badPattern finds a pattern among what the meta-schema did not accept.
func badPattern(err error) bool {
	var schema *jsonschema.SchemaValidationError
	var v *jsonschema.ValidationError
	if !errors.As(err, &schema) || !errors.As(schema.Err, &v) {
		return false
	}
	var find func(v *jsonschema.ValidationError) bool
	find = func(v *jsonschema.ValidationError) bool {
		f, ok := v.ErrorKind.(*kind.Format)
		return ok && f.Want == "regex" || slices.ContainsFunc(v.Causes, find)
	}
	return find(v)
}

// check validates a value in canonical form. what names it in errors.
func (s *schema) check(what string, canonical []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(canonical))
	if err != nil {
		return record.Errorf(record.Invalid, "%s: not JSON", what)
	}
	if err := s.run(value, len(canonical)); err != nil {
		return invalid(what, err)
	}
	if s.closed {
		if at, found := s.known.unknown(s.compiled, value); found {
			return record.Errorf(record.Invalid, "%s: %s is not a member the tool knows; leave it out", what, at)
		}
	}
	return nil
}

func (s *schema) run(value any, size int) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errTooManySteps
			if r != errTooManySteps {
				err = fmt.Errorf("cannot be checked")
			}
		}
	}()
	if s.paths < quickSteps/max(size, 1) {
		return s.compiled.Validate(value)
	}
	n, err := s.counted()
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.steps = 0
	return n.compiled.Validate(value)
}

// countPaths is the number of ways from the root to any part, which bounds how
// often one place of a value is looked at.
func countPaths(root *jsonschema.Schema) int {
	const onTheWay = -1
	counts := map[*jsonschema.Schema]int{}
	var count func(s *jsonschema.Schema) int
	count = func(s *jsonschema.Schema) int {
		if n, ok := counts[s]; ok {
			if n == onTheWay {
				return math.MaxInt
			}
			return n
		}
		counts[s] = onTheWay
		total := 1
		for child := range parts(s) {
			n := count(child)
			if n == math.MaxInt || total > quickSteps {
				total = math.MaxInt
				break
			}
			total += n
		}
		counts[s] = total
		return total
	}
	return count(root)
}

// walk calls f once for every part of a schema.
func walk(root *jsonschema.Schema, f func(*jsonschema.Schema)) {
	seen := map[*jsonschema.Schema]bool{root: true}
	for todo := []*jsonschema.Schema{root}; len(todo) > 0; {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		f(s)
		for child := range parts(s) {
			if !seen[child] {
				seen[child] = true
				todo = append(todo, child)
			}
		}
	}
}
