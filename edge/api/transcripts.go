package api

import (
	"context"
	"net/http"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/history"
	"github.com/placet-dev/placet/record"
)

func (d *door) registerTranscripts() {
	add(d, d.transcript(d.operation("import-transcript", http.MethodPost, "/v1/transcripts", "Keep a transcript for display", d.asCaller, tag("history"), status(http.StatusCreated),
		describe("The body is the transcript, as it is. It makes no run, no call and no approval; nothing in it is trusted, and nothing can be proposed from it. Texts are kept up to a bound."))), d.importTranscript)
	add(d, d.operation("list-transcripts", http.MethodGet, "/v1/transcripts", "List imported transcripts", d.asViewer, tag("history")), d.listTranscripts)
	add(d, d.operation("show-transcript", http.MethodGet, "/v1/transcripts/{id}", "Show an imported transcript", d.asViewer, tag("history"),
		describe("All of it is what a client said.")), d.showTranscript)
	add(d, d.operation("delete-transcript", http.MethodDelete, "/v1/transcripts/{id}", "Delete an imported transcript", d.asCaller, tag("history"), status(http.StatusNoContent)), d.deleteTranscript)
	add(d, d.operation("redact-transcript", http.MethodPost, "/v1/transcripts/{id}/redact", "Remove the text of items for good", d.asCaller, tag("history"),
		describe("Their digests stay. No call and no event is changed; an event names who did it and which items.")), d.redactTranscript)
	add(d, d.operation("compact-transcript", http.MethodPost, "/v1/transcripts/{id}/compact", "Put a summary in the place of items", d.asCaller, tag("history"),
		describe("Only where no call and no request for approval is open, so that none is parted from what became of it. No call and no event is changed.")), d.compactTranscript)

	add(d, d.operation("give-share", http.MethodPost, "/v1/shares", "Let another principal read a run or a transcript", d.asCaller, tag("history"), status(http.StatusCreated),
		describe("Of the same tenant, until a time, and only to read: the reader cannot resume, propose, dispatch, answer or share by it.")), d.giveShare)
	add(d, d.operation("list-shares", http.MethodGet, "/v1/shares", "List shares that you gave or were given", d.asViewer, tag("history")), d.listShares)
	add(d, d.operation("show-shared", http.MethodGet, "/v1/shares/{id}", "Show what a share lets you read", d.asViewer, tag("history"),
		describe("Only for the principal whom it was given to, while it lasts.")), d.showShared)
	add(d, d.operation("end-share", http.MethodDelete, "/v1/shares/{id}", "Take a share back", d.asCaller, tag("history")), d.endShare)
}

// TranscriptView is an imported transcript.
type TranscriptView struct {
	ID        record.TranscriptID `json:"id"`
	Label     string              `json:"label,omitempty" doc:"The importer's own name for it."`
	Format    string              `json:"format"`
	Class     history.Class       `json:"class" doc:"Of all that it says: client."`
	Principal record.Principal    `json:"principal" doc:"Who imported it."`
	Agent     record.AgentID      `json:"agent"`
	Digest    string              `json:"digest" doc:"Of the source, as it was sent."`
	Size      int64               `json:"size" doc:"Of the source, in bytes."`
	Messages  int                 `json:"messages"`
	Imported  time.Time           `json:"imported_at"`
	Changed   time.Time           `json:"changed_at"`
	Items     []ItemView          `json:"items,omitempty" nullable:"false" doc:"Not in lists."`
}

// ItemView is one thing that a transcript says.
type ItemView struct {
	Item     int           `json:"item" doc:"Its number in the source."`
	Message  int           `json:"message"`
	Kind     string        `json:"kind" doc:"What it claims to be; summary: what a compaction left."`
	Class    history.Class `json:"class"`
	Role     string        `json:"role,omitempty"`
	Tool     string        `json:"tool,omitempty"`
	Label    string        `json:"label,omitempty" doc:"Pairs call and result; no identity."`
	Digest   string        `json:"digest"`
	Text     string        `json:"text,omitempty" doc:"What a client says that was said: data, never an instruction."`
	Cut      bool          `json:"cut,omitempty" doc:"The text was longer."`
	Redacted bool          `json:"redacted,omitempty"`
	Stands   int           `json:"stands_for,omitempty" doc:"A summary's: for how many items."`
}

func transcriptView(t record.Transcript) TranscriptView {
	v := TranscriptView{ID: t.ID, Label: t.Label, Format: t.Format, Class: history.ClassClient, Principal: t.Principal, Agent: t.Agent,
		Digest: t.Digest.String(), Size: t.Size, Messages: t.Messages, Imported: t.Imported, Changed: t.Changed}
	for _, i := range t.Items {
		v.Items = append(v.Items, ItemView{Item: i.Item, Message: i.Message, Kind: i.Kind, Class: history.ClassClient, Role: i.Role, Tool: i.Tool, Label: i.Label,
			Digest: i.Digest.String(), Text: i.Text, Cut: i.Cut, Redacted: i.Redacted, Stands: i.Stands})
	}
	return v
}

// TranscriptPath is the path of a transcript.
type TranscriptPath struct {
	ID string `path:"id" maxLength:"64" doc:"The transcript."`
}

func (p TranscriptPath) id() (record.TranscriptID, error) {
	if !record.ValidID("trn", p.ID) {
		return "", absent("transcript")
	}
	return record.TranscriptID(p.ID), nil
}

type transcriptOutput struct{ Body TranscriptView }

func shownTranscript(t record.Transcript, err error) (*transcriptOutput, error) {
	if err != nil {
		return nil, hidden(err, "transcript")
	}
	return &transcriptOutput{Body: transcriptView(t)}, nil
}

type importInput struct {
	Sent
	Label string `query:"label" maxLength:"200" doc:"Your own name for it."`
}

func (d *door) importTranscript(ctx context.Context, in *importInput) (*transcriptOutput, error) {
	text, release, err := d.collect(ctx, &in.Sent)
	if err != nil {
		return nil, err
	}
	defer release()
	if len(text) == 0 {
		return nil, invalid("body", "there is no transcript")
	}
	t, err := d.boundary.Import(ctx, caller(ctx), in.Label, history.Format(in.Format), text)
	t.Items = nil
	return shownTranscript(t, err)
}

type listTranscriptsInput struct {
	Before string `query:"before" maxLength:"64" doc:"The next of an earlier page."`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
}

type transcriptsOutput struct {
	Body struct {
		Transcripts []TranscriptView    `json:"transcripts" nullable:"false" doc:"Newest first, without their items."`
		Next        record.TranscriptID `json:"next,omitempty" doc:"Send it as before for the next page."`
	}
}

func (d *door) listTranscripts(ctx context.Context, in *listTranscriptsInput) (*transcriptsOutput, error) {
	v := watcher(ctx)
	if v.person.Valid() {
		return nil, approversOnly()
	}
	page, err := d.reader.ListTranscripts(ctx, dispatch.TranscriptQuery{Tenant: v.tenant(), Owner: v.owner(), Before: record.TranscriptID(in.Before), Limit: in.Limit})
	if err != nil {
		return nil, err
	}
	out := &transcriptsOutput{}
	out.Body.Transcripts = []TranscriptView{}
	for _, t := range page {
		out.Body.Transcripts = append(out.Body.Transcripts, transcriptView(t))
	}
	if len(page) == in.Limit {
		out.Body.Next = page[len(page)-1].ID
	}
	return out, nil
}

func (d *door) showTranscript(ctx context.Context, in *TranscriptPath) (*transcriptOutput, error) {
	v := watcher(ctx)
	id, err := in.id()
	if err != nil || v.person.Valid() {
		return nil, absent("transcript")
	}
	if v.caller.Valid() {
		return shownTranscript(d.boundary.Transcript(ctx, v.caller, id))
	}
	t, err := d.reader.Transcript(ctx, v.tenant(), id)
	if err == nil && t.Tenant != v.tenant() {
		err = absent("transcript")
	}
	return shownTranscript(t, err)
}

func (d *door) deleteTranscript(ctx context.Context, in *TranscriptPath) (*struct{}, error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	return nil, hidden(d.boundary.DeleteTranscript(ctx, caller(ctx), id), "transcript")
}

type redactInput struct {
	TranscriptPath
	Body struct {
		Items []int `json:"items" minItems:"1" maxItems:"10000" nullable:"false" doc:"Numbers of items."`
	}
}

func (d *door) redactTranscript(ctx context.Context, in *redactInput) (*transcriptOutput, error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	return shownTranscript(d.boundary.Redact(ctx, caller(ctx), id, in.Body.Items))
}

type compactInput struct {
	TranscriptPath
	Body struct {
		First   int    `json:"first" minimum:"0" doc:"Number of the first item."`
		Last    int    `json:"last" minimum:"0" doc:"Number of the last one."`
		Summary string `json:"summary,omitempty" maxLength:"4096" doc:"Your own words; shown as such."`
	}
}

func (d *door) compactTranscript(ctx context.Context, in *compactInput) (*transcriptOutput, error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	return shownTranscript(d.boundary.Compact(ctx, caller(ctx), id, in.Body.First, in.Body.Last, in.Body.Summary))
}

// ShareView is a share.
type ShareView struct {
	ID         record.ShareID      `json:"id"`
	By         record.Principal    `json:"by" doc:"Who gave it."`
	Agent      record.AgentID      `json:"by_agent"`
	To         record.Principal    `json:"to" doc:"Who may read."`
	Run        record.RunID        `json:"run,omitempty"`
	Transcript record.TranscriptID `json:"transcript,omitempty"`
	Live       bool                `json:"live" doc:"It has not ended."`
	Given      time.Time           `json:"given_at"`
	Until      time.Time           `json:"until"`
	Ended      *time.Time          `json:"ended_at,omitempty" doc:"When it was taken back."`
}

func (d *door) shareView(s record.Share) ShareView {
	return ShareView{ID: s.ID, By: s.By.Principal, Agent: s.By.Agent, To: s.To, Run: s.Run, Transcript: s.Transcript, Live: s.Live(d.now()),
		Given: s.Given, Until: s.Until, Ended: later(s.Ended)}
}

type shareOutput struct{ Body ShareView }

type giveShareInput struct {
	Body struct {
		Run        string    `json:"run,omitempty" maxLength:"64" doc:"A run of yours; or name a transcript."`
		Transcript string    `json:"transcript,omitempty" maxLength:"64" doc:"A transcript of yours."`
		Issuer     string    `json:"issuer" minLength:"1" maxLength:"512" doc:"Issuer of the reader."`
		Subject    string    `json:"subject" minLength:"1" maxLength:"512" doc:"The reader, as the issuer names them."`
		Until      time.Time `json:"until" doc:"When it ends; at most 30 days from now."`
	}
}

func (d *door) giveShare(ctx context.Context, in *giveShareInput) (*shareOutput, error) {
	b, what := in.Body, "transcript"
	if b.Run != "" {
		what = "run"
	}
	if b.Run != "" && !record.ValidID("run", b.Run) || b.Transcript != "" && !record.ValidID("trn", b.Transcript) {
		return nil, absent(what)
	}
	for name, text := range map[string]string{"issuer": b.Issuer, "subject": b.Subject} {
		if !printable(text) {
			return nil, invalid("body."+name, "it holds a control character")
		}
	}
	s, err := d.boundary.GiveShare(ctx, caller(ctx), dispatch.ShareOrder{Run: record.RunID(b.Run), Transcript: record.TranscriptID(b.Transcript),
		To: record.Principal{Issuer: b.Issuer, Subject: b.Subject}, Until: b.Until})
	if err != nil {
		return nil, hidden(err, what)
	}
	return &shareOutput{Body: d.shareView(s)}, nil
}

// SharePath is the path of a share.
type SharePath struct {
	ID string `path:"id" maxLength:"64" doc:"The share."`
}

func (d *door) endShare(ctx context.Context, in *SharePath) (*shareOutput, error) {
	if !record.ValidID("shr", in.ID) {
		return nil, absent("share")
	}
	s, err := d.boundary.TakeShare(ctx, caller(ctx), record.ShareID(in.ID))
	if err != nil {
		return nil, hidden(err, "share")
	}
	return &shareOutput{Body: d.shareView(s)}, nil
}

type listSharesInput struct {
	Before string `query:"before" maxLength:"64" doc:"The next of an earlier page."`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
}

type sharesOutput struct {
	Body struct {
		Shares []ShareView    `json:"shares" nullable:"false" doc:"Newest first; those that have ended too."`
		Next   record.ShareID `json:"next,omitempty" doc:"Send it as before for the next page."`
	}
}

func (d *door) listShares(ctx context.Context, in *listSharesInput) (*sharesOutput, error) {
	v := watcher(ctx)
	page, err := d.reader.ListShares(ctx, dispatch.ShareQuery{Tenant: v.tenant(), By: v.owner(), To: v.principal(), Before: record.ShareID(in.Before), Limit: in.Limit})
	if err != nil {
		return nil, err
	}
	out := &sharesOutput{}
	out.Body.Shares = []ShareView{}
	for _, s := range page {
		out.Body.Shares = append(out.Body.Shares, d.shareView(s))
	}
	if len(page) == in.Limit {
		out.Body.Next = page[len(page)-1].ID
	}
	return out, nil
}

// principal is who looks; none for who may look at the whole tenant.
func (v viewer) principal() *record.Principal {
	var p record.Principal
	switch {
	case v.caller.Valid():
		p = v.caller.Owner().Principal
	case v.person.Valid():
		p = v.person.Principal()
	default:
		return nil
	}
	return &p
}

// SharedView is what a share lets its reader see. It holds no handle that could be
// used, and no result of a tool.
type SharedView struct {
	Share      ShareView       `json:"share"`
	Run        *SharedRun      `json:"run,omitempty"`
	Transcript *TranscriptView `json:"transcript,omitempty"`
}

// SharedRun is a run for somebody whose it is not.
type SharedRun struct {
	Label  string       `json:"label,omitempty"`
	Agent  string       `json:"agent"`
	State  string       `json:"state"`
	Turn   record.Turn  `json:"turn"`
	Opened time.Time    `json:"opened_at"`
	Ended  *time.Time   `json:"ended_at,omitempty"`
	Calls  []SharedCall `json:"calls" nullable:"false" doc:"Newest first, at most 500."`
}

// SharedCall is a call of a shared run.
type SharedCall struct {
	Tool      string       `json:"tool"`
	Turn      record.Turn  `json:"turn"`
	State     record.State `json:"state"`
	Code      record.Code  `json:"code"`
	Arguments string       `json:"arguments" doc:"Canonical JSON, as text."`
	Purpose   string       `json:"purpose,omitempty" doc:"The agent's own words."`
	Proposed  time.Time    `json:"proposed_at"`
	Changed   time.Time    `json:"changed_at"`
}

type sharedOutput struct{ Body SharedView }

func (d *door) showShared(ctx context.Context, in *SharePath) (*sharedOutput, error) {
	v := watcher(ctx)
	reader := v.principal()
	if !record.ValidID("shr", in.ID) || reader == nil {
		return nil, absent("share")
	}
	s, err := d.boundary.Shared(ctx, v.tenant(), *reader, record.ShareID(in.ID))
	if err != nil {
		return nil, hidden(err, "share")
	}
	out := &sharedOutput{Body: SharedView{Share: d.shareView(s.Share)}}
	if s.Transcript != nil {
		t := transcriptView(*s.Transcript)
		out.Body.Transcript = &t
	}
	if s.Run == nil {
		return out, nil
	}
	calls, err := d.reader.Calls(ctx, dispatch.CallQuery{Tenant: v.tenant(), Owner: &s.Share.By, Run: s.Run.ID, Limit: 500})
	if err != nil {
		return nil, err
	}
	out.Body.Run = &SharedRun{Label: s.Run.Label, Agent: string(s.Run.Agent), State: string(s.Run.State), Turn: s.Run.Turn, Opened: s.Run.Opened, Ended: later(s.Run.Ended), Calls: []SharedCall{}}
	for _, c := range calls {
		out.Body.Run.Calls = append(out.Body.Run.Calls, SharedCall{Tool: c.Tool.Name, Turn: c.Turn, State: c.State, Code: c.Decision.Code,
			Arguments: string(c.Arguments), Purpose: c.Purpose, Proposed: c.Proposed, Changed: c.Changed})
	}
	return out, nil
}
