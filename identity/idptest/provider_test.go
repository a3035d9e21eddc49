package idptest

import (
	"encoding/base64"
	"strings"
	"testing"
)

func TestTokenIsTheLibrarys(t *testing.T) {
	p := New(t)
	parts := strings.Split(p.Token("tickets:read"), ".")
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || len(parts) != 3 {
		t.Fatal(parts, err)
	}
	for _, want := range []string{`"iss":"` + p.Issuer + `"`, `"sub":"` + Subject + `"`, `"client_id":"` + Client + `"`, `tickets:read`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
}
