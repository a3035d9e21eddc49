package history

import (
	"context"
	"encoding/base32"
	"fmt"
	"slices"
	"strconv"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Action is what a repair did to an item.
type Action string

const (
	Dropped   Action = "dropped"
	Moved     Action = "moved"
	Filled    Action = "filled" // a result was put where none was
	Renamed   Action = "renamed"
	Converted Action = "converted" // written in another format
)

// Change is one thing that a repair did. At is in the source.
type Change struct {
	Action  Action   `json:"action"`
	At      Position `json:"at"`
	Message int      `json:"message"`
	Item    int      `json:"item"` // -1: the whole message
	Why     string   `json:"why"`
}

// Repaired is a history that the target's grammar accepts.
type Repaired struct {
	Format   Format    `json:"format"`
	Source   []byte    `json:"-"`
	Changes  []Change  `json:"changes"`
	Findings []Finding `json:"findings"` // of comparing with records
	// TurnInvalid says that an unresolved call was filled or dropped. Whoever held
	// that turn open must not take up any of its calls: the next call is one that
	// the model proposes anew.
	TurnInvalid bool `json:"turn_invalid"`
}

// Refusal says that a history cannot be repaired, because readers disagree about
// what it says and no order of repair is right.
type Refusal struct{ Finding Finding }

func (r *Refusal) Error() string {
	return fmt.Sprintf("the history cannot be repaired: %s (%s)", r.Finding.Says, r.Finding.Code)
}

// Writes lists the formats that are written.
func Writes() []Format { return []Format{Messages, Chat, Responses} }

// Repair writes a history for a target, so that every call has exactly one result
// and every result its call. It walks over occurrences in order. It never edits
// arguments or content, never invents success, and fills gaps from records where
// they exist. What it does not change keeps its bytes. A *[Refusal] ends it.
func Repair(ctx context.Context, t *Transcript, target Format, records Records) (*Repaired, error) {
	if !slices.Contains(Writes(), target) {
		return nil, invalid("the format %q is read and not written; %v are", target, Writes())
	}
	out := &Repaired{Format: target, Changes: []Change{}, Findings: []Finding{}}
	origin := func(p Position, message, item int) (Position, int, int) { return p, message, item }
	if t.Format != target {
		pairs := pairsOf(t)
		if err := refuse(pairs); err != nil {
			return nil, err
		}
		text, from := convert(t, pairs, target, out)
		converted, err := Read(text, target, Limits{Bytes: 1 << 40, Message: 1 << 30, Depth: 1 << 10, Calls: 1 << 30})
		if err != nil {
			return nil, fmt.Errorf("read what was converted: %w", err)
		}
		source := t
		origin = func(_ Position, message, _ int) (Position, int, int) {
			if message < 0 || message >= len(from) {
				return Position{}, -1, -1
			}
			m := source.Messages[from[message]]
			return m.At, m.Index, -1
		}
		t = converted
	}
	r := &repair{t: t, pairs: pairsOf(t), drop: map[int]string{}, ids: map[int]string{}, out: out, origin: origin, seen: map[string]bool{}}
	if err := refuse(r.pairs); err != nil {
		return nil, err
	}
	c, err := Classify(ctx, t, records)
	if err != nil {
		return nil, err
	}
	r.class, out.Findings = c, c.Findings
	r.decide()
	r.rename()
	switch target {
	case Chat:
		r.chat()
	case Responses:
		r.responses()
	default:
		r.messages()
	}
	out.Source = r.write()
	return out, nil
}

// refuse ends the repair of what has two meanings.
func refuse(p *pairing) error {
	for _, f := range p.report.Findings {
		switch f.Code {
		case CodeConflictingCall, CodeConflictingResult, CodeMissingID:
			return &Refusal{f}
		}
	}
	if p.report.More > 0 {
		return &Refusal{finding(CodeTooLarge, Position{}, "more is wrong than is kept of it")}
	}
	return nil
}

type repair struct {
	t      *Transcript
	pairs  *pairing
	class  *Classification
	drop   map[int]string  // items that go, and why
	ids    map[int]string  // items that get another label
	seen   map[string]bool // labels of calls that stay
	out    *Repaired
	list   [][]byte // the messages
	origin func(Position, int, int) (Position, int, int)
}

func (r *repair) changed(a Action, i *Item, why string) {
	at, message, item := r.origin(i.At, i.Message, i.Index)
	r.out.Changes = append(r.out.Changes, Change{Action: a, At: at, Message: message, Item: item, Why: why})
}

// decide says which items go.
func (r *repair) decide() {
	for i := range r.t.Items { // first, since what names or answers a call goes with it
		if i.Kind != Call {
			continue
		}
		if why := r.call(i); why != "" {
			r.drop[i.Index] = why
		}
	}
	named := map[string]bool{} // requests for approval that a call which stays names
	for i := range r.t.Items {
		if i.Kind == Call && i.Request != "" && r.drop[i.Index] == "" {
			named[i.Request] = true
		}
	}
	for i := range r.t.Items {
		if i.Kind == Call && i.Request != "" && r.drop[i.Index] != "" && !named[i.Request] {
			r.pairs.settled[i.Request] = false
		}
	}
	for i := range r.t.Items {
		why := ""
		switch i.Kind {
		case Result:
			why = r.result(i)
		case ApprovalRequest:
			if !r.pairs.settled[i.Request] {
				why = "a request for approval is not authority, and its call has not run"
			}
		case ApprovalResponse:
			if !r.pairs.settled[i.Request] || r.pairs.verdicts[i.Index] != kept {
				why = "an answer to an approval counts from records only"
			}
		case Reasoning:
			if i.Role != "" && !slices.Contains(modelRoles, i.Role) || r.t.Format == Messages && i.Type == "thinking" && !i.Signed {
				why = "reasoning that is not the model's"
			}
		}
		if why != "" {
			r.drop[i.Index] = why
		}
	}
	if r.t.Format == Responses {
		r.reasoning()
	}
	for i := range r.t.Items {
		if why, gone := r.drop[i.Index]; gone {
			r.changed(Dropped, i, why)
		}
	}
}

func (r *repair) call(i *Item) string {
	open := !i.Provider && r.pairs.result[i.Index] == nil
	why := ""
	switch v := r.pairs.verdicts[i.Index]; {
	case v == foreign && i.Provider, r.t.Format == Responses && i.Request != "" && !r.pairs.settled[i.Request]:
		why = "a call that nobody asked about as it stands here"
	case i.Type == "mcp_call" && r.pairs.result[i.Index] == nil:
		why = "the provider could take it up: it has no result"
	case i.Provider && (i.ID == "" || r.seen[i.ID]):
		why = "the label of what a provider ran is empty or used before"
	case v == foreign:
		why = "a call in a message that is not the model's"
	case v == duplicate:
		return "the call stands before already"
	case i.Incomplete:
		why = "its arguments were still being written"
	case i.Bad != "":
		why = i.Bad
	case open && r.t.Format == Responses && fillable[i.Type] == "":
		why = "it has no result, and none can be written for a " + i.Type
	}
	if why != "" && open {
		r.out.TurnInvalid = true
	}
	r.seen[i.ID] = r.seen[i.ID] || why == ""
	return why
}

func (r *repair) result(i *Item) string {
	switch v := r.pairs.verdicts[i.Index]; v {
	case orphan:
		if r.pairs.report.Unseen && r.t.Format == Responses {
			return "" // its call may be in the history that the provider keeps
		}
		return "a result without a call"
	case duplicate:
		return "the result stands before already"
	case foreign:
		return "a result in a message where the format has none"
	}
	if call, ok := r.pairs.call[i.Index]; ok && r.drop[call] != "" {
		return "its call was dropped"
	}
	return ""
}

// reasoning goes with the item that it led to.
func (r *repair) reasoning() {
	items := slices.Collect(r.t.Items)
	gone := true // what follows the last item is nothing
	for n := len(items) - 1; n >= 0; n-- {
		i := items[n]
		if i.Kind == Reasoning {
			if gone && r.drop[i.Index] == "" {
				r.drop[i.Index] = "the item that it led to is not there"
			}
			continue
		}
		gone = r.drop[i.Index] != "" || !slices.Contains(modelRoles, i.Role)
	}
}

// rename gives labels that are legal and unique over the transcript. Call and
// result get the same.
func (r *repair) rename() {
	r.ids = relabel(r.t, r.pairs, r.t.Format, func(i *Item) bool { return r.drop[i.Index] != "" })
	for i := range r.t.Items {
		if r.ids[i.Index] != "" {
			r.changed(Renamed, i, "the label is empty, used before, or not legal here")
		}
	}
}

// relabel finds the labels that a target needs. A new one is a digest of the old, of
// what is called and of how often it came before: the same source gives the same.
func relabel(t *Transcript, pairs *pairing, target Format, dropped func(*Item) bool) map[int]string {
	ids, used, seen := map[int]string{}, map[string]bool{}, map[string]int{}
	for i := range t.Items {
		if i.Kind == Call && !dropped(i) {
			used[i.ID] = true
		}
	}
	legal := grammars[target].legal
	for i := range t.Items {
		if i.Kind != Call || i.Again || dropped(i) || i.Type == "function_call" && !i.HasID && target == Chat && t.Format == Chat {
			continue
		}
		n := seen[i.ID]
		seen[i.ID]++
		result := pairs.result[i.Index]
		if i.Provider && target == t.Format || i.ID != "" && n == 0 && (legal == nil || legal(i.ID)) {
			if result != nil && result.ID != i.ID && !i.Provider { // it was the only call that could be meant
				ids[result.Index] = i.ID
			}
			continue
		}
		id := ""
		for try := 0; id == "" || used[id]; try++ {
			d := canon.Of("placet/history/label/1", []byte(i.ID), []byte(i.Tool), i.Digest.Bytes(), []byte(strconv.Itoa(n)), []byte(strconv.Itoa(try)))
			id = "call_" + base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(d[:15])
		}
		used[id] = true
		ids[i.Index] = id
		if result != nil {
			ids[result.Index] = id
		}
	}
	return ids
}

// labels are the members that hold the label, by format and kind.
var labels = map[Format]map[Kind]string{
	Chat: {Call: "id", Result: "tool_call_id"}, Responses: {Call: "call_id", Result: "call_id"}, Messages: {Call: "id", Result: "tool_use_id"},
}

// piece is an item's bytes, with its new label if it got one.
func (r *repair) piece(i *Item) []byte {
	raw := i.Raw
	if r.t.Format == Chat && i.Kind == Result && i.part < 0 { // a call that stood in it was dropped
		for _, name := range []string{"tool_calls", "function_call"} {
			if find(raw, name) != nil {
				raw = without(raw, name)
			}
		}
	}
	if id, renamed := r.ids[i.Index]; renamed {
		return withMember(raw, labels[r.t.Format][i.Kind], quote(id))
	}
	return raw
}

func (r *repair) label(i *Item) string {
	if id, renamed := r.ids[i.Index]; renamed {
		return id
	}
	return i.ID
}

// fill is what stands for a result that the history does not have.
func (r *repair) fill(i *Item) (text string, failed bool) {
	r.out.TurnInvalid = true
	known := r.class.Of(i.Index).Record
	if known == nil {
		r.changed(Filled, i, "no result is recorded")
		return "No result of this call is recorded. Whether it ran is not known.", true
	}
	if known.Answer != "" && !known.Result.IsZero() {
		r.changed(Filled, i, "with the recorded result")
		return known.Answer, known.Failed
	}
	r.changed(Filled, i, "with the recorded state: "+string(known.State))
	switch known.State {
	case record.Denied:
		return "This call was denied. It did not run.", true
	case record.Canceled, record.Expired, record.Revoked:
		return "This call was withdrawn. It did not run.", true
	case record.Proposed, record.ApprovalPending, record.DispatchAuthorized:
		return "This call has not run.", true
	case record.Failed:
		return "This call failed.", true
	case record.Succeeded:
		return "This call ran. Its result is not kept.", true
	}
	return "The outcome of this call is not known. Do not repeat it.", true
}

// client reports whether an item is a call that is kept and that the client runs.
func (r *repair) client(i *Item) bool {
	return i.Kind == Call && !i.Provider && !i.Again && r.drop[i.Index] == ""
}

// chat writes messages of Chat Completions: results follow their calls at once.
func (r *repair) chat() {
	other := r.others()
	for n := range r.t.Messages {
		m := &r.t.Messages[n]
		if len(m.Items) > 0 && m.Items[0].Kind == Result {
			continue // written with its call
		}
		raw := m.Raw
		if text, ok := r.chatCalls(m); ok {
			raw = text
		}
		if raw == nil {
			continue
		}
		r.list = append(r.list, raw)
		var calls, results []*Item
		for k := range m.Items {
			if i := &m.Items[k]; r.client(i) {
				calls = append(calls, i)
				if result := r.pairs.result[i.Index]; result != nil {
					results = append(results, result)
				}
			}
		}
		slices.SortFunc(results, func(a, b *Item) int { return a.Index - b.Index })
		for _, result := range results {
			if result.Message <= n || other[result.Message] > n { // something else than results stands between
				r.changed(Moved, result, "a result stands after its call at once")
			}
			r.list = append(r.list, r.piece(result))
		}
		for _, i := range calls {
			if r.pairs.result[i.Index] != nil {
				continue
			}
			text, _ := r.fill(i)
			if i.Type == "function_call" {
				r.list = append(r.list, assemble("role", `"function"`, "name", string(quote(i.Tool)), "content", string(quote(text))))
				continue
			}
			r.list = append(r.list, assemble("role", `"tool"`, "tool_call_id", string(quote(r.label(i))), "content", string(quote(text))))
		}
	}
}

// others is, for each message, the last one before it that holds something else than
// results; -1: none.
func (r *repair) others() []int {
	out, last := make([]int, len(r.t.Messages)), -1
	for n := range r.t.Messages {
		out[n] = last
		if slices.ContainsFunc(r.t.Messages[n].Items, func(i Item) bool { return i.Kind != Result }) {
			last = n
		}
	}
	return out
}

// chatCalls rewrites a message whose calls change; nil if nothing is left of it.
func (r *repair) chatCalls(m *Message) (raw []byte, changed bool) {
	var kept [][]byte
	legacy := false
	for k := range m.Items {
		i := &m.Items[k]
		gone := r.drop[i.Index] != ""
		changed = changed || gone || r.ids[i.Index] != ""
		switch {
		case i.Kind == Call && gone:
			legacy = legacy || i.Type == "function_call"
		case i.member == "tool_calls":
			kept = append(kept, r.piece(i))
		}
	}
	if !changed {
		return nil, false
	}
	raw = m.Raw
	if find(raw, "tool_calls") != nil {
		if len(kept) > 0 {
			raw = withMember(raw, "tool_calls", joined(kept))
		} else {
			raw = without(raw, "tool_calls")
		}
	}
	if legacy {
		raw = without(raw, "function_call")
	}
	for _, name := range []string{"reasoning", "reasoning_content"} {
		for k := range m.Items {
			if i := &m.Items[k]; i.Kind == Reasoning && i.Type == name && r.drop[i.Index] != "" {
				raw = without(raw, name)
			}
		}
	}
	said := find(raw, "content")
	if len(kept) == 0 && (len(said) == 0 || said[0] == 'n') && find(raw, "refusal") == nil && find(raw, "function_call") == nil {
		return nil, true
	}
	return raw, true
}

// fillable are the types of call for which a result can be written as text.
var fillable = map[string]string{"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}

// responses writes items: each stands for itself, and order is free between call
// and result.
func (r *repair) responses() {
	for n := range r.t.Messages {
		m := &r.t.Messages[n]
		if len(m.Items) == 0 {
			r.list = append(r.list, m.Raw)
			continue
		}
		first := &m.Items[0]
		if r.drop[first.Index] != "" {
			continue
		}
		if first.Kind != Call && first.Kind != Result {
			r.list = append(r.list, m.Raw)
			continue
		}
		r.list = append(r.list, r.piece(first))
		if r.client(first) && r.pairs.result[first.Index] == nil {
			text, _ := r.fill(first)
			r.list = append(r.list, assemble("type", string(quote(fillable[first.Type])), "call_id", string(quote(r.label(first))), "output", string(quote(text))))
		}
	}
}

// messages writes messages of Anthropic's format: all results of a message's calls
// stand first in the one next message, which is the user's.
func (r *repair) messages() {
	var results [][]byte // that the next message begins with
	var expected []*Item // their items, where they have one
	for n := range r.t.Messages {
		m := &r.t.Messages[n]
		if len(expected) == 0 && len(results) == 0 || m.Role == "user" {
			results, expected = r.message(n, results, expected)
			continue
		}
		r.list = append(r.list, assemble("role", `"user"`, "content", string(joined(results))))
		results, expected = r.message(n, nil, nil)
	}
	if len(results) > 0 {
		r.list = append(r.list, assemble("role", `"user"`, "content", string(joined(results))))
	}
}

// message writes one message, which begins with results, and returns those that
// the next one has to begin with.
func (r *repair) message(n int, results [][]byte, expected []*Item) (next [][]byte, items []*Item) {
	m := &r.t.Messages[n]
	var rest, calls [][]byte
	inPlace, changed := true, false
	var own []*Item
	ordered := m.Role != "assistant" || interleaved(m)
	for k := range m.Items {
		i := &m.Items[k]
		changed = changed || r.drop[i.Index] != "" || r.ids[i.Index] != ""
		switch {
		case r.drop[i.Index] != "":
		case i.Kind == Result && !i.Provider:
			own = append(own, i)
			inPlace = inPlace && len(rest) == 0
		case r.client(i) && !ordered:
			calls = append(calls, r.piece(i))
		case i.part < 0: // content is a string
			if text := string(i.Content); text != `""` {
				rest = append(rest, assemble("type", `"text"`, "text", text))
			}
		default:
			if len(calls) > 0 {
				changed = true
				r.changed(Moved, i, "text stands before the calls of its message")
			}
			rest = append(rest, r.piece(i))
		}
	}
	same := inPlace && len(results) == len(own) && len(expected) == len(own)
	for k := range own {
		same = same && expected[k] == own[k]
	}
	switch {
	case same && !changed:
		r.list = append(r.list, m.Raw)
	case len(results)+len(rest)+len(calls) > 0:
		r.list = append(r.list, withMember(m.Raw, "content", joined(slices.Concat(results, rest, calls))))
	}
	return r.owed(n)
}

// owed are the results of a message's calls, as the next message begins with them:
// those that stand there, then those from elsewhere, then what fills gaps.
func (r *repair) owed(n int) (out [][]byte, items []*Item) {
	var here, there []*Item
	var gaps [][]byte
	m := &r.t.Messages[n]
	for k := range m.Items {
		i := &m.Items[k]
		if !r.client(i) {
			continue
		}
		result := r.pairs.result[i.Index]
		switch {
		case result == nil:
			text, failed := r.fill(i)
			block := []string{"type", `"tool_result"`, "tool_use_id", string(quote(r.label(i))), "content", string(quote(text))}
			if failed {
				block = append(block, "is_error", "true")
			}
			gaps = append(gaps, assemble(block...))
		case result.Message == n+1:
			here = append(here, result)
		default:
			there = append(there, result)
		}
	}
	byIndex := func(a, b *Item) int { return a.Index - b.Index }
	slices.SortFunc(here, byIndex)
	slices.SortFunc(there, byIndex)
	if n+1 < len(r.t.Messages) {
		said, theirs := false, map[*Item]bool{}
		for _, i := range here {
			theirs[i] = true
		}
		for k := range r.t.Messages[n+1].Items {
			i := &r.t.Messages[n+1].Items[k]
			if r.drop[i.Index] != "" {
				continue
			}
			if i.Kind == Result && said && theirs[i] {
				r.changed(Moved, i, "results stand first in their message")
			}
			said = said || i.Kind != Result
		}
	}
	for _, i := range there {
		r.changed(Moved, i, "results stand in the message after their calls")
	}
	items = slices.Concat(here, there)
	for _, i := range items {
		out = append(out, r.piece(i))
	}
	return append(out, gaps...), items
}

// write puts the messages into the source's envelope.
func (r *repair) write() []byte {
	t := r.t
	if len(r.out.Changes) == 0 {
		return t.Source
	}
	if t.list[1] == 0 { // the input of Responses is a string
		return t.Source
	}
	var out []byte
	out = append(out, t.Source[:t.list[0]]...)
	for n, m := range r.list {
		if n > 0 {
			out = append(out, ',')
		}
		out = append(out, m...)
	}
	return append(out, t.Source[t.list[1]:]...)
}
