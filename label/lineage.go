package label

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/placet-dev/placet/record"
)

// Lineage is the index of what one lineage has read and been told. It is made of
// the stored material, in its order, and safe for concurrent use.
type Lineage struct {
	mu      sync.RWMutex
	salt    salted
	seq     int64
	typed   []*typed
	bytes   int // of typed text
	entries []Entry
	fields  int
	tokens  map[uint32]int64 // where a token first stood in labelled text
	sources map[int64]source // of the material in which some token first stood
	secrets map[uint32]struct{}
	ends    []string
	full    int64 // since when it has read more than the index holds; 0: it has not
}

// typed is one statement of what the user typed.
type typed struct {
	seq       int64
	principal record.Principal
	run       record.RunID
	turn      record.Turn
	text      string
	folded    string
	spans     map[held]span // every span of up to maxSpan words, folded
}

// span is a part of a typed text: where it first stands, and how often.
type span struct{ from, to, n int }

// maxSpan is how many words the name of a record may have.
const maxSpan = 12

// maxEnds bounds what is kept of earlier writes' texts.
const maxEnds = 24

// New makes an empty index; salt is the lineage's own.
func New(salt []byte) *Lineage {
	return &Lineage{salt: salted(slices.Clone(salt)), tokens: map[uint32]int64{}, sources: map[int64]source{}, secrets: map[uint32]struct{}{}}
}

// Seq is the last material that the index holds.
func (l *Lineage) Seq() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.seq
}

// Full reports whether the lineage has read more than its index holds.
func (l *Lineage) Full() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.full > 0
}

// Typed is the stored form of what a user typed.
type Typed struct {
	Principal record.Principal `json:"principal"`
	Turn      record.Turn      `json:"turn"`
	Run       record.RunID     `json:"run"`
	Text      string           `json:"text"`
}

// Add takes the next material in. What it cannot read makes the lineage full:
// nothing is then cleared that it might have held.
func (l *Lineage) Add(seq int64, kind string, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq <= l.seq {
		return
	}
	l.seq = seq
	switch kind {
	case KindTyped:
		var t Typed
		if json.Unmarshal(body, &t) != nil {
			return // nothing is anchored by what cannot be read
		}
		if l.bytes += len(t.Text); l.bytes > MaxTyped {
			t.Principal = record.Principal{} // more than is kept anchors nothing
		}
		l.typed = append(l.typed, &typed{seq: seq, principal: t.Principal, run: t.Run, turn: t.Turn, text: t.Text, folded: fold(t.Text)})
	case KindResult:
		var e Entry
		if json.Unmarshal(body, &e) != nil {
			l.fill(seq)
			return
		}
		l.entry(seq, e)
	case KindSent:
		var ends []string
		if json.Unmarshal(body, &ends) != nil {
			return
		}
		l.ends = append(l.ends, ends...)
		l.ends = l.ends[max(0, len(l.ends)-maxEnds):]
	}
}

// fill notes that from here on the index does not hold all that was read.
func (l *Lineage) fill(seq int64) {
	if l.full == 0 {
		l.full = seq
	}
}

func (l *Lineage) entry(seq int64, e Entry) {
	if e.Full {
		l.fill(seq)
	}
	room := func() bool {
		if len(l.tokens)+len(l.secrets) < MaxTokens {
			return true
		}
		l.fill(seq)
		return false
	}
	unpack(e.Secrets, func(t uint32) {
		if room() {
			l.secrets[t] = struct{}{}
		}
	})
	unpack(e.Tokens, func(t uint32) {
		if _, ok := l.tokens[t]; !ok && room() {
			l.tokens[t] = seq
			l.sources[seq] = source{e.Call, e.Tool}
		}
	})
	e.Tokens, e.Secrets = "", ""
	for _, r := range e.Records {
		l.fields += len(r.Fields) + 1
	}
	if l.fields += len(e.Listed) + len(e.Linked) + 1; l.fields > MaxFields {
		return // what is not kept is not trusted
	}
	if len(e.Records)+len(e.Listed)+len(e.Linked) > 0 || e.One != nil {
		l.entries = append(l.entries, e)
	}
}

// labelledBefore reports whether a value stood in labelled text before seq: every
// word of it, side by side.
func (l *Lineage) labelledBefore(value string, seq int64) bool {
	w := words(fold(value))
	if len(w) == 0 {
		return false
	}
	if l.full > 0 && l.full < seq {
		return true // it may have: what was read since is not all in the index
	}
	stood := func(text string) bool {
		first, ok := l.tokens[l.salt.token(text)]
		return ok && first < seq
	}
	if len(w) == 1 {
		return stood(w[0])
	}
	for i := range w[1:] {
		if !stood(w[i] + " " + w[i+1]) {
			return false
		}
	}
	return true
}

// typedCount is how often a principal typed a value: exact whole tokens, and no
// span that equals earlier labelled text (rule B5).
func (l *Lineage) typedCount(p record.Principal, value string, folded bool) (n int) {
	if !anchors(value) {
		return 0
	}
	for _, t := range l.typed {
		if t.principal != p {
			continue
		}
		found := 0
		if folded {
			found = occurrences(t.folded, fold(value))
		} else {
			found = occurrences(t.text, value)
		}
		if found > 0 && !l.labelledBefore(value, t.seq) {
			n += found
		}
	}
	return n
}

// typedName is how often a principal typed the name whose folded form has this digest.
func (l *Lineage) typedName(p record.Principal, name held) (n int) {
	for _, t := range l.typed {
		if t.principal != p {
			continue
		}
		if s := l.spansOf(t)[name]; s.n > 0 && !l.labelledBefore(t.folded[s.from:s.to], t.seq) {
			n += s.n
		}
	}
	return n
}

// spansOf finds every span of a typed text that could be a record's name, once.
func (l *Lineage) spansOf(t *typed) map[held]span {
	if t.spans != nil {
		return t.spans
	}
	t.spans = map[held]span{}
	text := t.folded
	var starts, ends []int
	inWord := false
	for i, r := range text + " " {
		switch w := word(r); {
		case w && !inWord:
			starts, inWord = append(starts, i), true
		case !w && inWord:
			ends, inWord = append(ends, i), false
		}
	}
	for i, from := range starts {
		for j := i; j < len(ends) && j < i+maxSpan; j++ {
			to := ends[j]
			if to-from > 256 {
				break
			}
			if !whole(text, from, to) {
				continue
			}
			if !anchors(text[from:to]) {
				continue
			}
			h := l.salt.of(text[from:to])
			s, ok := t.spans[h]
			if !ok {
				s.from, s.to = from, to
			}
			s.n++
			t.spans[h] = s
		}
	}
	return t.spans
}

// typedWord reports whether a principal typed a word or a few, whatever the case.
func (l *Lineage) typedWord(p record.Principal, word string) bool {
	w := fold(strings.TrimSpace(strings.ReplaceAll(word, "_", " ")))
	if w == "" {
		return false
	}
	for _, t := range l.typed {
		if t.principal == p && (occurrences(t.folded, w) > 0 || occurrences(t.folded, fold(word)) > 0) {
			return true
		}
	}
	return false
}

// Input is what was stated that a user typed in a turn of a run.
func (l *Lineage) Input(run record.RunID, turn record.Turn) (text string, ok bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, t := range l.typed {
		if t.run == run && t.turn == turn {
			return t.text, true
		}
	}
	return "", false
}

// Skip says that there is nothing up to seq that the index does not have.
func (l *Lineage) Skip(seq int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq = max(l.seq, seq)
}

// HasTyped reports whether there is anything that a principal typed.
func (l *Lineage) HasTyped(p record.Principal) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.ContainsFunc(l.typed, func(t *typed) bool { return t.principal == p })
}

// source is the call, and its tool, whose result brought a material.
type source struct {
	call record.CallID
	tool string
}

// labelledBy names the call in whose result a value stood first, where it is one: every
// word of it came with the same result, and the index holds all that was read before.
func (l *Lineage) labelledBy(value string) source {
	w := words(fold(value))
	var at int64
	same := func(text string) bool {
		first, ok := l.tokens[l.salt.token(text)]
		if !ok || l.full > 0 && l.full < first || at != 0 && at != first {
			return false
		}
		at = first
		return true
	}
	if len(w) == 1 && !same(w[0]) {
		return source{}
	}
	for i := range len(w) - 1 {
		if !same(w[i] + " " + w[i+1]) {
			return source{}
		}
	}
	return l.sources[at]
}
