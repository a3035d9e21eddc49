package registry

import (
	"fmt"
	"strings"

	"github.com/placet-dev/placet/canon"
)

// Effect is a template of the sentence that approvers read. {name} stands for an
// argument; nothing else is replaced and nothing is executed.
type Effect struct {
	text   string
	pieces []piece
}

// piece is fixed text, or the name of an argument.
type piece struct{ text, argument string }

// ParseEffect reads a template. A brace that is not part of {name} is an error.
func ParseEffect(text string) (Effect, error) {
	e := Effect{text: text}
	rest := text
	for rest != "" {
		open := strings.IndexAny(rest, "{}")
		if open < 0 {
			e.pieces = append(e.pieces, piece{text: rest})
			break
		}
		end := strings.IndexAny(rest[open+1:], "{}")
		if rest[open] == '}' || end < 1 || rest[open+1+end] != '}' {
			return Effect{}, fmt.Errorf("has a brace that is not part of {argument}")
		}
		e.pieces = append(e.pieces, piece{text: rest[:open]}, piece{argument: rest[open+1 : open+1+end]})
		rest = rest[open+end+2:]
	}
	return e, nil
}

// String is the template.
func (e Effect) String() string { return e.text }

// Arguments lists the names that the template mentions.
func (e Effect) Arguments() []string {
	var out []string
	for _, p := range e.pieces {
		if p.argument != "" {
			out = append(out, p.argument)
		}
	}
	return out
}

// Render writes the sentence for canonical arguments. Every inserted value is
// quoted, so that it cannot pass for the sentence's own words, and arguments
// that the sentence does not mention are listed below it, one a line (rule D7).
// A name that the call does not give is said to be absent. An empty template
// gives the list alone. Unprintable characters are escaped.
func (e Effect) Render(arguments []byte) string {
	var b strings.Builder
	mentioned := map[string]bool{}
	for _, p := range e.pieces {
		if p.argument == "" {
			b.WriteString(p.text)
			continue
		}
		mentioned[p.argument] = true
		value, ok := canon.Lookup(arguments, p.argument)
		if !ok {
			b.WriteString("(no " + p.argument + ")")
			continue
		}
		b.WriteString(quoted(value))
	}
	for name, value := range canon.Members(arguments) {
		if mentioned[name] {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(quotedName(name) + ": " + quoted(value))
	}
	return b.String()
}

// quoted is a JSON value inside quotation marks: a text's own, or new ones
// around anything else.
func quoted(value []byte) string {
	text, ok := canon.Text(value)
	if !ok {
		text = string(value)
	}
	return inQuotes(text)
}

func inQuotes(text string) string {
	text = strings.ReplaceAll(text, `\`, `\\`)
	text = strings.ReplaceAll(text, `"`, `\"`)
	text = strings.ReplaceAll(text, "\n", `\n`)
	return `"` + escapeUnprintable(text) + `"`
}

// quotedName leaves a plain name as it is and quotes any other.
func quotedName(name string) string {
	if argumentName.MatchString(name) {
		return name
	}
	return inQuotes(name)
}
