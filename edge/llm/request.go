package llm

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/placet-dev/placet/history"
)

// request is one request to a model, as it was read. What is read here is all that
// is known of it; what is sent on is its bytes.
type request struct {
	provider *provider
	endpoint endpoint
	body     []byte
	fields   fields
	history  *history.Transcript

	offered []string // tools that the client runs, as the model sees them
	hosted  []string // tools that the provider would run itself
	objects []string // provider-side objects that it names
	forced  string   // the tool that the model must call
	must    bool     // the model must call some tool
	allowed []string // the only tools it may call; nil: all that are offered
	void    string   // why calls of the answer are no proposals
	stores  bool     // the provider keeps the answer under its ID
}

// read decodes a request once and strictly.
func (p *provider) read(e endpoint, body []byte) (*request, *refusal) {
	q := &request{provider: p, endpoint: e, body: body}
	f, ok := fieldsOf(body)
	if !ok {
		return nil, invalid("the body is not one object of strict JSON; names occur once, text is UTF-8, nothing follows")
	}
	q.fields = f
	if r := q.known(e.dialect.members); r != nil {
		return nil, r
	}
	if r := e.dialect.read(q); r != nil {
		return nil, r
	}
	q.objects = q.foreign()
	return q, q.hostedTools()
}

// known refuses members that this door does not know: a provider may give them a
// meaning, such as a tool to run, that nobody looked at here.
func (q *request) known(members []string) *refusal {
	if name := q.fields.variant(members); name != "" {
		return invalid("the member %s differs from a known one by case only", quoted(name))
	}
	for _, name := range slices.Sorted(maps.Keys(q.fields)) {
		if !slices.Contains(members, name) && !slices.Contains(q.provider.Members, name) {
			return invalid("the member %s is not known here, so nobody could say what it makes the provider do; leave it out, or let the operator name it in providers.%s.members",
				quoted(name), q.provider.Name).as("unknown_member")
		}
	}
	return nil
}

// hostedTools refuses tools that the provider would run itself, except those that
// the operator admits (rule G1).
func (q *request) hostedTools() *refusal {
	for _, name := range q.hosted {
		if !slices.Contains(q.provider.Admit, name) {
			return invalid("the provider would run the tool %s itself, past this server; leave it out, or let the operator name it in providers.%s.admit",
				quoted(name), q.provider.Name).as("provider_tool")
		}
	}
	return nil
}

// foreign are the objects that only the run's own records can allow.
func (q *request) foreign() []string {
	var out []string
	for _, id := range q.objects {
		if !slices.Contains(q.provider.Objects, id) && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// host notes a tool that the provider would run. Names lose the date of their
// version: an operator admits a tool, not one of its versions.
func (q *request) host(name string) {
	name = cutText(dated.ReplaceAllString(name, ""))
	if !slices.Contains(q.hosted, name) {
		q.hosted = append(q.hosted, name)
	}
}

var dated = regexp.MustCompile(`(_preview)?(_\d{8}|[_-]\d{4}[_-]\d{2}[_-]\d{2})?$`)

// object notes a provider-side object; an empty ID names none.
func (q *request) object(ids ...string) {
	for _, id := range ids {
		if id != "" {
			q.objects = append(q.objects, id)
		}
	}
}

// references notes the objects that content names, wherever it stands. What a
// model or a tool wrote as arguments, and schemas, name none: no provider looks
// for objects in them.
func (q *request) references(raw []byte, names ...string) {
	switch {
	case len(raw) == 0:
	case raw[0] == '[':
		for _, e := range listOf(raw) {
			q.references(e, names...)
		}
	case raw[0] == '{':
		f, _ := fieldsOf(raw)
		for name, v := range f {
			switch {
			case slices.Contains(names, name) && v.Kind() == '"':
				q.object(textOf(v))
			case slices.Contains(opaque, name):
			default:
				q.references(v, names...)
			}
		}
	}
}

var opaque = []string{"args", "arguments", "input", "response", "parameters", "input_schema", "metadata"}

// isForced reports whether the request left the model no choice but to call a tool.
func (q *request) isForced(name string) bool {
	return q.forced == name && name != "" || q.must && len(q.choosable()) < 2
}

func (q *request) choosable() []string {
	if q.allowed != nil {
		return q.allowed
	}
	return q.offered
}

// said is what a request's history says of turns and calls.
type said struct {
	newInput  bool   // its end is user input after a finished answer (rule B3)
	typed     string // text of the last message, where that is the user's
	prefilled bool   // it ends with words in the model's mouth
}

// said looks at what stands after the model's last word. A turn begins where that
// is user input and no result of a tool.
func (q *request) said() said {
	var s said
	messages := q.history.Messages
	from := len(messages)
	for from > 0 && !spoken(&messages[from-1]) {
		from--
	}
	s.prefilled = len(messages) > 0 && from == len(messages)
	results := false
	for n := range messages[from:] {
		m := &messages[from+n]
		var texts []string
		user := false
		for k := range m.Items {
			switch i := &m.Items[k]; i.Kind {
			case history.Result:
				results = true
			case history.User:
				user = true
				if i.Type == "text" || i.Type == "input_text" {
					texts = append(texts, i.Text())
				}
			}
		}
		if s.newInput = s.newInput || user; user {
			s.typed = strings.Join(texts, "\n")
		}
	}
	if text := q.fields["input"]; q.endpoint.dialect.format == history.Responses && text.Kind() == '"' {
		s.newInput, s.typed = true, textOf(text)
	}
	s.newInput = s.newInput && !results
	return s
}

// spoken reports whether a message is the model's.
func spoken(m *history.Message) bool {
	if m.Role == "assistant" || m.Role == "model" {
		return true
	}
	return slices.ContainsFunc(m.Items, func(i history.Item) bool {
		return i.Kind == history.Assistant || i.Kind == history.Call || i.Kind == history.Reasoning || i.Role == "assistant"
	})
}

// invalid refuses a request that is at fault itself.
func invalid(format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, code: "invalid", message: fmt.Sprintf(format, args...)}
}

// quoted is a name of the request, shown.
func quoted(name string) string { return fmt.Sprintf("%q", cutText(name)) }

// cutText bounds what is shown of a request.
func cutText(s string) string {
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}
