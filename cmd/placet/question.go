package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/edge/question"
	"github.com/placet-dev/placet/record"
	"golang.org/x/term"
)

// Bounds of one question on a terminal. What is over is counted, and --arguments
// prints every byte.
const (
	valueChars = 2000 // of one text
	cellChars  = 100  // of one text in a list
	valueLines = 200  // of all arguments together
	valueDepth = 8
)

// sheet prints a question: fields with their names in a column of their own. What
// somebody else wrote never reaches the first column, so that it cannot pass for a
// field.
type sheet struct {
	*program
	width int // of the terminal; 0: lines are not broken
}

const column = 13

func (p *program) sheet() sheet {
	s := sheet{program: p}
	if out, ok := p.stdout.(*os.File); ok {
		if w, _, err := term.GetSize(int(out.Fd())); err == nil && w > 2*column {
			s.width = w - column
		}
	}
	return s
}

// line prints a field. Its text may have lines, which are all our own breaks.
func (s sheet) line(name, text string) {
	if text == "" {
		return
	}
	for _, part := range wrap(text, s.width) {
		s.say("%s", strings.TrimRight(fmt.Sprintf("%-*s%s", column, name, part), " "))
		name = ""
	}
}

// wrap breaks lines that a terminal would break by itself, at its first column.
func wrap(text string, width int) []string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		start, used := 0, 0
		for at, r := range line {
			w := 1
			if unicode.IsMark(r) {
				w = 0
			} else if r >= 0x1100 { // some of these take two places
				w = 2
			}
			if width > 0 && used+w > width && at > start {
				out = append(out, line[start:at])
				start, used = at, 0
			}
			used += w
		}
		out = append(out, line[start:])
	}
	return out
}

// marked is a text that somebody else wrote, with all that is in it visible, and
// what is over its bound counted.
func marked(text string, most int) string {
	runes := []rune(text)
	left := 0
	if len(runes) > most+most/4 { // a few characters more cost less than a note
		left = len(runes) - most
		runes = runes[:most]
	}
	var b strings.Builder
	for _, p := range question.Mark(string(runes)) {
		b.WriteString(p.Text)
		if p.Mark && p.Text == question.Break {
			b.WriteString("\n")
		}
	}
	if left > 0 {
		fmt.Fprintf(&b, "⟦%d more characters⟧", left)
	}
	return b.String()
}

// cell is the first line of a text, for a list.
func cell(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return marked(first, cellChars)
}

// quotedText is a text in quotation marks that nothing within it can close.
func quotedText(text string, most int) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(marked(text, most)) + `"`
}

// words is a text of an agent or a person; empty: there is none.
func words(text string) string {
	if text == "" {
		return ""
	}
	return quotedText(text, valueChars)
}

// tree is a canonical value in lines. cut says that not all of it is there.
type tree struct {
	lines []string
	cut   bool
}

func treeOf(raw []byte) tree {
	var t tree
	clean, err := canon.Canonical(raw, canon.Limits{Bytes: mostAnswer})
	if err != nil {
		t.lines = []string{marked(string(raw), valueChars)}
		return t
	}
	if clean[0] == '{' {
		t.members(clean, 0)
	} else {
		t.value("", clean, 0)
	}
	if len(t.lines) == 0 {
		t.lines = []string{"none"}
	}
	return t
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)

func (t *tree) members(object []byte, depth int) {
	for name, value := range canon.Members(object) {
		if !plainName.MatchString(name) {
			name = quotedText(name, cellChars)
		}
		t.value(name+": ", value, depth)
	}
}

// value adds a member or an element. Its lines stand further in than its name.
func (t *tree) value(name string, raw []byte, depth int) {
	in := strings.Repeat("  ", depth)
	switch {
	case len(t.lines) >= valueLines:
		t.cut = true
	case raw[0] != '{' && raw[0] != '[':
		text, isText := canon.Text(raw)
		if isText {
			t.cut = t.cut || len([]rune(text)) > valueChars+valueChars/4
			text = quotedText(text, valueChars)
		} else {
			text = string(raw)
		}
		t.lines = append(t.lines, in+name+strings.ReplaceAll(text, "\n", "\n"+in+"    "))
	case depth >= valueDepth:
		t.cut = true
		t.lines = append(t.lines, in+name+fmt.Sprintf("⟦%d more characters⟧", len(raw)))
	case string(raw) == "{}" || string(raw) == "[]":
		t.lines = append(t.lines, in+name+string(raw))
	case raw[0] == '{':
		t.lines = append(t.lines, in+name+"{")
		t.members(raw, depth+1)
		t.lines = append(t.lines, in+"}")
	default:
		t.lines = append(t.lines, in+name+"[")
		for value := range canon.Elements(raw) {
			t.value("", value, depth+1)
		}
		t.lines = append(t.lines, in+"]")
	}
}

// inline is a value on one line of ours.
func inline(raw []byte) string {
	if text, isText := canon.Text(raw); isText {
		return quotedText(text, cellChars)
	}
	return marked(string(raw), cellChars)
}

// question prints what an answer binds, as the console's page shows it.
func (p *program) question(a api.ShownApproval) {
	s := p.sheet()
	s.effect(a.ApprovalView)
	s.line("for", marked(a.Call.Principal.String()+", by "+string(a.Call.Agent), valueChars))
	s.line("asked", whyAsked(a))
	for _, r := range a.Call.Reasons {
		if r.Verdict == record.RequiresApproval && !r.Observe && (r.Text != "" || r.Code != a.Code) {
			s.line("", marked(r.Rule, cellChars)+": "+marked(firstOf(r.Text, question.Why(r.Code)), valueChars))
		}
	}
	s.line("where", marked(a.Environment, cellChars))
	arguments := treeOf(a.Call.Arguments)
	s.line("arguments", strings.Join(arguments.lines, "\n"))
	if arguments.cut {
		s.line("", "⟦not all of it is here; every byte: placet approvals show "+string(a.ID)+" --arguments⟧")
	}
	if r := a.Call.Redacted; r != nil {
		s.line("redacted", marked(redacted(*r), valueChars))
	}
	for _, t := range a.Targets {
		s.line("acts on", marked(t.Argument, cellChars)+" = "+inline(t.Value))
	}
	s.line("purpose", words(a.Call.Purpose))
	if a.Preview != nil {
		s.preview(*a.Preview)
	}
	if a.Since != nil {
		s.changed(*a.Since)
	}
	s.line("source", string(a.Call.Source)+", by "+string(a.Call.Route))
	for _, part := range a.Rule {
		s.line("wanted", marked(part.From, cellChars)+": "+strconv.Itoa(part.Quorum)+" of "+marked(strings.Join(whoMay(part), ", "), valueChars)+
			fmt.Sprintf(" (%d so far)", part.Yes))
	}
	for _, r := range a.Answers {
		who := "somebody"
		if r.Person != nil {
			who = r.Person.String()
		}
		s.line("answer", string(r.Word)+" by "+marked(who, cellChars)+" at "+shortTime(r.At)+" "+words(r.Note))
	}
	s.line("call", string(a.Call.ID)+" of "+string(a.Call.Run)+", tool "+marked(a.Call.Tool, cellChars))
	s.line("state", question.State(a.State))
	s.line("", a.Outcome)
	if a.Newer != "" {
		s.line("", "Asked anew: placet approvals show "+string(a.Newer))
	}
	if a.State == record.Pending {
		s.line("left", question.Left(time.Duration(a.Remaining)*time.Second)+", until "+shortTime(a.Expires))
		if a.Passkey {
			s.line("", "It is answered with a passkey, on its page.")
		}
	}
	s.line("page", a.Link)
	s.line("binding", a.Binding)
}

// effect prints the effect in words, and below it the arguments that the sentence
// does not mention. The line ends are ours: values are quoted where it was made.
func (s sheet) effect(a api.ApprovalView) {
	for n, line := range strings.Split(firstOf(a.Call.Effect, a.Call.Tool), "\n") {
		name := "effect"
		if n > 0 {
			name = ""
		}
		if n == 20 {
			s.line("", "⟦more of it under arguments⟧")
			return
		}
		s.line(name, marked(line, valueChars))
	}
}

func whyAsked(a api.ShownApproval) string {
	text := "because " + firstOf(a.Why, string(a.Code))
	if a.Replaces != "" {
		text += "; in the place of " + string(a.Replaces)
	}
	return text
}

func (s sheet) changed(c api.ChangedView) {
	used := ""
	if c.Unused {
		used = ", which has not run"
	}
	s.line("changed", "since the yes of "+shortTime(c.At)+used)
	if c.Redacted {
		s.line("", "  its arguments were redacted, so that nothing is compared")
		return
	}
	for _, r := range c.Rows {
		old, now := "not there", "not there"
		if r.Old != nil {
			old = inline(r.Old)
		}
		if r.New != nil {
			now = inline(r.New)
		}
		s.line("", "  "+marked(r.Name, cellChars)+": "+old+" → "+now)
	}
	if c.Left > 0 {
		s.line("", fmt.Sprintf("  ⟦%d more⟧", c.Left))
	}
	s.line("", fmt.Sprintf("  the same: %d of the arguments", c.Same))
}

// preview prints what a dry run showed, as what it is: somebody else's text.
func (s sheet) preview(v api.PreviewView) {
	if v.Failed != "" {
		s.line("preview", marked(v.Failed, valueChars))
		return
	}
	text := quotedText(v.Text, valueChars)
	if v.Left > 0 {
		text += fmt.Sprintf(" ⟦%d more bytes were not kept⟧", v.Left)
	}
	s.line("preview", "by "+marked(v.Tool, cellChars)+", when it was asked: "+text)
}

func whoMay(part api.PartView) []string {
	var out []string
	for _, g := range part.Groups {
		out = append(out, "group "+g.Name)
	}
	for _, who := range part.People {
		out = append(out, who.String())
	}
	if part.Principal {
		out = append(out, "the person it is for")
	}
	if len(out) == 0 {
		out = []string{"whoever is named"}
	}
	return out
}
