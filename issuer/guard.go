package issuer

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rs/cors"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

const maxForm = 64 << 10

// guarded lets through what comes from this machine under the issuer's own name.
// The name keeps out pages whose host was made to resolve to this machine (DNS
// rebinding): to a browser they would be the issuer's own.
func (i *Issuer) guarded(next http.Handler) http.Handler {
	own, err := url.Parse(i.url)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Content-Security-Policy", policy(""))
		host, _, splitErr := net.SplitHostPort(r.RemoteAddr)
		switch {
		case err != nil || splitErr != nil || !net.ParseIP(host).IsLoopback():
			http.Error(w, "the development issuer answers only the machine that it runs on", http.StatusForbidden)
		case !strings.EqualFold(r.Host, own.Host):
			http.Error(w, "the development issuer answers under its own address only: "+i.url, http.StatusMisdirectedRequest)
		default:
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
			next.ServeHTTP(w, r)
		}
	})
}

// policy is the pages' content security policy. A browser applies form-action to
// where a form's answer redirects too, hence the client's origin.
func policy(returnsTo string) string {
	return "default-src 'none'; style-src " + styleHash + "; form-action 'self'" + returnsTo + "; frame-ancestors 'none'; base-uri 'none'"
}

// anyOrigin lets scripts of any page read an answer: MCP clients in browsers ask
// here. No cookie counts at these places.
func anyOrigin(next http.Handler) http.Handler {
	return cors.New(cors.Options{
		AllowedOrigins: []string{"*"}, AllowedMethods: []string{http.MethodGet, http.MethodPost},
		AllowedHeaders: []string{"Authorization", "Content-Type", "MCP-Protocol-Version"},
	}).Handler(next)
}

// posted takes forms, with nothing in the query: what stands in an address ends
// in logs (RFC 6749 section 3.2).
func posted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodPost:
			w.Header().Set("Allow", http.MethodPost)
			refuseRequest(w, r, http.StatusMethodNotAllowed, "this takes a POST")
		case r.URL.RawQuery != "":
			refuseRequest(w, r, http.StatusBadRequest, "parameters belong in the body")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// once refuses a parameter that occurs twice (RFC 6749 section 3.1): two readers
// would see two requests. Targets may be several (RFC 8707, RFC 8693).
func once(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			refuseRequest(w, r, http.StatusBadRequest, "the parameters cannot be read")
			return
		}
		for name, values := range r.Form {
			if len(values) > 1 && !slices.Contains([]string{"resource", "audience"}, name) {
				refuseRequest(w, r, http.StatusBadRequest, "a parameter occurs twice")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func refuseRequest(w http.ResponseWriter, r *http.Request, status int, description string) {
	op.WriteError(w, r, op.NewStatusError(oidc.ErrInvalidRequest().WithDescription("%s", description), status), nil)
}
