package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/edge/feed"
	"github.com/placet-dev/placet/edge/question"
	"github.com/placet-dev/placet/record"
)

// ShownApproval is a question with what an approver compares it with.
type ShownApproval struct {
	ApprovalView
	Environment string            `json:"environment,omitempty" doc:"Where it would run."`
	Link        string            `json:"link,omitempty" doc:"Its page on the console."`
	Since       *ChangedView      `json:"since,omitempty" doc:"How it differs from the last approved call of this tool, if the viewer may see that."`
	Preview     *PreviewView      `json:"preview,omitempty" doc:"What a dry run showed when the question was opened, where the tool's entry names one. An answer covers it. Not told to the agent."`
	Origins     []OriginView      `json:"origins" nullable:"false" doc:"Where the values come from, each place of an argument once. Not told to the agent."`
	Newer       record.ApprovalID `json:"newer,omitempty" doc:"The question that took the place of this one."`
}

// ChangedView is the difference of a call from an earlier one.
type ChangedView struct {
	Approval record.ApprovalID `json:"approval"`
	At       time.Time         `json:"at"`
	Unused   bool              `json:"unused" doc:"That one was approved and has not run."`
	Rows     []ChangedRow      `json:"rows" nullable:"false"`
	Left     int               `json:"left" doc:"Differences that are not listed."`
	Same     int               `json:"same" doc:"Arguments that are equal."`
	Redacted bool              `json:"redacted,omitempty" doc:"That one's arguments were redacted, so that nothing is compared."`
}

// OriginView says where values of one argument come from.
type OriginView struct {
	Argument string             `json:"argument"`
	Kind     string             `json:"kind,omitempty"`
	From     record.ValueOrigin `json:"origin"`
	Trusted  bool               `json:"trusted" doc:"It comes from the user, the operator or a selected record."`
	Target   bool               `json:"target" doc:"It is what the call acts on; else it was found inside an argument."`
	Hidden   bool               `json:"hidden,omitempty" doc:"It was found only after decoding."`
	Call     record.CallID      `json:"call,omitempty" doc:"The call whose result it stood in, where it is one."`
	Tool     string             `json:"tool,omitempty"`
}

func originViews(c record.Call) []OriginView {
	out := []OriginView{}
	for _, o := range c.Decision.Origins {
		v := OriginView{o.Argument, o.Kind, o.From, o.Trusted, o.Target, o.Hidden, o.Call, o.Tool}
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// PreviewView is what a dry run showed: text from outside, to be shown as data.
type PreviewView struct {
	Tool   string        `json:"tool" doc:"What made it."`
	Call   record.CallID `json:"call,omitempty" doc:"The support call that made it."`
	Text   string        `json:"text,omitempty" doc:"What it returned. Nothing is decided by it."`
	Left   int           `json:"left,omitempty" doc:"Bytes of it that were not kept."`
	Failed string        `json:"failed,omitempty" doc:"Why there is none."`
}

func previewView(p *record.Preview) *PreviewView {
	if p == nil {
		return nil
	}
	return &PreviewView{Tool: p.Tool, Call: p.Call, Text: p.Text, Left: p.Left, Failed: question.NoPreview(p)}
}

// ChangedRow is one argument then and now, canonical; absent where it was not there.
type ChangedRow struct {
	Name string          `json:"name"`
	Old  json.RawMessage `json:"old,omitempty"`
	New  json.RawMessage `json:"new,omitempty"`
}

// shownApproval completes a question. The agent's side gets what it asked for itself
// and nothing beside.
func (d *door) shownApproval(ctx context.Context, v viewer, l dispatch.Loaded, err error) (*shownApprovalOutput, error) {
	if err != nil {
		return nil, err
	}
	out := &shownApprovalOutput{Body: ShownApproval{ApprovalView: d.approvalView(l, v), Origins: []OriginView{}}}
	if v.caller.Valid() {
		return out, nil
	}
	b := &out.Body
	b.Preview, b.Origins = previewView(l.Approval.Preview), originViews(l.Call)
	if d.public != "" {
		b.Link = d.public + "/console/approvals/" + string(l.Approval.ID)
	}
	if now := d.boundary.Current(); now != nil {
		b.Environment = now.Environment
	}
	if l.Approval.State == record.Void && l.Call.Approval != l.Approval.ID && l.Call.Approval != "" {
		next, err := d.reader.Approval(ctx, v.tenant(), l.Call.Approval)
		if err == nil && v.sees(next) {
			b.Newer = l.Call.Approval
		}
	}
	since, err := question.Since(ctx, d.reader, v.sees, l.Call)
	if err != nil || since == nil {
		return out, err
	}
	b.Since = &ChangedView{Approval: since.Since.Approval.ID, At: since.Since.Approval.Changed, Unused: since.Unused(), Left: since.Left, Same: since.Same, Redacted: since.Redacted(),
		Rows: []ChangedRow{}}
	for _, r := range since.Rows {
		b.Since.Rows = append(b.Since.Rows, ChangedRow{r.Name, r.Old, r.New})
	}
	return out, nil
}

// WaitQuery holds a request for news. It is exported for huma.
type WaitQuery struct {
	Wait    int    `query:"wait" minimum:"0" maximum:"60" doc:"Seconds to hold the request while there is nothing new."`
	Version string `query:"version" maxLength:"160" doc:"The version that you have."`
}

// listen begins to follow, before whoever waits reads. For lists it counts like a
// stream; whoever waits for one call holds little.
func (d *door) listen(ctx context.Context, v viewer, call record.CallID) (*feed.Follower, func(), error) {
	leave := func() {}
	if call == "" {
		var err error
		if leave, err = d.streams.enter(v.name()); err != nil {
			return nil, nil, err
		}
	}
	w, err := d.feed.Follow(ctx, v.tenant(), call)
	if err != nil {
		leave()
		return nil, nil, err
	}
	return w, func() { w.Close(); leave() }, nil
}

func (d *door) registerQuestions() {
	op := d.operation("stream-approvals", http.MethodGet, "/v1/approvals/events", "Follow questions", d.asViewer, tag("approvals"),
		describe("Server-sent events. First every question that waits now, each as an event question, then an event ready; from then on a question each time it or its call moves, as it is at that moment. A client that comes back with Last-Event-ID gets what moved since. The stream ends when the credential ceases to count, and after some minutes in any case."))
	op.Responses["200"] = &huma.Response{Description: "A stream of ApprovalView objects.",
		Content: map[string]*huma.MediaType{"text/event-stream": {Schema: d.schema(ApprovalView{}, "ApprovalView")}}}
	add(d, op, d.followQuestions)
}

func (d *door) followQuestions(ctx context.Context, in *ResumeHeader) (*huma.StreamResponse, error) {
	after, resumed, err := in.after()
	if err != nil {
		return nil, err
	}
	begun := false
	return d.streamed(ctx, "", func(ctx context.Context, s *stream) error {
		items, lost := s.follower.Take()
		switch {
		case !begun && resumed && after <= s.follower.From:
			begun = true
			return s.movedSince(ctx, after)
		case !begun || lost:
			begun = true
			return s.waiting(ctx)
		}
		for _, i := range items {
			if err := s.question(i.Seq, i.Loaded); err != nil {
				return err
			}
		}
		return nil
	}), nil
}

// question sends a question to who may see it.
func (s *stream) question(seq int64, l dispatch.Loaded) error {
	if l.Approval == nil || !s.viewer.sees(l) {
		return nil
	}
	return s.send(seq, "question", s.door.approvalView(l, s.viewer))
}

// waiting sends every question that waits. Its number is that of the time before:
// what moves meanwhile is sent again.
func (s *stream) waiting(ctx context.Context) error {
	q := dispatch.ApprovalQuery{Tenant: s.viewer.tenant(), Owner: s.viewer.owner(), States: []record.ApprovalState{record.Pending}, Limit: 500}
	for {
		found, next, err := s.door.questions(ctx, s.viewer, q)
		if err != nil {
			return err
		}
		for _, l := range found {
			if err := s.question(s.follower.From, l); err != nil {
				return err
			}
		}
		if q.After = next; next == "" {
			return s.send(s.follower.From, "ready", struct{}{})
		}
	}
}

// movedSince sends what moved after an event, as it is now.
func (s *stream) movedSince(ctx context.Context, after int64) error {
	for {
		events, err := s.door.reader.Events(ctx, dispatch.EventQuery{Tenant: s.viewer.tenant(), After: after, Limit: 500})
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return s.send(after, "ready", struct{}{})
		}
		seen := map[record.CallID]bool{"": true}
		for _, e := range events {
			after = e.Seq
			if seen[e.Call] {
				continue
			}
			seen[e.Call] = true
			l, err := s.door.reader.Call(ctx, s.viewer.tenant(), e.Call)
			if err == nil {
				err = s.question(e.Seq, l)
			} else if record.KindOf(err) == record.NotFound {
				err = nil
			}
			if err != nil {
				return err
			}
		}
	}
}
