package placet

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/edge/llm"
	"github.com/placet-dev/placet/edge/oauth"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// providers reads the keys of the model providers.
func (o Options) providers() ([]llm.Provider, error) {
	var out []llm.Provider
	for _, e := range o.Config.Providers {
		c := e.Value
		p := llm.Provider{Name: e.Key, API: llm.API(c.API), URL: c.URL, History: llm.Mode(c.History), Admit: c.Admit, Objects: c.Objects, Members: c.Members,
			Prefix: c.Prefix, Timeout: c.Timeout}
		if !c.Key.IsZero() {
			key, err := c.Key.Read(o.LookupEnv, o.ReadFile)
			if err != nil {
				return nil, record.Errorf(record.Invalid, "%s: providers.%s.key: %w", e.Place, e.Key, err)
			}
			p.Key = key
		}
		out = append(out, p)
	}
	return out, nil
}

// mountProviders opens the door to the providers, if there are any.
func (p *Placet) mountProviders(mux *http.ServeMux, resource *oauth.Resource) error {
	providers, err := p.o.providers()
	if err != nil || len(providers) == 0 {
		return err
	}
	door, err := llm.New(llm.Options{Boundary: p.boundary, Verifier: p.verifier, Ingress: p.ingress, OAuth: resource, Providers: providers,
		Log: p.o.Log, Version: p.o.Version, Checked: p.metrics.History})
	if err != nil {
		return err
	}
	mux.Handle("/llm/", door)
	return nil
}

// checkProviders refuses a registry of whose tools a model would see two under one
// name (rule G3).
func (p *Placet) checkProviders(snapshot *registry.Snapshot) error {
	_, err := llm.Aliases(toolNames(snapshot))
	return err
}

func toolNames(snapshot *registry.Snapshot) []string {
	var out []string
	for t := range snapshot.Tools() {
		out = append(out, t.Name)
	}
	return out
}

// dottedNames warns of names that providers refuse, and says what models see instead.
func (c *Checked) dottedNames() {
	aliases, err := llm.Aliases(toolNames(c.active.Registry))
	if err != nil {
		c.warn(c.placet.o.Config.File(), "tools", record.PublicMessage(err))
		return
	}
	for t := range c.active.Registry.Tools() {
		if alias := aliases[t.Name]; alias != "" {
			c.warn(t.Place, "tools."+t.Name, fmt.Sprintf("has a dot in its name, which model providers refuse: at /llm a model calls it %s", alias))
		}
	}
}

// describeProviders is what the configuration says of the providers, without a
// secret, so that a change of it is a new version of what decides.
func describeProviders(list config.Providers) []byte {
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintf(&b, "%s %+v\n", e.Key, e.Value)
	}
	return []byte(b.String())
}

// providerOverrides are what weakens the defaults of the door to the providers (rule H7).
func providerOverrides(c *config.Config) []registry.Override {
	var out []registry.Override
	for _, e := range c.Providers {
		if e.Value.History != "refuse" {
			out = append(out, registry.Override{Setting: "history", Subject: "provider " + e.Key,
				Detail: string(e.Value.History) + ": histories of which something could only be forged are passed on", Place: string(e.Place)})
		}
		for _, tool := range e.Value.Admit {
			out = append(out, registry.Override{Setting: "admit", Subject: "provider " + e.Key, Detail: "it may run " + tool + " itself, past this server", Place: string(e.Place)})
		}
	}
	return out
}
