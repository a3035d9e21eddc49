package placet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/record"
)

// identified is a configuration with two issuers, a tool that people of both
// approve, and what identities says.
func identified(t *testing.T, identities string) Options {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"keys.json": `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"a","alg":"EdDSA","use":"sig"}]}`,
		"placet.yaml": `version: 1
environment: test
store: sqlite:state.db
registry: [tools.yaml]
issuers:
  - {issuer: "https://a.example.com", keys: keys.json, algorithms: [EdDSA], tenant: acme, claims: {groups: groups}}
  - {issuer: "https://b.example.com", keys: keys.json, algorithms: [EdDSA], tenant: acme, claims: {groups: groups}}
approvals: {default: {approvers: ["group:leads@https://a.example.com"], quorum: 2}}
` + identities,
		"tools.yaml": "version: 1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	both := approvedBy("pay", "group:leads@https://a.example.com")
	both.Entry.Approval.Approvers = append(both.Entry.Approval.Approvers, "principal:lena@https://b.example.com")
	both.Entry.Approval.Quorum = 2
	return Options{Config: c, Tools: []Tool{both, approvedBy("look", "group:leads@https://b.example.com")}}
}

// A check names the rules whose approvers nobody can tell apart from one another, or
// from whom they approve for.
func TestCheckNamesApproversThatCannotBeToldApart(t *testing.T) {
	about := func(identities string) (out []string) {
		c, err := Check(t.Context(), identified(t, identities))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range c.Warnings() {
			if strings.Contains(w.Message, "identities") {
				out = append(out, w.Path+": "+w.Message)
			}
		}
		return out
	}
	text := strings.Join(about(""), "\n")
	for _, want := range []string{
		"tools.pay.approval: wants 2 persons, who sign in at https://a.example.com and https://b.example.com",
		"tools.look.approval: asks people who sign in at https://b.example.com: their yes does not count for who calls with a token of https://a.example.com",
		"approvals.default: asks people who sign in at https://a.example.com: their yes does not count for who calls with a token of https://b.example.com",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not warned: %s\n%s", want, text)
		}
	}
	for _, same := range []string{"subject", "nobody"} {
		if got := about("identities: [{issuers: [\"https://a.example.com\", \"https://b.example.com\"], same: " + same + "}]\n"); len(got) > 0 {
			t.Errorf("same: %s: warned of %v", same, got)
		}
	}
}

func TestIdentitiesAreWhatDecides(t *testing.T) {
	named := "identities: [{person: lena, logins: [\"lena@https://a.example.com\", \"l.k@https://b.example.com\"]}]\n"
	strangers := "identities: [{issuers: [\"https://a.example.com\", \"https://b.example.com\"], same: nobody}]\n"
	digests := map[string]bool{}
	for _, identities := range []string{"", named, strangers} {
		c, err := Check(t.Context(), identified(t, identities))
		if err != nil {
			t.Fatal(err)
		}
		digests[c.active.Digest] = true
		a, b := record.Principal{Issuer: "https://a.example.com", Subject: "lena"}, record.Principal{Issuer: "https://b.example.com", Subject: "l.k"}
		if c.active.People.Same(a, b) != (identities == named) || c.active.People.Apart(a, b) != (identities == strangers) {
			t.Errorf("%q: same %t, apart %t", identities, c.active.People.Same(a, b), c.active.People.Apart(a, b))
		}
		weak := 0
		for _, o := range c.Overrides() {
			if o.Setting == "same: nobody" {
				weak++
			}
		}
		if (weak == 1) != (identities == strangers) {
			t.Errorf("%q: %d overrides", identities, weak)
		}
	}
	if len(digests) != 3 {
		t.Error("what identities says is not part of what is active")
	}
	if _, err := Check(t.Context(), identified(t, strings.TrimSuffix(strangers, "]\n")+", {person: x, logins: [\"x@https://a.example.com\", \"x@https://b.example.com\"]}]\n")); record.KindOf(err) != record.Invalid {
		t.Errorf("a contradiction: %v", err)
	}
}
