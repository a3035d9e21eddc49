package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/placet-dev/placet/yamlfile"
)

// Load reads placet.yaml. The error is yamlfile.Problems when the file is at
// fault: everything that is wrong with it.
func Load(path string) (*Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find the configuration's folder: %w", err)
	}
	return Parse(path, filepath.Dir(absolute), text)
}

// Parse is Load for a text that is already read. Relative paths in it mean paths
// in folder.
func Parse(name, folder string, text []byte) (*Config, error) {
	c := &Config{file: name, folder: folder}
	ps := yamlfile.Decode(filepath.Base(name), text, c)
	if len(ps) > 0 {
		return nil, ps
	}
	c.resolve()
	return c, nil
}

// resolve makes paths absolute and fills what depends on other keys.
func (c *Config) resolve() {
	if c.PublicURL == "" {
		scheme := "http://"
		if c.TLS != nil {
			scheme = "https://"
		}
		c.PublicURL = scheme + c.Listen
	}
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	c.resolveStore()
	for i := range c.Registry {
		c.Registry[i] = c.path(c.Registry[i])
	}
	for i := range c.Policy.Layers {
		files := c.Policy.Layers[i].Files
		for j := range files {
			files[j] = c.path(files[j])
		}
	}
	if c.TLS != nil {
		c.TLS.Certificate, c.TLS.Key = c.path(c.TLS.Certificate), c.path(c.TLS.Key)
	}
	for i := range c.Issuers {
		issuer := &c.Issuers[i]
		if issuer.Audience == nil {
			issuer.Audience = yamlfile.Strings{c.Audience()}
		}
		if issuer.Keys != "" && !isURL(issuer.Keys) {
			issuer.Keys = c.path(issuer.Keys)
		}
	}
	c.Secret = c.Secret.In(c.folder)
	if c.Console != nil {
		c.Console.ClientSecret = c.Console.ClientSecret.In(c.folder)
	}
	for i := range c.Approvals.Notify {
		c.Approvals.Notify[i].Address.in(c.folder)
	}
	c.Alerts.Address.in(c.folder)
	for i := range c.Points {
		c.Points[i].Token = c.Points[i].Token.In(c.folder)
	}
	for i := range c.Trust {
		a := &c.Trust[i].Value
		for _, file := range []*string{&a.CA, &a.Bundle} {
			if *file != "" {
				*file = c.path(*file)
			}
		}
	}
	for i := range c.Workloads {
		c.Workloads[i].Value.Key = c.Workloads[i].Value.Key.In(c.folder)
	}
	for i := range c.Providers {
		c.Providers[i].Value.Key = c.Providers[i].Value.Key.In(c.folder)
	}
	c.resolveCredentials()
}

func (c *Config) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(c.folder, p)
}

func isURL(s string) bool {
	return strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://")
}

func cutClaim(tenant string) (string, bool) { return strings.CutPrefix(tenant, "claims.") }
