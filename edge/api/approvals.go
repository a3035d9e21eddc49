package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/edge/feed"
	"github.com/placet-dev/placet/edge/question"
	"github.com/placet-dev/placet/record"
)

func (d *door) registerApprovals() {
	add(d, d.operation("list-approvals", http.MethodGet, "/v1/approvals", "List questions", d.asViewer, tag("approvals"),
		describe("A caller sees those of its own calls, an approver those they may answer, a reader all of the tenant. With wait, the request is held while the page is what version says, or without version while it is empty.")), d.listApprovals)
	add(d, d.operation("show-approval", http.MethodGet, "/v1/approvals/{id}", "Show a question", d.asViewer, tag("approvals"),
		describe("With wait, the request is held while the question and its call are what version says, or without version until they move.")), d.showApproval)
	d.registerQuestions()
	for _, w := range []struct {
		id, path, summary string
		word              record.Word
	}{
		{"approve", "/v1/approvals/{id}/approve", "Approve a call", record.Yes},
		{"reject", "/v1/approvals/{id}/reject", "Reject a call", record.No},
	} {
		add(d, d.operation(w.id, http.MethodPost, w.path, w.summary, d.asPerson, tag("approvals"), onlyToken,
			describe("Only with a person's token of the answering audience. The same answer twice is one answer; an answer for another binding than the one shown now is refused.")),
			func(ctx context.Context, in *replyInput) (*approvalOutput, error) { return d.reply(ctx, in, w.word) })
	}
}

// onlyToken documents that no program's key will do.
func onlyToken(op *huma.Operation) { op.Security = []map[string][]string{{"token": {}}} }

// approvalStateParam is the state of an approval as a parameter.
type approvalStateParam string

// Schema is asked by huma.
func (approvalStateParam) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, state := range record.ApprovalStates() {
		s.Enum = append(s.Enum, string(state))
	}
	return s
}

type listApprovalsInput struct {
	State approvalStateParam `query:"state" doc:"Only questions in this state."`
	After string             `query:"after" maxLength:"64" doc:"The next of an earlier page."`
	Limit int                `query:"limit" minimum:"1" maximum:"500" default:"50"`
	WaitQuery
}

type approvalsOutput struct {
	Body struct {
		Approvals []ApprovalView    `json:"approvals" nullable:"false" doc:"Oldest first."`
		Next      record.ApprovalID `json:"next,omitempty" doc:"Send it as after for the next page, which may be there even when this one is short."`
		Version   string            `json:"version" doc:"Differs when anything on this page has moved. Send it back with wait."`
	}
}

// scanned bounds how many questions of others one request looks through.
const scanned = 2000

func (d *door) listApprovals(ctx context.Context, in *listApprovalsInput) (*approvalsOutput, error) {
	v := watcher(ctx)
	if in.Wait == 0 {
		return d.pageOfApprovals(ctx, v, in)
	}
	w, leave, err := d.listen(ctx, v, "")
	if err != nil {
		return nil, err
	}
	defer leave()
	out, err := d.pageOfApprovals(ctx, v, in)
	if err != nil || in.Version != "" && out.Body.Version != in.Version || in.Version == "" && len(out.Body.Approvals) > 0 {
		return out, err
	}
	was := out.Body.Version
	v, err = d.poll(ctx, v, w, in.Wait, func(items []feed.Item) bool {
		if !slices.ContainsFunc(items, func(i feed.Item) bool { return i.Approval != nil && v.sees(i.Loaded) }) {
			return false
		}
		out, err = d.pageOfApprovals(context.WithoutCancel(ctx), v, in)
		return err != nil || out.Body.Version != was
	})
	if err != nil {
		return nil, err
	}
	return d.pageOfApprovals(context.WithoutCancel(ctx), v, in)
}

func (d *door) pageOfApprovals(ctx context.Context, v viewer, in *listApprovalsInput) (*approvalsOutput, error) {
	q := dispatch.ApprovalQuery{Tenant: v.tenant(), Owner: v.owner(), After: record.ApprovalID(in.After), Limit: in.Limit}
	if in.State != "" {
		q.States = []record.ApprovalState{record.ApprovalState(in.State)}
	}
	out := &approvalsOutput{}
	out.Body.Approvals = []ApprovalView{}
	found, next, err := d.questions(ctx, v, q)
	for _, l := range found {
		out.Body.Approvals = append(out.Body.Approvals, d.approvalView(l, v))
	}
	out.Body.Next, out.Body.Version = next, versionOf(found)
	return out, err
}

// versionOf differs when a list does.
func versionOf(list []dispatch.Loaded) string {
	parts := make([][]byte, 0, len(list))
	for _, l := range list {
		parts = append(parts, []byte(question.Version(l)))
	}
	return canon.Of("placet/page/1", parts...).String()[len("sha256:"):][:24]
}

// questions finds those that the viewer sees, at most as many as the query's limit.
// With more to look through, next is where to go on.
func (d *door) questions(ctx context.Context, v viewer, q dispatch.ApprovalQuery) (found []dispatch.Loaded, next record.ApprovalID, err error) {
	for seen := 0; ; {
		page, err := d.reader.Approvals(ctx, q)
		if err != nil {
			return nil, "", err
		}
		for _, l := range page {
			seen++
			if l.Approval == nil {
				continue
			}
			q.After = l.Approval.ID
			if !v.sees(l) {
				continue
			}
			if found = append(found, l); len(found) == q.Limit {
				return found, q.After, nil
			}
		}
		switch {
		case len(page) < q.Limit:
			return found, "", nil
		case seen >= scanned:
			return found, q.After, nil
		}
	}
}

// ApprovalPath is the path of a question.
type ApprovalPath struct {
	ID string `path:"id" maxLength:"64" doc:"The question."`
}

type approvalOutput struct{ Body ApprovalView }

type showApprovalInput struct {
	ApprovalPath
	WaitQuery
}

type shownApprovalOutput struct{ Body ShownApproval }

func (d *door) showApproval(ctx context.Context, in *showApprovalInput) (*shownApprovalOutput, error) {
	v := watcher(ctx)
	l, err := d.question(ctx, v, in.ID)
	if err != nil || in.Wait == 0 {
		return d.shownApproval(ctx, v, l, err)
	}
	w, leave, err := d.listen(ctx, v, l.Call.ID)
	if err != nil {
		return nil, err
	}
	defer leave()
	was := cmp.Or(in.Version, question.Version(l))
	if l, err = d.question(ctx, v, in.ID); err != nil || question.Version(l) != was {
		return d.shownApproval(ctx, v, l, err)
	}
	v, err = d.poll(ctx, v, w, in.Wait, func(items []feed.Item) bool {
		return slices.ContainsFunc(items, func(i feed.Item) bool { return question.Version(i.Loaded) != was })
	})
	if err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	l, err = d.question(ctx, v, in.ID)
	return d.shownApproval(ctx, v, l, err)
}

func (d *door) question(ctx context.Context, v viewer, id string) (dispatch.Loaded, error) {
	if !record.ValidID("apr", id) {
		return dispatch.Loaded{}, absent("approval")
	}
	l, err := d.reader.Approval(ctx, v.tenant(), record.ApprovalID(id))
	if err != nil {
		return dispatch.Loaded{}, hidden(err, "approval")
	}
	if l.Approval == nil || !v.sees(l) {
		return dispatch.Loaded{}, absent("approval")
	}
	return l, nil
}

type replyInput struct {
	ApprovalPath
	Body struct {
		Binding string `json:"binding" pattern:"^sha256:[0-9a-f]{64}$" maxLength:"71" doc:"The binding of the question as it was shown."`
		Note    string `json:"note,omitempty" maxLength:"1000" doc:"For the record; with a rejection the agent is told."`

		Passkey *PasskeyAnswer `json:"passkey,omitempty" doc:"Where the question wants a passkey: what navigator.credentials.get said to its challenge, on a page of this server (WebAuthn Level 3 section 5.1, AuthenticationResponseJSON). A rejection needs none."`
	}
}

func (d *door) reply(ctx context.Context, in *replyInput, word record.Word) (*approvalOutput, error) {
	p := person(ctx)
	var binding canon.Digest
	if err := binding.UnmarshalText([]byte(in.Body.Binding)); err != nil || binding.IsZero() {
		return nil, invalid("body.binding", "not a binding; send the one that the question shows")
	}
	signed, err := in.Body.Passkey.message()
	if err != nil {
		return nil, err
	}
	// To who may not answer it there is no such question; the boundary says so.
	l, err := d.boundary.ReplySigned(ctx, p, record.ApprovalID(in.ID), binding, word, in.Body.Note, signed)
	if err != nil {
		return nil, hidden(err, "approval")
	}
	if l.Approval == nil {
		return nil, absent("approval")
	}
	return &approvalOutput{Body: d.approvalView(l, viewer{person: p})}, nil
}
