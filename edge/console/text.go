package console

import (
	"html/template"
	"strings"

	"github.com/placet-dev/placet/edge/question"
)

// marked is a text that somebody else wrote, as HTML: escaped, and with what cannot
// be seen or deceives made visible.
func marked(s string) template.HTML {
	var b strings.Builder
	for _, p := range question.Mark(s) {
		if !p.Mark {
			b.WriteString(template.HTMLEscapeString(p.Text))
			continue
		}
		b.WriteString(`<span class="odd">` + p.Text + `</span>`) // our own letters
		if p.Text == question.Break {
			b.WriteByte('\n') // a break in a text stays one
		}
	}
	return template.HTML(b.String()) // escaped above
}

// folded is a text of which a part stands behind a fold.
type folded struct {
	Text template.HTML
	More template.HTML // behind the fold; empty: nothing is
	Size int           // characters behind the fold, those left out included
	Left int           // characters that are not on the page at all
}

// fold shows so many characters of a text at once, and most behind a fold. What is
// over is counted: the page says it and offers all as a file.
func fold(s string, at, most int) folded { return foldAs(s, at, most, marked) }

func foldAs(s string, at, most int, show func(string) template.HTML) folded {
	runes := []rune(s)
	if len(runes) <= at+at/4 { // a fold for a few characters hides more than it helps
		return folded{Text: show(s)}
	}
	end := min(len(runes), max(most, at))
	return folded{Text: show(string(runes[:at])), More: marked(string(runes[at:end])), Size: len(runes) - at, Left: len(runes) - end}
}

// sentence is an effect in words, whose values the registry has quoted: they stand
// apart from its own words, so that a value with quotation marks is seen to be one.
func sentence(s string) template.HTML {
	var out template.HTML
	for {
		start := strings.IndexByte(s, '"')
		if start < 0 {
			return out + marked(s)
		}
		end := start + 1
		for end < len(s) && s[end] != '"' {
			if s[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end+1, len(s))
		out += marked(s[:start]) + `<span class="given">` + marked(s[start:end]) + `</span>`
		s = s[end:]
	}
}
