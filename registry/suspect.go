package registry

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/placet-dev/placet/guard"
)

// Suspected is what an argument seems to be.
type Suspected guard.Type

const suspectURL = Suspected(guard.URL)

// serious are types whose abuse leads outside of what a tool is for.
func (s Suspected) serious() bool {
	return slices.Contains([]guard.Type{guard.Path, guard.URL, guard.Host, guard.Email, guard.Query, guard.Amount}, guard.Type(s))
}

// Suspect guesses from an argument's name and the schema's format what it is; ""
// when neither says. It is for drafts and warnings: nothing is decided by it.
func Suspect(name, format string) Suspected {
	switch format {
	case "uri", "url", "iri", "uri-reference":
		return suspectURL
	case "email", "idn-email":
		return Suspected(guard.Email)
	case "hostname", "idn-hostname", "ipv4", "ipv6":
		return Suspected(guard.Host)
	case "uuid":
		return Suspected(guard.Identifier)
	}
	words := wordsOf(name)
	last := words[len(words)-1]
	for _, s := range suspects {
		if slices.Contains(s.last, last) {
			return Suspected(s.of)
		}
	}
	return ""
}

var suspects = []struct {
	of   guard.Type
	last []string
}{
	{guard.Path, []string{"path", "paths", "file", "files", "filename", "filenames", "filepath", "dir", "directory", "folder"}},
	{guard.URL, []string{"url", "urls", "uri", "uris", "link", "links", "href", "endpoint", "webhook", "callback"}},
	{guard.Host, []string{"host", "hosts", "hostname", "domain"}},
	{guard.Email, []string{"email", "emails", "mail", "cc", "bcc", "recipient", "recipients"}},
	{guard.Query, []string{"sql"}},
	{guard.Amount, []string{"amount", "amounts"}},
	{guard.Enum, []string{"currency"}},
	{guard.Identifier, []string{"id", "ids", "uuid"}},
	{guard.Name, []string{"title", "subject"}},
	{guard.Text, []string{"body", "text", "message", "content", "description", "comment", "note"}},
}

// wordsOf splits a name at its cases and marks, in lower case.
func wordsOf(name string) []string {
	spaced := regexp.MustCompile(`([a-z0-9])([A-Z])`).ReplaceAllString(name, "${1}_$2")
	words := strings.FieldsFunc(strings.ToLower(spaced), func(r rune) bool { return r == '_' || r == '-' || r == '.' || r == ' ' })
	if len(words) == 0 {
		return []string{""}
	}
	return words
}

// draftGuards drafts guards from names and formats of a schema's top. What needs
// a person's word first, such as a root, stands as a comment.
func draftGuards(schema json.RawMessage) []string {
	var s struct {
		Properties map[string]struct {
			Format string            `json:"format"`
			Enum   []json.RawMessage `json:"enum"`
		} `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	var live, later []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		if !argumentName.MatchString(name) || p.Enum != nil {
			continue
		}
		line := func(format string, args ...any) string {
			return quoteKey(name) + ": " + fmt.Sprintf(format, args...)
		}
		switch of := guard.Type(Suspect(name, p.Format)); of {
		case guard.URL, guard.Host:
			live = append(live, line("{type: %s}   # REVIEW: hosts: [example.com] if they are few", of))
		case guard.Email:
			live = append(live, line("{type: email}   # REVIEW: domains: [example.com] if they are few"))
		case guard.Amount:
			if _, ok := s.Properties["currency"]; ok {
				live = append(live, line(`{type: amount, currency: "{currency}"}   # REVIEW: max`))
			} else {
				later = append(later, line("{type: amount, currency: EUR, max: 5000}"))
			}
		case guard.Path:
			later = append(later, line(`{type: path, root: "/srv/files/{tenant}"}`))
		case guard.Query:
			later = append(later, line("{type: query, values: [name_of_a_query]}"))
		case guard.Enum:
			later = append(later, line("{type: enum, values: [EUR]}"))
		case guard.Identifier:
			later = append(later, line(`{type: identifier, pattern: "[0-9]+"}`))
		case guard.Name, guard.Text:
			later = append(later, line("{type: %s, max_length: 200}", of))
		}
	}
	if len(live)+len(later) == 0 {
		return nil
	}
	out := []string{"    guards:"}
	if len(live) == 0 {
		out[0] = "    # guards:                     # REVIEW: what the arguments must mean"
	}
	for _, l := range live {
		out = append(out, "      "+l)
	}
	for _, l := range later {
		out = append(out, "      # "+l)
	}
	return out
}
