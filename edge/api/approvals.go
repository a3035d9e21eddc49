package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

func (d *door) registerApprovals() {
	add(d, d.operation("list-approvals", http.MethodGet, "/v1/approvals", "List questions", d.asViewer, tag("approvals"),
		describe("A caller sees those of its own calls, an approver those they may answer, a reader all of the tenant.")), d.listApprovals)
	add(d, d.operation("show-approval", http.MethodGet, "/v1/approvals/{id}", "Show a question", d.asViewer, tag("approvals")), d.showApproval)
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
}

type approvalsOutput struct {
	Body struct {
		Approvals []ApprovalView    `json:"approvals" nullable:"false" doc:"Oldest first."`
		Next      record.ApprovalID `json:"next,omitempty" doc:"Send it as after for the next page, which may be there even when this one is short."`
	}
}

// scanned bounds how many questions of others one request looks through.
const scanned = 2000

func (d *door) listApprovals(ctx context.Context, in *listApprovalsInput) (*approvalsOutput, error) {
	v := watcher(ctx)
	q := dispatch.ApprovalQuery{Tenant: v.tenant(), Owner: v.owner(), After: record.ApprovalID(in.After), Limit: in.Limit}
	if in.State != "" {
		q.States = []record.ApprovalState{record.ApprovalState(in.State)}
	}
	out := &approvalsOutput{}
	out.Body.Approvals = []ApprovalView{}
	for seen := 0; ; {
		page, err := d.reader.Approvals(ctx, q)
		if err != nil {
			return nil, err
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
			out.Body.Approvals = append(out.Body.Approvals, approvalView(l, d.now(), v))
			if len(out.Body.Approvals) == in.Limit {
				out.Body.Next = q.After
				return out, nil
			}
		}
		switch {
		case len(page) < q.Limit:
			return out, nil
		case seen >= scanned:
			out.Body.Next = q.After
			return out, nil
		}
	}
}

// ApprovalPath is the path of a question.
type ApprovalPath struct {
	ID string `path:"id" maxLength:"64" doc:"The question."`
}

type approvalOutput struct{ Body ApprovalView }

func (d *door) showApproval(ctx context.Context, in *ApprovalPath) (*approvalOutput, error) {
	l, err := d.question(ctx, watcher(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return &approvalOutput{Body: approvalView(l, d.now(), watcher(ctx))}, nil
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
	return &approvalOutput{Body: approvalView(l, d.now(), viewer{person: p})}, nil
}
