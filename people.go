package placet

import (
	"net/http"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/edge/console"
	"github.com/placet-dev/placet/record"
)

// mountConsole registers the pages for people.
func (p *Placet) mountConsole(mux *http.ServeMux) error {
	login, err := p.login()
	if err != nil {
		return err
	}
	sessions, err := p.secret.key("sessions")
	if err != nil {
		return err
	}
	c, err := console.New(console.Options{
		Boundary: p.boundary, Reader: p.store, Verifier: p.verifier, PublicURL: p.o.Config.PublicURL, Login: login,
		Log: p.o.Log, Clock: p.o.Clock, Random: p.o.Random, HTTP: p.o.HTTP, Sessions: p.kept(), SessionKey: sessions,
	})
	if err != nil {
		return err
	}
	c.Mount(mux)
	return nil
}

// login is where people sign in: at the configured issuer, or at the development
// issuer if that has people. nil: nowhere.
func (p *Placet) login() (*console.Login, error) {
	if p.issuer != nil {
		id, secret := p.issuer.Console()
		return &console.Login{Issuer: p.issuer.URL(), ClientID: id, ClientSecret: secret, Ask: string(config.AskResource)}, nil
	}
	c := p.o.Config.Console
	if c == nil {
		return nil, nil
	}
	login := &console.Login{Issuer: c.Issuer, ClientID: c.ClientID, Scopes: c.Scopes}
	if c.Ask != config.AskNone {
		login.Ask = string(c.Ask)
	}
	if !c.ClientSecret.IsZero() {
		var err error
		if login.ClientSecret, err = c.ClientSecret.Read(p.o.LookupEnv, p.o.ReadFile); err != nil {
			return nil, record.Errorf(record.Invalid, "console.client_secret: %w", err)
		}
	}
	return login, nil
}
