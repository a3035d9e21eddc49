package identity

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

const (
	proofAge  = time.Minute      // how old a DPoP proof may be
	proofSkew = 30 * time.Second // how far its clock may be ahead of ours
	maxProof  = 8 << 10
	maxProofs = 1 << 18 // proofs that are remembered
)

// unproven is the refusal of a token that is bound to a key, or of its proof.
type unproven struct {
	refusal
	code string // of RFC 9449 section 7.1
}

func (u *unproven) Unwrap() error { return &u.refusal }

func unprove(code, format string, args ...any) error {
	return &unproven{refusal{check: checkBinding, err: record.Errorf(record.Unauthenticated, format, args...)}, code}
}

const (
	invalidToken = "invalid_token"
	invalidProof = "invalid_dpop_proof"
)

// DPoPChallenge is the WWW-Authenticate value for an error that asks for a DPoP
// proof, or for another one (RFC 9449 section 7.1); "" for any other error.
func DPoPChallenge(err error) string {
	var u *unproven
	if !errors.As(err, &u) {
		return ""
	}
	return `DPoP error="` + u.code + `", algs="` + strings.Join(algorithms, " ") + `"`
}

// checkProof checks that the sender of a token holds the key that it is bound to.
func (v *Verifier) checkProof(c Credentials, r *verified) error {
	presented := c.request != nil && c.request.dpop
	switch {
	case r.binding.key == "" && !presented:
		return nil
	case r.binding.key == "":
		return refuse(checkBinding, record.Unauthenticated, "the token is not bound to a key; send it as Authorization: Bearer")
	case !presented:
		return unprove(invalidToken, "the token is bound to a key (cnf.jkt); send it as Authorization: DPoP, with a proof in the DPoP header")
	}
	c.request.mu.Lock()
	defer c.request.mu.Unlock()
	// A request that waited is verified again with the proof it came with.
	if c.request.proven {
		return nil
	}
	err := v.prove(c, r.binding.key)
	c.request.proven = err == nil
	return err
}

// prove makes the checks of RFC 9449 section 4.3, the replay last: a proof is used
// up only by a request that it is good for.
func (v *Verifier) prove(c Credentials, thumbprint string) error {
	p, err := parseProof(c.request.proof)
	if err != nil {
		return err
	}
	own, err := p.key.Thumbprint(crypto.SHA256)
	if err != nil || subtle.ConstantTimeCompare(own, []byte(thumbprint)) != 1 {
		return unprove(invalidToken, "the DPoP proof is of another key than the token is bound to (cnf.jkt)")
	}
	if !p.signed() {
		return unprove(invalidProof, "the DPoP proof's signature is not its key's")
	}
	text := func(name string) string {
		value, _ := canon.Lookup(p.claims, name)
		s, _ := canon.Text(value)
		return s
	}
	now, id := v.clock(), text("jti")
	issued, stated, ok := timeClaim(p.claims, "iat")
	access := sha256.Sum256([]byte(c.Bearer))
	switch {
	case text("htm") != c.request.method:
		return unprove(invalidProof, "the DPoP proof is for another method (htm)")
	case !v.isHere(text("htu"), c.request.path):
		return unprove(invalidProof, "the DPoP proof is for another URL (htu) than public_url and the path of this request")
	case !stated || !ok || now.Sub(issued) > proofAge || issued.Sub(now) > proofSkew:
		return unprove(invalidProof, "the DPoP proof was not made within the last minute (iat); make one for each request")
	case text("ath") != strict.EncodeToString(access[:]):
		return unprove(invalidProof, "the DPoP proof is for another token (ath)")
	case id == "" || len(id) > 256:
		return unprove(invalidProof, "the DPoP proof has no ID (jti), or one longer than 256 bytes")
	}
	return v.proofs.use(sha256.Sum256(append(own, id...)), issued.Add(proofAge), now)
}

// proof is a DPoP proof taken apart strictly. Its signature is not checked.
type proof struct {
	text      string
	claims    []byte // canonical
	algorithm string
	key       jose.JSONWebKey
}

// privateMembers are those of private and symmetric keys (RFC 7518 section 6).
var privateMembers = []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"}

func parseProof(text string) (proof, error) {
	bad := func(format string, args ...any) (proof, error) {
		return proof{}, unprove(invalidProof, format, args...)
	}
	parts := strings.Split(text, ".")
	if len(parts) != 3 || len(text) > maxProof {
		return bad("the DPoP proof is not a signed JWT of at most %d bytes", maxProof)
	}
	header, err := decodePart("header", parts[0])
	if err != nil {
		return bad("the DPoP proof's header cannot be read")
	}
	p := proof{text: text}
	if p.claims, err = decodePart("claims", parts[1]); err != nil {
		return bad("the DPoP proof's claims cannot be read")
	}
	member := func(name string) string {
		value, _ := canon.Lookup(header, name)
		s, _ := canon.Text(value)
		return s
	}
	p.algorithm = member("alg")
	jwk, _ := canon.Lookup(header, "jwk")
	_, critical := canon.Lookup(header, "crit")
	_, unencoded := canon.Lookup(header, "b64")
	switch {
	case member("typ") != "dpop+jwt":
		return bad("the DPoP proof's type (typ) is not dpop+jwt")
	case !slices.Contains(algorithms, p.algorithm):
		return bad("the DPoP proof's algorithm is not one of %s", strings.Join(algorithms, ", "))
	case critical || unencoded:
		return bad("the DPoP proof's header demands an extension (crit, b64); none is supported")
	case len(jwk) == 0 || jwk[0] != '{':
		return bad("the DPoP proof's header holds no key (jwk)")
	}
	if slices.ContainsFunc(privateMembers, func(name string) bool { _, ok := canon.Lookup(jwk, name); return ok }) {
		return bad("the DPoP proof holds a private key; whoever saw it can use it: replace it, and send the public one")
	}
	if err := p.key.UnmarshalJSON(jwk); err != nil || !p.key.Valid() || !p.key.IsPublic() || !fits(p.key.Key, p.algorithm) {
		return bad("the DPoP proof's key (jwk) is not a public key for its algorithm")
	}
	return p, nil
}

// signed reports whether the proof is signed with the key it holds.
func (p proof) signed() bool {
	signed, err := jose.ParseSignedCompact(p.text, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(p.algorithm)})
	if err != nil {
		return false
	}
	payload, err := signed.Verify(p.key.Key)
	if err != nil {
		return false
	}
	again, err := canon.Canonical(payload, tokenLimits)
	return err == nil && bytes.Equal(again, p.claims)
}

// isHere reports whether a URL is that of a path of this server, as clients know
// it; query and fragment do not count.
func (v *Verifier) isHere(htu, path string) bool {
	is, err := url.Parse(htu)
	if err != nil || v.publicURL == "" || is.User != nil || is.Opaque != "" {
		return false
	}
	want, err := url.Parse(v.publicURL + path)
	return err == nil && strings.EqualFold(is.Scheme, want.Scheme) && place(is) == place(want) && is.EscapedPath() == want.EscapedPath()
}

// place is host and port in one form.
func place(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[strings.ToLower(u.Scheme)]
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}

// proofs remembers which proofs were used, for as long as they could be again. It
// is this process's alone: a second one behind the same URL would take each once more.
type proofs struct {
	mu    sync.Mutex
	max   int
	until map[[sha256.Size]byte]time.Time
	swept time.Time
}

// use takes a proof, once. When no more can be remembered, none is taken.
func (p *proofs) use(id [sha256.Size]byte, until, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.until) >= p.max || now.Sub(p.swept) > proofAge {
		p.swept = now
		for other, end := range p.until {
			if end.Before(now) {
				delete(p.until, other)
			}
		}
	}
	if _, used := p.until[id]; used {
		return unprove(invalidProof, "the DPoP proof was used before (jti); make one for each request")
	}
	if len(p.until) >= p.max {
		return refuse(checkBinding, record.Unavailable, "more DPoP proofs come than can be remembered; try again in a minute")
	}
	if p.until == nil {
		p.until = map[[sha256.Size]byte]time.Time{}
	}
	p.until[id] = until
	return nil
}

// ProofAlgorithms are those that a DPoP proof may be signed with; for metadata.
func ProofAlgorithms() []string { return slices.Clone(algorithms) }
