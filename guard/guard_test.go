package guard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/record"
	"pgregory.net/rapid"
)

// Guards reach into objects and lists, and into names that hold dots themselves.
func TestGuardsReachIntoArguments(t *testing.T) {
	for _, c := range []struct {
		argument, in, out string // out "" for refused
		place             string
	}{
		{"to", `{"to":"A@Example.COM"}`, `{"to":"A@example.com"}`, ""},
		{"to", `{"other":1}`, `{"other":1}`, ""},
		{"to", `{"to":["a@example.com","b@EXAMPLE.com"]}`, `{"to":["a@example.com","b@example.com"]}`, ""},
		{"to", `{"to":[]}`, `{"to":[]}`, ""},
		{"to", `{"to":["a@example.com","b"]}`, "", "to[1]"},
		{"to", `{"to":[["a@example.com"]]}`, "", "to[0]"},
		{"to", `{"to":{"a":"a@example.com"}}`, "", "to"},
		{"people[].mail", `{"people":[{"mail":"a@B.example","n":1},{"n":2}]}`, `{"people":[{"mail":"a@b.example","n":1},{"n":2}]}`, ""},
		{"people[].mail", `{"people":{"mail":"a@B.example"}}`, `{"people":{"mail":"a@b.example"}}`, ""},
		{"people[].mail", `{"people":[{"mail":"a@b.example"},{"mail":["b@b.example","x"]}]}`, "", "people[1].mail[1]"},
		{"people[].mail", `{"people":["a@b.example"]}`, "", "people[0]"},
		{"people[].mail", `{"people":"a@b.example"}`, "", "people"},
		{"a.b", `{"a":{"b":"x@Y.example","c":[1]},"a.b":"x@Z.example"}`, `{"a":{"b":"x@y.example","c":[1]},"a.b":"x@z.example"}`, ""},
		{"a.b", `{"a.b":"x"}`, "", "a.b"},
		{"a.b", `{"a":{"b":"x"}}`, "", "a.b"},
		{"to", `{"to":null}`, "", "to"},
	} {
		g := compiled(t, guard.Spec{Argument: c.argument, Type: guard.Email})
		out, refusal := g.Accept([]byte(c.in), anna)
		switch {
		case refusal != nil && (c.out != "" || refusal.Argument != c.place):
			t.Errorf("%s in %s: refused at %s: %v", c.argument, c.in, refusal.Argument, refusal)
		case refusal == nil && string(out) != c.out:
			t.Errorf("%s in %s: %s", c.argument, c.in, out)
		}
	}
	many := `{"to":["a@example.com"` + strings.Repeat(`,"a@example.com"`, 50) + `]}`
	if _, refusal := compiled(t, guard.Spec{Argument: "to", Type: guard.Email}).Accept([]byte(many), anna); refusal == nil {
		t.Error("51 addresses pass")
	}
	if _, refusal := compiled(t, guard.Spec{Argument: "to", Type: guard.Email, MaxItems: 51}).Accept([]byte(many), anna); refusal != nil {
		t.Error(refusal)
	}
	for _, bad := range []string{"", ".", "a.", ".a", "a..b", "a[]b", "[]", "a b", "1a", "a[0]"} {
		if _, err := guard.New(guard.Spec{Argument: bad, Type: guard.Email}); err == nil {
			t.Errorf("%q is a way into arguments", bad)
		}
	}
}

// What is allowed is allowed in every spelling of it, and nothing beside it.
func TestAllowLists(t *testing.T) {
	email := guard.Spec{Type: guard.Email, Domains: []string{"example.com", "*.team.example", "münchen.de"}, Addresses: []string{"Boss@partner.example"}}
	web := guard.Spec{Type: guard.URL, Hosts: []string{"api.example.com", "*.cdn.example"}, Ports: []int{443, 8443}}
	inside := guard.Spec{Type: guard.URL, Schemes: []string{"http"}, Networks: []string{"10.20.0.0/16"}, Hosts: []string{"wiki.corp", "10.20.1.2", "10.0.0.1"}}
	for _, c := range []struct {
		spec  guard.Spec
		value string
		want  bool
	}{
		{email, `"a@example.com"`, true}, {email, `"a@EXAMPLE.com."`, true}, {email, `"a@sub.example.com"`, false}, {email, `"a@x.team.example"`, true},
		{email, `"a@team.example"`, false}, {email, `"a@notteam.example"`, false}, {email, `"a@xn--mnchen-3ya.de"`, true}, {email, `"a@MÜNCHEN.de"`, true},
		{email, `"boss@partner.example"`, true}, {email, `"boss+urgent@partner.example"`, true}, {email, `"bos@partner.example"`, false},
		{email, `"a@example.com.evil.example"`, false}, {email, `"a@example.com@evil.example"`, false}, {email, `"a@exаmple.com"`, false},
		{web, `"https://api.example.com/v1"`, true}, {web, `"https://API.example.com:8443/"`, true}, {web, `"https://api.example.com:80/"`, false},
		{web, `"https://a.b.cdn.example/"`, true}, {web, `"https://cdn.example/"`, false}, {web, `"https://api.example.com.evil.example/"`, false},
		{web, `"https://evil.example/?api.example.com"`, false}, {web, `"https://api.example.com@evil.example/"`, false}, {web, `"https://8.8.8.8/"`, false},
		{inside, `"http://wiki.corp/"`, true}, {inside, `"http://10.20.1.2/"`, true}, {inside, `"http://10.0.0.1/"`, false}, {inside, `"http://10.20.1.3/"`, false},
		{inside, `"http://other.corp/"`, false}, {inside, `"http://169.254.169.254/"`, false}, {inside, `"http://0x0a140102/"`, false},
	} {
		a, _ := arguments(json.RawMessage(c.value))
		if got := accepts(t, compiled(t, c.spec), a); got != c.want {
			t.Errorf("%s: accepted is %t", c.value, got)
		}
	}
}

// An amount keeps its type and its text, and its currency is the one beside it.
func TestAmountsAreExact(t *testing.T) {
	g := compiled(t, guard.Spec{Argument: "lines[].amount", Type: guard.Amount, Currency: "{currency}", Min: "0.01", Max: "10"})
	for in, want := range map[string]bool{
		`{"lines":[{"amount":"0.10","currency":"EUR"},{"amount":0.1,"currency":"EUR"}]}`: true,
		`{"lines":[{"amount":"10.000","currency":"KWD"}]}`:                               true,
		`{"lines":[{"amount":"10.00","currency":"JPY"}]}`:                                true, // ten, however written
		`{"lines":[{"amount":"9.5","currency":"JPY"}]}`:                                  false,
		`{"lines":[{"amount":"9.505","currency":"EUR"}]}`:                                false,
		`{"lines":[{"amount":"0.009","currency":"KWD"}]}`:                                false,
		`{"lines":[{"amount":10.01,"currency":"EUR"}]}`:                                  false,
		`{"lines":[{"amount":5}],"currency":"EUR"}`:                                      false, // not beside it
		`{"lines":[{"amount":5,"currency":"eur"}]}`:                                      false,
		`{"lines":[{"amount":5,"currency":"XXX"}]}`:                                      false,
		`{"lines":[{"amount":5,"currency":["EUR"]}]}`:                                    false,
	} {
		out, refusal := g.Accept([]byte(in), anna)
		if (refusal == nil) != want || refusal == nil && string(out) != in {
			t.Errorf("%s: %s %v", in, out, refusal)
		}
	}
}

func TestSizesAreBounded(t *testing.T) {
	g := compiled(t, guard.Spec{Type: guard.Size, MaxItems: 3, MaxMembers: 4, MaxDepth: 3, MaxBytes: 60})
	for in, want := range map[string]bool{
		`{"x":[1,2,3]}`: true, `{"x":[1,2,3,4]}`: false, `{"x":{"a":[{"b":1}]}}`: true, `{"x":{"a":[{"b":[]}]}}`: false,
		`{"x":{"a":1,"b":{"c":1,"d":1}}}`: true, `{"x":{"a":1,"b":{"c":1,"d":1,"e":1}}}`: false, `{"x":"` + strings.Repeat("a", 60) + `"}`: false, `{"x":1}`: true,
	} {
		if _, refusal := g.Accept([]byte(in), anna); (refusal == nil) != want {
			t.Errorf("%s: %v", in, refusal)
		}
	}
}

// A path is sent whole unless the tool starts at the root itself; links are
// followed where the root is on this machine.
func TestPathsAreFollowed(t *testing.T) {
	dir := tree(t)
	whole := guard.Spec{Type: guard.Path, Root: filepath.Join(dir, "files/{tenant}"), Local: true}
	below := whole
	below.Relative = true
	far := whole
	far.Local = false
	world := guard.World{Files: []string{filepath.Join(dir, "placet")}}
	for _, c := range []struct {
		spec      guard.Spec
		in, out   string // out "" for refused when accepted
		reachable bool
	}{
		{whole, "a.txt", dir + "/files/acme/a.txt", true},
		{below, "./a.txt", "a.txt", true},
		{whole, dir + "/files/acme/new/b.txt", dir + "/files/acme/new/b.txt", true},
		{below, dir + "/files/acme/a.txt", "", false},
		{whole, "near", dir + "/files/acme/near", true},
		{whole, "other", dir + "/files/acme/other", false},
		{below, "up/globex/a.txt", "up/globex/a.txt", false},
		{whole, "db/state.db", dir + "/files/acme/db/state.db", false},
		{whole, "later", dir + "/files/acme/later", false}, // a link that leads out, to what is not there yet
		{far, "other", dir + "/files/acme/other", true},    // the links of another machine are not seen
		{whole, dir + "/files/globex/a.txt", "", false},
	} {
		text, err := json.Marshal(c.in)
		if err != nil {
			t.Fatal(err)
		}
		g := compiled(t, c.spec)
		a, _ := arguments(text)
		out, refusal := g.Accept(a, anna)
		if refusal != nil {
			if c.out != "" {
				t.Errorf("%s: %v", c.in, refusal)
			}
			continue
		}
		value, _ := canon.Lookup(out, "x")
		if got, _ := canon.Text(value); got != c.out {
			t.Errorf("%s is sent as %q", c.in, got)
		}
		if refusal := g.Examine(t.Context(), out, anna, world); (refusal == nil) != c.reachable {
			t.Errorf("%s: %v", c.in, refusal)
		}
	}
	own := whole
	own.Root = filepath.Join(dir, "placet")
	a, _ := arguments(json.RawMessage(`"state.db"`))
	if refusal := compiled(t, own).Examine(t.Context(), a, anna, world); refusal == nil {
		t.Error("a root within Placet's own files can be used")
	}
	if err := os.Remove(filepath.Join(dir, "files/acme/near")); err != nil {
		t.Fatal(err)
	}
}

// Every address of a name counts, and Placet's own listeners are out of reach even
// in a network that is allowed.
func TestHostsAreResolved(t *testing.T) {
	world := guard.World{Listeners: []string{"127.0.0.1:8088", "tools.example.com:443", "0.0.0.0:9000"}, Resolver: &names{have: map[string][]string{
		"public.example": {"93.184.216.34 2606:4700:4700::1111"}, "half.example": {"93.184.216.34 10.0.0.1"}, "meta.example": {"169.254.169.254"},
		"local.example": {"127.0.0.1"}, "tools.example.com": {"93.184.216.34"},
	}}}
	loopback := guard.Spec{Type: guard.URL, Schemes: []string{"http"}, Networks: []string{"127.0.0.0/8"}, Ports: []int{80, 8080, 8088, 9000}}
	for _, c := range []struct {
		spec guard.Spec
		url  string
		code record.Code
	}{
		{guard.Spec{Type: guard.URL}, "https://public.example/", record.CodeNone},
		{guard.Spec{Type: guard.URL}, "https://half.example/", record.CodePrivateAddress},
		{guard.Spec{Type: guard.URL}, "https://meta.example/", record.CodePrivateAddress},
		{guard.Spec{Type: guard.URL}, "https://local.example/", record.CodePrivateAddress},
		{guard.Spec{Type: guard.URL}, "https://nowhere.example/", record.CodeGuardRefused},
		{guard.Spec{Type: guard.URL}, "https://tools.example.com/", record.CodePrivateAddress},
		{loopback, "http://local.example:8080/", record.CodeNone},
		{loopback, "http://127.0.0.1:8080/", record.CodeNone},
		{loopback, "http://local.example:8088/", record.CodePrivateAddress},
		{loopback, "http://127.0.0.2:9000/", record.CodePrivateAddress},
	} {
		g := compiled(t, c.spec)
		a, _ := arguments(json.RawMessage(`"` + c.url + `"`))
		out, refusal := g.Accept(a, anna)
		if refusal == nil {
			refusal = g.Examine(t.Context(), out, anna, world)
		}
		if got := code(refusal); got != c.code {
			t.Errorf("%s: %q, want %q (%v)", c.url, got, c.code, refusal)
		}
	}
	a, _ := arguments(json.RawMessage(`"https://public.example/"`))
	g := compiled(t, guard.Spec{Type: guard.URL})
	if got := code(g.Examine(t.Context(), a, anna, guard.World{})); got != record.CodeCannotDecide {
		t.Errorf("without a resolver: %q", got)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if got := code(g.Examine(gone, a, anna, guard.World{Resolver: &names{}})); got == record.CodeNone {
		t.Error("a name that could not be resolved passes")
	}
}

func code(r *guard.Refusal) record.Code {
	if r == nil {
		return record.CodeNone
	}
	return r.Code
}

// TestNormalFormsAreStable: guard(guard(x)) = guard(x), on values made of pieces
// that are hostile and pieces that are not.
func TestNormalFormsAreStable(t *testing.T) {
	all := guards(t)
	relative := compiled(t, guard.Spec{Type: guard.Path, Root: "/srv/files/{tenant}", Relative: true})
	web := compiled(t, guard.Spec{Type: guard.URL, Schemes: []string{"http", "https"}})
	pieces := []string{"https://", "http:", "/", "//", "\\", ".", "..", "%2e", "%2f", "%25", "%c0%af", "example.com", "EXAMPLE.com.", "münchen.de", "ß", "а", "@",
		":443", ":", "?", "#", "&", "+", "a", "b.txt", " ", "\u200d", "\u202e", root, "10.0.4.7", "0x7f", "1", "[::1]", "é", "e\u0301", "ﬀ", "％２ｅ", "~", ";", "'", "12.50"}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 9).Draw(t, "pieces"), "")
		value, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		a, ok := arguments(value)
		if !ok {
			return
		}
		for _, g := range append([]*guard.Guard{relative, web}, values(all)...) {
			out, refusal := g.Accept(a, anna)
			if refusal != nil {
				continue
			}
			if again, refusal := g.Accept(out, anna); refusal != nil || !bytes.Equal(again, out) {
				t.Fatalf("%s: %s becomes %s, and that %s (%v)", g.Spec().Type, a, out, again, refusal)
			}
		}
	})
}

func values(all map[guard.Type]*guard.Guard) []*guard.Guard {
	var out []*guard.Guard
	for _, t := range guard.Types() {
		if g := all[t]; g != nil {
			out = append(out, g)
		}
	}
	return out
}
