package passkey

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Site is where passkeys are used: the domain that they sign for, and the one
// origin whose pages may ask them to.
type Site struct {
	RPID   string `json:"rp_id"`
	Origin string `json:"origin"`
}

// SiteOf is the site of a server. Browsers know no passkeys for addresses in
// numbers, nor for plain HTTP elsewhere than on localhost (WebAuthn section 5.1.3).
func SiteOf(publicURL string) (Site, error) {
	u, err := url.Parse(publicURL)
	if err != nil || u.Hostname() == "" {
		return Site{}, record.Errorf(record.Invalid, "public_url is no address of a server")
	}
	host := u.Hostname()
	switch {
	case net.ParseIP(host) != nil:
		return Site{}, record.Errorf(record.Invalid, "passkeys are for names, and the host of public_url is a number; write http://localhost:… on this machine, or https:// and the server's name")
	case u.Scheme != "https" && host != "localhost":
		return Site{}, record.Errorf(record.Invalid, "passkeys need https, but for http://localhost")
	}
	return Site{RPID: host, Origin: u.Scheme + "://" + u.Host}, nil
}

// algorithms are those that a passkey may sign with. The first is what nearly every
// device makes.
var algorithms = []protocol.CredentialParameter{
	{Type: protocol.PublicKeyCredentialType, Algorithm: webauthncose.AlgES256},
	{Type: protocol.PublicKeyCredentialType, Algorithm: webauthncose.AlgEdDSA},
	{Type: protocol.PublicKeyCredentialType, Algorithm: webauthncose.AlgRS256},
}

// Bounds of what a browser sends.
const (
	maxCredentialID = 1023 // WebAuthn section 4, credential ID
	maxMessage      = 64 << 10
)

// Verify reports whether the holder of p.Passkey, verified by their device, signed
// challenge on a page of this site (WebAuthn section 7.2, from step 11 on). It looks
// at nothing but what it is given: who enrolled the passkey is for [Keys] to say.
func (s Site) Verify(p record.Proof, challenge []byte) (err error) {
	defer func() { // a defect of a decoder must not decide for us
		if r := recover(); r != nil {
			err = fmt.Errorf("the assertion broke its decoder: %v", r)
		}
	}()
	if p.Passkey.RPID != s.RPID {
		return errors.New("the passkey was enrolled for another domain")
	}
	if len(challenge) == 0 || len(p.Passkey.ID) == 0 {
		return errors.New("there is nothing to verify")
	}
	// One reading of what was signed: no member twice.
	if _, err := canon.Canonical(p.Client, canon.Limits{Bytes: maxMessage}); err != nil {
		return fmt.Errorf("client data: %w", err)
	}
	id := base64.RawURLEncoding.EncodeToString(p.Passkey.ID)
	raw := protocol.CredentialAssertionResponse{
		PublicKeyCredential: protocol.PublicKeyCredential{
			Credential: protocol.Credential{ID: id, Type: string(protocol.PublicKeyCredentialType)}, RawID: p.Passkey.ID},
		AssertionResponse: protocol.AuthenticatorAssertionResponse{
			AuthenticatorResponse: protocol.AuthenticatorResponse{ClientDataJSON: p.Client},
			AuthenticatorData:     p.Authenticator, Signature: p.Signature},
	}
	read, err := raw.Parse()
	if err != nil {
		return described(err)
	}
	if c := read.Response.CollectedClientData; c.CrossOrigin || c.TopOrigin != "" || c.Origin != s.Origin {
		return errors.New("it was signed on a page of another origin, or inside one")
	}
	return described(read.Verify(base64.RawURLEncoding.EncodeToString(challenge), s.RPID, "", []string{s.Origin}, nil, nil,
		protocol.TopOriginExplicitVerificationMode, false, true, true, p.Passkey.Public, protocol.SignaturePolicy{}))
}

// described adds what the library keeps apart from its message. Operators read it.
func described(err error) error {
	var e *protocol.Error
	if errors.As(err, &e) {
		return fmt.Errorf("%s (%s)", e.Details, e.Type)
	}
	return err
}

// created is a new credential, as a page made it.
type created struct{ id, public, attestation []byte }

// create verifies a registration for nonce (WebAuthn section 7.1). Which device it
// was is not asked, so a statement about it is not either: attestation is "none".
func (s Site) create(message, nonce []byte) (c created, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the registration broke its decoder: %v", r)
		}
	}()
	if len(message) > maxMessage || len(nonce) < 16 {
		return c, errors.New("the registration is too long, or for no challenge")
	}
	if message, err = canon.Canonical(message, canon.Limits{Bytes: maxMessage}); err != nil {
		return c, err
	}
	read, err := protocol.ParseCredentialCreationResponseBytes(message)
	if err != nil {
		return c, described(err)
	}
	if d := read.Response.CollectedClientData; d.CrossOrigin || d.TopOrigin != "" || d.Origin != s.Origin {
		return c, errors.New("it was made on a page of another origin, or inside one")
	}
	_, err = read.Verify(base64.RawURLEncoding.EncodeToString(nonce), s.RPID, []string{s.Origin}, nil, nil,
		protocol.TopOriginExplicitVerificationMode, false, true, true, nil, algorithms, protocol.AttestationPolicy{}, protocol.SignaturePolicy{})
	if err != nil {
		return c, described(err)
	}
	data := read.Response.AttestationObject.AuthData.AttData
	if n := len(data.CredentialID); n == 0 || n > maxCredentialID {
		return c, errors.New("the credential ID has no usable length")
	}
	return created{bytes.Clone(data.CredentialID), bytes.Clone(data.CredentialPublicKey),
		bytes.Clone(read.Raw.AttestationResponse.AttestationObject)}, nil
}
