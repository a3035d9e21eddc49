package identity

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestPresentedTokenDoesNotShow: the token a caller came with is there for its issuer,
// and in nothing that is printed of the caller.
func TestPresentedTokenDoesNotShow(t *testing.T) {
	p := present("secret.bearer.token", &verified{login: "sid:1"})
	c := Caller{v: &verified{}, presented: p}
	if c.Presented().Reveal() != "secret.bearer.token" || c.Presented().None() || !(Caller{}).Presented().None() {
		t.Fatal("the token is not there")
	}
	text, err := json.Marshal(map[string]any{"caller": c, "presented": *p})
	if err != nil {
		t.Fatal(err)
	}
	said := string(text)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		for _, x := range []any{c, &c, *p, p, []Presented{*p}, c.LogValue()} {
			said += fmt.Sprintf(verb, x)
		}
	}
	if strings.Contains(said, "bearer") || strings.Contains(said, fmt.Sprintf("%x", "bearer")) {
		t.Errorf("it shows in %s", said)
	}
}

// TestLoginOfAToken: the issuer's own name for a login, or else the one token.
func TestLoginOfAToken(t *testing.T) {
	for claims, want := range map[string]string{
		`{"session_state":"b","sid":"a"}`: "sid:a", `{"session_state":"b"}`: "session_state:b", `{}`: "", `{"sid":1}`: "", `{"sid":""}`: "",
	} {
		if got := loginOf([]byte(claims)); got != want {
			t.Errorf("%s: %q", claims, got)
		}
	}
	a, b := present("one", &verified{}), present("two", &verified{})
	if a.Session() == b.Session() || a.Session() != present("one", &verified{}).Session() || strings.Contains(a.Session(), "one") {
		t.Errorf("%q %q", a.Session(), b.Session())
	}
}
