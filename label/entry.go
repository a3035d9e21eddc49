package label

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"

	"crypto/sha256"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Bounds of what a lineage's index holds.
const (
	MaxTokens = 131_072 // of all results together
	MaxFields = 8_192   // declared values
	MaxTyped  = 128 << 10

	maxResultTokens = 65_536
	maxResultFields = 4_096
)

// held is a value as the index keeps it: a salted digest.
type held [16]byte

// MarshalText and UnmarshalText write it as text.
func (h held) MarshalText() ([]byte, error) {
	return base64.RawStdEncoding.AppendEncode(nil, h[:]), nil
}

func (h *held) UnmarshalText(text []byte) error {
	b, err := base64.RawStdEncoding.DecodeString(string(text))
	if err != nil || len(b) != len(h) {
		return record.Errorf(record.Internal, "a stored value has another form")
	}
	copy(h[:], b)
	return nil
}

// salted digests values of one lineage.
type salted []byte

func (s salted) of(text string) (h held) {
	b := make([]byte, 0, 128)
	sum := sha256.Sum256(append(append(append(b, s...), 0), text...))
	copy(h[:], sum[:])
	return h
}

// token is the short digest of one token, or of two that stand side by side. That
// two tokens have the same one can only make more ask.
func (s salted) token(text string) uint32 {
	h := s.of(text)
	return binary.LittleEndian.Uint32(h[:4])
}

// Digest is the salted digest by which decisions and events name a value.
func Digest(salt []byte, text string) string {
	h := salted(salt).of("value\x00" + text)
	return base64.RawURLEncoding.EncodeToString(h[:12])
}

// Entry is what the index keeps of one result.
type Entry struct {
	Tool    string        `json:"tool"`
	Call    record.CallID `json:"call"`
	Labels  []string      `json:"labels,omitempty"`
	Trusted bool          `json:"trusted,omitempty"` // its call had only trusted arguments
	Created bool          `json:"created,omitempty"` // it came of a write whose targets were trusted
	Records []entryRecord `json:"records,omitempty"`
	One     *held         `json:"one,omitempty"`    // the one value of a clean result without declared fields
	Listed  []held        `json:"listed,omitempty"` // all values, for a directory
	Linked  []held        `json:"linked,omitempty"` // all links
	Tokens  string        `json:"tokens,omitempty"` // base64 of sorted token digests
	Secrets string        `json:"secrets,omitempty"`
	Full    bool          `json:"full,omitempty"` // it held more than is kept
}

type entryRecord struct {
	Names  []held       `json:"names,omitempty"`
	Fields []entryField `json:"fields,omitempty"`
}

type entryField struct {
	Field
	Value held `json:"value"`
}

// Read indexes a tool result. It returns nil when there is nothing that the rules
// ever look at. trusted says that the call had only trusted arguments, created that
// it was a write whose targets were trusted.
func Read(salt []byte, tool string, call record.CallID, r Results, labels []string, result []byte, trusted, created bool) *Entry {
	e := &Entry{Tool: tool, Call: call, Labels: labels, Trusted: trusted, Created: created}
	s := salted(salt)
	// What a server sent is not canonical; what has no canonical form is free text.
	text, whole := string(result), false
	if c, err := canon.Canonical(result, canon.Limits{Bytes: len(result) + 1, Members: maxNodes}); err == nil {
		result, whole = c, true
		text = allText(c)
	}
	if slices.ContainsFunc(labels, Taints) {
		e.index(s, text, slices.Contains(labels, Sensitive))
	}
	if r.Linked {
		suspects(text, func(kind, link string) {
			if kind == KindURL && len(e.Linked) < maxResultFields {
				e.Linked = append(e.Linked, s.of(link))
			}
		})
	}
	if whole {
		e.parse(s, r, result)
	}
	if len(e.Records)+len(e.Listed)+len(e.Linked) == 0 && e.One == nil && e.Tokens == "" && e.Secrets == "" && !e.Full {
		return nil
	}
	return e
}

// allText is every text in a canonical value, one after the other.
func allText(c []byte) string {
	v, ok := parseJSON(c)
	if !ok {
		return string(c)
	}
	var b []byte
	v.leaves(func(s string) bool { b = append(append(b, s...), '\n'); return true })
	return string(b)
}

// parse keeps the declared fields.
func (e *Entry) parse(s salted, r Results, result []byte) {
	clean := !slices.Contains(e.Labels, Untrusted)
	v, ok := parsed(result, r)
	if !ok {
		// Free text. Of a clean tool without declared fields it may still be one value.
		if text, single := Text(result); single && clean && len(r.Fields) == 0 && r.Format == "" && text != "" && len(text) <= 256 {
			h := s.of(text)
			e.One = &h
		}
		return
	}
	if r.Listed {
		v.leaves(func(text string) bool {
			e.Listed = append(e.Listed, s.of(text))
			return len(e.Listed) < maxResultFields
		})
	}
	if len(r.Fields) == 0 {
		if one, ok := v.one(); ok && clean {
			h := s.of(one)
			e.One = &h
		}
		return
	}
	kept := 0
	for _, rec := range records(v, r.Records) {
		out := entryRecord{}
		for _, name := range r.Name {
			if f, ok := rec.at(name); ok && f.kind == 's' && anchors(f.scalar) {
				out.Names = append(out.Names, s.of(fold(f.scalar)))
			}
		}
		for _, f := range r.Fields {
			at, ok := rec.at(f.Name)
			if !ok || !f.holds(rec) {
				continue
			}
			at.leaves(func(text string) bool {
				if kept++; text != "" && kept <= maxResultFields {
					out.Fields = append(out.Fields, entryField{f, s.of(text)})
				}
				return kept < maxResultFields
			})
		}
		// A record without a value counts as one all the same: it is a choice.
		e.Records = append(e.Records, out)
		if kept >= maxResultFields {
			e.Full = true
			return
		}
	}
}

// holds reports whether a field's condition is met in its record.
func (f Field) holds(rec value) bool {
	for name, want := range f.When {
		if have, ok := rec.at(name); !ok || have.kind != 's' || have.scalar != want {
			return false
		}
	}
	return true
}

// index keeps the tokens of a labelled result: every word and every two that stand
// side by side, and of a sensitive one the values that must not get out.
func (e *Entry) index(s salted, text string, sensitive bool) {
	seen, secrets := map[uint32]struct{}{}, map[uint32]struct{}{}
	previous := ""
	for _, w := range words(fold(text)) {
		if len(seen) >= maxResultTokens {
			e.Full = true
			break
		}
		seen[s.token(w)] = struct{}{}
		if previous != "" {
			seen[s.token(previous+" "+w)] = struct{}{}
		}
		previous = w
	}
	if sensitive {
		bare := withoutDates(text)
		for _, t := range append(tokens(bare), words(bare)...) {
			if q := squeeze(t); telling(q) {
				if len(secrets) >= maxResultTokens {
					e.Full = true
					break
				}
				secrets[s.token(q)] = struct{}{}
			}
		}
	}
	e.Tokens, e.Secrets = pack(seen), pack(secrets)
}

func pack(set map[uint32]struct{}) string {
	if len(set) == 0 {
		return ""
	}
	b := make([]byte, 0, 4*len(set))
	for t := range set {
		b = binary.LittleEndian.AppendUint32(b, t)
	}
	return base64.RawStdEncoding.EncodeToString(b)
}

func unpack(text string, yield func(uint32)) {
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return
	}
	for ; len(b) >= 4; b = b[4:] {
		yield(binary.LittleEndian.Uint32(b))
	}
}

// Kinds of material that a lineage is made of.
const (
	KindTyped  = "typed"  // what the user typed
	KindResult = "result" // an Entry
	KindSent   = "sent"   // the ends of what a write sent, for values split over calls
)

// Body writes an entry as it is stored.
func (e *Entry) Body() []byte {
	b, err := json.Marshal(e)
	if err != nil {
		return []byte(`{"full":true}`) // texts and numbers only; if it could not be written, everything would ask
	}
	return b
}
