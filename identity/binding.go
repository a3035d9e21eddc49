package identity

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// binding is whom else a token's sender must be: the holder of a certificate
// (RFC 8705 section 3.1), of a key (RFC 9449 section 6.1), or of both.
type binding struct {
	certificate string // digest of the certificate; "": none
	key         string // thumbprint of the key (RFC 7638); "": none
}

// bindingOf reads cnf. A token bound in no way that is understood here is refused:
// without the check it would be worth what its issuer meant to prevent.
func bindingOf(claims []byte) (binding, error) {
	cnf, ok := canon.Lookup(claims, "cnf")
	if !ok {
		return binding{}, nil
	}
	var b binding
	if len(cnf) == 0 || cnf[0] != '{' {
		return b, refuse(checkBinding, record.Unauthenticated, "the token's confirmation (cnf) cannot be read")
	}
	for name, digest := range map[string]*string{"x5t#S256": &b.certificate, "jkt": &b.key} {
		value, there := canon.Lookup(cnf, name)
		if !there {
			continue
		}
		text, ok := canon.Text(value)
		raw, err := strict.DecodeString(text)
		if !ok || err != nil || len(raw) != sha256.Size {
			return b, refuse(checkBinding, record.Unauthenticated, "%s in the token's confirmation (cnf) is no SHA-256 digest", name)
		}
		*digest = string(raw)
	}
	if b == (binding{}) {
		return b, refuse(checkBinding, record.Unauthenticated, "the token is bound to its sender in a way that is not supported here; cnf may hold x5t#S256 and jkt")
	}
	return b, nil
}

// holds reports whether it is the certificate that the token is bound to.
func (b binding) holds(leaf *x509.Certificate) bool {
	if leaf == nil || b.certificate == "" {
		return false
	}
	sum := sha256.Sum256(leaf.Raw)
	return subtle.ConstantTimeCompare(sum[:], []byte(b.certificate)) == 1
}

// checkBinding checks that the sender of a token is whom it is bound to. odd is why
// the certificate of the connection is nobody's here, if it is: that stands unless
// the token is bound to this very certificate.
func (v *Verifier) checkBinding(c Credentials, r *verified, odd error) error {
	leaf := c.certificate()
	switch {
	case r.unbound != nil:
		return r.unbound
	case odd != nil && !r.binding.holds(leaf):
		return odd
	case r.binding.certificate != "" && leaf == nil:
		return refuse(checkBinding, record.Unauthenticated, "the token is bound to a client certificate (cnf), and this connection presents none")
	case r.binding.certificate != "" && !r.binding.holds(leaf):
		return refuse(checkBinding, record.Unauthenticated, "the token is bound to another client certificate (cnf) than this connection presents")
	}
	if err := r.issuer.demands(r.binding); err != nil {
		return err
	}
	return v.checkProof(c, r)
}

// demands is the refusal of a token that its issuer should have bound.
func (i *issuer) demands(b binding) error {
	switch {
	case i.SenderConstrained == ByCertificate && b.certificate == "":
		return refuse(checkBinding, record.Unauthenticated, "tokens of this issuer must be bound to a client certificate (cnf.x5t#S256), and this one is not")
	case i.SenderConstrained == ByProof && b.key == "":
		return unprove(invalidToken, "tokens of this issuer must be bound to a key (cnf.jkt), and this one is not; ask the issuer for it with a DPoP proof")
	case i.SenderConstrained == ByEither && b == (binding{}):
		return unprove(invalidToken, "tokens of this issuer must be bound to a client certificate or to a key (cnf), and this one is not")
	}
	return nil
}
