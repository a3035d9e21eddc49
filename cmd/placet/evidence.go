package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/placet-dev/placet/passkey"
	"github.com/placet-dev/placet/record"
)

type approvalsEvidence struct{ approvalFlags }

// Run prints the evidence as JSON, to be kept and verified elsewhere.
func (c approvalsEvidence) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	path, err := id("apr", c.ID)
	if err != nil {
		return err
	}
	var e json.RawMessage
	if err := client.ask(ctx, http.MethodGet, "/v1/approvals/"+path+"/evidence", nil, nil, &e); err != nil {
		return err
	}
	_, err = p.stdout.Write(append(e, '\n'))
	return err
}

type approvalsVerify struct {
	File string `arg:"" help:"What placet approvals evidence printed; - for standard input."`
	Key  string `placeholder:"sha256:…" help:"The fingerprint of the server's sealing key, as you know it from before."`
	Site string `placeholder:"URL" help:"The server's public_url, as you know it."`
}

// Run verifies from the file alone: it speaks to nobody and needs no credential.
func (c approvalsVerify) Run(p *program) error {
	in := p.stdin
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return record.Because(record.Invalid, err, "the file cannot be read")
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, 16<<20))
	if err != nil {
		return record.Because(record.Invalid, err, "the file cannot be read")
	}
	e, err := passkey.ReadEvidence(text)
	if err != nil {
		return err
	}
	if have := passkey.Fingerprint(e.Key); c.Key != "" && c.Key != have {
		return no("not verified: it is sealed by another key, %s", have)
	}
	if c.Site != "" {
		want, err := passkey.SiteOf(trimURL(c.Site))
		if err != nil {
			return err
		}
		if e.Site != want {
			return no("not verified: it was signed at %s", safe(e.Site.Origin))
		}
	}
	answers, err := e.Verify()
	if err != nil {
		return no("not verified: %s", safe(err.Error()))
	}
	return p.out(verifiedOf(e, answers), func() {
		p.say("Verified: %s", safe(string(e.Approval)))
		p.field("tool", e.Of.Tool.Name)
		p.field("arguments", string(e.Of.Arguments))
		p.field("for", e.Of.Principal.String()+", by "+string(e.Of.Agent))
		for _, a := range answers {
			p.field("approved", a.Person.String()+" at "+a.At.Format(time.RFC3339)+", with the passkey "+quoted(a.Proof.Passkey.Name)+" of "+a.Proof.Passkey.Added.Format(time.RFC3339))
		}
		p.field("signed at", e.Site.Origin)
		p.field("binding", e.Binding.String())
		p.field("sealed by", passkey.Fingerprint(e.Key))
		if c.Key == "" {
			p.say("The key is the file's own: compare it with what you know of the server, or give --key.")
		}
	})
}

// verified is the same for programs.
type verified struct {
	Approval record.ApprovalID `json:"approval"`
	Call     record.CallID     `json:"call"`
	Binding  string            `json:"binding"`
	Key      string            `json:"key"`
	Origin   string            `json:"origin"`
	Approved []signer          `json:"approved"`
}

type signer struct {
	Person  record.Principal `json:"person"`
	At      time.Time        `json:"at"`
	Passkey string           `json:"passkey"`
}

func verifiedOf(e passkey.Evidence, answers []record.Reply) verified {
	v := verified{e.Approval, e.Of.Call, e.Binding.String(), passkey.Fingerprint(e.Key), e.Site.Origin, nil}
	for _, a := range answers {
		v.Approved = append(v.Approved, signer{a.Person, a.At, a.Proof.Passkey.Name})
	}
	return v
}
