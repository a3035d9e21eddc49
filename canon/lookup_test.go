package canon_test

import (
	"strings"
	"testing"

	"github.com/placet-dev/placet/canon"
)

func TestLookup(t *testing.T) {
	o, err := canon.Canonical([]byte(`{"a":1,"b":{"a":[2,"}"]},"c\"d":"x\"","é":null,"":true,"k":[{"z":0}]}`), canon.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "1", "b": `{"a":[2,"}"]}`, `c"d`: `"x\""`, "é": "null", "": "true", "k": `[{"z":0}]`} {
		if got, ok := canon.Lookup(o, name); !ok || string(got) != want {
			t.Errorf("%q: got %s, %v", name, got, ok)
		}
	}
	for _, name := range []string{"z", "A", "b\x00", `c\"d`, "\xff"} {
		if got, ok := canon.Lookup(o, name); ok {
			t.Errorf("%q: found %s", name, got)
		}
	}
	v, _ := canon.Lookup(o, "a")
	if _ = append(v, "spoiled"...); !strings.HasPrefix(string(o), `{"":true,"a":1,"b"`) {
		t.Error("what was found lets one write past its end")
	}
}

func FuzzLookup(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `{"a`, `{"a":`, `{"a":[`, `{"`, `{"\"`, `[1,[2]`, `{"a":"\`, `{a:1}`, `[,,]`, `[}`} {
		f.Add([]byte(s), "a")
	}
	f.Fuzz(func(t *testing.T, src []byte, name string) {
		canon.Lookup(src, name)
		for range canon.Members(src) {
		}
		for range canon.Elements(src) {
		}
		canon.Text(src)
		canon.Decimal(src)
	})
}

func TestDecimal(t *testing.T) {
	for src, want := range map[string]string{
		`12.5`: "25/2", `"12.50"`: "25/2", `-0`: "0/1", `"-0.010"`: "-1/100", `1e+21`: "1000000000000000000000/1", `"1E2"`: "100/1",
		`5e-3`: "1/200", `"9007199254740993"`: "9007199254740993/1", `0`: "0/1", `"0e999999999999999999"`: "0/1", `"\u0031"`: "1/1",
	} {
		if r, ok := canon.Decimal([]byte(src)); !ok || r.String() != want {
			t.Errorf("%s: got %v, %v", src, r, ok)
		}
	}
	for _, src := range []string{
		``, `""`, `" 1"`, `"1 "`, `"+1"`, `"1,000"`, `"1_000"`, `"0x10"`, `"01"`, `".5"`, `"5."`, `"1/2"`, `"Inf"`, `"NaN"`, `"１"`, `null`, `true`, `[1]`, `{}`,
		`1e400000`, `"1e400000"`, `"1e-400000"`, `"1e99999999999999999999"`, `"1e-99999999999999999999"`, `"` + strings.Repeat("9", 1000) + `"`, `"1`, `1"`, `"`,
	} {
		if r, ok := canon.Decimal([]byte(src)); ok {
			t.Errorf("%.40s: taken as %v", src, r)
		}
	}
}

func BenchmarkObject(b *testing.B) {
	for name, src := range map[string]string{
		"three":     `{"to": "anna@example.com", "amount": 12.50, "note": "thanks for the help"}`,
		"canonical": `{"amount":12.5,"note":"thanks for the help","to":"anna@example.com"}`,
		"nested":    `{"items":[` + strings.Repeat(`{"sku":"A-1","n":3,"price":"9.90"},`, 50) + `{}],"to":"x"}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				if _, _, err := canon.Object([]byte(src), canon.Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	o := []byte(`{"amount":12.5,"note":"thanks for the help","to":"anna@example.com"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := canon.Lookup(o, "to"); !ok {
			b.Fatal("not found")
		}
	}
}

func TestLookupPath(t *testing.T) {
	object := []byte(`{"a":{"b":{"c":1},"x.y":2},"a.b":3,"n":[{"b":4}],"t":"b"}`)
	for path, want := range map[string]string{
		"a": `{"b":{"c":1},"x.y":2}`, "a.b": `{"c":1}`, "a.b.c": "1",
		"a.b.c.d": "", "n.b": "", "t.b": "", "a.x.y": "", "": "", ".": "", "a.": "", "z.b": "",
	} {
		got, ok := canon.LookupPath(object, path)
		if string(got) != want || ok != (want != "") {
			t.Errorf("%q: %s, %t", path, got, ok)
		}
	}
}
