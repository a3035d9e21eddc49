package placet

import (
	"slices"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/edge/oauth"
)

// terminalLogin is where people sign in from a terminal: at the console's issuer, as
// a client of its own. nil: nowhere.
func (p *Placet) terminalLogin() *oauth.Login {
	l := &oauth.Login{Resource: p.o.Config.ConsoleAudience()}
	if p.issuer != nil {
		l.Issuer, l.Client, l.Ask, l.Scopes = p.issuer.URL(), p.issuer.Terminal(), string(config.AskResource), []string{"openid"}
		return l
	}
	c := p.o.Config.Console
	if c == nil {
		return nil
	}
	l.Issuer, l.Client, l.Ask, l.Scopes = c.Issuer, c.TerminalClient, string(c.Ask), slices.Clone(c.Scopes)
	if !slices.Contains(l.Scopes, "openid") {
		l.Scopes = append([]string{"openid"}, l.Scopes...)
	}
	return l
}
