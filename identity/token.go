package identity

import (
	"encoding/base64"
	"errors"
	"strings"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// token is a compact JWS taken apart strictly and verified in no way.
type token struct {
	raw       string
	header    []byte // canonical
	payload   []byte // as it was decoded
	claims    []byte // the payload, canonical
	algorithm string
	kind      string // typ in lower case, without application/
	key       string // kid
	issuer    string
}

var tokenLimits = canon.Limits{Bytes: maxCredential, Depth: 16, Members: 2000}

// strict refuses padding, line breaks and stray bits, so that one token has one spelling.
var strict = base64.RawURLEncoding.Strict()

// parseToken takes a token apart. Header and claims are read strictly: a name that
// occurs twice would let two readers see two tokens.
func parseToken(raw string) (token, error) {
	if raw == "" {
		return token{}, refuse(checkFormat, record.Unauthenticated, "no token")
	}
	if strings.HasPrefix(raw, keyPrefix) {
		return token{}, refuse(checkFormat, record.Unauthenticated, "this is a workload's key; send it in the Placet-Workload header")
	}
	if len(raw) > maxCredential {
		return token{}, refuse(checkFormat, record.Unauthenticated, "the token is longer than %d bytes", maxCredential)
	}
	t, err := takeApart(raw)
	if err != nil {
		return token{}, err
	}
	if t.claims, err = object("claims", t.payload); err != nil {
		return token{}, err
	}
	value, _ := canon.Lookup(t.claims, "iss")
	t.issuer, _ = canon.Text(value)
	return t, nil
}

// takeApart reads a compact JWS of any payload.
func takeApart(raw string) (t token, err error) {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return token{}, refuse(checkFormat, record.Unauthenticated, "the token is not a signed JWT: it has %d parts, not 3", len(parts))
	}
	t = token{raw: raw}
	header, err := decodePart("header", parts[0])
	if err != nil {
		return token{}, err
	}
	if t.header, err = object("header", header); err != nil {
		return token{}, err
	}
	if t.payload, err = decodePart("claims", parts[1]); err != nil {
		return token{}, err
	}
	if _, err := decodePart("signature", parts[2]); err != nil {
		return token{}, err
	}
	return t, t.readHeader()
}

func decodePart(name, part string) ([]byte, error) {
	// The decoder skips line breaks, also when it is strict.
	text, err := strict.DecodeString(part)
	if err != nil || strings.ContainsAny(part, "\r\n") {
		return nil, refuse(checkFormat, record.Unauthenticated, "the token's %s is not base64url", name)
	}
	return text, nil
}

func object(name string, text []byte) ([]byte, error) {
	out, blank, err := canon.Object(text, tokenLimits)
	if err != nil {
		var e *canon.Error
		errors.As(err, &e)
		return nil, refuse(checkFormat, record.Unauthenticated, "the token's %s is refused: %s", name, e.Reason)
	}
	if blank {
		return nil, refuse(checkFormat, record.Unauthenticated, "the token's %s is empty", name)
	}
	return out, nil
}

// readHeader takes from the header what says how to look, never whom to trust:
// jwk, jku, x5c and the like are not looked at. An extension that must be
// understood is not (RFC 7515 section 4.1.11).
func (t *token) readHeader() error {
	if _, ok := canon.Lookup(t.header, "crit"); ok {
		return refuse(checkFormat, record.Unauthenticated, "the token's header demands an extension (crit); none is supported")
	}
	if _, ok := canon.Lookup(t.header, "b64"); ok {
		return refuse(checkFormat, record.Unauthenticated, "the token's header holds b64, which is not supported")
	}
	fields := map[string]*string{"alg": &t.algorithm, "typ": &t.kind, "kid": &t.key}
	for name, field := range fields {
		value, ok := canon.Lookup(t.header, name)
		if !ok {
			continue
		}
		if *field, ok = canon.Text(value); !ok {
			return refuse(checkFormat, record.Unauthenticated, "%s in the token's header is not text", name)
		}
	}
	t.kind = strings.TrimPrefix(strings.ToLower(t.kind), "application/")
	return nil
}
