package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/placet-dev/placet/yamlfile"
)

// Providers are model providers, by the name under which /llm/NAME passes on to them.
type Providers = yamlfile.Entries[Provider]

// Provider is one of them.
type Provider struct {
	API     ProviderAPI        `yaml:"api,required" doc:"The protocol that is spoken there."`
	URL     string             `yaml:"url,required" doc:"What the provider's own clients call its base URL, such as https://api.openai.com/v1, https://api.anthropic.com or https://generativelanguage.googleapis.com. Plain HTTP on loopback only."`
	Key     yamlfile.SecretRef `yaml:"key" doc:"Reference to this server's key there, env:NAME or file:PATH. No caller ever has it. Needed beyond loopback."`
	History HistoryMode        `yaml:"history" default:"refuse" doc:"What is done with a request in whose history something could only be forged: refuse it; annotate: pass it on and say so in the answer's headers; observe: only record. Calls of such an answer are no proposals."`
	Admit   []string           `yaml:"admit" doc:"Tools that the provider may run itself, as its protocol names them without a date, such as web_search; mcp:URL for an MCP server that it calls. They label what follows as untrusted."`
	Objects []string           `yaml:"objects" doc:"Objects at the provider that every run may name, such as a file or a vector store of yours. Others belong to the run that made them."`
	Members []string           `yaml:"members" doc:"Members of requests that are passed on beyond those that are known. Say only what makes the provider run nothing."`
	Prefix  []string           `yaml:"prefix" doc:"What clients put before the tools' names, such as mcp__placet__."`
	Timeout time.Duration      `yaml:"timeout" default:"10m" doc:"How long the provider may take to begin its answer."`
}

// ProviderAPI is a protocol.
type ProviderAPI string

func (ProviderAPI) Choices() []string { return []string{"openai", "anthropic", "gemini"} }

// HistoryMode says what is done about findings in histories.
type HistoryMode string

func (HistoryMode) Choices() []string { return []string{"refuse", "annotate", "observe"} }

// Check is the rules of a provider.
func (p *Provider) Check(fail func(key, message string)) {
	u, err := url.Parse(p.URL)
	switch problem := endpointProblem(p.URL); {
	case problem != "":
		fail("url", problem)
	case err != nil || u.RawQuery != "":
		fail("url", "wants a URL without a query; a key goes into key")
	case p.Key.IsZero() && !loopbackHost(u.Hostname()):
		fail("key", "is needed beyond this machine: a reference, env:NAME or file:PATH")
	}
	if p.Timeout < time.Second || p.Timeout > time.Hour {
		fail("timeout", "must be between 1s and 1h")
	}
	for key, list := range map[string][]string{"admit": p.Admit, "objects": p.Objects, "members": p.Members, "prefix": p.Prefix} {
		if slices.Contains(list, "") {
			fail(key, "has an empty entry")
		}
	}
}

// checkProviders is what ties providers to this server.
func (c *Config) checkProviders(fail func(key, message string)) {
	for _, p := range c.Providers {
		if !layerName.MatchString(p.Key) {
			fail("providers", "a name is lower-case letters, digits and _ . -, and starts with a letter")
		}
		if u, err := url.Parse(p.Value.URL); err == nil && (u.Host == c.Listen || c.PublicURL != "" && strings.HasPrefix(p.Value.URL, strings.TrimSuffix(c.PublicURL, "/")+"/")) {
			fail("providers", fmt.Sprintf("%s: %s is this server itself", p.Place, p.Key))
		}
	}
}
