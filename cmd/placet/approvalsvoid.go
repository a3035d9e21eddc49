package main

import (
	"context"
	"net/http"
	"strings"

	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/record"
)

type approvalsVoid struct {
	serverFlags
	Person string `required:"" placeholder:"SUBJECT@ISSUER" help:"One of the person's logins."`
	Reason string `required:"" help:"Why; for the record."`
}

// Run voids what a person answered. An issuer holds no @, so the last one parts them.
func (c approvalsVoid) Run(ctx context.Context, p *program) error {
	at := strings.LastIndex(c.Person, "@")
	if at <= 0 || at == len(c.Person)-1 {
		return record.Errorf(record.Invalid, "--person wants SUBJECT@ISSUER, such as lena@https://login.example.com")
	}
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	body := map[string]string{"subject": c.Person[:at], "issuer": c.Person[at+1:], "reason": c.Reason}
	var done api.Voided
	if err := client.ask(ctx, http.MethodPost, "/v1/approvals/void", nil, body, &done); err != nil {
		return err
	}
	return p.out(done, func() { p.say("%d questions are asked anew", done.Voided) })
}
