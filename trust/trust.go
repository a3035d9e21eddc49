// Package trust reads whom the operator lets certify workloads: the roots of a
// plain authority, or of a SPIFFE trust domain.
//
// It promises to give what the file or the Workload API holds now, all of it or an
// error: a file with one thing that is no certificate gives none. It remembers
// nothing; how long an answer counts is for package identity to say.
//
// It may import record, go-spiffe and the standard library.
package trust

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"

	"github.com/placet-dev/placet/record"
	"github.com/spiffe/go-spiffe/v2/bundle/spiffebundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
)

// Roots gives the roots as they are now.
type Roots func(context.Context) ([]*x509.Certificate, error)

// mostBytes bounds what is parsed of a file.
const mostBytes = 1 << 20

// File reads the roots from a file: certificates in PEM, or, for a trust domain, a
// bundle as the SPIFFE Trust Domain and Bundle specification writes it (JSON).
func File(read func(path string) ([]byte, error), path, domain string) Roots {
	return func(context.Context) ([]*x509.Certificate, error) {
		text, err := read(path)
		if err != nil {
			return nil, record.Errorf(record.Unavailable, "the roots cannot be read: %w", err)
		}
		roots, err := Parse(text, domain)
		if err != nil {
			return nil, record.Errorf(record.Invalid, "%s: %w", path, err)
		}
		return roots, nil
	}
}

// Parse reads roots; domain is that of a bundle in JSON, "" for a plain authority.
func Parse(text []byte, domain string) ([]*x509.Certificate, error) {
	if len(text) > mostBytes {
		return nil, record.Errorf(record.Invalid, "the roots are longer than %d bytes", mostBytes)
	}
	var roots []*x509.Certificate
	if domain != "" && bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		td, err := spiffeid.TrustDomainFromString(domain)
		if err != nil {
			return nil, record.Because(record.Invalid, err, "%q is no trust domain", domain)
		}
		bundle, err := spiffebundle.Parse(td, text)
		if err != nil {
			return nil, record.Because(record.Invalid, err, "this is no SPIFFE bundle")
		}
		roots = bundle.X509Authorities()
	} else {
		for rest := text; ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			if block.Type != "CERTIFICATE" {
				return nil, record.Errorf(record.Invalid, "a PEM block is no CERTIFICATE; only certificates belong here")
			}
			root, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, record.Because(record.Invalid, err, "a certificate cannot be read")
			}
			roots = append(roots, root)
		}
	}
	if len(roots) == 0 {
		return nil, record.Errorf(record.Invalid, "there is no certificate")
	}
	for _, r := range roots {
		if r.BasicConstraintsValid && !r.IsCA {
			return nil, record.Errorf(record.Invalid, "a certificate is not an authority's (CA)")
		}
	}
	return roots, nil
}

// WorkloadAPI asks the SPIFFE Workload API at a socket, such as
// unix:///run/spire/agent/public/api.sock, for a trust domain's roots.
func WorkloadAPI(address, domain string) Roots {
	return func(ctx context.Context) ([]*x509.Certificate, error) {
		td, err := spiffeid.TrustDomainFromString(domain)
		if err != nil {
			return nil, record.Because(record.Invalid, err, "%q is no trust domain", domain)
		}
		set, err := workloadapi.FetchX509Bundles(ctx, workloadapi.WithAddr(address))
		if err != nil {
			return nil, record.Because(record.Unavailable, err, "the SPIFFE Workload API does not answer")
		}
		bundle, err := set.GetX509BundleForTrustDomain(td)
		if err != nil || bundle.Empty() {
			return nil, record.Errorf(record.Unavailable, "the SPIFFE Workload API has no roots of the trust domain %s", td)
		}
		return bundle.X509Authorities(), nil
	}
}
