package registry

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// synonyms are the words in which people ask for what a tool's verb does.
var synonyms = []struct{ verbs, words string }{
	{"delete remove erase drop destroy purge trash", "delete remove erase discard"},
	{"cancel abort revoke", "cancel revoke stop"},
	{"send email mail post publish reply forward notify message", "send email mail write reply forward post"},
	{"pay transfer send_money refund charge payout invoice buy order", "pay transfer send refund buy order"},
	{"schedule book reserve plan", "schedule book reserve plan"},
	{"share invite grant add", "share invite grant add"},
	{"update change set edit modify rename move reschedule adjust", "update change set edit adjust move"},
	{"close archive disable lock deactivate", "close archive disable lock"},
	{"create make new", "create make new"},
}

// askedFor drafts the words of which a user must have typed one.
func askedFor(tool string) []string {
	words := nameWords(tool)
	var out []string
	for _, s := range synonyms {
		verbs := strings.Fields(s.verbs)
		if !slices.ContainsFunc(words, func(w string) bool { return slices.Contains(verbs, w) }) {
			continue
		}
		for _, w := range append(intersect(words, verbs), strings.Fields(s.words)...) {
			if !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
	}
	return out
}

func intersect(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(w string) bool { return !slices.Contains(b, w) })
}

var camel = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// nameWords are the words of a name, in whichever way they are joined.
func nameWords(name string) []string {
	return strings.FieldsFunc(strings.ToLower(camel.ReplaceAllString(name, "${1}_${2}")), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
}

func singular(w string) string {
	switch {
	case strings.HasSuffix(w, "ies") && len(w) > 4:
		return w[:len(w)-3] + "y"
	case strings.HasSuffix(w, "ss"), strings.HasSuffix(w, "us"), len(w) < 4:
		return w
	}
	return strings.TrimSuffix(w, "s")
}

// people and places are names of arguments and fields that say whom or where to.
var (
	people = []string{"to", "cc", "bcc", "recipient", "recipients", "email", "emails", "participants", "attendees", "invitees", "members", "sender", "from", "owner", "address"}
	places = []string{"url", "uri", "link", "path", "file", "folder", "directory", "host", "channel", "account", "iban", "user", "username", "phone", "number", "repository", "repo", "branch", "payee", "customer", "password"}
	titles = []string{"title", "name", "filename", "file_name", "subject", "label"}
)

// kindOf drafts the kind of thing that an argument or a field names; "" if it
// seems to name none.
func kindOf(name, noun string) string {
	words := nameWords(name)
	if len(words) == 0 {
		return ""
	}
	last := words[len(words)-1]
	switch {
	case last == "id" || last == "ids" || last == "uuid" || last == "key" && len(words) > 1:
		if len(words) > 1 {
			return singular(words[len(words)-2])
		}
		return noun
	case slices.Contains(people, last):
		return "email"
	case slices.Contains([]string{"url", "uri", "link"}, last):
		return "url"
	case slices.Contains([]string{"path", "file", "folder", "directory"}, last):
		return "file"
	case slices.Contains(places, last):
		return singular(last)
	}
	return ""
}

// nounOf is what a tool is about: the last word of its name that is no verb.
func nounOf(tool string) string {
	words := nameWords(tool)
	for i := len(words) - 1; i >= 0; i-- {
		if w := words[i]; w != "by" && w != "id" && w != "name" && len(w) > 2 {
			if i > 0 && words[i-1] == "by" {
				continue
			}
			return singular(w)
		}
	}
	return "item"
}

// draftedTargets and draftedNames are what an input schema's members seem to name.
func draftedTargets(o Offer) (targets, names []string) {
	words := nameWords(o.Name)
	creates := len(words) > 0 && slices.Contains([]string{"create", "make", "new", "add", "upload"}, words[0])
	for _, name := range propertiesOf(o.InputSchema) {
		switch kind := kindOf(name, nounOf(o.Name)); {
		case creates && slices.Contains(titles, strings.ToLower(name)):
			names = append(names, name)
		case kind != "":
			targets = append(targets, fmt.Sprintf("%s: {kind: %s}", quoteKey(name), quoteKey(kind)))
		}
	}
	return targets, names
}

// propertiesOf are a schema's own members, as far as their names may be written in
// an entry.
func propertiesOf(schema json.RawMessage) []string {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	names := sortedKeysOf(s.Properties)
	return slices.DeleteFunc(names, func(n string) bool { return !argumentName.MatchString(n) || strings.Contains(n, ".") })
}

// draftedResults are what an output schema's members seem to be: an ID that the
// server made, and what others can set. Everything else is for the reviewer.
func draftedResults(o Offer) string {
	parts := []string{"untrusted: true"}
	schema, records := o.OutputSchema, ""
	if list := propertiesOf(schema); len(list) == 1 {
		// One list of records in an object is how most servers write them.
		var s struct {
			Properties map[string]struct {
				Items json.RawMessage `json:"items"`
			} `json:"properties"`
		}
		if json.Unmarshal(schema, &s) == nil && s.Properties[list[0]].Items != nil {
			schema, records = s.Properties[list[0]].Items, list[0]
		}
	}
	var fields []string
	name := ""
	for _, field := range propertiesOf(schema) {
		last := nameWords(field)
		switch kind := kindOf(field, nounOf(o.Name)); {
		case slices.Contains(titles, strings.ToLower(field)) && name == "":
			name = field
		case kind != "" && len(last) > 0 && strings.HasPrefix(last[len(last)-1], "id"):
			fields = append(fields, fmt.Sprintf("%s: {origin: minted, kind: %s}", quoteKey(field), quoteKey(kind)))
		case kind != "":
			fields = append(fields, fmt.Sprintf("%s: {origin: given, kind: %s}", quoteKey(field), quoteKey(kind)))
		}
	}
	if len(fields) > 0 {
		parts = append(parts, "format: json")
		if records != "" {
			parts = append(parts, "records: "+quoteText(records))
		}
		if name != "" {
			parts = append(parts, "name: "+quoteText(name))
		}
		parts = append(parts, "fields: {"+strings.Join(fields, ", ")+"}")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func quoteList(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quoteText(w)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// draftLabels adds what a reviewer is to correct: where values come from and go to.
func draftLabels(o Offer, readOnly, openWorld bool, line func(format string, args ...any)) {
	targets, names := draftedTargets(o)
	if readOnly && !openWorld {
		line("    results: %s   # REVIEW: others can write what it returns; sensitive: true if it must not get out", draftedResults(o))
		return
	}
	if len(targets) > 0 {
		line("    targets: {%s}   # REVIEW: what it acts on, and of what kind that is", strings.Join(targets, ", "))
	} else {
		line("    # targets: [id]               # REVIEW: the arguments that name what it acts on")
	}
	if len(names) > 0 {
		line("    names: %s   # REVIEW: what names a new thing, in the user's words", quoteList(names))
	}
	if words := askedFor(o.Name); len(words) > 0 && !readOnly {
		line("    asked_for: %s   # REVIEW: words of which the user must have typed one", quoteList(words))
	}
	line("    results: %s   # REVIEW: others can write what it returns", draftedResults(o))
	line("    # taint: ask_unless_trusted_targets   # REVIEW: then no question after text from outside if what it acts on comes from the user")
}
