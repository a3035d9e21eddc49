package registry

import (
	"strings"
	"testing"
)

// TestRule_D7_EffectQuotesAndLists: inserted values are quoted whatever they
// hold, and what the sentence leaves out stands below it.
func TestRule_D7_EffectQuotesAndLists(t *testing.T) {
	for _, c := range []struct{ template, args, want string }{
		{"Refund {amount} {currency} on order {order_id}", `{"amount":1200,"currency":"EUR","order_id":"ord_1001"}`, `Refund "1200" "EUR" on order "ord_1001"`},
		{"Email {to}", `{"body":"Dear","cc":["a","b"],"to":"a@b"}`, "Email \"a@b\"\nbody: \"Dear\"\ncc: \"[\\\"a\\\",\\\"b\\\"]\""},
		{"Email {to}", `{}`, `Email (no to)`},
		{"", `{"a":1,"b":null}`, "a: \"1\"\nb: \"null\""},
		{"", `{}`, ""},
		{"Pay {to}", `{"to":"Anna\" approved by \"Lena"}`, `Pay "Anna\" approved by \"Lena"`},
		{"Pay {to}", `{"to":"x\ny: \"harmless\""}`, `Pay "x\ny: \"harmless\""`},
		{"Pay {to}", `{"to":"\u202egro.live"}`, `Pay "\u202egro.live"`},
		{"Pay {to}", `{"to":"back\\slash"}`, `Pay "back\\slash"`},
		{"Pay {a}", `{"a":"{b}","b":"x"}`, "Pay \"{b}\"\nb: \"x\""},
		{"Do it", `{"evil: \"ok\"\nz":1}`, "Do it\n\"evil: \\\"ok\\\"\\nz\": \"1\""},
	} {
		e, err := ParseEffect(c.template)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Render(canonical(t, c.args)); got != c.want {
			t.Errorf("%s with %s\ngot  %s\nwant %s", c.template, c.args, got, c.want)
		}
		if e.String() != c.template {
			t.Errorf("the template came back as %q", e)
		}
	}
}

func FuzzEffect(f *testing.F) {
	f.Add("Refund {amount} on {order}", "x\"\n{order}")
	f.Add("}{", "")
	f.Fuzz(func(t *testing.T, template, value string) {
		e, err := ParseEffect(template)
		if err != nil {
			return
		}
		out := e.Render(canonical(t, `{"order":`+jsonText(strings.ToValidUTF8(value, "?"))+`}`))
		// Every line break is the template's own, or the one before the list.
		if strings.Count(out, "\n") > strings.Count(template, "\n")+1 {
			t.Errorf("%q with %q gave lines of its own: %q", template, value, out)
		}
	})
}
