package guard_test

import (
	"encoding/json"
	"net/netip"
	neturl "net/url"
	"path"
	"strings"
	"testing"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/guard"
)

// seed gives a fuzz target the corpora of a type.
func seed(f *testing.F, t guard.Type) {
	for _, h := range guard.Corpus(t) {
		f.Add(string(h.Value))
	}
	f.Add(`"a b/..hidden/é.txt"`)
	f.Add(`"https://example.com/a?b=c#d"`)
	f.Add(`["anna@example.com"]`)
}

func FuzzPathStaysBelowItsRoot(f *testing.F) {
	seed(f, guard.Path)
	g := compiled(f, guard.Spec{Type: guard.Path, Root: "/srv/files/{tenant}"})
	f.Fuzz(func(t *testing.T, value string) {
		a, ok := arguments(json.RawMessage(value))
		if !ok || !accepts(t, g, a) {
			return
		}
		out, _ := g.Accept(a, anna)
		each(out, func(text string) {
			decoded := text
			for range 3 {
				for _, read := range []string{decoded, strings.ReplaceAll(decoded, `\`, "/")} {
					if clean := path.Clean(read); clean != root && !strings.HasPrefix(clean, root+"/") {
						t.Fatalf("%q leaves the root as %q", text, read)
					}
				}
				next, err := neturl.PathUnescape(decoded)
				if err != nil {
					break
				}
				decoded = next
			}
		})
	})
}

func FuzzURLStaysPublic(f *testing.F) {
	seed(f, guard.URL)
	g := compiled(f, guard.Spec{Type: guard.URL, Schemes: []string{"http", "https"}})
	f.Fuzz(func(t *testing.T, value string) {
		a, ok := arguments(json.RawMessage(value))
		if !ok || !accepts(t, g, a) {
			return
		}
		out, _ := g.Accept(a, anna)
		each(out, func(text string) {
			u, err := neturl.Parse(text)
			if err != nil || u.User != nil || u.Hostname() == "" {
				t.Fatalf("%q: %v", text, err)
			}
			if addr, err := netip.ParseAddr(u.Hostname()); err == nil && !guard.Public(addr) {
				t.Fatalf("%q is private", text)
			}
		})
	})
}

// FuzzGuards: no value makes a guard panic, and every normal form is stable.
func FuzzGuards(f *testing.F) {
	for _, t := range guard.Types() {
		seed(f, t)
	}
	all := values(guards(f))
	all = append(all, compiled(f, guard.Spec{Argument: "x[].x.x", Type: guard.Host}), compiled(f, guard.Spec{Type: guard.Size, MaxDepth: 3}))
	f.Fuzz(func(t *testing.T, value string) {
		a, ok := arguments(json.RawMessage(value))
		if !ok {
			return
		}
		for _, g := range all {
			accepts(t, g, a)
		}
	})
}

// each calls f for the texts of the argument.
func each(arguments []byte, f func(string)) {
	value, _ := canon.Lookup(arguments, "x")
	if text, ok := canon.Text(value); ok {
		f(text)
	}
	for e := range canon.Elements(value) {
		if text, ok := canon.Text(e); ok {
			f(text)
		}
	}
}
