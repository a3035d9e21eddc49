package record_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// login is subject@issuer, with one letter for the issuer.
func login(s string) record.Principal {
	return record.Principal{Subject: s[:len(s)-2], Issuer: s[len(s)-1:]}
}

func logins(names ...string) (out []record.Principal) {
	for _, n := range names {
		out = append(out, login(n))
	}
	return out
}

func people(t interface{ Fatal(...any) }, persons []record.Individual, alike, apart [][]string) *record.People {
	p, err := record.NewPeople([]string{"A", "B", "C", "D"}, persons, alike, apart)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRule_D5_WhoIsOnePerson(t *testing.T) {
	named := people(t, []record.Individual{{Name: "Lena", Logins: logins("lena@A", "l.k@B")}, {Name: "Max", Logins: logins("max@A", "max@C")}}, nil, nil)
	alike := people(t, []record.Individual{{Name: "Lena", Logins: logins("lena@A", "admin@A")}}, [][]string{{"A", "B"}}, [][]string{{"A", "C"}})
	for _, tc := range []struct {
		about       string
		p           *record.People
		a, b        string
		same, apart bool
	}{
		{"one login", nil, "lena@A", "lena@A", true, false},
		{"two of one issuer", nil, "lena@A", "max@A", false, true},
		{"equal subjects of two issuers", nil, "lena@A", "lena@B", false, false},
		{"a person's two logins", named, "lena@A", "l.k@B", true, false},
		{"two stated persons", named, "l.k@B", "max@C", false, true},
		{"stated, and another of an issuer that knows both", named, "l.k@B", "anna@A", false, true},
		{"stated, and another of an issuer that knows one", named, "l.k@B", "anna@C", false, false},
		{"nothing stated of either", named, "eve@B", "anna@A", false, false},
		{"equal subject", alike, "eve@A", "eve@B", true, false},
		{"other subject", alike, "eve@A", "anna@B", false, true},
		{"a stated login's equal subject", alike, "admin@B", "lena@A", true, false},
		{"issuers with nobody in common", alike, "eve@A", "eve@C", false, true},
		{"and what is equal to one of them", alike, "eve@B", "eve@C", false, true},
		{"an issuer that nothing is stated of", alike, "eve@B", "eve@D", false, false},
	} {
		a, b := login(tc.a), login(tc.b)
		if tc.p.Same(a, b) != tc.same || tc.p.Same(b, a) != tc.same {
			t.Errorf("%s: %s and %s: same is not %t", tc.about, tc.a, tc.b, tc.same)
		}
		if tc.p.Apart(a, b) != tc.apart || tc.p.Apart(b, a) != tc.apart {
			t.Errorf("%s: %s and %s: apart is not %t", tc.about, tc.a, tc.b, tc.apart)
		}
	}
	bot := record.Principal{Issuer: record.WorkloadIssuer, Subject: "bot"}
	if !alike.Apart(bot, login("eve@D")) || !(*record.People)(nil).Apart(bot, login("bot@A")) {
		t.Error("a workload counts as somebody's login")
	}
	if got := alike.Logins(login("lena@A")); !slices.Equal(got, logins("lena@A", "lena@B", "admin@A", "admin@B")) {
		t.Errorf("logins: %v", got)
	}
	if alike.Known(login("eve@Z")) || !alike.Known(login("eve@A")) || !(*record.People)(nil).Known(login("eve@Z")) {
		t.Error("an issuer that is not configured counts")
	}
}

func TestPeopleThatContradict(t *testing.T) {
	for name, tc := range map[string]struct {
		persons      []record.Individual
		alike, apart [][]string
	}{
		"a login of two persons":     {persons: []record.Individual{{Name: "x", Logins: logins("a@A", "b@B")}, {Name: "y", Logins: logins("b@B", "c@C")}}},
		"by an equal subject":        {[]record.Individual{{Name: "x", Logins: logins("a@A", "c@C")}, {Name: "y", Logins: logins("a@B", "d@C")}}, [][]string{{"A", "B"}}, nil},
		"an issuer in two lists":     {nil, [][]string{{"A", "B"}, {"B", "C"}}, nil},
		"the same and nobody":        {nil, [][]string{{"A", "B"}}, [][]string{{"B", "A"}}},
		"a person at strangers":      {[]record.Individual{{Name: "x", Logins: logins("a@A", "b@B")}}, nil, [][]string{{"A", "B"}}},
		"a person at strangers' own": {[]record.Individual{{Name: "x", Logins: logins("a@A", "c@C")}}, [][]string{{"A", "B"}}, [][]string{{"B", "C"}}},
	} {
		if _, err := record.NewPeople(nil, tc.persons, tc.alike, tc.apart); record.KindOf(err) != record.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRule_D5_NeverMorePersonsThanThereAre: in a random world of people with logins,
// of which a random and true part is stated, nobody is counted twice.
func TestRule_D5_NeverMorePersonsThanThereAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		issuers := []string{"A", "B", "C", "D"}
		alike := rapid.Bool().Draw(t, "A and B have equal subjects")
		apart := rapid.Bool().Draw(t, "nobody is at C and D")
		owner := map[record.Principal]int{}
		var all []record.Principal
		var persons []record.Individual
		for human := range rapid.IntRange(1, 6).Draw(t, "people") {
			var own []record.Principal
			for _, issuer := range issuers {
				if !rapid.Bool().Draw(t, "has a login") || apart && issuer == "D" && slices.ContainsFunc(own, func(p record.Principal) bool { return p.Issuer == "C" }) {
					continue
				}
				// Numbers are dealt so that equal subjects mean one human at A and B only where
				// that is so.
				subject := fmt.Sprint(human)
				if !alike || issuer > "B" {
					subject = fmt.Sprint((human + int(issuer[0])) % 7)
				}
				own = append(own, record.Principal{Issuer: issuer, Subject: subject})
			}
			for _, l := range own {
				owner[l] = human
			}
			all = append(all, own...)
			if len(own) > 1 && rapid.Bool().Draw(t, "stated") {
				persons = append(persons, record.Individual{Name: fmt.Sprint("human ", human), Logins: own})
			}
		}
		var lists, strangers [][]string
		if alike {
			lists = [][]string{{"A", "B"}}
		}
		if apart {
			strangers = [][]string{{"C", "D"}}
		}
		p := people(t, persons, lists, strangers)
		for _, a := range all {
			for _, b := range all {
				if p.Same(a, b) && owner[a] != owner[b] || p.Apart(a, b) && owner[a] == owner[b] {
					t.Fatalf("%s and %s: same %t, apart %t, and they are humans %d and %d", a, b, p.Same(a, b), p.Apart(a, b), owner[a], owner[b])
				}
			}
		}
		some := rapid.SliceOfN(rapid.SampledFrom(append(all, login("x@A"))), 0, 8).Draw(t, "who said yes")
		humans := map[any]bool{}
		for _, l := range some {
			if h, ok := owner[l]; ok {
				humans[h] = true
			} else {
				humans[l] = true
			}
		}
		if n := p.Count(some); n > len(humans) || len(some) > 0 && n == 0 {
			t.Fatalf("%v count as %d persons, and are %d", some, n, len(humans))
		}
	})
}

func TestRule_D5_OnlyWhatCanBeToldApartCountsTogether(t *testing.T) {
	b := canon.Of("b")
	group := func(issuer string) record.Group { return record.Group{Issuer: issuer, Name: "leads"} }
	rule := record.ApprovalRule{Parts: []record.ApprovalPart{{Groups: []record.Group{group("A"), group("B"), group("C")}, Quorum: 2}}}
	some := people(t, []record.Individual{{Name: "Lena", Logins: logins("lena@A", "lena@B")}, {Name: "Max", Logins: logins("max@C", "max@B")}}, nil, nil)
	apart := people(t, nil, nil, [][]string{{"A", "B"}})
	for name, tc := range map[string]struct {
		p    *record.People
		yes  []record.Principal
		by   string
		self bool
		want bool
	}{
		"two of one issuer":                    {nil, logins("lena@A", "max@A"), "anna@A", false, true},
		"two issuers, nothing stated":          {nil, logins("lena@A", "max@B"), "anna@A", true, false},
		"three, of whom two at one":            {nil, logins("lena@A", "max@B", "mia@A"), "anna@A", true, true},
		"one person twice":                     {some, logins("lena@A", "lena@B"), "anna@A", true, false},
		"two stated persons":                   {some, logins("lena@A", "max@C"), "anna@B", false, true},
		"stated, and one whom an issuer knows": {some, logins("lena@A", "mia@B"), "anna@B", false, true},
		"nobody in common":                     {apart, logins("lena@A", "max@B"), "anna@A", false, true},
		"the principal elsewhere":              {some, logins("max@B", "mia@B", "lena@B"), "lena@A", false, true},
		"the principal elsewhere, of two":      {some, logins("max@B", "lena@B"), "lena@A", false, false},
		"perhaps the principal":                {nil, logins("max@B", "mia@B"), "anna@A", false, false},
		"perhaps the principal, who may":       {nil, logins("max@B", "mia@B"), "anna@A", true, true},
		"the agent itself":                     {nil, logins("bot@A", "mia@A"), "anna@A", true, false},
		"an issuer that is gone":               {some, logins("lena@Z", "mia@Z"), "anna@Z", false, false},
	} {
		var answers []record.Reply
		for _, who := range tc.yes {
			answers = append(answers, record.Reply{Person: who, Groups: []record.Group{group("A"), group("B"), group("C")}, Word: record.Yes, Binding: b})
		}
		rule := rule
		rule.Self = tc.self
		if got := rule.Met(answers, b, record.Owner{Principal: login(tc.by), Agent: "bot"}, tc.p); got != tc.want {
			t.Errorf("%s: met %t", name, got)
		}
	}
}

func TestRuleReachable(t *testing.T) {
	some := people(t, []record.Individual{{Name: "Lena", Logins: logins("lena@A", "lena@B")}}, nil, nil)
	group := func(issuer string) []record.Group { return []record.Group{{Issuer: issuer, Name: "leads"}} }
	bot := record.Principal{Issuer: record.WorkloadIssuer, Subject: "bot"}
	for name, tc := range map[string]struct {
		p    *record.People
		part record.ApprovalPart
		by   record.Principal
		self bool
		want bool
	}{
		"a group":                           {nil, record.ApprovalPart{Groups: group("A"), Quorum: 2}, login("anna@A"), false, true},
		"nobody":                            {nil, record.ApprovalPart{}, login("anna@A"), false, false},
		"a group of another issuer":         {nil, record.ApprovalPart{Groups: group("B")}, login("anna@A"), false, false},
		"that has somebody who is stated":   {some, record.ApprovalPart{Groups: group("B")}, login("anna@A"), false, true},
		"who is the principal":              {some, record.ApprovalPart{People: logins("lena@B")}, login("lena@A"), false, false},
		"another issuer's, for oneself too": {nil, record.ApprovalPart{Groups: group("B")}, login("anna@A"), true, true},
		"for a workload":                    {nil, record.ApprovalPart{Groups: group("B")}, bot, false, true},
		"the principal alone":               {nil, record.ApprovalPart{Principal: true}, login("anna@A"), true, true},
		"a workload for itself":             {nil, record.ApprovalPart{Principal: true}, bot, true, false},
		"the principal, not permitted":      {nil, record.ApprovalPart{People: logins("anna@A")}, login("anna@A"), false, false},
		"fewer than the quorum":             {nil, record.ApprovalPart{People: logins("anna@A", "lena@A"), Quorum: 2}, login("anna@A"), false, false},
		"just the quorum":                   {nil, record.ApprovalPart{People: logins("max@A", "lena@A"), Quorum: 2}, login("anna@A"), false, true},
	} {
		rule := record.ApprovalRule{Parts: []record.ApprovalPart{tc.part}, Self: tc.self}
		if got := rule.Reachable(record.Owner{Principal: tc.by}, tc.p); got != tc.want {
			t.Errorf("%s: reachable %t", name, got)
		}
	}
}
