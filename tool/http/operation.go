package http

import (
	"bytes"
	"encoding/json"
	"math/big"
	"net/netip"
	"net/url"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/yamlfile"
)

// operation is one that can be made, with what a reviewer sees of it.
type operation struct {
	Operation
	base       *url.URL
	segments   []segment
	parameters map[string]Parameter
	fields     fields
	offer      registry.Offer
	digest     canon.Digest // of its pin
}

// operations are those of a file that was read without a problem.
func (f *File) operations() (map[string]*operation, []registry.Offer, error) {
	base, err := f.base()
	if err != nil {
		return nil, nil, err
	}
	all, offers := map[string]*operation{}, []registry.Offer{}
	for _, e := range f.Operations {
		o := &operation{Operation: e.Value, base: base, parameters: map[string]Parameter{}}
		for _, p := range o.Parameters {
			o.parameters[p.Key] = p.Value
		}
		if o.segments, err = parsePath(o.Path); err != nil {
			return nil, nil, err
		}
		if o.fields, err = fieldsOf(o.Result); err != nil {
			return nil, nil, err
		}
		if o.offer, err = o.offered(e.Key, f.Networks); err != nil {
			return nil, nil, err
		}
		pin, err := registry.PinOf(o.offer)
		if err != nil {
			return nil, nil, err
		}
		o.digest = pin.Digest
		all[e.Key], offers = o, append(offers, o.offer)
	}
	return all, offers, nil
}

func (o *operation) offered(name string, networks []netip.Prefix) (offer registry.Offer, err error) {
	offer = registry.Offer{Name: name, Description: o.Description}
	if offer.InputSchema, err = json.Marshal(o.schema()); err != nil {
		return offer, err
	}
	// What the method promises (RFC 9110, section 9.2): a hint for the reviewer.
	hints := map[string]any{}
	switch {
	case o.Method == "GET":
		hints["readOnlyHint"] = true
	case o.Method == "DELETE":
		hints["destructiveHint"] = true
	}
	if o.IdempotencyHeader != "" {
		hints["idempotentHint"] = true
	}
	if offer.Annotations, err = json.Marshal(hints); err != nil {
		return offer, err
	}
	offer.Definition, err = o.definition(networks)
	return offer, err
}

// definition is everything that the operation is, one thing a line, so that a
// changed file shows as a difference that can be read.
func (o *operation) definition(networks []netip.Prefix) (string, error) {
	parameters, headers := map[string]any{}, map[string]string{}
	for _, p := range o.Parameters {
		v := p.Value
		parameters[p.Key] = struct {
			In       Where  `json:"in"`
			Type     Type   `json:"type"`
			Pattern  string `json:"pattern,omitempty"`
			Optional bool   `json:"optional,omitempty"`
		}{v.In, v.Type, v.Pattern, v.Optional}
	}
	for _, h := range o.Headers {
		headers[h.Key] = h.Value
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(struct {
		Base        string            `json:"base"`
		Networks    []netip.Prefix    `json:"networks,omitempty"`
		Method      Method            `json:"method"`
		Path        string            `json:"path"`
		Parameters  map[string]any    `json:"parameters,omitempty"`
		Headers     map[string]string `json:"headers,omitempty"`
		Idempotency string            `json:"idempotency_header,omitempty"`
		Result      []string          `json:"result,omitempty"`
	}{o.base.String(), networks, o.Method, o.Path, parameters, headers, o.IdempotencyHeader, o.Result})
	return b.String(), err
}

// schema is the JSON Schema of the arguments: closed, and every value bounded.
func (o *operation) schema() map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, p := range o.Parameters {
		properties[p.Key] = p.Value.schema()
		if !p.Value.Optional {
			required = append(required, p.Key)
		}
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties, "required": required}
}

// Patterns of texts that can stand in a path or a header at all. What the schema
// refuses, the model is told at once.
const (
	pathPattern   = `^[^/\\%\x00-\x1f\x7f]+$`
	headerPattern = `^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$`
)

func (p Parameter) schema() map[string]any {
	s := map[string]any{"type": p.Type}
	switch {
	case p.Type.isNumber():
		s["minimum"], s["maximum"] = json.Number(p.lowest()), json.Number(p.highest())
	case p.Type == "string":
		s["maxLength"] = p.MaxLength
		if p.In == inPath || p.In == inHeader {
			s["minLength"] = 1
		}
		switch {
		case p.Pattern != "":
			s["pattern"] = "^(?:" + p.Pattern + ")$"
		case p.In == inPath:
			s["pattern"] = pathPattern
		case p.In == inHeader:
			s["pattern"] = headerPattern
		}
		if len(p.Enum) > 0 {
			s["enum"] = p.Enum
		}
	}
	if p.Description != "" {
		s["description"] = p.Description
	}
	return s
}

// exact is the largest integer below which a double holds all others.
const exact Number = "9007199254740991"

func (p Parameter) lowest() Number {
	if p.Minimum == "" {
		return "-" + exact
	}
	return p.Minimum
}

func (p Parameter) highest() Number {
	if p.Maximum == "" {
		return exact
	}
	return p.Maximum
}

// compare compares two bounds, whose form was checked.
func compare(a, b Number) int {
	x, okX := new(big.Rat).SetString(string(a))
	y, okY := new(big.Rat).SetString(string(b))
	if !okX || !okY {
		return 1 // no order: refused
	}
	return x.Cmp(y)
}

var _ yamlfile.Number = (*Number)(nil)
