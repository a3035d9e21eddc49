package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/issuer"
	"github.com/placet-dev/placet/record"
)

type devCommand struct {
	Serve devServe `cmd:"" default:"withargs" help:"Run the server (the default; see placet dev serve --help)."`
	Token devToken `cmd:"" help:"Print a token of the development issuer."`
}

type devServe struct {
	configFlag
	Tenants []string `default:"dev" help:"Tenants that tokens may name, beside those of the users (default: dev)."`
	Users   string   `placeholder:"FILE" help:"Who may sign in, through which clients and for what (default: anna, lena and otto)."`
}

func (c devServe) Run(ctx context.Context, p *program) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	if len(cfg.Issuers) > 0 {
		return record.Errorf(record.Invalid, "%s has issuers, and the development issuer stands beside no other: whoever reads its key is anybody. Use placet serve, or a configuration without issuers", cfg.File())
	}
	o := p.options(cfg)
	if o.Local, err = localIssuer(cfg); err != nil {
		return err
	}
	o.Tenants = c.Tenants
	o.Users = issuer.Users(issuer.Cast())
	if c.Users != "" {
		o.Users = issuer.File(c.Users)
	}
	// The OpenID library logs to the process's logger, each route and each refusal.
	slog.SetDefault(slog.New(slog.NewJSONHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	return p.serve(ctx, cfg, o)
}

type devToken struct {
	configFlag
	Server   string        `placeholder:"URL" help:"Where the server answers (default: as the configuration says)."`
	User     string        `required:"" placeholder:"NAME" help:"Who the user is."`
	Tenant   string        `default:"dev" help:"The user's tenant (default: dev)."`
	Agent    string        `default:"dev-agent" help:"The agent that acts for the user (default: dev-agent)."`
	Scopes   []string      `placeholder:"SCOPE,…" help:"Scopes of the user."`
	Groups   []string      `placeholder:"GROUP,…" help:"Groups of the user."`
	TTL      time.Duration `name:"ttl" default:"1h" help:"How long the token lasts (default: 1h)."`
	Approver bool          `help:"A token for answering and operating, not for proposing."`
}

// tokenView is a token as it is printed.
type tokenView struct {
	Token    string    `json:"token"`
	Audience string    `json:"audience"`
	Expires  time.Time `json:"expires_at"`
}

func (c devToken) Run(p *program) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	if len(cfg.Issuers) > 0 {
		return record.Errorf(record.Invalid, "%s has issuers of its own; ask one of them for a token", cfg.File())
	}
	if c.Server != "" {
		cfg.PublicURL = trimURL(c.Server)
	}
	issuer, err := localIssuer(cfg)
	if err != nil {
		return err
	}
	spec := identity.TokenSpec{Audience: cfg.Audience(), Subject: c.User, Tenant: c.Tenant, Agent: c.Agent, Scopes: c.Scopes, Groups: c.Groups, TTL: c.TTL}
	if c.Approver {
		// A person's token names no agent: nobody acts for whoever answers.
		spec.Audience, spec.Agent = cfg.ConsoleAudience(), ""
	}
	token, err := issuer.Sign(spec)
	if err != nil {
		return err
	}
	v := tokenView{token, spec.Audience, time.Now().Add(c.TTL).UTC().Truncate(time.Second)}
	return p.out(v, func() { p.say("%s", v.Token) })
}
