package dispatch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/history"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// Transcripts is what a store keeps of imported histories, and of who may read what
// is somebody else's. An unknown ID and another tenant's answer with the same
// record.NotFound.
type Transcripts interface {
	Transcript(ctx context.Context, tenant record.TenantID, id record.TranscriptID) (record.Transcript, error)
	// ListTranscripts returns transcripts without their items, newest first.
	ListTranscripts(ctx context.Context, q TranscriptQuery) ([]record.Transcript, error)
	Share(ctx context.Context, tenant record.TenantID, id record.ShareID) (record.Share, error)
	// ListShares returns shares, those that have ended too, newest first.
	ListShares(ctx context.Context, q ShareQuery) ([]record.Share, error)
}

// TranscriptQuery selects transcripts of one tenant, newest first.
type TranscriptQuery struct {
	Tenant record.TenantID
	Owner  *record.Owner
	Before record.TranscriptID
	Limit  int // 1 to 500; 0 is 50
}

// ShareQuery selects shares of one tenant, newest first: those that By gave or that
// To was given.
type ShareQuery struct {
	Tenant record.TenantID
	By     *record.Owner
	To     *record.Principal
	Before record.ShareID
	Limit  int // 1 to 500; 0 is 50
}

// MaxShare is how long a share lasts at most.
const MaxShare = 30 * 24 * time.Hour

// Import keeps a history for display. Whatever it says, it makes no run, no call, no
// approval and no origin, and nothing in it is trusted (rule A1).
func (b *Boundary) Import(ctx context.Context, c identity.Caller, name string, format history.Format, source []byte) (record.Transcript, error) {
	if !c.Valid() {
		return record.Transcript{}, anonymous()
	}
	if err := (&Proposal{RunLabel: name}).labels(); err != nil {
		return record.Transcript{}, err
	}
	t := record.Transcript{Owner: c.Owner(), Label: name, Format: string(format), Digest: canon.Of("placet/transcript/1", source),
		Size: int64(len(source)), Items: []record.TranscriptItem{}, Imported: b.clock()}
	if err := displayed(&t, format, source); err != nil {
		return t, err
	}
	id, err := record.NewID("trn", t.Imported, b.random)
	if err != nil {
		return t, record.Because(record.Unavailable, err, "no transcript ID could be made")
	}
	t.ID = record.TranscriptID(id)
	change := record.Import(t, c.Owner().By())
	if err := b.within(ctx, change, "transcripts", record.MaxTranscripts); err != nil {
		return t, err
	}
	return change.Facts().Transcript.After, nil
}

// displayed reads a history into what is kept of it.
func displayed(t *record.Transcript, format history.Format, source []byte) error {
	r, err := history.NewReader(bytes.NewReader(source), format, history.Limits{Bytes: int64(len(source)) + 1, Calls: record.MaxTranscriptItems})
	if err != nil {
		return err
	}
	room := record.MaxTranscriptText
	for {
		m, err := r.Next()
		if err == io.EOF {
			return nil
		}
		var broken *history.Error
		if errors.As(err, &broken) {
			return record.Errorf(record.Invalid, "the transcript cannot be read: %s (%s, at byte %d)", broken.Why, broken.Code, broken.At.Offset)
		}
		if err != nil {
			return err
		}
		if m.Index >= 0 {
			t.Messages++
		}
		for n := range m.Items {
			if len(t.Items) == record.MaxTranscriptItems {
				return record.Errorf(record.TooLarge, "a transcript of more than %d items is not kept; check it, or import a part", record.MaxTranscriptItems)
			}
			item := display(&m.Items[n], room)
			room -= len(item.Text)
			t.Items = append(t.Items, item)
		}
	}
}

// display is what is kept of an item: its text up to a bound, and the digest of all.
func display(i *history.Item, room int) record.TranscriptItem {
	text := i.Text()
	switch i.Kind {
	case history.Call:
		text = string(i.Arguments)
	case history.ApprovalResponse:
		text = "rejected"
		if i.Approved {
			text = "approved"
		}
	case history.Reasoning:
		text = "" // it is nobody's to read but the provider's
	}
	label := i.ID
	if i.Kind == history.ApprovalRequest || i.Kind == history.ApprovalResponse {
		label = i.Request
	}
	d := record.TranscriptItem{Item: i.Index, Message: i.Message, Kind: string(i.Kind), Role: shorten(i.Role, 64), Tool: shorten(i.Tool, 128),
		Label: shorten(label, 128), Digest: canon.Of("placet/transcript/item/1", i.Raw), Text: shorten(text, min(room, record.MaxItemText))}
	d.Cut = len(d.Text) < len(text)
	return d
}

// shorten cuts a text at a character.
func shorten(s string, n int) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:max(n, 0)], "")
}

func anonymous() error {
	return record.Errorf(record.Unauthenticated, "no verified identity came with this request")
}

// within records one more of what an owner may have only so many of.
func (b *Boundary) within(ctx context.Context, c record.Change, what string, most int) error {
	err := b.apply(ctx, c)
	if r := refusal(err); r != nil && r.Kind == record.RefusedLimit {
		return record.Errorf(record.Limited, "you have %d %s; end some first", most, what)
	}
	return err
}

// Transcript returns one of the caller's.
func (b *Boundary) Transcript(ctx context.Context, c identity.Caller, id record.TranscriptID) (record.Transcript, error) {
	if !c.Valid() {
		return record.Transcript{}, anonymous()
	}
	t, err := b.store.Transcript(ctx, c.Owner().Tenant, id)
	if err == nil && t.Owner != c.Owner() {
		b.foreign(ctx, c, "transcript "+string(id))
		err = record.Errorf(record.NotFound, "there is no transcript %q here", id)
	}
	if err != nil {
		return record.Transcript{}, err
	}
	return t, nil
}

// DeleteTranscript removes one of the caller's, and with it every share of it.
func (b *Boundary) DeleteTranscript(ctx context.Context, c identity.Caller, id record.TranscriptID) error {
	t, err := b.Transcript(ctx, c, id)
	if err != nil {
		return err
	}
	return b.apply(ctx, record.DeleteTranscript(t, c.Owner().By(), b.clock()))
}

// Redact removes the text of items of one of the caller's transcripts.
func (b *Boundary) Redact(ctx context.Context, c identity.Caller, id record.TranscriptID, items []int) (record.Transcript, error) {
	return b.moveTranscript(ctx, c, id, func(t record.Transcript) (record.Change, error) {
		return record.Redact(t, items, c.Owner().By(), b.clock())
	})
}

// Compact puts a summary in the place of items of one of the caller's transcripts.
func (b *Boundary) Compact(ctx context.Context, c identity.Caller, id record.TranscriptID, first, last int, summary string) (record.Transcript, error) {
	return b.moveTranscript(ctx, c, id, func(t record.Transcript) (record.Change, error) {
		return record.Compact(t, first, last, summary, c.Owner().By(), b.clock())
	})
}

func (b *Boundary) moveTranscript(ctx context.Context, c identity.Caller, id record.TranscriptID, move func(record.Transcript) (record.Change, error)) (record.Transcript, error) {
	t, err := b.Transcript(ctx, c, id)
	if err != nil {
		return t, err
	}
	change, err := move(t)
	if err != nil {
		return t, err
	}
	return change.Facts().Transcript.After, b.apply(ctx, change)
}

// ShareOrder says what to share with whom. Exactly one of Run and Transcript is set.
type ShareOrder struct {
	Run        record.RunID
	Transcript record.TranscriptID
	To         record.Principal
	Until      time.Time
}

// GiveShare lets another principal of the tenant read a run or a transcript of the
// caller's. It gives nothing but that.
func (b *Boundary) GiveShare(ctx context.Context, c identity.Caller, o ShareOrder) (record.Share, error) {
	if !c.Valid() {
		return record.Share{}, anonymous()
	}
	now := b.clock()
	switch {
	case (o.Run == "") == (o.Transcript == ""):
		return record.Share{}, record.Errorf(record.Invalid, "name a run or a transcript, and one of them only")
	case o.To.Issuer == "" || o.To.Subject == "":
		return record.Share{}, record.Errorf(record.Invalid, "name the reader by issuer and subject")
	case o.To == c.Owner().Principal:
		return record.Share{}, record.Errorf(record.Invalid, "it is this principal's already")
	case !o.Until.After(now) || o.Until.After(now.Add(MaxShare)):
		return record.Share{}, record.Errorf(record.Invalid, "a share ends in the future, and within %d days", MaxShare/(24*time.Hour))
	}
	var err error
	if o.Run != "" {
		_, err = b.ownRun(ctx, c, o.Run)
	} else {
		_, err = b.Transcript(ctx, c, o.Transcript)
	}
	if err != nil {
		return record.Share{}, err
	}
	id, err := record.NewID("shr", now, b.random)
	if err != nil {
		return record.Share{}, record.Because(record.Unavailable, err, "no share ID could be made")
	}
	s := record.Share{ID: record.ShareID(id), By: c.Owner(), To: o.To, Run: o.Run, Transcript: o.Transcript, Given: now, Until: o.Until.UTC().Truncate(time.Microsecond)}
	return s, b.within(ctx, record.Give(s, c.Owner().By()), "shares", record.MaxShares)
}

// TakeShare ends a share that the caller gave. One that has ended stays so.
func (b *Boundary) TakeShare(ctx context.Context, c identity.Caller, id record.ShareID) (record.Share, error) {
	if !c.Valid() {
		return record.Share{}, anonymous()
	}
	s, err := b.store.Share(ctx, c.Owner().Tenant, id)
	if err == nil && s.By != c.Owner() {
		b.foreign(ctx, c, "share "+string(id))
		err = record.Errorf(record.NotFound, "there is no share %q here", id)
	}
	if err != nil || !s.Ended.IsZero() {
		return s, err
	}
	change := record.TakeBack(s, c.Owner().By(), b.clock())
	return change.Facts().Share.After, b.apply(ctx, change)
}

// Shared is what a share shows: a run, or a transcript.
type Shared struct {
	Share      record.Share
	Run        *record.Run
	Transcript *record.Transcript
}

// Shared loads what a share shows, for the principal whom it was given to. For
// everybody else, and once it has ended, there is none. A run that has gone to
// somebody else, or a transcript that was deleted, is not shown any more.
func (b *Boundary) Shared(ctx context.Context, tenant record.TenantID, reader record.Principal, id record.ShareID) (Shared, error) {
	absent := record.Errorf(record.NotFound, "there is no share %q here", id)
	s, err := b.store.Share(ctx, tenant, id)
	switch {
	case err != nil:
		return Shared{}, err
	case s.By.Tenant != tenant || s.To != reader || reader == record.Principal{} || !s.Live(b.clock()):
		return Shared{}, absent
	}
	out := Shared{Share: s}
	if s.Run != "" {
		run, err := b.store.Run(ctx, tenant, s.Run)
		if err != nil {
			return Shared{}, err
		}
		if run.Owner != s.By {
			return Shared{}, absent
		}
		out.Run = &run
		return out, nil
	}
	t, err := b.store.Transcript(ctx, tenant, s.Transcript)
	if err != nil {
		return Shared{}, err
	}
	if t.Owner != s.By {
		return Shared{}, absent
	}
	out.Transcript = &t
	return out, nil
}

// Resumed is where a run stands.
type Resumed struct {
	Run   record.Run
	Shown string
	Open  []Loaded // its open calls that are the caller's, oldest first, each with its question
}

// ResumeRun says where a run of the caller's stands, from records alone. It moves and
// dispatches nothing: a call that was approved runs when its agent asks for it by
// [Boundary.Dispatch]. For whoever does not own the run there is none (rule B2).
func (b *Boundary) ResumeRun(ctx context.Context, c identity.Caller, id record.RunID) (Resumed, error) {
	run, err := b.ownRun(ctx, c, id)
	if err != nil {
		return Resumed{}, err
	}
	open, err := b.store.OpenCalls(ctx, run.Tenant, run.ID, 500)
	if err != nil {
		return Resumed{}, err
	}
	out := Resumed{Run: run}
	var states []record.State
	for _, call := range open {
		if call.Owner != c.Owner() {
			continue // an earlier owner's, from before a transfer
		}
		l, err := b.store.Call(ctx, run.Tenant, call.ID)
		if err != nil {
			return Resumed{}, err
		}
		if l.Call.State.Open() {
			out.Open, states = append(out.Open, l), append(states, l.Call.State)
		}
	}
	out.Shown = run.Shown(states)
	return out, nil
}

// ReplayRun opens, by an operator's word, a new run in the place of an old one, which
// ends: what waited in it is canceled and its questions are void. Nothing of the old
// run is executed again. What its owner proposes in the new one has the route replay
// and is decided anew; labels, rejections, caps and records of effects go on
// counting, since the lineage is the same.
func (b *Boundary) ReplayRun(ctx context.Context, o identity.Operator, id record.RunID) (record.Run, error) {
	if !o.Valid() {
		return record.Run{}, record.Errorf(record.Forbidden, "replaying a run needs the operate permission")
	}
	who := record.Who{Workload: o.Name()}
	old, err := b.endRun(ctx, func() (record.Run, error) {
		run, err := b.store.Run(ctx, o.Tenant(), id)
		if err == nil && run.Parent != "" {
			err = record.Errorf(record.Invalid, "a child run is replayed with the run above it")
		}
		return run, err
	}, "replayed", who)
	if err != nil {
		return record.Run{}, err
	}
	for range maxConflicts {
		now := b.clock()
		fresh, err := b.newRun(now)
		if err != nil {
			return record.Run{}, record.Because(record.Unavailable, err, "no run ID could be made")
		}
		run := record.Run{Owner: old.Owner, ID: fresh, Lineage: old.Lineage, Label: "replay of " + string(old.ID), Vouched: old.Vouched,
			Turn: 1, Opened: now, Active: now, Replays: old.ID}
		if !run.Vouched {
			epoch, err := b.store.Epoch(ctx, run.Owner)
			if err != nil {
				return record.Run{}, err
			}
			run.Lineage = record.UnvouchedLineage(run.Owner, epoch)
		}
		change := record.OpenRun(run, who)
		if err = b.apply(ctx, change); refusal(err) == nil {
			return change.Facts().Run.After, err
		}
	}
	return record.Run{}, record.Errorf(record.Conflict, "the person started fresh at the same time; try again")
}

// RecordsFor is [Boundary.Records] for a caller who owns the run: whoever may not call
// a tool now is not told what it returned either.
func (b *Boundary) RecordsFor(c identity.Caller, run record.Run) history.Records {
	return told{b.Records(run), b, c}
}

type told struct {
	history.Records
	b      *Boundary
	caller identity.Caller
}

func (t told) Labelled(ctx context.Context, label string) ([]history.Recorded, error) {
	found, err := t.Records.Labelled(ctx, label)
	for i := range found {
		if !t.b.admits(t.caller, found[i].Tool) {
			found[i].Answer = ""
		}
	}
	return found, err
}
