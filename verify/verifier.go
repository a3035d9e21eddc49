package verify

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	tokenType  = "placet-dispatch+jwt"
	tokenBytes = 16 << 10
	tokenLife  = 60 * time.Second
	// early is how far this server's clock may be behind the issuer's. There is no
	// grace at the other end: a token's end bounds when its effect may happen.
	early = 10 * time.Second
)

// KeysPath is where an issuer publishes its keys.
const KeysPath = "/.well-known/placet-dispatch-jwks.json"

// Options say whose tokens are taken. Issuer, Audience and Seen are required.
type Options struct {
	Issuer   string // Placet's public_url
	Audience string // this server's url in Placet's tools.yaml, without its query; for a command its name there
	Seen     Seen   // remembers used tokens, such as PerProcess(nil)

	Tenants []string // whose calls this server takes; default: every tenant's

	JWKS  string           // URL of the keys; default Issuer + KeysPath
	Keys  []byte           // the keys themselves, as a JWKS, in place of a URL
	HTTP  *http.Client     // fetches them; default: 5 s, no redirects
	Clock func() time.Time // default: time.Now
	// MaxBody is how many bytes of a request Middleware reads; default 4 MiB.
	MaxBody int64
}

// Verifier checks tokens. It is safe for concurrent use.
type Verifier struct {
	issuer, audience string
	tenants          []string
	seen             Seen
	clock            func() time.Time
	keys             *keys
	maxBody          int64
}

// New makes a verifier. It fetches nothing yet.
func New(o Options) (*Verifier, error) {
	switch {
	case o.Issuer == "" || o.Audience == "":
		return nil, errors.New("verify: Issuer and Audience are required")
	case o.Seen == nil:
		return nil, errors.New("verify: Seen is required; PerProcess(nil) remembers used tokens in this process alone")
	case o.JWKS != "" && o.Keys != nil:
		return nil, errors.New("verify: JWKS and Keys exclude each other")
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 4 << 20
	}
	k, err := newKeys(o)
	if err != nil {
		return nil, err
	}
	return &Verifier{issuer: o.Issuer, audience: o.Audience, tenants: slices.Clone(o.Tenants), seen: o.Seen, clock: o.Clock, keys: k, maxBody: o.MaxBody}, nil
}

// claims is the payload of a token.
type claims struct {
	Issuer    string    `json:"iss"`
	Audience  string    `json:"aud"`
	IssuedAt  int64     `json:"iat"`
	Expires   int64     `json:"exp"`
	ID        string    `json:"jti"`
	Principal Principal `json:"principal"`
	Tenant    string    `json:"tenant"`
	Act       struct {
		Subject string `json:"sub"`
	} `json:"act"`
	Run       string   `json:"run"`
	Call      string   `json:"call"`
	Attempt   int      `json:"attempt"`
	Tool      string   `json:"tool"`
	Arguments string   `json:"arguments_digest"`
	Input     string   `json:"input_digest"`
	Targets   []Target `json:"targets"`
	Key       string   `json:"key"`
}

// Check verifies a token for a call of tool, by its name at this server, with the
// arguments that were received. They may be the text as it came or, where a
// library has decoded it, what encoding/json makes of the decoded value. A token
// is used up only when everything else is right. Every error is a [*Refused].
func (v *Verifier) Check(ctx context.Context, token, tool string, arguments []byte) (Call, error) {
	c, err := v.claims(ctx, token)
	if err != nil {
		return Call{}, err
	}
	ends := time.Unix(c.Expires, 0).UTC()
	if err := v.fits(c, ends, tool, arguments); err != nil {
		return Call{}, err
	}
	first, err := v.seen.Use(ctx, c.Issuer+" "+c.ID, ends)
	switch {
	case err != nil:
		return Call{}, cannot("whether it was used before cannot be checked", err)
	case !first:
		return Call{}, refuse(Replayed, "it was used before")
	}
	return Call{Token: c.ID, Principal: c.Principal, Tenant: c.Tenant, Agent: c.Act.Subject, Run: c.Run, Call: c.Call, Attempt: c.Attempt,
		Tool: c.Tool, Targets: c.Targets, Key: c.Key, Expires: ends, input: c.Input}, nil
}

// claims verifies the signature and reads what was signed.
func (v *Verifier) claims(ctx context.Context, token string) (c claims, err error) {
	if token == "" {
		return c, refuse(NoToken, "this server takes calls from Placet only, and there is no token")
	}
	bad := refuse(BadToken, "it is not a token of this issuer")
	if len(token) > tokenBytes || !compact(token) {
		return c, bad
	}
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || len(signed.Signatures) != 1 {
		return c, bad
	}
	head := signed.Signatures[0].Protected
	if kind, _ := head.ExtraHeaders[jose.HeaderType].(string); kind != tokenType || head.KeyID == "" {
		return c, bad
	}
	// The key is one that the issuer published; keys that a token brings along or
	// points to are not looked at.
	key, err := v.keys.get(ctx, head.KeyID)
	if err != nil {
		return c, err
	}
	text, err := signed.Verify(key)
	if err != nil || json.Unmarshal(text, &c) != nil {
		return claims{}, bad
	}
	return c, nil
}

// compact reports whether a text is three parts in base64url, each in its only
// spelling (RFC 7515, section 7.1): no padding, no line break, no stray bits at an
// end. What decoders forgive differs, and so would the verdicts.
func compact(token string) bool {
	parts := strings.Split(token, ".")
	return len(parts) == 3 && !slices.ContainsFunc(parts, func(p string) bool {
		raw, err := base64.RawURLEncoding.DecodeString(p)
		return err != nil || base64.RawURLEncoding.EncodeToString(raw) != p
	})
}

// fits compares what was signed with where it arrived.
func (v *Verifier) fits(c claims, ends time.Time, tool string, arguments []byte) error {
	now, begins := v.clock(), time.Unix(c.IssuedAt, 0)
	switch {
	case c.Issuer != v.issuer:
		return refuse(OtherIssuer, "it is of another issuer")
	case c.Audience != v.audience:
		return refuse(OtherAudience, "it is for another server")
	case c.ID == "" || c.Call == "" || c.Tenant == "" || c.Principal.Subject == "" || c.Act.Subject == "":
		return refuse(BadToken, "it lacks what a token must say")
	case len(v.tenants) > 0 && !slices.Contains(v.tenants, c.Tenant):
		return refuse(OtherTenant, "it is for a tenant that this server does not serve")
	case ends.Sub(begins) > tokenLife:
		return refuse(BadToken, "it lasts longer than a token may")
	case !now.Before(ends):
		return refuse(Expired, "it has ended")
	case begins.Sub(now) > early:
		return refuse(Expired, "it begins in the future; compare the clocks")
	case c.Tool != tool:
		return refuse(OtherTool, "it is for another tool")
	case !matches(arguments, c.Arguments):
		return refuse(OtherArguments, "it is for other arguments")
	}
	return nil
}
