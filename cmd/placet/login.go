package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/placet-dev/placet/connect"
	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/record"
)

// loginCommand signs a person in to answer and, with that permission, to operate.
type loginCommand struct {
	URL          string `arg:"" placeholder:"URL" help:"The server, such as https://tools.example.com."`
	NoBrowser    bool   `help:"Print the sign-in's address and open no browser."`
	ClientID     string `name:"client-id" placeholder:"ID" help:"The client for terminals (default: as the server says)."`
	CallbackPort int    `placeholder:"PORT" help:"Port of 127.0.0.1 that the browser comes back to (default: a free one)."`
	Folder       string `placeholder:"DIR" help:"Where sign-ins are stored (default: placet/login in your configuration folder)."`
}

func (c loginCommand) Run(ctx context.Context, p *program) error {
	folder, err := loginFolder(c.Folder)
	if err != nil {
		return err
	}
	account, err := connect.NewAccount(connect.Options{Server: c.URL, ClientID: c.ClientID, CallbackPort: c.CallbackPort, Folder: folder,
		Open: connectCommand{NoBrowser: c.NoBrowser}.browser(p)})
	if err != nil {
		return err
	}
	if err := account.Login(ctx); err != nil {
		return err
	}
	token, err := account.Token(ctx)
	if err != nil {
		return err
	}
	// What was stored is tried: a sign-in that the server refuses is none.
	client := &client{base: trimURL(c.URL), token: token, http: newHTTP()}
	var me api.Me
	if err := client.ask(ctx, http.MethodGet, "/v1/me", nil, nil, &me); err != nil {
		_, removed := account.Logout(ctx)
		return errors.Join(err, removed)
	}
	return p.out(me, func() {
		who := me.Name
		if me.Principal != nil {
			who = me.Principal.String()
		}
		p.say("signed in at %s as %s, tenant %s", safe(client.base), safe(who), safe(string(me.Tenant)))
		if me.Expires != nil {
			p.say("until %s, or longer where the issuer renews it", shortTime(*me.Expires))
		}
	})
}

type logoutCommand struct {
	URL    string `arg:"" optional:"" placeholder:"URL" help:"The server (default: all that you signed in at)."`
	Folder string `placeholder:"DIR" help:"Where sign-ins are stored (default: placet/login in your configuration folder)."`
}

func (c logoutCommand) Run(ctx context.Context, p *program) error {
	folder, err := loginFolder(c.Folder)
	if err != nil {
		return err
	}
	servers := []string{c.URL}
	if c.URL == "" {
		if servers, err = connect.SignedIn(folder); err != nil {
			return err
		}
	}
	removed := 0
	var untold error
	for _, server := range servers {
		account, err := connect.NewAccount(connect.Options{Server: server, Folder: folder})
		if err != nil {
			return err
		}
		n, err := account.Logout(ctx)
		removed, untold = removed+n, errors.Join(untold, err)
	}
	p.say("sign-ins removed: %d", removed)
	return untold
}

func loginFolder(named string) (string, error) {
	if named != "" {
		return named, nil
	}
	home, err := os.UserConfigDir()
	if err != nil {
		return "", record.Because(record.Unavailable, err, "there is no folder for your configuration; name one with --folder")
	}
	return filepath.Join(home, "placet", "login"), nil
}

// server is which one is meant where none is named: that of the configuration, or
// where there is none the one that was signed in at last.
func (f serverFlags) server() (string, error) {
	if f.Server != "" {
		return trimURL(f.Server), nil
	}
	if _, err := os.Stat(f.Config); errors.Is(err, fs.ErrNotExist) && f.Config == "placet.yaml" {
		if folder, err := loginFolder(f.Folder); err == nil {
			if servers, err := connect.SignedIn(folder); err == nil && len(servers) > 0 {
				return servers[0], nil
			}
		}
	}
	cfg, err := f.load()
	if err != nil {
		return "", fmt.Errorf("%w. Or name a server with --server", err)
	}
	return cfg.PublicURL, nil
}

// login is the token of whoever signed in at a server; empty where nobody did.
func (f serverFlags) login(ctx context.Context, base string) (string, error) {
	folder, err := loginFolder(f.Folder)
	if err != nil {
		return "", nil // no folder, no sign-in
	}
	account, err := connect.NewAccount(connect.Options{Server: base, Folder: folder})
	if err != nil {
		return "", err
	}
	return account.Token(ctx)
}

// nobody says how to become somebody.
func nobody(base string) error {
	text := "no credential for %s. A person signs in: placet login %s. A program sets PLACET_TOKEN or PLACET_WORKLOAD_KEY, or uses --token"
	if strings.HasPrefix(base, "http://") {
		text += "; for a development server: placet dev token --user NAME"
	}
	return record.Errorf(record.Unauthenticated, text, base, base)
}
