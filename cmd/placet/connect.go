package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/placet-dev/placet/connect"
	"github.com/placet-dev/placet/record"
)

// connectCommand carries MCP between standard input and output and a server.
type connectCommand struct {
	URL            string   `arg:"" placeholder:"URL" help:"The server's MCP address, such as https://tools.example.com/mcp."`
	Login          bool     `xor:"what" help:"Only sign in, and store that for later."`
	Logout         bool     `xor:"what" help:"Sign out: revoke and remove what is stored for this server."`
	NoBrowser      bool     `help:"Print the sign-in's address on standard error and open no browser."`
	ClientID       string   `name:"client-id" placeholder:"ID" help:"The client that the issuer's operator registered (its secret, if it has one: PLACET_CLIENT_SECRET)."`
	ClientMetadata string   `name:"client-metadata" placeholder:"URL" help:"A client ID metadata document, for issuers that take one."`
	CallbackPort   int      `placeholder:"PORT" help:"Port of 127.0.0.1 that the browser comes back to (default: a free one)."`
	Scopes         []string `placeholder:"SCOPE,…" help:"Scopes to ask for beside those the server names."`
	TokenFile      string   `placeholder:"FILE" help:"Sign nobody in: send the token in FILE, or PLACET_TOKEN."`
	Folder         string   `placeholder:"DIR" help:"Where sign-ins are stored (default: placet/connect in your configuration folder)."`
}

func (c connectCommand) Run(ctx context.Context, p *program) error {
	o := connect.Options{Server: c.URL, ClientID: c.ClientID, ClientMetadata: c.ClientMetadata, CallbackPort: c.CallbackPort,
		Scopes: c.Scopes, Folder: c.Folder, Open: c.browser(p), Token: c.token(p),
		// Standard output is the protocol.
		Log: slog.New(slog.NewTextHandler(p.stderr, nil))}
	o.ClientSecret, _ = p.env("PLACET_CLIENT_SECRET")
	if o.Folder == "" {
		home, err := os.UserConfigDir()
		if err != nil {
			return record.Because(record.Unavailable, err, "there is no folder for your configuration; name one with --folder")
		}
		o.Folder = filepath.Join(home, "placet", "connect")
	}
	bridge, err := connect.New(o)
	if err != nil {
		return err
	}
	switch {
	case c.Logout:
		n, err := bridge.Logout(ctx)
		fmt.Fprintf(p.stderr, "sign-ins removed: %d\n", n)
		return err
	case c.Login:
		if err := bridge.Login(ctx); err != nil {
			return err
		}
		fmt.Fprintf(p.stderr, "signed in; stored in %s\n", safe(o.Folder))
		return nil
	}
	return bridge.Serve(ctx, p.stdin, p.stdout)
}

// browser shows the user the sign-in page.
func (c connectCommand) browser(p *program) func(context.Context, string) error {
	ask := func(_ context.Context, url string) error {
		_, err := fmt.Fprintf(p.stderr, "To sign in, open this address in a browser on this machine:\n%s\n", safe(url))
		return err
	}
	if c.NoBrowser {
		return ask
	}
	return func(ctx context.Context, url string) error {
		if connect.Browser(ctx, url) != nil {
			return ask(ctx, url)
		}
		return nil
	}
}

// token gives what something else obtained; nil if there is nothing such.
func (c connectCommand) token(p *program) func() (string, error) {
	if c.TokenFile != "" {
		return func() (string, error) { // each time: whoever writes it renews it
			text, err := os.ReadFile(c.TokenFile)
			return strings.TrimSpace(string(text)), err
		}
	}
	if t, ok := p.env("PLACET_TOKEN"); ok && t != "" {
		return func() (string, error) { return t, nil }
	}
	return nil
}
