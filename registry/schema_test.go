package registry

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

func mustCompile(t testing.TB, raw string) *schema {
	t.Helper()
	s, err := compile(json.RawMessage(raw), true)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func canonical(t testing.TB, raw string) []byte {
	t.Helper()
	b, err := canon.Canonical([]byte(raw), canon.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCheckNamesPlaceAndRule(t *testing.T) {
	s := mustCompile(t, `{"type":"object","required":["order"],"properties":{
		"order":{"type":"string","pattern":"^ord_"},"amount":{"type":"number","maximum":5000},
		"currency":{"enum":["EUR"]},"lines":{"type":"array","items":{"type":"object","properties":{"n":{"type":"integer"}}}}}}`)
	for args, want := range map[string]string{
		`{"order":"ord_1"}`: "",
		`{"order":"ord_1","amount":12.5,"currency":"EUR","lines":[{"n":1}]}`: "",
		`{}`:                                            "arguments: the object needs order",
		`{"order":"hunter2"}`:                           "arguments: /order does not match the schema's pattern",
		`{"order":7}`:                                   "arguments: /order wants string, got number",
		`{"order":"ord_1","amount":"1"}`:                "arguments: /amount wants number, got string",
		`{"order":"ord_1","amount":9999}`:               "arguments: /amount is above the schema's maximum",
		`{"order":"ord_1","currency":"hunter"}`:         "arguments: /currency is none of the values the schema lists",
		`{"order":"ord_1","lines":[{"n":1},{"n":"x"}]}`: "arguments: /lines/1/n wants integer, got string",
		`{"order":"ord_1","note":"hunter2"}`:            "arguments: /note is not a member the tool knows; leave it out",
		`{"order":"ord_1","lines":[{"n":1,"m":2}]}`:     "arguments: /lines/0/m is not a member the tool knows; leave it out",
		`{"order":"ord_1","__proto__":{}}`:              "arguments: /__proto__ is not a member the tool knows; leave it out",
		`{"order":"ord_1","Amount":1}`:                  "arguments: /Amount is not a member the tool knows; leave it out",
	} {
		err := s.check("arguments", canonical(t, args))
		if got := message(err); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", args, got, want)
		}
		if err != nil && record.KindOf(err) != record.Invalid {
			t.Errorf("%s: kind %s", args, record.KindOf(err))
		}
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestMembersThatAreKnown(t *testing.T) {
	for _, c := range []struct{ name, schema, args, refused string }{
		{"closed without a word", `{"type":"object"}`, `{"a":1}`, "/a"},
		{"nothing is fine", `{"type":"object"}`, `{}`, ""},
		{"open by word", `{"additionalProperties":true}`, `{"a":1}`, ""},
		{"open by schema", `{"additionalProperties":{"type":"number"}}`, `{"a":1}`, ""},
		{"open by schema, inside closed", `{"additionalProperties":{"properties":{"x":{}}}}`, `{"a":{"x":1,"y":2}}`, "/a/y"},
		{"unevaluated by word", `{"properties":{"a":{}},"unevaluatedProperties":true}`, `{"b":1}`, ""},
		{"pattern", `{"patternProperties":{"^x-":{}}}`, `{"x-a":1}`, ""},
		{"pattern that does not match", `{"patternProperties":{"^x-":{}}}`, `{"y":1}`, "/y"},
		{"allOf together", `{"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}`, `{"a":1,"b":2}`, ""},
		{"allOf does not know c", `{"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}`, `{"c":2}`, "/c"},
		{"objects of two parts", `{"allOf":[{"properties":{"a":{"properties":{"x":{}}}}},{"properties":{"a":{"properties":{"y":{}}}}}]}`, `{"a":{"x":1,"y":2}}`, ""},
		{"anyOf", `{"anyOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}}}]}`, `{"b":1}`, ""},
		{"not names nothing", `{"not":{"properties":{"a":{"type":"string"}},"required":["a"]}}`, `{"a":1}`, "/a"},
		{"reference", `{"$ref":"#/$defs/x","$defs":{"x":{"properties":{"a":{"$ref":"#/$defs/x"}}}}}`, `{"a":{"a":{}}}`, ""},
		{"reference, deep", `{"$ref":"#/$defs/x","$defs":{"x":{"properties":{"a":{"$ref":"#/$defs/x"}}}}}`, `{"a":{"a":{"b":1}}}`, "/a/a/b"},
		{"free-form inside", `{"properties":{"meta":{"type":"object"}}}`, `{"meta":{"any":{"thing":1}}}`, ""},
		{"no schema inside", `{"properties":{"meta":{}}}`, `{"meta":{"any":{"thing":1}}}`, ""},
		{"tuple", `{"properties":{"l":{"prefixItems":[{"properties":{"a":{}}}],"items":{"properties":{"b":{}}}}}}`, `{"l":[{"a":1},{"b":1},{"a":1}]}`, "/l/2/a"},
		{"draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"l":{"items":[{"properties":{"a":{}}}]}},"definitions":{}}`, `{"l":[{"b":1}]}`, "/l/0/b"},
		{"name with slash", `{"type":"object"}`, `{"a/b~c":1}`, "/a~1b~0c"},
		{"control characters", `{"type":"object"}`, `{"a\u001b[2Jb":1}`, `/a\u001b[2Jb`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := mustCompile(t, c.schema).check("arguments", canonical(t, c.args))
			want := ""
			if c.refused != "" {
				want = "arguments: " + c.refused + " is not a member the tool knows; leave it out"
			}
			if got := message(err); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// Results are the server's: what its schema does not mention is left alone.
func TestResultsStayOpen(t *testing.T) {
	o := offer("a", "")
	o.OutputSchema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)
	s := mustParse(t, "  a: {server: helpdesk, scope: a, read: true}", locked(t, "helpdesk", map[string]Offer{"a": o}))
	tool := mustTool(t, s, "a")
	if err := tool.CheckResult([]byte(`{"n":1,"more":true}`)); err != nil {
		t.Error(err)
	}
	if err := tool.CheckResult([]byte(`{"n":"1"}`)); message(err) != "result: /n wants integer, got string" {
		t.Error(err)
	}
}

// No reference makes us read a network or a file, and a tool whose schema has
// one is not callable.
func TestNothingIsFetched(t *testing.T) {
	asked := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked = true
		if _, err := w.Write([]byte(`{}`)); err != nil {
			t.Log(err)
		}
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "x.json")
	if err := os.WriteFile(file, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, raw := range []string{
		`{"properties":{"a":{"$ref":"` + server.URL + `/x.json"}}}`,
		`{"$ref":"file://` + file + `"}`, `{"$ref":"x.json"}`, `{"$dynamicRef":"` + server.URL + `/x#y"}`,
		`{"$schema":"` + server.URL + `/meta"}`, `{"$id":"` + server.URL + `/self","$ref":"other.json"}`,
		`{"$ref":"//evil.example/x"}`,
	} {
		if _, err := compile(json.RawMessage(raw), true); err == nil || !strings.Contains(err.Error(), "never fetched") {
			t.Errorf("%s: %v", raw, err)
		}
	}
	if asked {
		t.Error("a schema was fetched")
	}
}

func TestBadSchemas(t *testing.T) {
	for raw, want := range map[string]string{
		`{"type":"objet"}`:                         "is not a valid JSON Schema",
		`{"properties":{"a":{"pattern":"(?=x)"}}}`: "holds a pattern that is no RE2 expression (look-around is not supported)",
		`{"$ref":"#/$defs/none"}`:                  "refers to a part of itself that does not exist",
		`{"properties":{"a":{"multipleOf":0}}}`:    "is not a valid JSON Schema",
	} {
		if _, err := compile(json.RawMessage(raw), true); message(err) != want {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// A schema that would take for ever is given up on, whatever it says, and the
// arguments are refused.
func TestChecksEnd(t *testing.T) {
	var doubling strings.Builder
	doubling.WriteString(`{"$ref":"#/$defs/a0","$defs":{`)
	for i := range 60 {
		n := "a" + itoa(i)
		m := "#/$defs/a" + itoa(i+1)
		doubling.WriteString(`"` + n + `":{"allOf":[{"$ref":"` + m + `"},{"$ref":"` + m + `"}]},`)
	}
	doubling.WriteString(`"a60":{"type":"object"}}}`)
	deep := strings.Repeat(`{"a":`, 50) + `1` + strings.Repeat(`}`, 50)
	for name, c := range map[string]struct{ schema, args string }{
		"doubling":  {doubling.String(), `{}`},
		"recursion": {`{"anyOf":[{"properties":{"a":{"$ref":"#"}},"required":["b"]},{"properties":{"a":{"$ref":"#"}},"required":["c"]},{"properties":{"a":{"$ref":"#"}}}]}`, deep},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			err := mustCompile(t, c.schema).check("arguments", canonical(t, c.args))
			if !strings.Contains(message(err), "takes too many steps to check") {
				t.Errorf("got %v", err)
			}
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

func itoa(i int) string { b, _ := json.Marshal(i); return string(b) }

// Honest recursive schemas work, and their checks do not disturb each other.
func TestRecursiveSchemaConcurrently(t *testing.T) {
	s := mustCompile(t, `{"properties":{"and":{"type":"array","items":{"$ref":"#"}},"eq":{"type":"string"}}}`)
	good := canonical(t, `{"and":[{"eq":"a"},{"and":[{"eq":"b"},{"eq":"c"}]}]}`)
	bad := canonical(t, `{"and":[{"eq":"a"},{"and":[{"eq":1},{"eq":"c"}]}]}`)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 50 {
				if err := s.check("arguments", good); err != nil {
					t.Error(err)
				}
				if got := message(s.check("arguments", bad)); got != "arguments: /and/1/and/0/eq wants string, got number" {
					t.Error(got)
				}
			}
		})
	}
	wg.Wait()
}

func TestIdempotencyArgumentIsHidden(t *testing.T) {
	l := locked(t, "helpdesk", map[string]Offer{"pay": offer("pay", `"n":{"type":"number"},"key":{"type":"string"}`, "n", "key")})
	tool := mustTool(t, mustParse(t, "  pay: {server: helpdesk, scope: a, financial: true, idempotency_argument: key}", l), "pay")
	if strings.Contains(string(tool.InputSchema()), "key") || !strings.Contains(string(tool.InputSchema()), `"n"`) {
		t.Errorf("shown: %s", tool.InputSchema())
	}
	if err := tool.CheckArguments([]byte(`{"n":1}`)); err != nil {
		t.Error(err)
	}
	if err := tool.CheckArguments([]byte(`{"key":"x","n":1}`)); err == nil {
		t.Error("the model's own key was accepted")
	}
	l = locked(t, "helpdesk", map[string]Offer{"pay": offer("pay", `"n":{"type":"number"}`)})
	s := mustParse(t, "  pay: {server: helpdesk, scope: a, financial: true, idempotency_argument: key}", l)
	if q := s.Quarantined(); len(q) != 1 || !strings.Contains(q[0].Reason, "has no plain property key") {
		t.Errorf("quarantined %v", q)
	}
}

func FuzzCheckArguments(f *testing.F) {
	for _, s := range []string{`{"type":"object","properties":{"a":{"$ref":"#"}}}`, `{"allOf":[{"properties":{"a":{}}}]}`,
		`{"patternProperties":{".*":{"items":{"$ref":"#"}}}}`, `{"$dynamicAnchor":"x","properties":{"a":{"$dynamicRef":"#x"}}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":{"required":["b"]}}}`, `{"unevaluatedProperties":{"type":"object"}}`} {
		f.Add([]byte(s), []byte(`{"a":{"a":[{"b":1}]}}`))
	}
	f.Fuzz(func(t *testing.T, raw, args []byte) {
		pin, err := PinOf(Offer{Name: "x", InputSchema: raw})
		if err != nil || pin.InputSchema == nil {
			return
		}
		s, err := compile(pin.InputSchema, true)
		if err != nil {
			return
		}
		object, _, err := canon.Object(args, canon.Limits{Bytes: 4096})
		if err != nil {
			return
		}
		if err := s.check("arguments", object); err != nil && record.KindOf(err) != record.Invalid {
			t.Errorf("%v", err)
		}
	})
}

func BenchmarkCheckArguments(b *testing.B) {
	s := mustCompile(b, `{"type":"object","required":["order"],"properties":{"order":{"type":"string","pattern":"^ord_"},"amount":{"type":"number","maximum":5000},"currency":{"enum":["EUR"]}}}`)
	args := canonical(b, `{"order":"ord_1001","amount":60,"currency":"EUR"}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.check("arguments", args); err != nil {
			b.Fatal(err)
		}
	}
}
