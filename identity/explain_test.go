package identity_test

import (
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/placet-dev/placet/identity"
)

func TestExplain(t *testing.T) {
	at, k := newClock(), testKeys()
	key := must(identity.NewKey(rand.Reader))
	c := config(t)
	c.Workloads = []identity.WorkloadKey{{Name: "app", KeyHash: identity.HashKey(key), Tenant: "acme", Permissions: []identity.Permission{identity.Vouch, identity.Propose, identity.Read}}}
	v := verifier(t, c, at)
	token := mint(t, k.rsa, rs256(), claims(at).with("email", "anna@secret.example"))

	for name, test := range map[string]struct {
		c       identity.Credentials
		as      string
		failed  string
		problem string
	}{
		"caller":           {bearer(token), "caller", "", ""},
		"with a key":       {identity.Credentials{Bearer: token, WorkloadKey: key}, "caller", "", ""},
		"key alone":        {identity.Credentials{WorkloadKey: key}, "caller", "", ""},
		"wrong key":        {identity.Credentials{Bearer: token, WorkloadKey: "plk_x"}, "", "workload", "not known here"},
		"person":           {bearer(mint(t, k.rsa, rs256(), claims(at).with("aud", console))), "person", "", ""},
		"acted-for person": {bearer(mint(t, k.rsa, rs256(), claims(at).with("aud", console, "act", object{"sub": "x"}))), "", "person", "own login"},
		"both audiences":   {bearer(mint(t, k.rsa, rs256(), claims(at).with("aud", []string{console, mcp}))), "", "audience", "cannot answer"},
		"wrong audience":   {bearer(mint(t, k.rsa, rs256(), claims(at).with("aud", "x"))), "", "audience", "ask the issuer for audience " + mcp},
		"expired":          {bearer(mint(t, k.rsa, rs256(), claims(at).with("exp", 1))), "", "lifetime", "expired at 1970-01-01T00:00:01Z; get a new one"},
		"groups overage":   {bearer(mint(t, k.rsa, rs256(), claims(at).with("groups", nil, "_claim_names", object{"groups": "src1"}))), "", "groups_overage", "groups overage: "},
		"nothing":          {identity.Credentials{}, "", "format", "no token"},
		"garbage":          {bearer("\x1b[31m.\x00.x"), "", "format", "not base64url"},
	} {
		e := v.Explain(t.Context(), test.c)
		n := len(e.Checks)
		if e.As != test.as || n == 0 || e.Checks[n-1].Passed != (test.failed == "") || test.failed != "" && e.Checks[n-1].Name != test.failed || !strings.Contains(e.Problem, test.problem) {
			t.Errorf("%s: %+v", name, e)
		}
		if e.Caller.Valid() != (test.as == "caller") || (e.Problem == "") != (test.as != "") {
			t.Errorf("%s: caller %v, problem %q", name, e.Caller.Valid(), e.Problem)
		}
		shown := string(must(json.Marshal(e)))
		for _, secret := range []string{key, "secret.example", test.c.Bearer, "\x1b"} {
			if secret != "" && strings.Contains(shown, secret) {
				t.Errorf("%s: shows %q", name, secret)
			}
		}
	}
	e := v.Explain(t.Context(), identity.Credentials{Bearer: token, WorkloadKey: key})
	if e.Workload != "app" || !e.Vouches || e.Operates || !e.Reads || e.Subject.Subject != "anna" || e.Agent != "helper" || e.Tenant != "acme" ||
		!slices.Contains(e.Claims, "email") || e.Header != (identity.Header{Algorithm: "RS256", Type: "at+jwt", Key: "r1"}) || len(e.Scopes) != 2 || len(e.Groups) != 2 {
		t.Errorf("%+v", e)
	}
}
