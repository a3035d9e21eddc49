package http

import (
	"context"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/yamlfile"
)

func showsEveryKey(t *testing.T, text string) {
	t.Helper()
	for _, root := range []any{File{}, Operation{}, Parameter{}} {
		for _, key := range yamlfile.Keys(root) {
			if !regexp.MustCompile(`(?m)[\s{,]` + key + `:|^` + key + `:`).MatchString(text) {
				t.Errorf("the sample does not show the key %s of %T", key, root)
			}
		}
	}
}

// FuzzParse: whatever a file says, what is taken of it can be offered, and every
// operation of it has a closed schema and a path below the base.
func FuzzParse(f *testing.F) {
	f.Add(strings.Replace(sample, "BASE", "https://example.com/a", 1))
	if text, err := os.ReadFile("../../docs/sample/operations.yaml"); err == nil {
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Parse("x", []byte(text))
		if err != nil {
			if err.Error() == "" {
				t.Error("refused without a word")
			}
			return
		}
		all, offers, err := file.operations()
		if err != nil {
			return // larger than what can be pinned
		}
		if len(all) == 0 || len(all) != len(offers) {
			t.Errorf("%d operations, %d offers", len(all), len(offers))
		}
		for name, o := range all {
			if o.base.Host == "" || o.base.User != nil || !strings.HasPrefix(o.Path, "/") || !strings.Contains(string(o.offer.InputSchema), `"additionalProperties":false`) {
				t.Errorf("%s: %+v", name, o)
			}
		}
	})
}

// FuzzFill: no argument changes the number of parts of the path, or adds a query
// parameter or a header; what the service decodes is what was given.
func FuzzFill(f *testing.F) {
	for _, seed := range []string{"..", "%2e%2e", "%252f", "a/b", `a\b`, "\r\nX: y", "a b", "ü", "?a=b", "#", ";x", "．．", "a／b", "\x00", "&q=2", "+", "=", "..;"} {
		f.Add(seed, seed, seed)
	}
	file, err := Parse("x", []byte(strings.Replace(sample, "BASE", "https://example.com/api", 1)))
	if err != nil {
		f.Fatal(err)
	}
	all, _, err := file.operations()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, id, query, header string) {
		arguments, err := canon.Marshal(map[string]string{"id": id, "ext": "x", "q": query, "X-H": header})
		if err != nil {
			return
		}
		owner := record.Owner{Tenant: "acme", Principal: record.Principal{Subject: "anna"}}
		req, _, err := all["op"].request(context.Background(), dispatch.Work{Arguments: arguments, Owner: owner}, "v")
		if err != nil {
			if len(id) > 8 && strings.Contains(err.Error(), id) {
				t.Errorf("the error holds the value: %v", err)
			}
			return
		}
		u, err := url.ParseRequestURI(req.URL.RequestURI())
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(u.EscapedPath(), "/")
		if len(parts) != 5 || parts[1] != "api" || parts[2] != "a" || parts[4] != "b.x" || len(strings.Split(u.Path, "/")) != 5 {
			t.Errorf("%q: %s", id, u)
		}
		if got, err := url.PathUnescape(parts[3]); err != nil || got != id || got == "." || got == ".." || strings.ContainsAny(got, `/\%`) || strings.ContainsAny(parts[3], "/\\;?#") {
			t.Errorf("%q became %q", id, parts[3])
		}
		if values := u.Query(); len(values) != 1 || len(values["q"]) != 1 || values.Get("q") != query {
			t.Errorf("%q became %q", query, u.RawQuery)
		}
		if values := req.Header["X-H"]; len(req.Header) != 5 || len(values) != 1 || values[0] != header || strings.ContainsAny(header, "\r\n\x00") {
			t.Errorf("%q: %v", header, req.Header)
		}
	})
}

// FuzzFields: whatever an answer is, what passes is canonical enough to look into,
// and holds no member that was not declared.
func FuzzFields(f *testing.F) {
	for _, seed := range []string{`{"id":1}`, `{"items":[{"sku":"a","x":1},[{"sku":2}]]}`, `[{"id":1}]`, `{"id":{"x":1}}`, `{"id":1,"id":2}`, `"x"`, `[[[[]]]]`, `{"id":1e400}`} {
		f.Add([]byte(seed))
	}
	declared, err := fieldsOf([]string{"id", "items.sku"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		out, err := declared.of(text)
		if err != nil {
			return
		}
		if len(out) == 0 || out[0] != '{' || len(out) > 3*len(text)+20 {
			t.Fatalf("%q became %q", text, out)
		}
		var look func(value []byte, may ...string)
		look = func(value []byte, may ...string) {
			for e := range canon.Elements(value) {
				look(e, may...)
			}
			for name, inner := range canon.Members(value) {
				if !strings.Contains(" "+strings.Join(may, " ")+" ", " "+name+" ") {
					t.Fatalf("%q became %q: %s", text, out, name)
				}
				look(inner, "id", "sku", "items")
			}
		}
		look(out, "id", "items")
	})
}
