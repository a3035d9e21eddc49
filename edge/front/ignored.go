package front

import (
	"log/slog"
	"net/http"
	"net/textproto"
	"strings"
	"sync"
)

// named are headers by which proxies and platforms tell servers behind them who is
// calling. Whoever can reach this server can write them.
var named = set(
	"X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Groups", "X-Forwarded-Preferred-Username", "X-Forwarded-Access-Token",
	"X-Forwarded-Client-Cert", "X-Forwarded-Tls-Client-Cert", "X-Forwarded-Tls-Client-Cert-Info", "Forwarded",
	"X-Remote-User", "X-Remote-Group", "Remote-User", "Remote-Groups", "Remote-Email", "Remote-Name",
	"X-User", "X-User-Id", "X-User-Email", "X-Username", "X-Userinfo", "X-Email", "X-Groups", "X-Roles", "X-Scopes",
	"X-Authenticated-User", "X-Authenticated-Userid", "X-Authenticated-Scope", "X-Webauth-User", "X-Consumer-Username", "X-Consumer-Id", "X-Credential-Identifier",
	"X-Tenant", "X-Tenant-Id", "X-Org-Id", "X-Scope-Orgid", "X-Account-Id", "X-Principal", "X-Subject", "X-Actor", "X-Agent", "X-Agent-Id", "X-On-Behalf-Of",
	"Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "X-Impersonate-User",
	"X-Client-Cert", "X-Client-Dn", "X-Client-Verify", "Client-Cert", "Client-Cert-Chain", "X-Client-Certificate", "X-Arr-Clientcert", "X-Spiffe-Id",
	"X-Authorization", "X-Access-Token", "X-Id-Token", "X-Jwt", "X-Jwt-Payload", "X-Jwt-Assertion", "X-Auth-Token", "X-Api-Key", "Proxy-Authorization",
	"X-Endpoint-Api-Userinfo", "X-Apigateway-Api-Userinfo", "Cf-Access-Jwt-Assertion", "Cf-Access-Authenticated-User-Email", "Tailscale-User-Login", "Tailscale-User-Name",
	"Placet-Principal", "Placet-User", "Placet-Tenant", "Placet-Agent", "Placet-Run",
)

// families are the same, by how their names begin.
var families = []string{"X-Auth-Request-", "X-Amzn-Oidc-", "X-Amzn-Mtls-", "X-Goog-", "X-Ms-", "X-Ssl-", "Ssl-", "X-Authentik-", "X-Pomerium-", "X-Jwt-Claim-"}

// misspelt are the headers that count, in the spelling with underscores that some
// servers take for the same name. Here it is another name, and counts for nothing.
var misspelt = set("Placet-Workload", "Dpop")

// ofModels are headers of the above that the door to model providers reads: its
// clients put their token and their run there.
var ofModels = set("X-Api-Key", "X-Goog-Api-Key", "X-Goog-Api-Client", "Placet-Run")

func set(names ...string) map[string]bool {
	out := map[string]bool{}
	for _, name := range names {
		out[name] = true
	}
	return out
}

// Ignored counts what was sent, looked like identity and was ignored. An operator
// reads it in the log: the first time of each kind, then the tenth, the hundredth
// and so on.
type Ignored struct {
	log *slog.Logger

	mu     sync.Mutex
	counts map[string]int64
}

// NewIgnored makes an empty one.
func NewIgnored(log *slog.Logger) *Ignored {
	return &Ignored{log: log, counts: map[string]int64{}}
}

// Note counts one more. what is a name of ours, never one that a caller wrote.
func (i *Ignored) Note(what string) {
	i.mu.Lock()
	i.counts[what]++
	n := i.counts[what]
	i.mu.Unlock()
	if powerOfTen(n) {
		i.log.Warn("ignored: it looks like identity, and only a verified token or key is", "what", what, "times", n)
	}
}

func powerOfTen(n int64) bool {
	for n >= 10 && n%10 == 0 {
		n /= 10
	}
	return n == 1
}

// Counts is how often each was ignored since the start.
func (i *Ignored) Counts() map[string]int64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	out := make(map[string]int64, len(i.counts))
	for name, n := range i.counts {
		out[name] = n
	}
	return out
}

// Headers counts those of every request before next sees it, each value once.
func (i *Ignored) Headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, values := range r.Header {
			if what := looksLike(name); what != "" && !(ofModels[name] && strings.HasPrefix(r.URL.Path, "/llm/")) {
				for range values {
					i.Note(what)
				}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// looksLike returns the name under which a header is counted, or nothing. Names
// come in canonical form from the server; an underscore is as good as a hyphen.
func looksLike(name string) string {
	hyphens := name
	if strings.Contains(name, "_") {
		hyphens = textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))
		if misspelt[hyphens] {
			return strings.ReplaceAll(hyphens, "-", "_")
		}
	}
	if named[hyphens] {
		return hyphens
	}
	for _, family := range families {
		if strings.HasPrefix(hyphens, family) {
			return family + "*"
		}
	}
	return ""
}
