package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/placet-dev/placet/passkey"
	"github.com/placet-dev/placet/record"
)

func (d *door) registerPasskeys() {
	add(d, d.operation("revoke-passkeys", http.MethodPost, "/v1/passkeys/revoke", "Remove all passkeys of a person", d.asOperator, tag("operate"),
		describe("Needs the permission operate. For whoever has lost theirs: they add new ones in the console after a fresh sign-in. What the removed ones signed, and has not run, counts no longer.")), d.revokePasskeys)
	add(d, d.operation("approval-evidence", http.MethodGet, "/v1/approvals/{id}/evidence", "Evidence of a signed approval", d.asViewer, tag("approvals"),
		describe("What proves who approved a call, where passkeys are demanded: verified with placet approvals verify, from this alone. For approvers and readers.")), d.approvalEvidence)
}

type evidenceOutput struct{ Body passkey.Evidence }

func (d *door) approvalEvidence(ctx context.Context, in *ApprovalPath) (*evidenceOutput, error) {
	v := watcher(ctx)
	if v.caller.Valid() {
		return nil, absent("approval") // who decides is not the agent's to know
	}
	l, err := d.question(ctx, v, in.ID)
	switch {
	case err != nil:
		return nil, err
	case d.evidence == nil || !l.Approval.Rule.Passkey:
		return nil, record.Errorf(record.Invalid, "the rule of this question does not demand passkeys, so that there is no such evidence")
	case l.Call.Approval != l.Approval.ID:
		return nil, record.Errorf(record.Conflict, "another question took the place of this one")
	case l.Call.Redacted != nil:
		return nil, record.Errorf(record.Conflict, "the call was redacted on %s: what its binding is of is not kept any more. The log still shows who answered, with which passkey and for which binding", l.Call.Redacted.At.UTC().Format(time.RFC3339))
	}
	return &evidenceOutput{Body: d.evidence(l.Call, *l.Approval)}, nil
}

// PasskeyAnswer is AuthenticationResponseJSON (WebAuthn Level 3 section 5.1), as far
// as it counts.
type PasskeyAnswer struct {
	ID       string `json:"id" maxLength:"1400"`
	RawID    string `json:"rawId" maxLength:"1400"`
	Type     string `json:"type" enum:"public-key"`
	Response struct {
		Client        string `json:"clientDataJSON" maxLength:"22000"`
		Authenticator string `json:"authenticatorData" maxLength:"22000"`
		Signature     string `json:"signature" maxLength:"11000"`
		User          string `json:"userHandle,omitempty" maxLength:"200" doc:"Not used: whose passkey it is, its enrolment says."`
	} `json:"response"`
	Attachment string         `json:"authenticatorAttachment,omitempty" maxLength:"100" doc:"Not used."`
	Extensions map[string]any `json:"clientExtensionResults,omitempty" doc:"Not used: none are asked for."`
}

func (a *PasskeyAnswer) message() ([]byte, error) {
	if a == nil {
		return nil, nil
	}
	return json.Marshal(a)
}

type revokePasskeysInput struct {
	Body struct {
		Issuer  string `json:"issuer" minLength:"1" maxLength:"1000" doc:"The person's issuer."`
		Subject string `json:"subject" minLength:"1" maxLength:"1000" doc:"The person's subject there."`
	}
}

type revokePasskeysOutput struct {
	Body struct {
		Removed int `json:"removed" doc:"How many there were."`
	}
}

func (d *door) revokePasskeys(ctx context.Context, in *revokePasskeysInput) (*revokePasskeysOutput, error) {
	n, err := d.boundary.RevokePasskeys(ctx, operator(ctx), record.Principal{Issuer: in.Body.Issuer, Subject: in.Body.Subject})
	if err != nil {
		return nil, err
	}
	out := &revokePasskeysOutput{}
	out.Body.Removed = n
	return out, nil
}
