package config

import (
	"slices"
	"strings"
)

// Identity is one statement about who is one person: either a person with their
// logins, or issuers with what they have in common.
type Identity struct {
	Person  string   `yaml:"person" doc:"A name for one person, with"`
	Logins  []string `yaml:"logins" doc:"their logins at several issuers, as SUBJECT@ISSUER; or"`
	Issuers []string `yaml:"issuers" doc:"several issuers, with"`
	Same    Same     `yaml:"same" doc:"subject: the same subject at them is the same person, and another subject another one; nobody: nobody has a login at two of them."`
}

// Same is who is the same person at several issuers.
type Same string

const (
	SameSubject Same = "subject"
	SameNobody  Same = "nobody"
)

func (Same) Choices() []string { return []string{string(SameSubject), string(SameNobody)} }

// Hints names what people write for a key.
func (*Identity) Hints() map[string]string {
	return map[string]string{"name": "person", "subjects": "logins: [SUBJECT@ISSUER, …]", "claim": "same: subject"}
}

// Check is the rules of an identity.
func (i *Identity) Check(fail func(key, message string)) {
	switch {
	case (i.Person == "") == (len(i.Issuers) == 0):
		fail("person", "wants either a person with logins, or issuers with same")
	case i.Person != "" && (len(i.Logins) < 2 || i.Same != ""):
		fail("logins", "wants two or more, such as lena@https://login.example.com, and no same")
	case i.Person == "" && (len(i.Issuers) < 2 || i.Same == "" || len(i.Logins) > 0):
		fail("issuers", "wants two or more, with same: subject or same: nobody, and no logins")
	}
}

// checkIdentities ties them to the issuers: what nobody can sign in at says nothing.
func (c *Config) checkIdentities(fail func(key, message string)) {
	known := func(issuer string) bool {
		return slices.ContainsFunc(c.Issuers, func(i Issuer) bool { return i.Issuer == issuer })
	}
	persons := map[string]bool{}
	for _, i := range c.Identities {
		if i.Person != "" && persons[i.Person] {
			fail("identities", "states "+i.Person+" twice; write all logins of a person into one entry")
		}
		persons[i.Person] = true
		for _, issuer := range i.Issuers {
			if !known(issuer) {
				fail("identities", "names "+issuer+", which is not one of the issuers")
			}
		}
		for _, login := range i.Logins {
			if !slices.ContainsFunc(c.Issuers, func(i Issuer) bool {
				subject, ok := strings.CutSuffix(login, "@"+i.Issuer)
				return ok && subject != ""
			}) {
				fail("identities", "names "+login+"; a login is SUBJECT@ISSUER, of one of the issuers")
			}
		}
	}
}
