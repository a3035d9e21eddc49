package identity

import (
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/textproto"
	"strings"
	"sync"

	"github.com/placet-dev/placet/record"
)

// Credentials is what a request presents. It shows itself as "redacted".
type Credentials struct {
	Bearer      string // of Authorization: Bearer, or DPoP
	WorkloadKey string // of Placet-Workload

	request *request // what the token may be bound to; nil: nothing is known of it
}

// request is the HTTP request that credentials came with.
type request struct {
	certificates []*x509.Certificate // of the TLS connection, the client's own first
	method, path string
	dpop         bool   // the scheme is DPoP
	proof        string // of the DPoP header

	mu     sync.Mutex
	proven bool // the proof was taken for this request
}

// certificate is the one the client proved to hold, or nil.
func (c Credentials) certificate() *x509.Certificate {
	if c.request == nil || len(c.request.certificates) == 0 {
		return nil
	}
	return c.request.certificates[0]
}

const redacted = "redacted"

func (Credentials) String() string               { return redacted }
func (Credentials) GoString() string             { return redacted }
func (Credentials) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (Credentials) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// maxCredential bounds what is looked at.
const maxCredential = 16 << 10

// CredentialsOf reads Authorization, DPoP and Placet-Workload, and the certificate of the
// TLS connection: from the handshake, never from a header. At least one of the three
// must be there.
func CredentialsOf(r *http.Request) (Credentials, error) {
	c, err := readHeader(r.Header)
	if err != nil {
		return Credentials{}, err
	}
	c.request.method, c.request.path = r.Method, r.URL.EscapedPath()
	if r.TLS != nil {
		c.request.certificates = r.TLS.PeerCertificates
	}
	if c.Bearer == "" && c.WorkloadKey == "" && c.certificate() == nil {
		return Credentials{}, nothing()
	}
	return c, nil
}

// CredentialsFrom is CredentialsOf where there is no request to look at: what is
// bound to one does not count.
func CredentialsFrom(h http.Header) (Credentials, error) {
	c, err := readHeader(h)
	if err == nil && c.Bearer == "" && c.WorkloadKey == "" {
		return Credentials{}, nothing()
	}
	c.request = nil
	return c, err
}

func nothing() error {
	return record.Errorf(record.Unauthenticated, "no credentials; send Authorization: Bearer and a token")
}

// readHeader reads Authorization, DPoP and Placet-Workload, and nothing else. Each may
// occur once. A header that occurs twice is refused, since whoever stands before us
// may have checked the other one.
func readHeader(h http.Header) (Credentials, error) {
	authorization, err := only(h, "Authorization")
	if err != nil {
		return Credentials{}, err
	}
	key, err := only(h, "Placet-Workload")
	if err != nil {
		return Credentials{}, err
	}
	proof, err := only(h, "Dpop")
	if err != nil {
		return Credentials{}, err
	}
	c := Credentials{request: &request{proof: proof}}
	if authorization != "" {
		scheme, token, _ := strings.Cut(authorization, " ")
		token = strings.TrimLeft(token, " ")
		c.request.dpop = strings.EqualFold(scheme, "DPoP")
		if !c.request.dpop && !strings.EqualFold(scheme, "Bearer") || !isToken68(token) {
			return Credentials{}, record.Errorf(record.Unauthenticated, "the Authorization header must be Bearer, or DPoP, and one token")
		}
		c.Bearer = token
	}
	if c.request.dpop != (proof != "") {
		return Credentials{}, unprove(invalidProof, "a token that is bound to a key is sent as Authorization: DPoP with its proof in the DPoP header; one goes with the other")
	}
	if key != "" {
		if !isToken68(key) {
			return Credentials{}, record.Errorf(record.Unauthenticated, "the Placet-Workload header must be one key")
		}
		c.WorkloadKey = key
	}
	return c, nil
}

// only returns the one value of a header, "" if it is absent. Names are compared
// in canonical form, so that a map filled by hand hides no second one.
func only(h http.Header, name string) (string, error) {
	value, n := "", 0
	for key, values := range h {
		if key == name || textproto.CanonicalMIMEHeaderKey(key) == name {
			for _, v := range values {
				value, n = v, n+1
			}
		}
	}
	switch {
	case n > 1:
		return "", record.Errorf(record.Unauthenticated, "the %s header occurs %d times; send it once", name, n)
	case n == 1 && value == "":
		return "", record.Errorf(record.Unauthenticated, "the %s header is empty", name)
	case len(value) > maxCredential:
		return "", record.Errorf(record.Unauthenticated, "the %s header is longer than %d bytes", name, maxCredential)
	}
	return value, nil
}

// isToken68 reports whether s is what RFC 6750 section 2.1 calls a b64token.
func isToken68(s string) bool {
	body := strings.TrimRight(s, "=")
	for i := range len(body) {
		switch c := body[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~+/", c) >= 0:
		default:
			return false
		}
	}
	return body != ""
}
