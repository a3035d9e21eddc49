package credential

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/placet-dev/placet/record"
)

// Client is this server as a client of one issuer.
type Client struct {
	Issuer   string // its endpoints are discovered; or
	TokenURL string // the token endpoint itself
	ID       string
	Secret   Secret
	Post     bool   // the secret goes into the form
	Key      Secret // PEM; in place of Secret
	KeyID    string
	Audience string // of assertions; "": the token endpoint
}

const assertionLife = time.Minute

// assertion makes the client's proof of itself (private_key_jwt, RFC 7523 section 3).
type assertion struct {
	client Client
	o      ProfileOptions
	signer jose.Signer
}

func newAssertion(c Client, o ProfileOptions) (*assertion, error) {
	key, algorithm, err := readKey(c.Key)
	if err != nil {
		return nil, err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: c.KeyID}}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return nil, record.Errorf(record.Invalid, "private_key cannot sign")
	}
	return &assertion{c, o, signer}, nil
}

func (a *assertion) sign(endpoint string) (string, error) {
	now := a.o.Clock()
	id, err := record.NewID("jti", now, a.o.Random)
	if err != nil {
		return "", fmt.Errorf("read randomness for an assertion: %w", err)
	}
	audience := endpoint
	if a.client.Audience != "" {
		audience = a.client.Audience
	}
	text, err := json.Marshal(map[string]any{"iss": a.client.ID, "sub": a.client.ID, "aud": audience, "jti": id,
		"iat": now.Unix(), "exp": now.Add(assertionLife).Unix()})
	if err != nil {
		return "", fmt.Errorf("write an assertion: %w", err)
	}
	signed, err := a.signer.Sign(text)
	if err != nil {
		return "", fmt.Errorf("sign an assertion: %w", err)
	}
	return signed.CompactSerialize()
}

// readKey reads a PEM key, and says how it signs. Errors never repeat the text.
func readKey(text Secret) (any, jose.SignatureAlgorithm, error) {
	block, _ := pem.Decode([]byte(text.Reveal()))
	if block == nil {
		return nil, "", record.Errorf(record.Invalid, "private_key is not a PEM file")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		key, err = otherKey(block.Bytes)
	}
	if err != nil {
		return nil, "", record.Errorf(record.Invalid, "private_key holds no private key that can be read; write it as PKCS #8")
	}
	switch k := key.(type) {
	case *rsa.PrivateKey:
		if k.N.BitLen() >= 2048 {
			return k, jose.RS256, nil
		}
	case ed25519.PrivateKey:
		return k, jose.EdDSA, nil
	case *ecdsa.PrivateKey:
		if alg, ok := map[int]jose.SignatureAlgorithm{256: jose.ES256, 384: jose.ES384, 521: jose.ES512}[k.Params().BitSize]; ok {
			return k, alg, nil
		}
	}
	return nil, "", record.Errorf(record.Invalid, "private_key must be RSA of 2048 bits or more, P-256, P-384, P-521 or Ed25519")
}

func otherKey(der []byte) (any, error) {
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key, nil
	}
	return x509.ParseECPrivateKey(der)
}
