package dispatch_test

import (
	"testing"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// FuzzParseTarget: what is read is written back as the same target.
func FuzzParseTarget(f *testing.F) {
	for _, text := range []string{"all", "tool:refund", "tool:refund@" + record.ArgumentDigest(nil, nil).String(), "principal:anna@x@https://idp", "run:run_1",
		"session:ses_1", "tool:", "all:", "x:y", "principal:@", "tool:a@sha256:", "tenant:globex", "credential:a:b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := dispatch.ParseTarget(text)
		if err != nil {
			if record.KindOf(err) != record.Invalid {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		r := record.Revocation{Kind: o.Kind, Name: o.Name, Version: o.Version}
		if o.Kind == record.RevokedPrincipal {
			r.People = []record.Principal{o.Person}
		}
		if r.What() != text {
			t.Fatalf("%q is read as %q", text, r.What())
		}
	})
}
