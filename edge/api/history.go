package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/history"
	"github.com/placet-dev/placet/record"
)

// HistoryLimits bound the transcripts that this door reads.
type HistoryLimits struct {
	Bytes int64         // of one that is checked as it arrives; default 64 MiB
	Held  int64         // of one that is held in memory; default 8 MiB
	Time  time.Duration // how long one may take to arrive; default 1 min
	Once  int           // how many are held at once; default 4
}

func (l HistoryLimits) withDefaults() HistoryLimits {
	l.Bytes, l.Held = cmp.Or(l.Bytes, 64<<20), cmp.Or(l.Held, 8<<20)
	l.Time, l.Once = cmp.Or(l.Time, time.Minute), cmp.Or(l.Once, 4)
	return l
}

func (d *door) registerHistory() {
	add(d, d.transcript(d.operation("check-history", http.MethodPost, "/v1/history/check", "Say what is wrong with a transcript", d.asCaller, tag("history"),
		describe("The body is the transcript, as it is. Nothing is stored, and nothing of it runs. With a run of yours, each item gets the class that the records give it. "+
			"With a format and without a run the transcript is read as it arrives and may be large; otherwise it is held in memory."))), d.checkHistory)
	add(d, d.transcript(d.operation("repair-history", http.MethodPost, "/v1/history/repair", "Write a transcript so that every call has one result", d.asCaller, tag("history"),
		describe("The body is the transcript, as it is. Nothing is stored, and nothing of it runs. With a run of yours, gaps are filled from the records."))), d.repairHistory)
	add(d, d.transcript(d.operation("resume-run", http.MethodPost, "/v1/runs/{id}/resume", "Say where a run stands", d.asCaller, tag("runs"),
		describe("From records alone: the run, its turn, its open calls and their questions. Nothing is dispatched. "+
			"A body, if there is one, is a transcript: it is checked, compared and repaired, and decides nothing."))), d.resumeRun)
	add(d, d.operation("replay-run", http.MethodPost, "/v1/runs/{id}/replay", "Open a new run in the place of an old one", d.asOperator, tag("operate"),
		describe("Needs the permission operate. The old run ends; none of its calls is executed again and none of its approvals counts. What is proposed in the new run has the route replay and is decided anew.")), d.replayRun)
}

// transcript makes an operation one that takes a transcript: its body is not read
// before the handler does, and not as a request of this API.
func (d *door) transcript(op huma.Operation) huma.Operation {
	op.Middlewares = append(slices.Clone(op.Middlewares[:len(op.Middlewares)-1]), func(ctx huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(ctx)
		if r.ContentLength > d.histories.Bytes {
			ctx.SetHeader("Connection", "close")
			d.refuse(ctx, record.Errorf(record.TooLarge, "a transcript of at most %d bytes is read", d.histories.Bytes))
			return
		}
		deadline(w, time.Now().Add(d.histories.Time))
		next(ctx)
	})
	// Without a schema: huma would read a body that has one.
	op.RequestBody = &huma.RequestBody{Description: "A transcript: a list of messages, or the request that holds it.", Content: map[string]*huma.MediaType{"application/json": {}}}
	return op
}

// Sent is a transcript as the body of a request.
type Sent struct {
	Format string `query:"format" maxLength:"40" doc:"How the transcript is written, such as openai-chat; found out where that is unambiguous."`

	body io.Reader
	done func()
}

// Resolve is asked by huma.
func (s *Sent) Resolve(ctx huma.Context) []error {
	_, w := humago.Unwrap(ctx)
	s.body, s.done = ctx.BodyReader(), func() { deadline(w, time.Time{}) }
	return nil
}

// arriving is a body that ends with an error when it is longer than it may be.
type arriving struct {
	r    io.Reader
	left int64
	most int64
	err  error // that it ended with: a decoder may take it for the end of the text
}

func (a *arriving) Read(p []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	if int64(len(p)) > a.left+1 {
		p = p[:a.left+1]
	}
	n, err := a.r.Read(p)
	a.left -= int64(n)
	switch {
	case a.left < 0:
		n, a.err = 0, record.Errorf(record.TooLarge, "a transcript of at most %d bytes is read here", a.most)
	case errors.Is(err, os.ErrDeadlineExceeded):
		a.err = record.Errorf(record.Invalid, "the transcript did not arrive in time")
	case err != nil && err != io.EOF:
		a.err = record.Because(record.Invalid, err, "the transcript did not arrive whole")
	default:
		return n, err
	}
	return n, a.err
}

func (s *Sent) stream(most int64) *arriving { return &arriving{r: s.body, left: most, most: most} }

// collect reads a transcript into memory, when it is its turn, and finds its format. The
// result must be released.
func (d *door) collect(ctx context.Context, s *Sent) (text []byte, release func(), err error) {
	select {
	case d.holding <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if text, err = s.whole(d.histories.Held); err != nil {
		<-d.holding
		return nil, nil, err
	}
	return text, func() { <-d.holding }, nil
}

// whole reads all of it, and finds its format.
func (s *Sent) whole(most int64) ([]byte, error) {
	text, err := io.ReadAll(s.stream(most))
	if err != nil {
		return nil, err
	}
	s.done()
	if s.Format == "" && len(text) > 0 {
		f, err := history.Detect(bytes.NewReader(text), history.Limits{})
		if err != nil {
			return nil, err
		}
		s.Format = string(f)
	}
	return text, nil
}

// HistoryReport is what a check found.
type HistoryReport struct {
	Format   history.Format       `json:"format"`
	Messages int                  `json:"messages"`
	Items    map[history.Kind]int `json:"items" doc:"How many of each kind."`
	Complete bool                 `json:"complete" doc:"It was read to its end."`
	Unseen   bool                 `json:"unseen" doc:"Part of the history is kept by the provider and was not checked."`
	OK       bool                 `json:"ok" doc:"Nothing but notes was found."`
	Forged   bool                 `json:"forged" doc:"Something was found that no honest client sends."`
	Findings []history.Finding    `json:"findings" nullable:"false"`
	More     int                  `json:"more" doc:"Findings that are counted only."`
	Classes  []ItemClass          `json:"classes,omitempty" nullable:"false" doc:"With a run: the class of each item, in order. An item that is missing here is client."`
}

// ItemClass says how far the records vouch for an item.
type ItemClass struct {
	Item  int           `json:"item"`
	Class history.Class `json:"class"`
	Call  record.CallID `json:"call,omitempty" doc:"The recorded call that it shows."`
	State record.State  `json:"state,omitempty" doc:"That call's state."`
}

func reportOf(r history.Report) HistoryReport {
	return HistoryReport{Format: r.Format, Messages: r.Messages, Items: r.Items, Complete: r.Complete, Unseen: r.Unseen, OK: r.OK(), Forged: r.Forged(),
		Findings: r.Findings, More: r.More}
}

// compare adds what the records say of each item.
func (h *HistoryReport) compare(c *history.Classification) {
	const most = 1000
	for _, f := range c.Findings {
		h.OK = h.OK && f.Severity == history.Note
		h.Forged = h.Forged || f.Severity == history.Forgery
		if len(h.Findings) >= most {
			h.More++
			continue
		}
		h.Findings = append(h.Findings, f)
	}
	h.Classes = []ItemClass{}
	for _, j := range c.Judgements {
		if j.Class == history.ClassClient {
			continue
		}
		is := ItemClass{Item: j.Item, Class: j.Class}
		if j.Record != nil {
			is.Call, is.State = j.Record.Call, j.Record.State
		}
		h.Classes = append(h.Classes, is)
	}
}

type checkHistoryInput struct {
	Sent
	Run string `query:"run" maxLength:"64" doc:"A run of yours, whose records the items are compared with."`
}

type historyReportOutput struct{ Body HistoryReport }

func (d *door) checkHistory(ctx context.Context, in *checkHistoryInput) (*historyReportOutput, error) {
	records, err := d.records(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	if in.Format != "" && in.Run == "" {
		body := in.stream(d.histories.Bytes)
		r, err := history.Check(body, history.Format(in.Format), history.Limits{Bytes: d.histories.Bytes + 1})
		in.done()
		d.checked(nil, r.Findings, nil)
		return &historyReportOutput{Body: reportOf(r)}, cmp.Or(body.err, err)
	}
	text, release, err := d.collect(ctx, &in.Sent)
	if err != nil {
		return nil, err
	}
	defer release()
	report, _, err := d.examine(ctx, text, history.Format(in.Format), records)
	return &historyReportOutput{Body: report}, err
}

// records are those of a run of the caller's, or none.
func (d *door) records(ctx context.Context, id string) (history.Records, error) {
	if id == "" {
		return nil, nil
	}
	if !record.ValidID("run", id) {
		return nil, absent("run")
	}
	run, _, err := d.boundary.Run(ctx, caller(ctx), record.RunID(id))
	if err != nil {
		return nil, hidden(err, "run")
	}
	return d.boundary.RecordsFor(caller(ctx), run), nil
}

// examine checks a transcript and compares it with records, if there are any. It is
// nil where it cannot be read; the report then says why.
func (d *door) examine(ctx context.Context, text []byte, format history.Format, records history.Records) (HistoryReport, *history.Transcript, error) {
	t, r, err := history.ReadAndCheck(text, format, history.Limits{})
	if err != nil {
		return HistoryReport{}, nil, err
	}
	report := reportOf(r)
	if t == nil || records == nil {
		if t != nil {
			d.checked(t, r.Findings, nil)
		}
		return report, t, nil
	}
	c, err := history.Classify(ctx, t, records)
	if err != nil {
		return report, nil, err
	}
	d.checked(t, r.Findings, c)
	report.compare(c)
	return report, t, nil
}

// targetParam is a format that is written.
type targetParam string

// Schema is asked by huma.
func (targetParam) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, f := range history.Writes() {
		s.Enum = append(s.Enum, string(f))
	}
	return s
}

type repairHistoryInput struct {
	Sent
	To  targetParam `query:"to" required:"true" doc:"The format to write."`
	Run string      `query:"run" maxLength:"64" doc:"A run of yours, from whose records gaps are filled."`
}

// RepairedHistory is a transcript that its format's grammar accepts.
type RepairedHistory struct {
	Format      history.Format    `json:"format"`
	Changes     []history.Change  `json:"changes" nullable:"false" doc:"Everything that was changed."`
	Findings    []history.Finding `json:"findings" nullable:"false" doc:"What comparing with records showed."`
	TurnInvalid bool              `json:"turn_invalid" doc:"An unresolved call was filled or dropped: nobody may take up a call of that turn."`
	Transcript  json.RawMessage   `json:"transcript" doc:"The repaired transcript. What was not changed keeps its bytes."`
}

// apart keeps the transcript away from the encoder.
func (r RepairedHistory) apart() (any, string, json.RawMessage) {
	return struct {
		Format      history.Format    `json:"format"`
		Changes     []history.Change  `json:"changes"`
		Findings    []history.Finding `json:"findings"`
		TurnInvalid bool              `json:"turn_invalid"`
	}{r.Format, r.Changes, r.Findings, r.TurnInvalid}, "transcript", r.Transcript
}

type repairedOutput struct{ Body RepairedHistory }

func (d *door) repairHistory(ctx context.Context, in *repairHistoryInput) (*repairedOutput, error) {
	records, err := d.records(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	if records == nil {
		records = history.NoRecords{}
	}
	text, release, err := d.collect(ctx, &in.Sent)
	if err != nil {
		return nil, err
	}
	defer release()
	t, err := history.Read(text, history.Format(in.Format), history.Limits{})
	if err != nil {
		return nil, unrepairable(err)
	}
	r, err := history.Repair(ctx, t, history.Format(in.To), records)
	if err != nil {
		return nil, unrepairable(err)
	}
	return &repairedOutput{Body: RepairedHistory{r.Format, r.Changes, r.Findings, r.TurnInvalid, r.Source}}, nil
}

// unrepairable says where a transcript cannot be read, or has two meanings.
func unrepairable(err error) error {
	var broken *history.Error
	if errors.As(err, &broken) {
		return invalid("body"+clean(broken.At.Pointer), "%s, at byte %d: %s", broken.Code, broken.At.Offset, broken.Why)
	}
	var refused *history.Refusal
	if errors.As(err, &refused) {
		f := refused.Finding
		return invalid("body"+clean(f.At.Pointer), "%s, at byte %d: it has two meanings, so there is no repair: %s", f.Code, f.At.Offset, f.Says)
	}
	return err
}

type resumeRunInput struct {
	RunPath
	Sent
	To targetParam `query:"to" doc:"The format to write the repaired transcript in. Default: its own, where that is written."`
}

// ResumedRun is where a run stands.
type ResumedRun struct {
	Run     RunView        `json:"run"`
	Calls   []OpenCall     `json:"calls" nullable:"false" doc:"The open calls, oldest first. Continue one with /v1/calls/{id}/dispatch."`
	History *HistoryReport `json:"history,omitempty" doc:"Of a transcript that was sent along."`
	Repair  *HistoryRepair `json:"repair,omitempty" doc:"What was done to it, where it can be repaired."`
	Refused string         `json:"repair_refused,omitempty" doc:"Why it cannot."`

	Transcript json.RawMessage `json:"transcript,omitempty" doc:"It, repaired, with gaps filled from the records."`
}

// HistoryRepair is what a repair did.
type HistoryRepair struct {
	Format      history.Format   `json:"format"`
	Changes     []history.Change `json:"changes" nullable:"false"`
	TurnInvalid bool             `json:"turn_invalid" doc:"An unresolved call was filled or dropped: nobody may take up a call of that turn."`
}

// OpenCall is a call that may still run, or whose outcome is not known.
type OpenCall struct {
	Call     record.CallID `json:"call"`
	Tool     string        `json:"tool"`
	Turn     record.Turn   `json:"turn"`
	State    record.State  `json:"state"`
	Expires  *time.Time    `json:"expires_at,omitempty"`
	Approval *OpenQuestion `json:"approval,omitempty"`
}

// OpenQuestion is the question of an open call.
type OpenQuestion struct {
	ID      record.ApprovalID    `json:"id"`
	State   record.ApprovalState `json:"state"`
	Expires time.Time            `json:"expires_at"`
}

// apart keeps the transcript away from the encoder.
func (r ResumedRun) apart() (any, string, json.RawMessage) {
	raw := r.Transcript
	r.Transcript = nil
	return r, "transcript", raw
}

type resumedOutput struct{ Body ResumedRun }

// resumeRun answers from records. What is sent along is looked at afterwards, and
// only beside the answer.
func (d *door) resumeRun(ctx context.Context, in *resumeRunInput) (*resumedOutput, error) {
	if !record.ValidID("run", in.ID) {
		return nil, absent("run")
	}
	r, err := d.boundary.ResumeRun(ctx, caller(ctx), record.RunID(in.ID))
	if err != nil {
		return nil, hidden(err, "run")
	}
	out := &resumedOutput{Body: ResumedRun{Run: runView(r.Run, r.Shown), Calls: openCalls(r)}}
	text, release, err := d.collect(ctx, &in.Sent)
	if err != nil {
		return nil, err
	}
	defer release()
	if len(text) == 0 {
		return out, nil
	}
	return out, out.Body.compare(ctx, d, in, text, d.boundary.RecordsFor(caller(ctx), r.Run))
}

func openCalls(r dispatch.Resumed) []OpenCall {
	calls := []OpenCall{}
	for _, l := range r.Open {
		c := OpenCall{Call: l.Call.ID, Tool: l.Call.Tool.Name, Turn: l.Call.Turn, State: l.Call.State, Expires: later(l.Call.Expires)}
		if l.Approval != nil {
			c.Approval = &OpenQuestion{l.Approval.ID, l.Approval.State, l.Approval.Expires}
		}
		calls = append(calls, c)
	}
	return calls
}

// compare adds the report of a transcript, and its repair.
func (r *ResumedRun) compare(ctx context.Context, d *door, in *resumeRunInput, text []byte, records history.Records) error {
	report, t, err := d.examine(ctx, text, history.Format(in.Format), records)
	if err != nil {
		return err
	}
	r.History = &report
	target := history.Format(cmp.Or(string(in.To), in.Format))
	switch {
	case t == nil:
		r.Refused = "the transcript cannot be read to its end"
		return nil
	case !slices.Contains(history.Writes(), target):
		r.Refused = fmt.Sprintf("the format %s is not written; name one with to", target)
		return nil
	}
	repaired, err := history.Repair(ctx, t, target, records)
	var refused *history.Refusal
	if errors.As(err, &refused) {
		r.Refused = refused.Error()
		return nil
	}
	if err != nil {
		return err
	}
	r.Repair = &HistoryRepair{repaired.Format, repaired.Changes, repaired.TurnInvalid}
	r.Transcript = repaired.Source
	return nil
}

func (d *door) replayRun(ctx context.Context, in *RunPath) (*runOutput, error) {
	if !record.ValidID("run", in.ID) {
		return nil, absent("run")
	}
	r, err := d.boundary.ReplayRun(ctx, operator(ctx), record.RunID(in.ID))
	return d.run(r, "", err)
}

var _ huma.Resolver = (*Sent)(nil)
