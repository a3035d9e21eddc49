package main

import (
	"context"
	"net/http"
)

type passkeysCommand struct {
	Revoke passkeysRevoke `cmd:"" help:"Remove all passkeys of a person, who can then add new ones."`
}

type passkeysRevoke struct {
	serverFlags
	Subject string `arg:"" help:"The person's subject."`
	Issuer  string `required:"" placeholder:"URL" help:"The person's issuer."`
}

func (c passkeysRevoke) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	var done struct {
		Removed int `json:"removed"`
	}
	body := map[string]string{"issuer": c.Issuer, "subject": c.Subject}
	if err := client.ask(ctx, http.MethodPost, "/v1/passkeys/revoke", nil, body, &done); err != nil {
		return err
	}
	return p.out(done, func() { p.say("Removed: %d", done.Removed) })
}
