package rego

import (
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// impure are built-in functions that OPA does not mark as such, and that still
// depend on more than their arguments: a clock, or files and hosts that a
// schema's $ref names.
var impure = [...]string{
	"crypto.x509.parse_and_verify_certificates",
	"crypto.x509.parse_and_verify_certificates_with_options",
	"io.jwt.decode_verify",
	"json.match_schema",
	"json.verify_schema",
	"rego.parse_module",
	"trace",
}

// capabilities is what a layer may use: the same input gives the same verdict,
// now and when it is explained later. A removed built-in is a compile error.
func capabilities() *ast.Capabilities {
	c := ast.CapabilitiesForThisVersion()
	c.AllowNet = []string{}
	kept := make([]*ast.Builtin, 0, len(c.Builtins))
	for _, b := range c.Builtins {
		if !b.Nondeterministic && !isImpure(b.Name) {
			kept = append(kept, b)
		}
	}
	c.Builtins = kept
	return c
}

func isImpure(name string) bool {
	for _, n := range impure {
		if n == name {
			return true
		}
	}
	return strings.HasPrefix(name, "opa.") || strings.HasPrefix(name, "rand.")
}
