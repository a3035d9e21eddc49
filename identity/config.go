package identity

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/placet-dev/placet/record"
)

// Config is whom the operator trusts, and for what.
type Config struct {
	Issuers     []Issuer
	Workloads   []WorkloadKey
	PublicURL   string      // of this server, as clients know it: DPoP proofs must be made for it
	Authorities []Authority // who certifies workloads
	Operate     []string    // groups whose members operate after an interactive login: group:NAME or group:NAME@ISSUER
	OperateAll  []string    // groups whose members operate, and may revoke in every tenant
	Read        []string    // groups whose members may read what operators read
}

// Issuer is one party that says who is calling.
type Issuer struct {
	Issuer            string   // compared exactly with the token's iss
	Audience          []string // what proposing tokens are made for
	ConsoleAudience   string   // what answering tokens are made for; empty: nobody of this issuer can answer
	Algorithms        []string // pinned; the token's alg must be one of them
	TokenTypes        []string // pinned, any case; default at+jwt and JWT; none: the header states no typ
	Tenant            string   // the tenant it speaks for, or
	TenantClaim       string   // the claim that names it, and
	Tenants           []string // the tenants that claim may name
	Claims            Claims
	Keys              string        // a JWKS: file path or URL; empty: by discovery at the issuer
	JWKS              []byte        // the JWKS itself, instead of Keys
	Skew              time.Duration // tolerated on nbf and iat; default 30 s. exp has no tolerance
	MaxTokenAge       time.Duration // a token counts no longer than this after iat; 0: until exp
	SenderConstrained Constraint    // whom its tokens must be bound to; they are checked in any case if they are bound
	Local             bool          // the issuer of a development server; stands alone
	Address           string        // the URL by which a development issuer also calls itself in iss; principals keep Issuer
}

// Constraint says whom tokens must be bound to.
type Constraint string

const (
	ByNothing     Constraint = ""     // a bearer token is enough
	ByCertificate Constraint = "mtls" // RFC 8705
	ByProof       Constraint = "dpop" // RFC 9449
	ByEither      Constraint = "any"
)

// Claims says which claims count. A name without a slash may be a path such as
// act.sub; of several names the first that is present counts.
type Claims struct {
	Subject string   // default sub
	Agent   []string // default act.sub, azp, client_id
	Scopes  []string // default scope, scp
	Groups  string   // default: this issuer asserts no groups
}

// Permission is what a workload's key is good for.
type Permission string

const (
	Propose    Permission = "propose"     // make calls as itself, without a user's token
	Vouch      Permission = "vouch"       // state turns and emissions (rule A12)
	Operate    Permission = "operate"     // activate, revoke, reconcile
	OperateAll Permission = "operate_all" // operate, and revoke in every tenant: the server's owners
	Read       Permission = "read"        // see what operators see
)

// WorkloadKey is a program's credential as the configuration holds it.
type WorkloadKey struct {
	Name        string
	KeyHash     string                 // its keys as ParseKeys reads them, such as one hash; or
	Keys        func() (string, error) // reads them anew, so that a key can be revoked while the server runs
	SPIFFE      string                 // the SPIFFE ID of its certificate, or
	Certificate CertificateName        // what its certificate of a plain authority states; a workload has keys, a certificate or both
	Agent       string                 // the agent that it is: a token beside its credential must name the same (rule I1)
	Expires     time.Time              // it ends then, whatever keys it holds; zero: never
	Tenant      string                 // its tenant; may be empty if the issuers speak for one tenant only
	Permissions []Permission
}

// algorithms are all that may be configured: signatures whose verifier cannot sign.
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// withDefaults returns the issuer ready for use, or what is wrong with it.
func (i Issuer) withDefaults() (Issuer, error) {
	if i.Skew == 0 {
		i.Skew = 30 * time.Second
	}
	if len(i.TokenTypes) == 0 {
		i.TokenTypes = []string{"at+jwt", "JWT"}
	}
	if i.Claims.Subject == "" {
		i.Claims.Subject = "sub"
	}
	if len(i.Claims.Agent) == 0 {
		i.Claims.Agent = []string{"act.sub", "azp", "client_id"}
	}
	if len(i.Claims.Scopes) == 0 {
		i.Claims.Scopes = []string{"scope", "scp"}
	}
	if problem := i.problem(); problem != "" {
		return Issuer{}, record.Errorf(record.Invalid, "issuer %q: %s", i.Issuer, problem)
	}
	return i, nil
}

// problem says what is wrong with an issuer's configuration, or nothing.
func (i Issuer) problem() string {
	switch {
	case !printable(i.Issuer) || i.Issuer == WorkloadIssuer:
		return "needs a name, the exact value of iss in its tokens"
	case len(i.Audience) == 0 && i.ConsoleAudience == "":
		return "state its audience, such as public_url + /mcp"
	case slices.Contains(i.Audience, "") || slices.Contains(i.Audience, i.ConsoleAudience):
		return "audiences must not be empty, and tokens that propose must not be able to answer: use another audience for each"
	case len(i.Algorithms) == 0:
		return "state its algorithms, such as [RS256]"
	case (i.Tenant == "") == (i.TenantClaim == ""):
		return "state either the tenant it speaks for or the claim that names it, exactly one of the two"
	case i.TenantClaim != "" && len(i.Tenants) == 0:
		return "state tenants, those that its tenant claim may name"
	case i.Tenant != "" && len(i.Tenants) > 0:
		return "tenants is for a tenant claim; with a constant tenant leave it out"
	case i.Tenant != "" && !printable(i.Tenant) || !all(i.Tenants, printable):
		return "a tenant's name must not be empty, long or hold control characters"
	case i.Keys != "" && len(i.JWKS) > 0:
		return "has keys twice"
	case i.Skew < 0 || i.Skew > 5*time.Minute:
		return "the clock skew must be between 0 and 5 minutes"
	case i.Address != "" && !i.Local:
		return "only a development issuer has a second name"
	case !slices.Contains([]Constraint{ByNothing, ByCertificate, ByProof, ByEither}, i.SenderConstrained):
		return "its tokens can be constrained to their senders by mtls, dpop or any"
	case i.MaxTokenAge < 0:
		return "the token age must not be negative"
	}
	for _, a := range i.Algorithms {
		if strings.HasPrefix(a, "HS") {
			return fmt.Sprintf("algorithm %s is refused: whoever can verify such tokens can also make them; use RS256, ES256 or EdDSA", a)
		}
		if !slices.Contains(algorithms, a) {
			return fmt.Sprintf("algorithm %q is not supported; use one of %s", a, strings.Join(algorithms, ", "))
		}
	}
	return ""
}

func (i Issuer) signatureAlgorithms() []jose.SignatureAlgorithm {
	var out []jose.SignatureAlgorithm
	for _, a := range i.Algorithms {
		out = append(out, jose.SignatureAlgorithm(a))
	}
	return out
}

// tenants lists all tenants the issuer can speak for.
func (i Issuer) tenants() []string {
	if i.Tenant != "" {
		return []string{i.Tenant}
	}
	return i.Tenants
}

func all[T any](list []T, ok func(T) bool) bool {
	return !slices.ContainsFunc(list, func(x T) bool { return !ok(x) })
}
