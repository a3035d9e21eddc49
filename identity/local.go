package identity

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Local is the issuer of a development server. Whoever holds its key is anybody,
// so a verifier takes it only alone. It shows itself as "redacted".
type Local struct {
	name  string
	key   ed25519.PrivateKey
	clock func() time.Time

	mu     *sync.Mutex // guards random, also for the issuer under its other name
	random io.Reader
}

func (*Local) String() string               { return redacted }
func (*Local) GoString() string             { return redacted }
func (*Local) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (*Local) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// localAlgorithm is the only one a local issuer signs with.
const localAlgorithm = "EdDSA"

// NewLocal makes an issuer with a new key.
func NewLocal(name string, random io.Reader, clock func() time.Time) (*Local, error) {
	if !printable(name) {
		return nil, record.Errorf(record.Invalid, "the local issuer needs a name")
	}
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return nil, fmt.Errorf("read randomness for the local issuer's key: %w", err)
	}
	return &Local{name: name, key: ed25519.NewKeyFromSeed(seed), clock: clock, mu: new(sync.Mutex), random: random}, nil
}

// JWKS is the public key, as a set.
func (l *Local) JWKS() ([]byte, error) {
	key := jose.JSONWebKey{Key: l.key.Public(), KeyID: l.keyID(), Algorithm: localAlgorithm, Use: "sig"}
	return json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key}})
}

func (l *Local) keyID() string {
	public, _ := l.key.Public().(ed25519.PublicKey)
	d := canon.Of("placet/localkey/1", public)
	return base64.RawURLEncoding.EncodeToString(d[:12])
}

// At is the same issuer under the address where it serves: what it signs names
// that address, so that whoever discovers the issuer there can verify it.
func (l *Local) At(address string) *Local {
	return &Local{name: address, key: l.key, clock: l.clock, mu: l.mu, random: l.random}
}

// Name is what its tokens give as iss.
func (l *Local) Name() string { return l.name }

// Issuer is the configuration by which a verifier takes this issuer's tokens.
func (l *Local) Issuer(audience, consoleAudience string, tenants []string) (Issuer, error) {
	keys, err := l.JWKS()
	if err != nil {
		return Issuer{}, err
	}
	return Issuer{
		Issuer: l.name, Audience: []string{audience}, ConsoleAudience: consoleAudience, Algorithms: []string{localAlgorithm},
		TokenTypes: []string{"at+jwt"}, TenantClaim: "tenant", Tenants: slices.Clone(tenants), JWKS: keys, Local: true,
		Claims: Claims{Subject: "sub", Agent: []string{"client_id"}, Scopes: []string{"scope"}, Groups: "groups"},
	}, nil
}

// TokenSpec says what a token shall state.
type TokenSpec struct {
	Audience string // of proposing or of answering
	Subject  string
	Tenant   string
	Agent    string // empty in an answering token
	Scopes   []string
	Groups   []string
	TTL      time.Duration // default 1 h, at most 24 h
	ID       string        // jti; empty: a new one
	Session  string        // sid, of the login it came from
	Actors   []string      // who acts for the subject, the present one first (RFC 8693 section 4.1)
}

// Sign makes a token.
func (l *Local) Sign(s TokenSpec) (string, error) {
	if s.TTL == 0 {
		s.TTL = time.Hour
	}
	switch {
	case !printable(s.Subject) || !printable(s.Tenant) || s.Audience == "":
		return "", record.Errorf(record.Invalid, "a token needs a subject, a tenant and an audience, without control characters")
	case s.TTL < time.Second || s.TTL > 24*time.Hour:
		return "", record.Errorf(record.Invalid, "a local token lasts between a second and 24 hours")
	case s.Agent != "" && !printable(s.Agent) || !all(s.Actors, printable) || !all(s.Groups, printable) || !all(s.Scopes, isScope):
		return "", record.Errorf(record.Invalid, "agent, groups and scopes must not be empty or hold control characters, and scopes no spaces")
	}
	id := s.ID
	if id == "" {
		var err error
		if id, err = l.tokenID(); err != nil {
			return "", err
		}
	}
	now := l.clock()
	claims := map[string]any{
		"iss": l.name, "aud": s.Audience, "sub": s.Subject, "tenant": s.Tenant, "jti": id,
		"iat": now.Unix(), "exp": now.Add(s.TTL).Unix(), "scope": strings.Join(s.Scopes, " "), "groups": append([]string{}, s.Groups...),
	}
	if s.Agent != "" {
		claims["client_id"] = s.Agent
	}
	if s.Session != "" {
		claims["sid"] = s.Session
	}
	if len(s.Actors) > 0 {
		claims["act"] = act(s.Actors)
	}
	return l.sign("at+jwt", claims)
}

// act nests actors as RFC 8693 section 4.1 does: the present one outermost.
func act(actors []string) map[string]any {
	out := map[string]any{"sub": actors[0]}
	if len(actors) > 1 {
		out["act"] = act(actors[1:])
	}
	return out
}

// SignID makes an ID token (OpenID Connect Core section 2), which says who logged
// in and opens nothing: its type is not one that a verifier here takes. The
// claims are as given, and iss.
func (l *Local) SignID(claims map[string]any) (string, error) {
	claims = maps.Clone(claims)
	claims["iss"] = l.name
	return l.sign("JWT", claims)
}

func isScope(s string) bool { return printable(s) && !strings.Contains(s, " ") }

func (l *Local) tokenID() (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return record.NewID("tok", l.clock(), l.random)
}

func (l *Local) sign(kind string, claims map[string]any) (string, error) {
	payload, err := canon.Marshal(claims)
	if err != nil {
		return "", err
	}
	key := jose.SigningKey{Algorithm: localAlgorithm, Key: jose.JSONWebKey{Key: l.key, KeyID: l.keyID()}}
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType(jose.ContentType(kind)))
	if err != nil {
		return "", fmt.Errorf("sign a local token: %w", err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("sign a local token: %w", err)
	}
	return signed.CompactSerialize()
}

// localFile is the form in which a local issuer is kept.
type localFile struct {
	Version int    `json:"version"`
	Issuer  string `json:"issuer"`
	Seed    []byte `json:"seed"`
}

// Save writes the issuer to a new file that only its owner can read. It does not
// write over a file: a lost key makes every token out there worthless.
func (l *Local) Save(path string) error {
	text, err := json.Marshal(localFile{Version: 1, Issuer: l.name, Seed: l.key.Seed()})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("save the local issuer: %w", err)
	}
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(path) // half a key is none; the error below is what matters
		return fmt.Errorf("save the local issuer: %w", err)
	}
	return nil
}

// LoadLocal reads what Save wrote. A file that others can read is refused.
func LoadLocal(path string, random io.Reader, clock func() time.Time) (*Local, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("load the local issuer: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("load the local issuer: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, record.Errorf(record.Invalid, "the local issuer's file %s can be read by others; its mode must be 0600", path)
	}
	text, err := readAll(f)
	if err != nil {
		return nil, fmt.Errorf("load the local issuer: %w", err)
	}
	return parseLocal(path, text, random, clock)
}

func parseLocal(path string, text []byte, random io.Reader, clock func() time.Time) (*Local, error) {
	var kept localFile
	text, _, err := canon.Object(text, canon.Limits{})
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil || kept.Version != 1 || !printable(kept.Issuer) || len(kept.Seed) != ed25519.SeedSize {
		return nil, record.Errorf(record.Invalid, "%s is not a local issuer's file; remove it, and a new one is made", path)
	}
	return &Local{name: kept.Issuer, key: ed25519.NewKeyFromSeed(kept.Seed), clock: clock, mu: new(sync.Mutex), random: random}, nil
}
