package identity

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/placet-dev/placet/record"
	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
)

const (
	rootsLife  = 5 * time.Second // how long roots count as they were read
	rootsStale = time.Minute     // how long they count on when they cannot be read again
	rootsWait  = 2 * time.Second // how long their source may take
	mostChain  = 10              // certificates in a chain
)

// Authority is one that certifies workloads: a SPIFFE trust domain or a plain CA.
type Authority struct {
	Name   string
	Domain string // the SPIFFE trust domain; "" for a plain CA
	Roots  func(context.Context) ([]*x509.Certificate, error)
}

// CertificateName is what a certificate of a plain authority states of a workload.
// Exactly one of DNS and URI is set; the certificate must hold it as it is.
type CertificateName struct {
	Authority string
	DNS       string
	URI       string
}

// authority is an authority with its roots as they were read last.
type authority struct {
	Authority
	log *slog.Logger

	mu          sync.Mutex
	tried, read time.Time
	roots       []*x509.Certificate
	pool        *x509.CertPool
}

// current gives the roots. What its source withdrew counts for rootsLife, and for
// rootsStale while the source does not answer.
func (a *authority) current(ctx context.Context, now time.Time) ([]*x509.Certificate, *x509.CertPool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if age := now.Sub(a.tried); a.tried.IsZero() || age < 0 || age >= rootsLife {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rootsWait)
		defer cancel()
		roots, err := a.Roots(ctx)
		if a.tried = now; err != nil {
			a.log.Error("the roots of an authority cannot be read", "authority", a.Name, "error", err)
		} else {
			a.read, a.roots, a.pool = now, roots, x509.NewCertPool()
			for _, r := range roots {
				a.pool.AddCert(r)
			}
		}
	}
	if age := now.Sub(a.read); a.read.IsZero() || age < 0 || age >= rootsStale {
		return nil, nil, refuse(checkWorkload, record.Unavailable, "the roots of the authority %s cannot be read now, so this certificate cannot be checked; an operator finds the reason in the log", a.Name)
	}
	return a.roots, a.pool, nil
}

func (v *Verifier) addAuthority(given Authority) error {
	for _, other := range v.authorities {
		if other.Name == given.Name || given.Domain != "" && other.Domain == given.Domain {
			return record.Errorf(record.Invalid, "authority %q: its name or trust domain is another's too", given.Name)
		}
	}
	if given.Domain != "" {
		if td, err := spiffeid.TrustDomainFromString(given.Domain); err != nil || td.Name() != given.Domain {
			return record.Errorf(record.Invalid, "authority %q: %q is no trust domain, such as example.org", given.Name, given.Domain)
		}
	}
	if given.Roots == nil {
		return record.Errorf(record.Invalid, "authority %q has no roots", given.Name)
	}
	v.authorities = append(v.authorities, &authority{Authority: given, log: v.log})
	return nil
}

// addCertificate checks what a certificate must state to be a workload's.
func (v *Verifier) addCertificate(p *program, w WorkloadKey) error {
	bad := func(format string, args ...any) error {
		return record.Errorf(record.Invalid, "workload %q: "+format, append([]any{w.Name}, args...)...)
	}
	if w.SPIFFE != "" {
		id, err := spiffeid.FromString(w.SPIFFE)
		switch {
		case err != nil || id.Path() == "":
			return bad("spiffe wants a SPIFFE ID such as spiffe://example.org/support-app")
		case !slices.ContainsFunc(v.authorities, func(a *authority) bool { return a.Domain == id.TrustDomain().Name() }):
			return bad("no authority under trust is the trust domain %s", id.TrustDomain())
		}
		p.spiffe = id.String()
	}
	if n := w.Certificate; n != (CertificateName{}) {
		u, err := url.Parse(n.URI)
		switch {
		case (n.DNS == "") == (n.URI == ""):
			return bad("certificate wants dns or uri, exactly one of the two")
		case !slices.ContainsFunc(v.authorities, func(a *authority) bool { return a.Name == n.Authority && a.Domain == "" }):
			return bad("certificate: no plain authority under trust is named %q", n.Authority)
		case strings.ContainsAny(n.DNS, "*/: ") || !printable(n.DNS+n.URI):
			return bad("certificate: dns wants a host name, without wildcards")
		case n.URI != "" && (err != nil || u.Scheme == "" || u.Scheme == "spiffe" || u.String() != n.URI):
			return bad("certificate: uri wants a URI as the certificate holds it; for a SPIFFE ID use spiffe")
		}
		p.certificate = n
		p.certificate.DNS = strings.ToLower(n.DNS)
	}
	for _, other := range v.programs {
		if p.spiffe != "" && other.spiffe == p.spiffe || p.certificate != (CertificateName{}) && other.certificate == p.certificate {
			return bad("its certificate is that of %s too", other.workload.name)
		}
	}
	return nil
}

// stranger is the refusal of a certificate that is well and nobody's here. It may
// still be what a token is bound to (RFC 8705 section 3): then the token's issuer
// answers for it, and no authority of ours has to.
type stranger struct{ refusal }

func (s *stranger) Unwrap() error { return &s.refusal }

func strange(format string, args ...any) error {
	return &stranger{refusal{check: checkWorkload, err: record.Errorf(record.Unauthenticated, format, args...)}}
}

// certificate finds whose certificate chain it is. That its sender holds the key
// was shown in the TLS handshake; everything else is checked here, at every
// request, so that a root that was withdrawn ends connections that are open.
func (v *Verifier) certificate(ctx context.Context, chain []*x509.Certificate) (*Workload, error) {
	now, leaf := v.clock(), chain[0]
	refused := func(format string, args ...any) error {
		return refuse(checkWorkload, record.Unauthenticated, format, args...)
	}
	switch {
	case now.Before(leaf.NotBefore):
		return nil, refused("the client certificate is not valid yet; it begins at %s", leaf.NotBefore.UTC().Format(time.RFC3339))
	case now.After(leaf.NotAfter):
		return nil, refused("the client certificate expired at %s; get a new one", leaf.NotAfter.UTC().Format(time.RFC3339))
	case len(chain) > mostChain:
		return nil, refused("the client certificate comes with more than %d certificates", mostChain)
	case leaf.IsCA || leaf.KeyUsage&(x509.KeyUsageCertSign|x509.KeyUsageCRLSign) != 0:
		return nil, refused("the client certificate is an authority's (CA), not a workload's")
	case !forClients(leaf):
		return nil, refused("the client certificate is not for TLS clients: its key usage must allow digital signatures, and its extended key usage client authentication")
	case len(v.authorities) == 0:
		return nil, strange("no client certificates are trusted here; an operator names authorities under trust")
	}
	if slices.ContainsFunc(leaf.URIs, func(u *url.URL) bool { return strings.EqualFold(u.Scheme, "spiffe") }) {
		return v.svid(ctx, chain, now)
	}
	return v.plainCertificate(ctx, chain, now)
}

// forClients reports whether a certificate's usages, where it states any, are those
// of a TLS client (RFC 5280 sections 4.2.1.3 and 4.2.1.12).
func forClients(leaf *x509.Certificate) bool {
	if leaf.KeyUsage != 0 && leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0 {
		return false
	}
	stated := len(leaf.ExtKeyUsage)+len(leaf.UnknownExtKeyUsage) > 0
	return !stated || slices.ContainsFunc(leaf.ExtKeyUsage, func(u x509.ExtKeyUsage) bool {
		return u == x509.ExtKeyUsageClientAuth || u == x509.ExtKeyUsageAny
	})
}

// svid checks an X.509-SVID against the bundle of its own trust domain.
func (v *Verifier) svid(ctx context.Context, chain []*x509.Certificate, now time.Time) (*Workload, error) {
	id, err := x509svid.IDFromCert(chain[0])
	if err != nil {
		return nil, refuseBecause(checkWorkload, record.Unauthenticated, err, "the client certificate must hold one SPIFFE ID and no other URI")
	}
	at := slices.IndexFunc(v.authorities, func(a *authority) bool { return a.Domain == id.TrustDomain().Name() })
	if at < 0 {
		return nil, strange("the client certificate is of a SPIFFE trust domain that is not trusted here")
	}
	roots, _, err := v.authorities[at].current(ctx, now)
	if err != nil {
		return nil, err
	}
	if _, _, err := x509svid.Verify(chain, x509bundle.FromX509Authorities(id.TrustDomain(), roots), x509svid.WithTime(now)); err != nil {
		return nil, untrusted(err)
	}
	for _, p := range v.programs {
		if p.spiffe == id.String() {
			return p.workload.until(chain[0].NotAfter, now)
		}
	}
	return nil, strange("the client certificate's SPIFFE ID is no workload's here; an operator names it under workloads")
}

// plainCertificate checks a certificate against each plain authority, and finds the
// one workload that its names are.
func (v *Verifier) plainCertificate(ctx context.Context, chain []*x509.Certificate, now time.Time) (*Workload, error) {
	intermediates := x509.NewCertPool()
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	var found []*program
	var trusted bool
	var unread, problem error
	for _, a := range v.authorities {
		if a.Domain != "" {
			continue
		}
		_, pool, err := a.current(ctx, now)
		if err != nil {
			unread = err
			continue
		}
		if _, err = chain[0].Verify(x509.VerifyOptions{Roots: pool, Intermediates: intermediates, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
			problem = err
			continue
		}
		trusted = true
		for _, p := range v.programs {
			if p.certificate.Authority == a.Name && p.certificate.in(chain[0]) {
				found = append(found, p)
			}
		}
	}
	switch {
	case len(found) == 1:
		return found[0].workload.until(chain[0].NotAfter, now)
	case len(found) > 1:
		return nil, refuse(checkWorkload, record.Unauthenticated, "the client certificate holds the names of two workloads, %s and %s", found[0].workload.name, found[1].workload.name)
	case unread != nil:
		return nil, unread
	case trusted:
		return nil, strange("the client certificate's names are no workload's here; an operator names one under workloads")
	case problem != nil:
		return nil, untrusted(problem)
	}
	return nil, strange("the client certificate is of no authority that is trusted here")
}

// in reports whether a certificate holds the name, exactly. Wildcards stand for
// nothing, and the subject's common name is not looked at.
func (n CertificateName) in(leaf *x509.Certificate) bool {
	if n.DNS != "" {
		return slices.ContainsFunc(leaf.DNSNames, func(name string) bool { return strings.EqualFold(name, n.DNS) })
	}
	return n.URI != "" && slices.ContainsFunc(leaf.URIs, func(u *url.URL) bool { return u.String() == n.URI })
}

// untrusted refuses a certificate whose chain does not lead to a trusted root.
func untrusted(err error) error {
	const text = "the client certificate is of no authority that is trusted here, or its chain is not whole or not valid"
	return &stranger{refusal{check: checkWorkload, err: record.Because(record.Unauthenticated, err, text)}}
}
