package isolation_test

import (
	"slices"

	"github.com/placet-dev/placet/identity"
)

// credentials are what a caller presents.
type credentials struct{ bearer, key string }

// who are the names of callers, as the tables write them.
type who []string

// The columns of the matrix. Everything belongs to owner: anna of acme, through
// the agent bot. Names and groups are the same in the other tenant, so that
// nothing but the tenant can make the difference.
var (
	// proposers hold a token for calling tools.
	proposers = who{
		"owner",
		"owner with a vouching key",
		"owner without scopes", // missing permission
		"other principal",
		"other principal with a vouching key",
		"other tenant",
		"other tenant with a vouching key",
		"other agent",
		"approver's token for proposing", // wrong audience at the answering doors
		"operator's token for proposing", // wrong audience at the operating doors
	}
	// persons hold a token for answering: the wrong audience for proposing.
	persons = who{"approver", "approver of the other tenant", "owner's token for answering"}
	// readers may look at their whole tenant.
	readers = who{"reader", "operator"}
	// strangers may look at the whole of another tenant.
	strangers = who{"reader of the other tenant", "operator of the other tenant"}
	// nobodies are known nowhere.
	nobodies = who{
		"nobody", "unknown key", "owner expired", "approver expired", "operator expired",
		"owner for another server", "approver for another server", "operator for another server", "unknown tenant",
	}
	// mixed present two credentials that do not go together.
	mixed = who{"approver with a key", "operator with a key"}
	// keys are a program's alone. With several tenants a key has none of its own,
	// so it proposes only beside a user's token.
	programs = who{"orchestrator's key"}
)

// the concatenates lists, without repeats.
func the(lists ...who) who {
	var out who
	for _, l := range lists {
		out = append(out, l.but(out...)...)
	}
	return out
}

func (l who) has(name string) bool { return slices.Contains(l, name) }

func (l who) but(names ...string) who {
	var out who
	for _, n := range l {
		if !who(names).has(n) {
			out = append(out, n)
		}
	}
	return out
}

var everybody = the(proposers, persons, readers, strangers, nobodies, mixed, programs)

// mine are the owner's own credentials.
var mine = who{"owner", "owner with a vouching key", "owner without scopes"}

// door says whom a kind of door turns away before it looks for anything. Whoever
// is in neither list reaches what is asked for, if it is there for them.
type door struct {
	unknown   who // 401
	forbidden who // 403
}

var (
	proposing = door{unknown: the(nobodies, persons, readers, strangers, mixed), forbidden: programs}
	viewing   = door{unknown: the(nobodies, mixed), forbidden: programs}
	reading   = door{unknown: viewing.unknown, forbidden: the(programs, proposers, persons)}
	answering = door{unknown: the(nobodies, mixed, programs), forbidden: proposers}
	operating = door{unknown: the(nobodies, mixed), forbidden: the(programs, proposers, persons, who{"reader", "reader of the other tenant"})}
)

// introduce makes every caller's credentials.
func (w *world) introduce(key string) {
	const scope = "notes:use"
	proposer := func(s identity.TokenSpec) identity.TokenSpec {
		s.Audience = w.url + "/mcp"
		s.Scopes = []string{scope}
		if s.Agent == "" {
			s.Agent = "bot"
		}
		if s.Tenant == "" {
			s.Tenant = "acme"
		}
		return s
	}
	person := func(subject, tenant string, groups ...string) identity.TokenSpec {
		return identity.TokenSpec{Audience: w.url + "/console", Subject: subject, Tenant: tenant, Groups: groups}
	}
	anna := proposer(identity.TokenSpec{Subject: "anna"})
	lena, olga := person("lena", "acme", "leads"), person("olga", "acme", "ops")
	elsewhere := func(s identity.TokenSpec) credentials {
		s.Audience = "https://elsewhere.example/mcp"
		return w.sign(false, s)
	}
	with := func(c credentials) credentials { c.key = key; return c }
	scopeless := anna
	scopeless.Scopes = nil
	globex := w.sign(false, proposer(identity.TokenSpec{Subject: "anna", Tenant: "globex"}))
	bert := w.sign(false, proposer(identity.TokenSpec{Subject: "bert"}))
	for name, c := range map[string]credentials{
		"owner":                               w.sign(false, anna),
		"owner with a vouching key":           with(w.sign(false, anna)),
		"owner without scopes":                w.sign(false, scopeless),
		"other principal":                     bert,
		"other principal with a vouching key": with(bert),
		"other tenant":                        globex,
		"other tenant with a vouching key":    with(globex),
		"other agent":                         w.sign(false, proposer(identity.TokenSpec{Subject: "anna", Agent: "rover"})),
		"approver's token for proposing":      w.sign(false, proposer(identity.TokenSpec{Subject: "lena", Groups: []string{"leads"}})),
		"operator's token for proposing":      w.sign(false, proposer(identity.TokenSpec{Subject: "olga", Groups: []string{"ops", "readers"}})),
		"orchestrator's key":                  {key: key},
		"approver":                            w.sign(false, lena),
		"approver of the other tenant":        w.sign(false, person("lena", "globex", "leads")),
		"owner's token for answering":         w.sign(false, person("anna", "acme", "leads")),

		"reader":                       w.sign(false, person("rita", "acme", "readers")),
		"operator":                     w.sign(false, olga),
		"reader of the other tenant":   w.sign(false, person("rita", "globex", "readers")),
		"operator of the other tenant": w.sign(false, person("olga", "globex", "ops", "readers")),

		"nobody":                      {},
		"unknown key":                 {key: "plk_" + "0000000000000000000000000000000000000000000"},
		"owner expired":               w.sign(true, anna),
		"approver expired":            w.sign(true, lena),
		"operator expired":            w.sign(true, olga),
		"owner for another server":    elsewhere(anna),
		"approver for another server": elsewhere(lena),
		"operator for another server": elsewhere(olga),
		"unknown tenant":              w.sign(false, proposer(identity.TokenSpec{Subject: "anna", Tenant: "initech"})),

		"approver with a key": with(w.sign(false, lena)),
		"operator with a key": with(w.sign(false, olga)),
	} {
		w.callers[name] = c
	}
	for _, name := range everybody {
		if _, ok := w.callers[name]; !ok || len(w.callers) != len(everybody) {
			w.t.Fatalf("the columns and the callers differ: %d, %d, %s", len(everybody), len(w.callers), name)
		}
	}
}
