package placet

import (
	"net"
	"net/url"
	"strings"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/yamlfile"
)

// world is what guards may look at, and what of Placet itself no tool may reach
// (rule K2).
func (o Options) world() guard.World {
	listeners := []string{o.Config.Listen}
	if u, err := url.Parse(o.Config.PublicURL); err == nil && u.Host != "" {
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		listeners = append(listeners, net.JoinHostPort(u.Hostname(), port))
	}
	if metrics := o.Config.Telemetry.Metrics; metrics != "" {
		listeners = append(listeners, metrics)
	}
	return guard.World{Resolver: o.Resolver, Files: o.ownFiles(), Listeners: listeners}
}

// ownFiles are the files that this server is made of: what decides, what it
// records, and its keys.
func (o Options) ownFiles() []string {
	c := o.Config
	store := c.StorePath()
	own := []string{c.File(), store, store + "-wal", store + "-shm", store + ".lock", store + ".dispatch-keys", store + ".delegation-key", store + ".passkey-key"}
	for _, file := range c.Registry {
		own = append(own, file, strings.TrimSuffix(file, ".yaml")+".lock")
	}
	for _, l := range c.Policy.Layers {
		own = append(own, l.Files...)
	}
	if c.TLS != nil {
		own = append(own, c.TLS.Certificate, c.TLS.Key)
	}
	for _, i := range c.Issuers {
		if i.Keys != "" && !strings.Contains(i.Keys, "://") {
			own = append(own, i.Keys)
		}
	}
	for _, a := range c.Trust {
		own = append(own, a.Value.CA, a.Value.Bundle)
	}
	own = append(own, secretFiles(c)...)
	var out []string
	for _, file := range own {
		if file != "" {
			out = append(out, file)
		}
	}
	return out
}

// secretFiles are the files that the configuration's secrets stand in.
func secretFiles(c *config.Config) []string {
	var refs []yamlfile.SecretRef
	for _, w := range c.Workloads {
		refs = append(refs, w.Value.Key)
	}
	for _, p := range c.Credentials {
		refs = append(refs, p.Value.Value, p.Value.ClientSecret, p.Value.PrivateKey)
	}
	for _, d := range c.Points {
		refs = append(refs, d.Token)
	}
	for _, p := range c.Providers {
		refs = append(refs, p.Value.Key)
	}
	if c.Console != nil {
		refs = append(refs, c.Console.ClientSecret)
	}
	for _, r := range c.Approvals.Notify {
		refs = append(refs, r.Slack, r.Secret)
	}
	refs = append(refs, c.Alerts.Slack, c.Alerts.Secret)
	var out []string
	for _, r := range refs {
		out = append(out, r.File())
	}
	return out
}
