package label

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Call is what a trace looks at.
type Call struct {
	Principal  record.Principal
	Rules      Rules
	Arguments  []byte         // canonical
	UnderLimit bool           // a financial call within its autonomous limit
	Paid       map[string]int // how often each anchor of the lineage has paid
	Search     bool           // look through what is no target, too: the call's tool asks unless its targets are trusted
}

// Ask is why a call of a labelled lineage needs a person.
type Ask string

const (
	AskTarget  Ask = "target"  // a target is not trusted
	AskUsed    Ask = "used"    // what the user typed has paid for as many calls as it stands there
	AskPayload Ask = "payload" // another argument holds something that leads somewhere, or a value of a sensitive result
	AskNoName  Ask = "unnamed" // the call names nothing, and what it creates is not called in the user's words
	AskNotSaid Ask = "unasked" // the user typed none of the words that go with this tool
	AskTooLong Ask = "length"  // an argument is too long to be looked through
)

// Trace is where the values of a call come from.
type Trace struct {
	Origins []record.Origin
	Asks    []Reason // in the order of arguments; empty: nothing asks
	Pays    []string // the anchors that this call would use up
	Ends    []string // what later calls are joined with
	Trusted bool     // every argument is trusted
	Named   bool     // every target is trusted, or what it creates is called in the user's words
}

// Reason is one thing that asks.
type Reason struct {
	Ask      Ask
	Argument string
	Kind     string
	Labelled bool // the value stood in what was read
}

// maxPayload bounds what is looked through of one call.
const maxPayload = 64 << 10

// found is where one value comes from.
type found struct {
	from   record.ValueOrigin
	ok     bool
	anchor string // what it pays with, if it pays
	limit  int
	call   record.CallID
	tool   string
}

// leaf is one value inside the arguments.
type leaf struct {
	argument string // dotted path, lists walked
	text     string
	isText   bool
}

// Leaves are the values inside arguments, null and empty text left out.
func leaves(arguments []byte) []leaf {
	var out []leaf
	var walk func(path string, v []byte, depth int)
	walk = func(path string, v []byte, depth int) {
		if len(v) == 0 || depth > 64 {
			return
		}
		switch v[0] {
		case '{':
			for name, m := range canon.Members(v) {
				walk(strings.TrimPrefix(path+"."+name, "."), m, depth+1)
			}
		case '[':
			for e := range canon.Elements(v) {
				walk(path, e, depth+1)
			}
		case '"':
			if s, ok := canon.Text(v); ok && s != "" {
				out = append(out, leaf{path, s, true})
			}
		case 'n':
		default:
			out = append(out, leaf{path, string(v), false})
		}
	}
	walk("", arguments, 0)
	return out
}

func (l leaf) of(argument string) bool {
	return l.argument == argument || strings.HasPrefix(l.argument, argument+".")
}

// Trace says where every value of a call comes from, and what of it asks in a
// labelled lineage.
func (l *Lineage) Trace(c Call) Trace {
	// Spans of typed text are found when a name is first looked for.
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &tracer{l: l, c: c, all: leaves(c.Arguments), out: Trace{Trusted: true}}
	t.targets()
	t.others()
	t.names()
	t.words()
	return t.out
}

type tracer struct {
	l   *Lineage
	c   Call
	all []leaf
	out Trace

	named   int // values of targets
	refused int // of them, not trusted
	trusted []string
}

func (t *tracer) ask(r Reason) { t.out.Asks = append(t.out.Asks, r) }

func (t *tracer) say(v leaf, kind string, f found, target, hidden bool) {
	t.out.Origins = append(t.out.Origins, record.Origin{Argument: v.argument, Kind: kind, From: f.from, Trusted: f.ok,
		Target: target, Hidden: hidden, Digest: Digest(t.l.salt, v.text), Call: f.call, Tool: f.tool})
}

// targets traces what the call acts on (rules F4 and B5).
func (t *tracer) targets() {
	for _, target := range t.c.Rules.Targets {
		for _, v := range t.all {
			if !v.of(target.Argument) {
				continue
			}
			t.named++
			f := t.l.whence(t.l.origin(t.c, target, v.text), v.text)
			t.say(v, target.Kind, f, true, false)
			if !f.ok {
				t.refused++
				t.out.Trusted = false
				t.ask(Reason{AskTarget, target.Argument, target.Kind, f.from == record.FromLabelled})
				continue
			}
			t.trusted = append(t.trusted, v.text)
			t.pay(target, f)
		}
	}
}

// pay counts a target against how often the user typed it (rule B5): each
// occurrence is good for one financial or destructive call.
func (t *tracer) pay(target Target, f found) {
	if !t.c.Rules.Financial && !t.c.Rules.Destructive || f.anchor == "" || slices.Contains(t.out.Pays, f.anchor) {
		return
	}
	t.out.Pays = append(t.out.Pays, f.anchor)
	if t.c.Paid[f.anchor] >= f.limit {
		t.ask(Reason{AskUsed, target.Argument, target.Kind, false})
	}
}

func (t *tracer) isTarget(v leaf) bool {
	return slices.ContainsFunc(t.c.Rules.Targets, func(target Target) bool { return v.of(target.Argument) })
}

// others looks at everything that is no target (rule F5).
func (t *tracer) others() {
	size := 0
	var texts []leaf
	for _, v := range t.all {
		if t.isTarget(v) {
			continue
		}
		var f found
		if t.out.Trusted || t.c.Search {
			f = t.l.origin(t.c, Target{Argument: v.argument, Kind: v.argument}, v.text)
			t.out.Trusted = t.out.Trusted && f.ok
		}
		if size += len(v.text); size > maxPayload && t.c.Search {
			t.out.Trusted = false
			t.ask(Reason{AskTooLong, v.argument, "", false})
			return
		}
		if !t.c.Search || f.ok && f.from == record.FromUser || isDate(v.text) {
			continue // nobody asks, or the user typed all of it as it is
		}
		t.look(v)
		if v.isText {
			texts = append(texts, v)
		}
	}
	t.joined(texts)
}

// look searches one argument, in every reading.
func (t *tracer) look(v leaf) {
	seen := map[string]bool{}
	for i, reading := range readings(v.text) {
		if v.isText {
			suspects(reading, func(kind, text string) {
				if !seen[text] {
					seen[text] = true
					t.suspect(v.argument, suspect{kind, text, i > 0})
				}
			})
		}
		t.secrets(v.argument, reading, seen)
	}
}

// suspect decides on one thing that leads somewhere. What was found by decoding is
// never trusted for what it reads like.
func (t *tracer) suspect(argument string, s suspect) {
	f := t.l.whence(found{from: record.FromUnknown}, s.text)
	if !s.hidden {
		f = t.l.whence(t.l.origin(t.c, Target{Argument: argument, Kind: s.kind}, s.text), s.text)
		if !f.ok && slices.Contains(t.trusted, s.text) {
			f = found{from: record.FromUser, ok: true}
		}
	}
	t.say(leaf{argument, s.text, true}, s.kind, f, false, s.hidden)
	if !f.ok {
		t.ask(Reason{AskPayload, argument, s.kind, f.from == record.FromLabelled})
	}
}

// secrets looks for values of sensitive results: as they are, and taken apart.
func (t *tracer) secrets(argument, text string, seen map[string]bool) {
	if len(t.l.secrets) == 0 && t.l.full == 0 || !strings.ContainsAny(text, "0123456789") {
		return
	}
	bare := withoutDates(text)
	check := func(raw, squeezed string) {
		if !telling(squeezed) || seen[squeezed] {
			return
		}
		if _, held := t.l.secrets[t.l.salt.token(squeezed)]; !held && t.l.full == 0 {
			return
		}
		known := seen[raw] // it leads somewhere, and was judged as that
		seen[squeezed] = true
		if known || slices.Contains(t.trusted, raw) || t.l.origin(t.c, Target{Argument: argument, Kind: KindSecret}, raw).ok {
			return
		}
		f := found{from: record.FromLabelled}
		t.say(leaf{argument, raw, true}, KindSecret, f, false, raw != text)
		t.ask(Reason{AskPayload, argument, KindSecret, true})
	}
	for _, tok := range tokens(bare) {
		check(tok, squeeze(tok))
	}
	parts := words(bare)
	for i := range parts {
		joined := ""
		for j := i; j < len(parts) && j < i+8 && len(joined) < 64; j++ {
			joined += parts[j]
			check(joined, fold(joined))
		}
	}
}

// joined looks for values that only come together across arguments and calls
// (rule F5), and says what later calls are joined with.
func (t *tracer) joined(texts []leaf) {
	const most = 64
	cut := func(v string) (head, tail string) {
		f := strings.Fields(v)
		if len(f) == 0 {
			return "", ""
		}
		head, tail = f[0], f[len(f)-1]
		if r, _ := utf8.DecodeRuneInString(v); r == ' ' || r == '\n' {
			head = ""
		}
		if strings.HasSuffix(v, " ") || strings.HasSuffix(v, "\n") {
			tail = ""
		}
		if isDate(strings.TrimRight(head, ".,;:!?)")) {
			head = ""
		}
		if isDate(strings.TrimRight(tail, ".,;:!?)")) {
			tail = ""
		}
		return head[:min(len(head), most)], tail[max(0, len(tail)-most):]
	}
	before := slices.Clone(t.l.ends)
	for _, v := range texts {
		head, tail := cut(plain(v.text))
		for _, e := range before {
			if head != "" {
				t.across(v.argument, e, head)
			}
			if tail != "" && tail != head {
				t.across(v.argument, e, tail)
			}
		}
		for _, end := range []string{head, tail} {
			if end == "" || slices.Contains(before, end) {
				continue
			}
			// One word after another makes up a longer one.
			for _, e := range before {
				if strings.ContainsAny(end+e, `@./:`) && len(e)+len(end) <= most && head == tail {
					before, t.out.Ends = append(before, e+end), append(t.out.Ends, e+end)
				}
			}
			before, t.out.Ends = append(before, end), append(t.out.Ends, end)
		}
		before = before[max(0, len(before)-2*maxEnds):]
	}
	t.out.Ends = t.out.Ends[max(0, len(t.out.Ends)-maxEnds):]
}

func plain(s string) string {
	if p := plainLetters(s); p != "" {
		return p
	}
	return s
}

// across asks when two ends make up what neither holds.
func (t *tracer) across(argument, a, b string) {
	for _, pair := range [][2]string{{a, b}, {b, a}} {
		joined := pair[0] + pair[1]
		if sentences(pair[0], pair[1]) {
			continue
		}
		suspects(joined, func(kind, text string) {
			if strings.Contains(pair[0], text) || strings.Contains(pair[1], text) || !strings.Contains(joined, text) {
				return
			}
			if kind == KindPhone && !strings.ContainsAny(joined, "+") && countDigits(text) < 9 {
				return // two numbers side by side are no phone number yet
			}
			partly := false
			for _, p := range pair {
				suspects(p, func(k, inner string) {
					partly = partly || k == kind && strings.Contains(text, inner)
				})
			}
			if !partly {
				t.suspect(argument, suspect{kind, text, true})
			}
		})
		if q := squeeze(joined); telling(q) && countDigits(q) > 0 {
			if _, held := t.l.secrets[t.l.salt.token(q)]; held {
				t.suspect(argument, suspect{KindSecret, joined, true})
			}
		}
	}
}

// sentences reports whether one text ends a sentence and the other begins one: two
// messages one after the other, and no host that was cut at its dot.
func sentences(end, begin string) bool {
	if !strings.HasSuffix(end, ".") && !strings.HasSuffix(end, ":") {
		return false
	}
	first, n := utf8.DecodeRuneInString(begin)
	second, _ := utf8.DecodeRuneInString(begin[n:])
	return unicode.IsUpper(first) && (len(begin) == n || unicode.IsLower(second))
}

// names is what a call that names no target rests on (rule F5): what it creates is
// called in the user's words and values of clean results.
func (t *tracer) names() {
	if t.named > 0 {
		t.out.Named = t.refused == 0
		return
	}
	given, ok := 0, true
	for _, name := range t.c.Rules.Names {
		for _, v := range t.all {
			if !v.of(name) {
				continue
			}
			given++
			f := found{from: record.FromUser, ok: t.l.inUsersWords(t.c, v)}
			if !f.ok {
				ok, f = false, t.l.whence(found{from: record.FromUnknown}, v.text)
			}
			t.say(v, "name", f, false, false)
		}
	}
	if t.out.Named = given > 0 && ok; !t.out.Named {
		argument := ""
		if len(t.c.Rules.Names) > 0 {
			argument = t.c.Rules.Names[0]
		}
		t.ask(Reason{AskNoName, argument, "name", false})
	}
}

// inUsersWords reports whether a name was typed, or is made of words that were.
func (l *Lineage) inUsersWords(c Call, v leaf) bool {
	target := Target{Argument: v.argument, Kind: "name"}
	if l.origin(c, target, v.text).ok {
		return true
	}
	if l.labelledBefore(v.text, 1<<62) && strings.ContainsAny(v.text, "@/\\") {
		return false
	}
	some := false
	for _, tok := range strings.Fields(v.text) {
		tok = strings.Trim(tok, `.,;:!?()[]{}"'“”‘’`)
		w := fold(tok)
		switch {
		case w == "" || common[w]:
		case utf8.RuneCountInString(w) < 3 && !strings.ContainsFunc(w, func(r rune) bool { return r >= '0' && r <= '9' }):
		case isDate(tok), l.origin(c, target, tok).ok, l.typedNumber(c.Principal, tok):
			some = true
		default:
			return false
		}
	}
	return some
}

// typedNumber reports whether a small number was typed: in a name it anchors nothing.
func (l *Lineage) typedNumber(p record.Principal, tok string) bool {
	if _, err := strconv.ParseFloat(tok, 64); err != nil {
		return false
	}
	return slices.ContainsFunc(l.typed, func(t *typed) bool { return t.principal == p && occurrences(t.text, tok) > 0 })
}

// words is asked_for (rule F7).
func (t *tracer) words() {
	if len(t.c.Rules.AskedFor) == 0 {
		return
	}
	if !slices.ContainsFunc(t.c.Rules.AskedFor, func(w string) bool { return t.l.typedWord(t.c.Principal, w) }) {
		t.ask(Reason{AskNotSaid, "", "", false})
	}
}

// origin says where a value comes from, as a target or as an argument of its name.
func (l *Lineage) origin(c Call, t Target, text string) found {
	if slices.Contains(t.Values, text) {
		return found{from: record.FromOperator, ok: true}
	}
	digest := l.salt.of(text)
	for i := range l.entries {
		if e := &l.entries[i]; len(e.Listed) > 0 && slices.Contains(c.Rules.Lookups[t.Argument], e.Tool) && slices.Contains(e.Listed, digest) {
			return found{from: record.FromOperator, ok: true, call: e.Call, tool: e.Tool}
		}
	}
	folded := c.Rules.folded(t)
	if n := l.typedCount(c.Principal, text, folded); n > 0 {
		key := text
		if folded {
			key = fold(text) // what is equal for trust is equal for the count
		}
		return found{from: record.FromUser, ok: true, anchor: l.anchor("typed", key), limit: n}
	}
	if f := l.selected(c, t, digest); f.ok {
		return f
	}
	if t.Kind == KindURL || t.Argument == KindURL {
		for i := range l.entries {
			if e := &l.entries[i]; slices.Contains(c.Rules.Links, e.Tool) && slices.Contains(e.Linked, digest) {
				return found{from: record.FromOperator, ok: true, call: e.Call, tool: e.Tool}
			}
		}
	}
	return found{from: record.FromUnknown}
}

// whence tells an untrusted value that stood in what was read from one of which
// nothing is known.
func (l *Lineage) whence(f found, text string) found {
	if !f.ok && l.labelledBefore(text, 1<<62) {
		f.from = record.FromLabelled
		by := l.labelledBy(text)
		f.call, f.tool = by.call, by.tool
	}
	return f
}

func (l *Lineage) anchor(kind, text string) string {
	h := l.salt.of("anchor\x00" + kind + "\x00" + text)
	return base64.RawURLEncoding.EncodeToString(h[:12])
}

// selected looks for a value among the declared fields of selected records (rule F4).
func (l *Lineage) selected(c Call, t Target, digest held) found {
	for i := len(l.entries) - 1; i >= 0; i-- {
		e := &l.entries[i]
		if e.Trusted && e.One != nil && *e.One == digest {
			return l.select1(e, digest, 1)
		}
		if !e.Trusted && !e.Created {
			continue
		}
		which, times := l.record(c, e)
		for r := range e.Records {
			for _, f := range e.Records[r].Fields {
				if f.Value != digest || f.Kind != t.Kind {
					continue
				}
				switch {
				case e.Created && !e.Trusted && f.Origin != Minted:
				case r != which:
					// A clean value that left a choice.
					if f.Origin == Clean && e.Trusted && which < 0 && c.Rules.Financial && c.UnderLimit {
						return l.select1(e, digest, 1)
					}
				case l.counts(c, t, f.Field):
					return l.select1(e, digest, times)
				}
			}
		}
	}
	return found{}
}

func (l *Lineage) select1(e *Entry, digest held, times int) found {
	return found{from: record.FromSelected, ok: true, anchor: l.anchor("selected", string(digest[:])), limit: times, call: e.Call, tool: e.Tool}
}

// record is which record of a result is selected, or -1: the only one, or the only
// one whose name the user typed; and how often they typed it.
func (l *Lineage) record(c Call, e *Entry) (which, times int) {
	if len(e.Records) == 1 {
		return 0, 1
	}
	which = -1
	for i, r := range e.Records {
		n := 0
		for _, name := range r.Names {
			n += l.typedName(c.Principal, name)
		}
		switch {
		case n > 0 && which >= 0:
			return -1, 0
		case n > 0:
			which, times = i, n
		}
	}
	return which, times
}

// counts reports whether a field of a selected record counts for a target of its kind.
func (l *Lineage) counts(c Call, t Target, f Field) bool {
	switch f.Origin {
	case Clean:
		return true
	case Minted:
		return !c.Rules.Destructive
	case Given:
		if t.Argument != f.Name && !slices.Contains(f.Also, t.Argument) && !c.Rules.GivenAny {
			return false
		}
		for _, w := range append([]string{f.Name}, f.Also...) {
			if l.typedWord(c.Principal, w) {
				return true
			}
		}
	}
	return false
}
