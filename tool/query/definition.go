package query

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/yamlfile"
)

// Query is one file, read.
type Query struct {
	Name        string
	Description string
	Parameters  []Parameter // what the caller gives, in the file's order
	Writes      bool        // it changes something
	EveryTenant bool        // it is not bound to the caller's tenant
	SQL         string      // one statement, without the semicolon
	Names       []string    // its placeholders, each once
}

// Parameter is a value that the caller gives.
type Parameter struct {
	Name     string
	Kind     Kind
	Optional bool // absent is NULL

	description string
	pattern     string
	maxLength   int
	enum        []string
	min, max    string // decimals
}

// Names that the server binds. No parameter can have them.
const (
	tenant    = "tenant"
	principal = "principal"
)

// Kind is a parameter's type, named as JSON Schema names it.
type Kind string

const (
	String  Kind = "string"
	Integer Kind = "integer"
	Number  Kind = "number"
	Boolean Kind = "boolean"
)

func (Kind) Choices() []string {
	return []string{string(String), string(Integer), string(Number), string(Boolean)}
}

// Binding says whether a query is bound to the caller's tenant.
type Binding string

func (Binding) Choices() []string { return []string{"required", "none"} }

// Bound is a limit of a number. It keeps its digits.
type Bound struct{ text string }

var boundForm = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,9})?$`)

// UnmarshalText reads a decimal of at most 16 digits before the point and 9 after it.
func (b *Bound) UnmarshalText(text []byte) error {
	if !boundForm.Match(text) {
		return fmt.Errorf("wants a decimal such as -5 or 0.25")
	}
	b.text = string(text)
	return nil
}

// YAMLNumber lets a file write it without quotes.
func (*Bound) YAMLNumber() {}

func (b Bound) rat() *big.Rat {
	r, _ := new(big.Rat).SetString(b.text)
	return r
}

// Without a statement of their own, values have these bounds.
const (
	defaultLength = 256
	maxLength     = 64 << 10
	defaultBound  = "9007199254740991" // 2^53-1: integers up to here mean the same everywhere
)

// header is the shape of a file's first comment.
type header struct {
	Description string                      `yaml:"description,required" doc:"What it returns or changes, for the model."`
	Parameters  yamlfile.Entries[parameter] `yaml:"parameters" doc:"What the caller gives, by the name of its placeholder."`
	Writes      bool                        `yaml:"writes" doc:"It changes something."`
	Tenant      Binding                     `yaml:"tenant" default:"required" doc:"none: its rows are not bound to the caller's tenant."`
}

// Hints names what people write for a key.
func (*header) Hints() map[string]string {
	return map[string]string{"params": "parameters", "arguments": "parameters", "write": "writes", "read": "writes: false", "readonly": "writes: false"}
}

type parameter struct {
	Type        Kind             `yaml:"type,required" doc:"string, integer, number or boolean."`
	Description string           `yaml:"description" doc:"What it is, for the model."`
	Pattern     string           `yaml:"pattern" doc:"string: RE2 expression of the whole value, from ^ to $."`
	MaxLength   *int             `yaml:"max_length" doc:"string: most characters. Default: 256."`
	Minimum     *Bound           `yaml:"minimum" doc:"integer, number: the least."`
	Maximum     *Bound           `yaml:"maximum" doc:"integer, number: the most."`
	Enum        yamlfile.Strings `yaml:"enum" doc:"string: the values there are."`
	Optional    bool             `yaml:"optional" doc:"It may be left out, and is NULL then."`
}

// Check is the rules of a parameter.
func (p *parameter) Check(fail func(key, message string)) {
	text, number := p.Type == String, p.Type == Integer || p.Type == Number
	for _, k := range []struct {
		key         string
		given, fits bool
	}{{"pattern", p.Pattern != "", text}, {"max_length", p.MaxLength != nil, text}, {"enum", p.Enum != nil, text},
		{"minimum", p.Minimum != nil, number}, {"maximum", p.Maximum != nil, number}} {
		if k.given && !k.fits {
			fail(k.key, "does not go with type "+string(p.Type))
		}
	}
	if p.Pattern != "" {
		if _, err := regexp.Compile(p.Pattern); err != nil {
			fail("pattern", "is not an expression that RE2 reads")
		} else if !strings.HasPrefix(p.Pattern, "^") || !strings.HasSuffix(p.Pattern, "$") {
			fail("pattern", "must begin with ^ and end with $: otherwise a part of the value could match")
		}
	}
	if p.MaxLength != nil && (*p.MaxLength < 1 || *p.MaxLength > maxLength) {
		fail("max_length", fmt.Sprintf("must be at least 1 and at most %d", maxLength))
	}
	for key, b := range map[string]*Bound{"minimum": p.Minimum, "maximum": p.Maximum} {
		if b != nil && (p.Type == Integer && !b.rat().IsInt() || beyond(*b)) {
			fail(key, "must be within 2^53, and whole for an integer")
		}
	}
	if p.Minimum != nil && p.Maximum != nil && p.Minimum.rat().Cmp(p.Maximum.rat()) > 0 {
		fail("minimum", "is more than maximum")
	}
}

func beyond(b Bound) bool {
	return new(big.Rat).Abs(b.rat()).Cmp(Bound{defaultBound}.rat()) > 0
}

var parameterName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// maxFile bounds a file: it is pinned whole.
const maxFile = 64 << 10

// Parse reads the text of a file. name is the tool's, file what problems call the
// file.
func Parse(name, file, text string, d Dialect) (*Query, yamlfile.Problems) {
	if p := unreadable(file, text); p != nil {
		return nil, p
	}
	blank := len(text) - len(strings.TrimLeft(text, " \t\r\n"))
	begin := text[blank:]
	end := strings.Index(begin, "*/")
	if !strings.HasPrefix(begin, "/*") || end < 2 {
		return nil, yamlfile.Problems{{File: file, Line: 1, Message: "must begin with a comment /* … */ that describes the query: description, parameters"}}
	}
	var h header
	// The lines before keep the places of problems right.
	before := strings.Repeat("\n", strings.Count(text[:blank], "\n"))
	if ps := yamlfile.Decode(file, []byte(before+begin[2:end]), &h); len(ps) > 0 {
		return nil, ps
	}
	q := &Query{Name: name, Description: h.Description, Writes: h.Writes, EveryTenant: h.Tenant == "none"}
	s := scan(file, text, blank+end+2, d)
	q.SQL = s.sql
	for _, p := range s.placeholders {
		if !slices.Contains(q.Names, p.name) {
			q.Names = append(q.Names, p.name)
		}
	}
	ps := append(s.problems, q.parameters(file, h)...)
	ps = append(ps, q.check(file, s)...)
	if len(ps) > 0 {
		return nil, ps.Sorted()
	}
	return q, nil
}

func unreadable(file, text string) yamlfile.Problems {
	at := -1
	message := ""
	switch {
	case len(text) > maxFile:
		return yamlfile.Problems{{File: file, Message: fmt.Sprintf("is larger than %d bytes", maxFile)}}
	case !utf8.ValidString(text):
		return yamlfile.Problems{{File: file, Message: "is not UTF-8 text"}}
	}
	if at = strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' || r == '\uFEFF' }); at >= 0 {
		message = "holds a control character"
	} else if at = strings.Index(strings.ReplaceAll(text, "\r\n", "\n\n"), "\r"); at >= 0 {
		message = "holds a line end that not every program takes for one"
	}
	if at < 0 {
		return nil
	}
	return yamlfile.Problems{{File: file, Line: 1 + strings.Count(text[:at], "\n"), Message: message}}
}

// parameters takes what the header declares, with the gaps filled.
func (q *Query) parameters(file string, h header) (ps yamlfile.Problems) {
	for _, e := range h.Parameters {
		fail := func(message string) {
			ps = append(ps, problemAt(e.Place, "parameters."+e.Key, message))
		}
		switch {
		case e.Key == tenant || e.Key == principal:
			fail("is bound by the server, from the caller's verified identity; it cannot be a parameter")
		case !parameterName.MatchString(e.Key):
			fail("a parameter's name is at most 63 lower-case letters, digits and _, and starts with a letter")
		case !slices.Contains(q.Names, e.Key):
			fail("is not used: the statement has no @" + e.Key)
		}
		v := e.Value
		p := Parameter{Name: e.Key, Kind: v.Type, Optional: v.Optional, description: v.Description, pattern: v.Pattern, enum: v.Enum,
			maxLength: defaultLength, min: "-" + defaultBound, max: defaultBound}
		if v.MaxLength != nil {
			p.maxLength = *v.MaxLength
		}
		if v.Minimum != nil {
			p.min = v.Minimum.text
		}
		if v.Maximum != nil {
			p.max = v.Maximum.text
		}
		q.Parameters = append(q.Parameters, p)
	}
	return ps
}

func problemAt(place yamlfile.Place, path, message string) yamlfile.Problem {
	p := yamlfile.Problem{File: string(place), Path: path, Message: message}
	if i := strings.LastIndex(p.File, ":"); i > 0 {
		if _, err := fmt.Sscanf(p.File[i+1:], "%d", &p.Line); err == nil {
			p.File = p.File[:i]
		}
	}
	return p
}

// reads and changes are how a statement may begin. What ends a transaction, leaves
// it or changes a session begins in other ways.
var (
	reads   = []string{"select", "with", "values"}
	changes = append(slices.Clone(reads), "insert", "update", "delete", "merge", "replace")
)

func (q *Query) check(file string, s *scanner) (ps yamlfile.Problems) {
	fail := func(line int, format string, args ...any) {
		ps = append(ps, yamlfile.Problem{File: file, Line: line, Message: fmt.Sprintf(format, args...)})
	}
	may := reads
	if q.Writes {
		may = changes
	}
	if len(s.problems) == 0 && !slices.Contains(may, s.keyword) {
		fail(s.first, "the statement must begin with %s; others need writes: true, or are not for tools", strings.ToUpper(strings.Join(may, ", ")))
	}
	for _, p := range s.placeholders {
		if p.name != tenant && p.name != principal && !slices.ContainsFunc(q.Parameters, func(d Parameter) bool { return d.Name == p.name }) {
			fail(p.line, "@%s is not declared under parameters", p.name)
		}
	}
	bound := slices.Contains(q.Names, tenant)
	switch {
	case !bound && !q.EveryTenant:
		fail(s.first, "the statement does not use @tenant, so that it would reach every tenant's rows; bind it, or say tenant: none")
	case bound && q.EveryTenant:
		fail(s.first, "says tenant: none and uses @tenant; remove one of the two")
	}
	return ps
}

// Offer is the query as a tool. Its whole text is pinned.
func (q *Query) offer(text string) (registry.Offer, error) {
	properties, required := map[string]any{}, []string{}
	for _, p := range q.Parameters {
		properties[p.Name] = p.schema()
		if !p.Optional {
			required = append(required, p.Name)
		}
	}
	input, err := json.Marshal(map[string]any{"type": "object", "additionalProperties": false, "properties": properties, "required": required})
	if err != nil {
		return registry.Offer{}, err
	}
	hints := `{"readOnlyHint":true,"openWorldHint":false}`
	if q.Writes {
		hints = `{"readOnlyHint":false,"destructiveHint":true,"openWorldHint":false}`
	}
	return registry.Offer{Name: q.Name, Description: q.Description, InputSchema: input, Annotations: json.RawMessage(hints), Definition: text}, nil
}

// schema is the parameter's JSON Schema. Lengths and bounds are always there.
func (p Parameter) schema() map[string]any {
	s := map[string]any{"type": string(p.Kind)}
	if p.description != "" {
		s["description"] = p.description
	}
	switch p.Kind {
	case String:
		s["maxLength"] = p.maxLength
		if p.pattern != "" {
			s["pattern"] = p.pattern
		}
		if len(p.enum) > 0 {
			s["enum"] = p.enum
		}
	case Integer, Number:
		s["minimum"], s["maximum"] = json.Number(p.min), json.Number(p.max)
	}
	return s
}

// line is where an offset of a text stands.
func line(text string, at int) int { return 1 + strings.Count(text[:at], "\n") }
