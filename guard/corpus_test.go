package guard_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/guard"
)

const root = "/srv/files/acme"

// guards are one guard of each type, as an operator would declare it.
func guards(t testing.TB) map[guard.Type]*guard.Guard {
	t.Helper()
	out := map[guard.Type]*guard.Guard{}
	for _, s := range []guard.Spec{
		{Type: guard.Path, Root: "/srv/files/{tenant}"}, {Type: guard.URL}, {Type: guard.Host}, {Type: guard.Email}, {Type: guard.Identifier},
		{Type: guard.Query, Values: []string{"orders_for_customer", "refunds.by-day", "q1"}},
		{Type: guard.Enum, Values: []string{"EUR", "USD", "in progress", "übrig"}},
		{Type: guard.Amount, Currency: "EUR", Max: "5000"}, {Type: guard.Name}, {Type: guard.Text, Secrets: true},
	} {
		out[s.Type] = compiled(t, s)
	}
	return out
}

func compiled(t testing.TB, s guard.Spec) *guard.Guard {
	t.Helper()
	if s.Argument == "" {
		s.Argument = "x"
	}
	g, err := guard.New(s)
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	return g
}

// arguments are those of a call whose argument x has the value; false if no call
// could have it.
func arguments(value json.RawMessage) ([]byte, bool) {
	value = bytes.ReplaceAll(value, []byte("{root}"), []byte(root))
	out, err := canon.Canonical([]byte(`{"x":`+string(value)+`}`), canon.Limits{})
	return out, err == nil
}

// TestGuardsOnCorpora prints how the guards do on our own corpora: what is hostile
// is refused, what is honest passes, and the normal form stays as it is.
func TestGuardsOnCorpora(t *testing.T) {
	hostile, honest := 0, 0
	for _, kind := range guard.Types() {
		g, ok := guards(t)[kind]
		if !ok {
			continue
		}
		refused, passed := 0, 0
		for _, h := range guard.Corpus(kind) {
			a, ok := arguments(h.Value)
			if !ok {
				t.Errorf("%s: %s is no value", kind, h.Value)
			}
			if refused++; accepts(t, g, a) {
				t.Errorf("%s: %s passes (%s)", kind, h.Value, h.Kind)
			}
		}
		text, err := os.ReadFile(filepath.Join("testdata", "honest", string(kind)+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			a, ok := arguments(json.RawMessage(strings.TrimSuffix(line, "\n")))
			if !ok {
				t.Fatalf("%s: %s is no value", kind, line)
			}
			if passed++; !accepts(t, g, a) {
				_, refusal := g.Accept(a, anna)
				t.Errorf("%s: %s is refused: %v %s", kind, strings.TrimSpace(line), refusal, refusal.Private)
			}
		}
		t.Logf("guards: %s hostile=%d/%d honest=%d/%d", kind, refused, refused, passed, passed)
		hostile, honest = hostile+refused, honest+passed
	}
	t.Logf("guards: all hostile=%d honest=%d", hostile, honest)
	if hostile < 1000 || honest < 500 {
		t.Errorf("%d hostile and %d honest values are too few", hostile, honest)
	}
}

// accepts asks a guard, and checks what holds of every answer.
func accepts(t testing.TB, g *guard.Guard, arguments []byte) bool {
	t.Helper()
	out, refusal := g.Accept(arguments, anna)
	if refusal != nil {
		if refusal.Code == "" || refusal.Public == "" || refusal.Type == "" || refusal.Argument == "" {
			t.Errorf("a refusal that says nothing: %+v", refusal)
		}
		return false
	}
	if again, err := canon.Canonical(out, canon.Limits{}); err != nil || !bytes.Equal(again, out) {
		t.Errorf("%s becomes %s, which is not canonical", arguments, out)
	}
	if again, refusal := g.Accept(out, anna); refusal != nil || !bytes.Equal(again, out) {
		t.Errorf("%s becomes %s, and that becomes %s (%v)", arguments, out, again, refusal)
	}
	return true
}

// testdata reads a file of the Web Platform Tests that the WHATWG parser's module
// carries (3-clause BSD licence).
func testdata(t *testing.T, name string, into any) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/nlnwa/whatwg-url").Output()
	if err != nil {
		t.Skipf("the module's folder is not known: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "testdata", name))
	if err != nil {
		t.Skip(err)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	var cases []json.RawMessage
	for _, c := range list {
		if c[0] == '{' { // the others are comments
			cases = append(cases, c)
		}
	}
	again, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(again, into); err != nil {
		t.Fatal(err)
	}
}

// TestURLGuardOnWebPlatformTests: what must not parse is refused; what passes is
// sent exactly as every browser reads it.
func TestURLGuardOnWebPlatformTests(t *testing.T) {
	var cases []struct {
		Input, Href, Username, Hostname string
		Base                            *string
		Failure                         bool
	}
	testdata(t, "urltestdata.json", &cases)
	g := compiled(t, guard.Spec{Type: guard.URL, Schemes: []string{"http", "https"}, Ports: ports()})
	failing, refused, passed, all := 0, 0, 0, 0
	for _, c := range cases {
		text, err := json.Marshal(c.Input)
		if err != nil {
			t.Fatal(err)
		}
		a, ok := arguments(text)
		if !ok {
			continue // lone surrogates never reach a guard
		}
		all++
		out, refusal := g.Accept(a, anna)
		if refusal == nil {
			accepts(t, g, a)
		}
		if c.Failure {
			if failing++; refusal == nil {
				t.Errorf("%q passes and must not parse", c.Input)
				continue
			}
			refused++
			continue
		}
		if refusal != nil {
			continue
		}
		passed++
		value, _ := canon.Lookup(out, "x")
		href, _ := canon.Text(value)
		if want := strings.Replace(c.Href, c.Hostname, strings.TrimSuffix(c.Hostname, "."), 1); href != want || c.Username != "" {
			t.Errorf("%q passes as %q, browsers read %q", c.Input, href, c.Href)
		}
	}
	t.Logf("guards: url on %d cases of the Web Platform Tests: %d of %d that must fail refused, %d pass as browsers read them", all, refused, failing, passed)
	if failing < 200 || passed < 20 {
		t.Errorf("%d failing and %d passing cases are too few: the corpus was not read", failing, passed)
	}
}

func ports() []int {
	var out []int
	for p := 1; p < 65536; p++ {
		out = append(out, p)
	}
	return out
}

// TestHostGuardOnIDNATests: what IDNA refuses is refused; what passes is the name
// that IDNA gives.
func TestHostGuardOnIDNATests(t *testing.T) {
	g := compiled(t, guard.Spec{Type: guard.Host})
	for _, name := range []string{"IdnaTestV2.json", "toascii.json"} {
		var cases []struct {
			Input  string
			Output *string
		}
		testdata(t, name, &cases)
		failing, passed := 0, 0
		for _, c := range cases {
			text, err := json.Marshal(c.Input)
			if err != nil {
				t.Fatal(err)
			}
			a, ok := arguments(text)
			if !ok {
				continue
			}
			out, refusal := g.Accept(a, anna)
			switch {
			case c.Output == nil && refusal == nil:
				t.Errorf("%q passes as %s and is no name", c.Input, out)
			case c.Output == nil:
				failing++
			case refusal == nil:
				passed++
				value, _ := canon.Lookup(out, "x")
				if got, _ := canon.Text(value); got != strings.TrimSuffix(*c.Output, ".") {
					t.Errorf("%q passes as %q, not %q", c.Input, got, *c.Output)
				}
				accepts(t, g, a)
			}
		}
		t.Logf("guards: host on %s: %d that are no name refused, %d pass as IDNA reads them", name, failing, passed)
		if failing == 0 {
			t.Error("the corpus was not read")
		}
	}
}
