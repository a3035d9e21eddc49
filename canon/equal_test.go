package canon_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/placet-dev/placet/canon"
	"pgregory.net/rapid"
)

// decode reads JSON by another road than the package does: encoding/json, with
// the numbers as exact fractions.
func decode(t testing.TB, src []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(src))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q is taken here and not by encoding/json: %v", src, err)
	}
	return v
}

// same compares decoded values. Integral numbers are compared exactly. Others
// are what their nearest double is: that is the form which is decided on and sent.
func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, same)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, same)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && sameNumber(a, b)
	default:
		return a == b
	}
}

func sameNumber(a, b json.Number) bool {
	x, y := fraction(a), fraction(b)
	if x != nil && y != nil && x.IsInt() && y.IsInt() {
		return x.Cmp(y) == 0
	}
	f, err := a.Float64()
	g, err2 := b.Float64()
	return err == nil && err2 == nil && f == g
}

// fraction is nil for exponents that would take too much memory to expand; those
// that are accepted are zero or far below one.
func fraction(n json.Number) *big.Rat {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(string(n)), "e")
	if len(strings.TrimLeft(exponent, "+-0")) > 3 {
		if strings.Trim(mantissa, "-0.") == "" {
			return new(big.Rat)
		}
		return nil
	}
	r, _ := new(big.Rat).SetString(string(n))
	return r
}

// checkSame fails if out is not the canonical form of the value that src is.
func checkSame(t testing.TB, src, out []byte) {
	t.Helper()
	if !same(decode(t, src), decode(t, out)) {
		t.Fatalf("the value changed:\n%q\n%q", src, out)
	}
	again, err := canon.Canonical(out, canon.Limits{})
	if err != nil || !bytes.Equal(again, out) {
		t.Fatalf("not a fixed point:\n%q\n%q, %v", out, again, err)
	}
}

func digest(b []byte) canon.Digest { return canon.Of("test/arguments/1", b) }

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{
		`{"a":1,"b":[true,null,"x"]}`, `{"b":1.50,"a":-0}`, `9007199254740993`, `1e21`, `[1e400]`, `"\ud83d\ude02\u0000"`, `"\ud800"`,
		`{"a":1,"\u0061":2}`, ` `, `{"€":1,"\ud83d\ude02":2,"\ufb33":3}`, `0.1e-7`, `[[[[]]]]`, "\"\x7f\u2028\"", `18446744073709551616`, `1E-400`, `0e999999999999`,
	} {
		f.Add([]byte(s), []byte(s))
	}
	f.Add([]byte(`{"a":1}`), []byte(` {"\u0061":1.0}`))
	f.Add([]byte(`[9007199254740992]`), []byte(`[9007199254740993]`))
	f.Add([]byte(`[0.1]`), []byte(`[0.10000000000000001]`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		keptA, keptB := bytes.Clone(a), bytes.Clone(b)
		x, err := canon.Canonical(a, canon.Limits{})
		y, err2 := canon.Canonical(b, canon.Limits{})
		if !bytes.Equal(a, keptA) || !bytes.Equal(b, keptB) {
			t.Fatal("the source was changed")
		}
		if err == nil {
			checkSame(t, a, x)
			checkParts(t, x)
		}
		if err2 == nil {
			checkSame(t, b, y)
		}
		if err == nil && err2 == nil && (digest(x) == digest(y)) != same(decode(t, a), decode(t, b)) {
			t.Fatalf("equal digest and equal value disagree:\n%q\n%q", a, b)
		}
	})
}

// checkParts compares the raw walk over a canonical text with a real decoder.
func checkParts(t testing.TB, x []byte) {
	t.Helper()
	switch v := decode(t, x).(type) {
	case map[string]any:
		n := 0
		for name, value := range canon.Members(x) {
			n++
			found, ok := canon.Lookup(x, name)
			want, has := v[name]
			if !ok || !has || !bytes.Equal(found, value) || !same(decode(t, value), want) {
				t.Fatalf("member %q of %s is %s, %s", name, x, value, found)
			}
		}
		if n != len(v) {
			t.Fatalf("%d of %d members of %s", n, len(v), x)
		}
	case []any:
		n := 0
		for value := range canon.Elements(x) {
			if n >= len(v) || !same(decode(t, value), v[n]) {
				t.Fatalf("element %d of %s is %s", n, x, value)
			}
			n++
		}
		if n != len(v) {
			t.Fatalf("%d of %d elements of %s", n, len(v), x)
		}
	case string:
		if s, ok := canon.Text(x); !ok || s != v {
			t.Fatalf("%s is the text %q, %v", x, s, ok)
		}
	case json.Number:
		if r, ok := canon.Decimal(x); !ok || r.Cmp(fraction(v)) != 0 {
			t.Fatalf("%s is the number %v", x, r)
		}
	}
}

// Any value, written in any way, has one form; two values that differ have two.
func TestEqualDigestIsEqualValue(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v, w := value(rt, 3), value(rt, 3)
		a, b := written(rt, v), written(rt, w)
		x, err := canon.Canonical([]byte(a), canon.Limits{})
		y, err2 := canon.Canonical([]byte(b), canon.Limits{})
		if err != nil || err2 != nil {
			rt.Fatalf("%s: %v; %s: %v", a, err, b, err2)
		}
		if z, err := canon.Canonical([]byte(written(rt, v)), canon.Limits{}); err != nil || !bytes.Equal(x, z) {
			rt.Fatalf("one value, two forms: %s, %s, %v", x, z, err)
		}
		if (digest(x) == digest(y)) != same(decode(t, []byte(a)), decode(t, []byte(b))) {
			rt.Fatalf("equal digest and equal value disagree: %s, %s", a, b)
		}
	})
}

func value(t *rapid.T, depth int) any {
	kind := rapid.IntRange(0, 5).Draw(t, "kind")
	if depth == 0 {
		kind %= 4
	}
	switch kind {
	case 0:
		return rapid.SampledFrom([]any{nil, true, false}).Draw(t, "literal")
	case 1:
		return rapid.Int64Range(-1<<53, 1<<53).Draw(t, "integer")
	case 2:
		return rapid.StringN(0, 4, -1).Draw(t, "text")
	case 3:
		return rapid.Float64Range(-1e6, 1e6).Draw(t, "number")
	case 4:
		list := make([]any, rapid.IntRange(0, 2).Draw(t, "length"))
		for i := range list {
			list[i] = value(t, depth-1)
		}
		return list
	default:
		members := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			members[rapid.StringN(0, 3, -1).Draw(t, "name")] = value(t, depth-1)
		}
		return members
	}
}

// written writes a value in one of the many ways JSON has.
func written(t *rapid.T, v any) string {
	space := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space")
	switch v := v.(type) {
	case int64:
		return space + integer(t, v)
	case float64:
		return space + fmt.Sprintf(rapid.SampledFrom([]string{"%.17e", "%.17E"}).Draw(t, "form"), v)
	case string:
		return space + text(t, v)
	case []any:
		var parts []string
		for _, e := range v {
			parts = append(parts, written(t, e))
		}
		return "[" + strings.Join(parts, space+",") + space + "]"
	case map[string]any:
		names := rapid.Permutation(slices.Sorted(maps.Keys(v))).Draw(t, "order")
		var parts []string
		for _, name := range names {
			parts = append(parts, space+text(t, name)+space+":"+written(t, v[name]))
		}
		return "{" + strings.Join(parts, ",") + space + "}"
	default:
		b, _ := json.Marshal(v)
		return string(b) + space
	}
}

func integer(t *rapid.T, v int64) string {
	forms := []string{"%d", "%d.0", "%de0", "%d.00E+00", "%d0e-1"}
	if v == 0 {
		forms = forms[:4] // 00e-1 is no JSON number
	}
	return fmt.Sprintf(rapid.SampledFrom(forms).Draw(t, "form"), v)
}

func text(t *rapid.T, s string) string {
	if rapid.Bool().Draw(t, "escaped") {
		var b strings.Builder
		for _, r := range s {
			if r > 0xffff {
				r -= 0x10000
				fmt.Fprintf(&b, `\u%04x\u%04X`, 0xd800+r>>10, 0xdc00+r&0x3ff)
			} else {
				fmt.Fprintf(&b, `\u%04x`, r)
			}
		}
		return `"` + b.String() + `"`
	}
	b, _ := json.Marshal(s)
	return string(b)
}
