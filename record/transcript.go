package record

import (
	"slices"
	"strconv"
	"time"

	"github.com/placet-dev/placet/canon"
)

type (
	// TranscriptID and ShareID are minted here, as the other IDs are.
	TranscriptID string
	ShareID      string
)

// Transcript is a history that a caller imported, for display. It is data: it makes
// no run, no call and no approval, nothing in it is trusted, and nothing can be
// proposed from it (rule A1).
type Transcript struct {
	Owner
	ID       TranscriptID     `json:"id"`
	Label    string           `json:"label,omitempty"`
	Format   string           `json:"format"`
	Digest   canon.Digest     `json:"digest"` // of the source, as it was sent
	Size     int64            `json:"size"`   // of the source, in bytes
	Messages int              `json:"messages"`
	Items    []TranscriptItem `json:"items"` // nil in lists
	Version  int64            `json:"version"`
	Imported time.Time        `json:"imported_at"`
	Changed  time.Time        `json:"changed_at"`
}

// TranscriptItem is one thing that a transcript says, as far as it is kept.
type TranscriptItem struct {
	Item     int          `json:"item"` // its number in the source
	Message  int          `json:"message"`
	Kind     string       `json:"kind"` // what it claims to be
	Role     string       `json:"role,omitempty"`
	Tool     string       `json:"tool,omitempty"`
	Label    string       `json:"label,omitempty"` // that pairs call and result; never an identity
	Digest   canon.Digest `json:"digest,omitzero"` // of all that the item says
	Text     string       `json:"text,omitempty"`  // what it says, or arguments; bounded
	Cut      bool         `json:"cut,omitempty"`   // Text is not all of it
	Redacted bool         `json:"redacted,omitempty"`
	Stands   int          `json:"stands_for,omitempty"` // a summary: of so many items from Item on
}

// The kinds of item that the record itself has to tell apart.
const (
	ItemCall     = "call"
	ItemResult   = "result"
	ItemRequest  = "approval_request"
	ItemResponse = "approval_response"
	ItemSummary  = "summary" // what a compaction left
)

// Bounds of what is kept of one transcript, and of how many an owner has.
const (
	MaxTranscripts     = 1000
	MaxTranscriptItems = 10_000
	MaxItemText        = 4 << 10
	MaxTranscriptText  = 1 << 20
	MaxShares          = 1000 // that an owner gave and that have not ended
)

// TranscriptMove inserts a transcript (From 0), or updates or deletes it if it still
// has version From, else RefusedConflict. An owner has at most MaxTranscripts, else
// RefusedLimit.
type TranscriptMove struct {
	From   int64
	After  Transcript
	Delete bool
}

// Share lets another principal of the tenant read a run or a transcript, until it
// ends. It is a right to look: no run, call or approval belongs to its reader by it.
type Share struct {
	ID         ShareID      `json:"id"`
	By         Owner        `json:"by"` // whose it is; the share is worth nothing once it is not
	To         Principal    `json:"to"`
	Run        RunID        `json:"run,omitempty"`
	Transcript TranscriptID `json:"transcript,omitempty"`
	Given      time.Time    `json:"given_at"`
	Until      time.Time    `json:"until"`
	Ended      time.Time    `json:"ended_at,omitzero"` // taken back
}

// Live reports whether the share may be used.
func (s Share) Live(now time.Time) bool { return s.Ended.IsZero() && now.Before(s.Until) }

// ShareMove inserts a share, or ends one that has not ended, else RefusedConflict.
type ShareMove struct {
	After Share
	End   bool
}

func (t Transcript) event(kind EventKind, who Who, at time.Time, b Body) Event {
	b.Transcript = t.ID
	return Event{At: at, Tenant: t.Tenant, Kind: kind, Who: who, Body: b.encode()}
}

// Import keeps a transcript for display.
func Import(t Transcript, who Who) Change {
	t.Version, t.Changed = 1, t.Imported
	return Change{Facts{At: t.Imported, Transcript: &TranscriptMove{After: t}, Events: []Event{t.event(EventTranscriptImported, who, t.Imported,
		Body{Evidence: t.Digest.String(), Detail: t.Format + ", " + strconv.Itoa(len(t.Items)) + " items", Redacted: []string{"text"}})}}}
}

// DeleteTranscript ends a transcript.
func DeleteTranscript(t Transcript, who Who, at time.Time) Change {
	return Change{Facts{At: at, Transcript: &TranscriptMove{From: t.Version, After: t, Delete: true}, Events: []Event{t.event(EventTranscriptDeleted, who, at,
		Body{Evidence: t.Digest.String()})}}}
}

// Redact removes the text of items for good and leaves their digests. The event names
// who did it and which items, never what they said.
func Redact(t Transcript, items []int, who Who, at time.Time) (Change, error) {
	after := t
	after.Items = slices.Clone(t.Items)
	var named []string
	for _, n := range items {
		at := slices.IndexFunc(after.Items, func(i TranscriptItem) bool { return i.Item == n })
		if at < 0 {
			return Change{}, Errorf(Invalid, "the transcript has no item %d", n)
		}
		i := &after.Items[at]
		i.Text, i.Redacted = "", true
		named = append(named, "item "+strconv.Itoa(n))
	}
	if len(named) == 0 {
		return Change{}, Errorf(Invalid, "name at least one item")
	}
	return t.moved(after, EventTranscriptRedacted, who, at, Body{Redacted: named}), nil
}

// Compact puts one summary in the place of the items from first to last. It cuts only
// where no call and no request for approval is open, so that a call and what became
// of it stay on one side.
func Compact(t Transcript, first, last int, summary string, who Who, at time.Time) (Change, error) {
	from := slices.IndexFunc(t.Items, func(i TranscriptItem) bool { return i.Item == first })
	to := slices.IndexFunc(t.Items, func(i TranscriptItem) bool { return i.Item == last })
	switch {
	case from < 0 || to < from:
		return Change{}, Errorf(Invalid, "name the first and the last item, in their order")
	case from == to:
		return Change{}, Errorf(Invalid, "one item alone is not compacted")
	case len(summary) > MaxItemText:
		return Change{}, Errorf(Invalid, "the summary must be at most %d bytes", MaxItemText)
	case openAfter(t.Items[:from]) || openAfter(t.Items[:to+1]):
		return Change{}, Errorf(Conflict, "a call or a request for approval is open there; cut where everything before is complete")
	}
	gone := t.Items[from : to+1]
	var digests [][]byte
	stands := 0
	for _, i := range gone {
		digests = append(digests, []byte(i.Kind), i.Digest.Bytes())
		stands += max(i.Stands, 1)
	}
	mark := TranscriptItem{Item: first, Message: gone[0].Message, Kind: ItemSummary, Stands: stands, Text: summary,
		Digest: canon.Of("placet/transcript/compacted/1", digests...)}
	after := t
	after.Items = slices.Concat(t.Items[:from], []TranscriptItem{mark}, t.Items[to+1:])
	return t.moved(after, EventTranscriptCompacted, who, at, Body{Evidence: mark.Digest.String(),
		Detail: "items " + strconv.Itoa(first) + " to " + strconv.Itoa(last), Redacted: []string{"text"}}), nil
}

func (t Transcript) moved(after Transcript, kind EventKind, who Who, at time.Time, b Body) Change {
	after.Version, after.Changed = t.Version+1, at
	return Change{Facts{At: at, Transcript: &TranscriptMove{From: t.Version, After: after}, Events: []Event{t.event(kind, who, at, b)}}}
}

// openAfter reports whether something that began in items has no end in them. In
// doubt it has none.
func openAfter(items []TranscriptItem) bool {
	type key struct{ kind, label string }
	open, n := map[key]int{}, 0
	for _, i := range items {
		switch i.Kind {
		case ItemCall, ItemRequest:
			open[key{i.Kind, i.Label}]++
			n++
		case ItemResult, ItemResponse:
			k := key{ItemCall, i.Label}
			if i.Kind == ItemResponse {
				k.kind = ItemRequest
			}
			if open[k] > 0 {
				open[k]--
				n--
			}
		}
	}
	return n > 0
}

// Give shares a run or a transcript.
func Give(s Share, who Who) Change {
	return Change{Facts{At: s.Given, Share: &ShareMove{After: s}, Events: []Event{s.event(EventShared, who, s.Given,
		Body{To: &Who{Principal: &s.To}, Until: s.Until})}}}
}

// TakeBack ends a share.
func TakeBack(s Share, who Who, at time.Time) Change {
	s.Ended = at
	return Change{Facts{At: at, Share: &ShareMove{After: s, End: true}, Events: []Event{s.event(EventShareEnded, who, at,
		Body{To: &Who{Principal: &s.To}})}}}
}

func (s Share) event(kind EventKind, who Who, at time.Time, b Body) Event {
	b.Share, b.Transcript = s.ID, s.Transcript
	return Event{At: at, Tenant: s.By.Tenant, Kind: kind, Run: s.Run, Who: who, Body: b.encode()}
}
