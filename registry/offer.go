package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/placet-dev/placet/canon"
)

// Offer is what a server says about one of its tools, resources or prompts. Of a
// resource the name is the URI or the template, and the input schema describes the
// template's variables; of a prompt it describes the arguments.
type Offer struct {
	Name         string // at the server
	Title        string
	Description  string
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage // nil when there is none
	Annotations  json.RawMessage // nil when there are none
	// Definition is the whole text that a tool is made of, where the operator wrote
	// it: an SQL query, an HTTP operation. "" for what other programs run.
	Definition string
	Method     Method // by which it is reached
	MimeType   string // of a resource; "" when none is stated
}

// Pin is an offer that a person reviewed, in whole texts (rule H4), with its
// digest. JSON is in a sorted form: order and spaces are not drift, numbers are
// kept as written.
type Pin struct {
	Offer
	Digest canon.Digest
}

// maxOffer bounds each text of an offer. Servers are not trusted.
const maxOffer = 256 << 10

// PinOf makes the pin of an offer. It fails for an offer that could not be
// shown, stored and compared without doubt.
func PinOf(o Offer) (Pin, error) {
	for _, text := range []string{o.Name, o.Title, o.Description, o.Definition, o.MimeType} {
		if len(text) > maxOffer || !utf8.ValidString(text) {
			return Pin{}, fmt.Errorf("offers a name, title, description or definition that is too long or not text")
		}
	}
	if o.Name == "" || len(o.Name) > 256 && o.Method != MethodResource || len(o.Name) > maxURI {
		return Pin{}, fmt.Errorf("offers a tool without a usable name")
	}
	p := Pin{Offer: Offer{Name: o.Name, Title: o.Title, Description: o.Description, Definition: o.Definition, Method: o.Method, MimeType: o.MimeType}}
	var err error
	for _, part := range []struct {
		what string
		from json.RawMessage
		to   *json.RawMessage
	}{
		{"input schema", o.InputSchema, &p.InputSchema},
		{"output schema", o.OutputSchema, &p.OutputSchema},
		{"annotations", o.Annotations, &p.Annotations},
	} {
		if *part.to, err = sorted(part.from); err != nil {
			return Pin{}, fmt.Errorf("offers %s that cannot be pinned: %w", part.what, err)
		}
	}
	parts := [][]byte{[]byte(p.Name), []byte(p.Title), []byte(p.Description), p.InputSchema, p.OutputSchema, p.Annotations}
	switch {
	case p.Method != MethodTool:
		parts = append(parts, []byte(p.Method), []byte(p.MimeType), []byte(p.Definition))
	case p.Definition != "":
		parts = append(parts, []byte(p.Definition)) // it came later: pins without it stay as they were
	}
	p.Digest = canon.Of("placet/pin/1", parts...)
	return p, nil
}

// sorted returns a JSON object with its members in order, at every depth, and
// its numbers as written. Absent and null are the same. A number that would take
// long to read is refused, since the schema library reads numbers exactly.
func sorted(raw json.RawMessage) (json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if len(raw) > maxOffer {
		return nil, fmt.Errorf("larger than %d bytes", maxOffer)
	}
	if err := bounded(raw); err != nil {
		return nil, err
	}
	v := jsontext.Value(bytes.Clone(raw))
	if err := v.Format(jsontext.ReorderRawObjects(true), jsontext.AllowInvalidUTF8(false), jsontext.AllowDuplicateNames(false)); err != nil {
		return nil, fmt.Errorf("not strict JSON")
	}
	if v.Kind() != '{' {
		return nil, fmt.Errorf("not an object")
	}
	return json.RawMessage(v), nil
}

// bounded refuses depth and numbers beyond what any schema needs.
func bounded(raw []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	number := regexp.MustCompile(`^-?[0-9.]{1,40}([eE][+-]?[0-9]{1,3})?$`)
	for {
		t, err := d.ReadToken()
		if err != nil {
			if d.StackDepth() == 0 && d.InputOffset() > 0 && len(bytes.TrimSpace(raw[d.InputOffset():])) == 0 {
				return nil
			}
			return fmt.Errorf("not strict JSON")
		}
		if d.StackDepth() > 64 {
			return fmt.Errorf("deeper than 64 levels")
		}
		if t.Kind() == '0' && !number.MatchString(t.String()) {
			return fmt.Errorf("a number of too many digits")
		}
	}
}

// Check compares what the server offers now with the pin. A nil error means
// that both are the same, text for text.
func (p *Pin) Check(now Offer) error {
	q, err := PinOf(now)
	if err != nil {
		return err
	}
	if q.Digest != p.Digest {
		return fmt.Errorf("offers something else than what is pinned (%s)", strings.Join(changedParts(p.Offer, q.Offer), ", "))
	}
	return nil
}

func changedParts(a, b Offer) []string {
	var out []string
	for _, part := range partsOf(a, b) {
		if part.a != part.b {
			out = append(out, part.name)
		}
	}
	return out
}

type part struct{ name, a, b string }

func partsOf(a, b Offer) []part {
	return []part{
		{"name", a.Name, b.Name}, {"title", a.Title, b.Title}, {"description", a.Description, b.Description},
		{"input_schema", indented(a.InputSchema), indented(b.InputSchema)},
		{"output_schema", indented(a.OutputSchema), indented(b.OutputSchema)},
		{"annotations", indented(a.Annotations), indented(b.Annotations)},
		{"definition", a.Definition, b.Definition},
		{"method", a.Method.String(), b.Method.String()}, {"mime_type", a.MimeType, b.MimeType},
	}
}

// indented is JSON for people: one member a line, unprintable characters escaped.
func indented(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	v := jsontext.Value(bytes.Clone(raw))
	if v.Format(jsontext.ReorderRawObjects(true), jsontext.WithIndent("  "), jsontext.EscapeForJS(true)) != nil {
		return string(raw)
	}
	return escapeUnprintable(string(v))
}
