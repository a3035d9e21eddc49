package identity_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

func bearer(token string) identity.Credentials { return identity.Credentials{Bearer: token} }

func TestCallerIsWhatTheTokenSays(t *testing.T) {
	at := newClock()
	v := verifier(t, config(t), at)
	c, err := v.Caller(t.Context(), bearer(mint(t, testKeys().rsa, rs256(), claims(at).with("jti", "1", "sid", "s"))))
	if err != nil {
		t.Fatal(err)
	}
	want := record.Owner{Tenant: "acme", Principal: record.Principal{Issuer: staff, Subject: "anna"}, Agent: "helper"}
	if c.Owner() != want || !c.Valid() {
		t.Errorf("owner %+v", c.Owner())
	}
	if !c.HasScope("crm:read") || c.HasScope("crm") || c.HasScope("") || !slices.Equal(c.Scopes(), []string{"crm:read", "crm:write"}) {
		t.Errorf("scopes %q", c.Scopes())
	}
	if !c.InGroup(record.Group{Issuer: staff, Name: "support"}) || c.InGroup(record.Group{Issuer: support, Name: "support"}) || len(c.Groups()) != 2 {
		t.Errorf("groups %v", c.Groups())
	}
	if c.Workload() != nil || c.Vouches() || !c.Expires().Equal(at.now().Add(5*time.Minute)) {
		t.Error("a token vouches, or expires at another time")
	}
	wantClaims := `{"aud":"` + mcp + `","azp":"helper","department":"sales","groups":["support","platform"],"iss":"` + staff + `","scope":"crm:read crm:write","sub":"anna"}`
	if got := string(c.Claims()); got != wantClaims {
		t.Errorf("claims\n%s, want\n%s", got, wantClaims)
	}
	// What a caller is given cannot change what others are.
	c.Scopes()[0], c.Groups()[0].Name = "admin", "admin"
	if c.HasScope("admin") || c.InGroup(record.Group{Issuer: staff, Name: "admin"}) {
		t.Error("a caller was changed from outside")
	}
}

func TestRightTokens(t *testing.T) {
	at, k := newClock(), testKeys()
	v := verifier(t, config(t), at)
	for name, token := range map[string]string{
		"EC":                   mint(t, k.ec, rs256().with("alg", "ES256", "kid", "e1"), claims(at)),
		"one key fits":         mint(t, k.rsa, rs256().with("kid", nil), claims(at)),
		"typ in another case":  mint(t, k.rsa, rs256().with("typ", "AT+JWT"), claims(at)),
		"typ in full":          mint(t, k.rsa, rs256().with("typ", "application/at+jwt"), claims(at)),
		"nonce in at+jwt":      mint(t, k.rsa, rs256(), claims(at).with("nonce", "n")),
		"several audiences":    mint(t, k.rsa, rs256(), claims(at).with("aud", []string{"https://other.example", mcp})),
		"nbf within the skew":  mint(t, k.rsa, rs256(), claims(at).with("nbf", at.now().Unix()+29)),
		"a fraction":           mint(t, k.rsa, rs256(), claims(at).with("exp", float64(at.now().Unix())+60.5)),
		"no groups":            mint(t, k.rsa, rs256(), claims(at).with("groups", nil)),
		"scopes as list":       mint(t, k.rsa, rs256(), claims(at).with("scope", nil, "scp", []string{"a", "b"})),
		"header look-alikes":   mint(t, k.rsa, rs256().with("ALG", "none", "Kid", "x"), claims(at).with("ISS", "https://evil.example", "Sub", "root")),
		"repeats":              mint(t, k.rsa, rs256(), claims(at).with("groups", []string{"support", "support"}, "scope", "crm:read crm:read", "aud", []string{mcp, mcp})),
		"other issuer":         mint(t, k.ed, eddsa(), supportClaims(at)),
		"delegated to a agent": mint(t, k.rsa, rs256(), claims(at).with("act", object{"sub": "robot"})),
	} {
		c, err := v.Caller(t.Context(), bearer(token))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.Owner().Principal.Subject != "anna" {
			t.Errorf("%s: %v", name, c.Owner())
		}
		if name == "delegated to a agent" && c.Owner().Agent != "robot" {
			t.Errorf("%s: agent %s", name, c.Owner().Agent)
		}
		if name == "other issuer" && (c.Owner().Tenant != "globex" || len(c.Groups()) != 0) {
			t.Errorf("%s: tenant %s, groups %v", name, c.Owner().Tenant, c.Groups())
		}
	}
}

// Each wrong token is refused, by the check that should notice it.
func TestWrongTokens(t *testing.T) {
	at, k := newClock(), testKeys()
	v := verifier(t, config(t), at)
	now := at.now().Unix()
	good := claims(at)
	goodToken := mint(t, k.rsa, rs256(), good)
	parts := strings.Split(goodToken, ".")
	der, _ := x509.MarshalPKIXPublicKey(&k.rsa.PublicKey)
	pemKey := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	own, _ := json.Marshal(jose.JSONWebKey{Key: &k.otherRSA.PublicKey})
	sign := func(pairs ...any) string { return mint(t, k.rsa, rs256(), good.with(pairs...)) }
	head := func(pairs ...any) string { return mint(t, k.rsa, rs256().with(pairs...), good) }
	raw := strings.TrimSuffix(text(t, good), "}")
	flipped := []byte(parts[2])
	flipped[10] = map[bool]byte{true: 'B', false: 'A'}[flipped[10] == 'A']

	for _, test := range []struct{ check, name, token string }{
		{"format", "empty", ""},
		{"format", "not a JWT", "hello"},
		{"format", "two parts", parts[0] + "." + parts[1]},
		{"format", "four parts", goodToken + ".x"},
		{"format", "a workload's key", "plk_" + strings.Repeat("a", 43)},
		{"format", "padded", parts[0] + "." + parts[1] + "=." + parts[2]},
		{"format", "line break", parts[0] + "." + parts[1] + "\n." + parts[2]},
		{"format", "long", parts[0] + "." + strings.Repeat("A", 20_000) + "." + parts[2]},
		{"format", "claims twice", mint(t, k.rsa, rs256(), raw+`,"sub":"root"}`)},
		{"format", "claims twice, escaped", mint(t, k.rsa, rs256(), raw+`,"\u0073ub":"root"}`)},
		{"format", "alg twice", mint(t, k.rsa, `{"alg":"RS256","kid":"r1","typ":"at+jwt","alg":"none"}`, good)},
		{"format", "claims are a list", mint(t, k.rsa, rs256(), `[]`)},
		{"format", "claims are blank", mint(t, k.rsa, rs256(), ` `)},
		{"format", "not UTF-8", mint(t, k.rsa, rs256(), raw+",\"x\":\"\xff\"}")},
		{"format", "trailing data", mint(t, k.rsa, rs256(), raw+"} {}")},
		{"format", "deep", mint(t, k.rsa, rs256(), raw+`,"x":`+strings.Repeat("[", 40)+strings.Repeat("]", 40)+"}")},
		{"format", "crit", head("crit", []string{"exp"})},
		{"format", "b64", head("b64", false)},
		{"format", "kid is a number", head("kid", 1)},
		{"format", "alg is a list", head("alg", []string{"RS256"})},
		{"issuer", "none", sign("iss", nil)},
		{"issuer", "a number", sign("iss", 7)},
		{"issuer", "another", sign("iss", "https://evil.example")},
		{"issuer", "with a slash", sign("iss", staff+"/")},
		{"issuer", "in capitals", sign("iss", strings.ToUpper(staff))},
		{"algorithm", "none", mint(t, nil, rs256().with("alg", "none"), good)},
		{"algorithm", "None", mint(t, nil, rs256().with("alg", "None"), good)},
		{"algorithm", "absent", head("alg", nil)},
		{"algorithm", "HS256 with the public key", mint(t, pemKey, rs256().with("alg", "HS256"), good)},
		{"algorithm", "HS256 with the key's DER", mint(t, der, rs256().with("alg", "HS256"), good)},
		{"algorithm", "not pinned", mint(t, k.ed, rs256().with("alg", "EdDSA", "kid", "ed"), good)},
		{"algorithm", "lower case", head("alg", "rs256")},
		{"algorithm", "pinned for the other issuer", mint(t, k.rsa, rs256(), supportClaims(at))},
		{"type", "absent", head("typ", nil)},
		{"type", "another", head("typ", "logout+jwt")},
		{"type", "an ID token with nonce", mint(t, k.rsa, rs256().with("typ", "JWT"), good.with("nonce", "n"))},
		{"type", "an ID token with at_hash", mint(t, k.rsa, rs256().with("typ", "jwt"), good.with("at_hash", "h"))},
		{"type", "Keycloak's ID token", sign("typ", "ID")},
		{"type", "Cognito's ID token", sign("token_use", "id")},
		{"type", "a security event", mint(t, k.rsa, rs256().with("typ", "JWT"), good.with("events", object{}))},
		{"key", "unknown", head("kid", "r2")},
		{"key", "another algorithm's", head("kid", "e1")},
		{"key", "a path", head("kid", "../../dev/null")},
		{"key", "in another case", head("kid", "R1")},
		{"signature", "another key", mint(t, k.otherRSA, rs256(), good)},
		{"signature", "another key, embedded", mint(t, k.otherRSA, rs256().with("jwk", json.RawMessage(own)), good)},
		{"signature", "another key, by address", mint(t, k.otherRSA, rs256().with("jku", "https://evil.example/jwks", "x5u", "https://evil.example"), good)},
		{"signature", "none", parts[0] + "." + parts[1] + "."},
		{"signature", "flipped", parts[0] + "." + parts[1] + "." + string(flipped)},
		{"signature", "of other claims", parts[0] + "." + strings.Split(sign("sub", "root"), ".")[1] + "." + parts[2]},
		{"signature", "of the other issuer", mint(t, k.ed, rs256(), good)},
		{"lifetime", "no exp", sign("exp", nil)},
		{"lifetime", "exp is text", sign("exp", fmt.Sprint(now+60))},
		{"lifetime", "exp is null", mint(t, k.rsa, rs256(), strings.Replace(text(t, good), fmt.Sprintf(`"exp":%d`, now+300), `"exp":null`, 1))},
		{"lifetime", "exp is huge", sign("exp", 1e300)},
		{"lifetime", "exp is negative", sign("exp", -5)},
		{"lifetime", "expired", sign("exp", now-1)},
		{"lifetime", "expires now", sign("exp", now)},
		{"lifetime", "not yet", sign("nbf", now+31)},
		{"lifetime", "issued later", sign("iat", now+31)},
		{"lifetime", "iat is text", sign("iat", "now")},
		{"subject", "none", sign("sub", nil)},
		{"subject", "empty", sign("sub", "")},
		{"subject", "a number", sign("sub", 1)},
		{"subject", "control character", sign("sub", "anna\n")},
		{"subject", "NUL", sign("sub", "anna\x00root")},
		{"subject", "direction override", sign("sub", "anna\u202e")},
		{"subject", "zero width", sign("sub", "an\u200bna")},
		{"subject", "long", sign("sub", strings.Repeat("a", 600))},
		{"tenant", "not named", mint(t, k.ed, eddsa(), supportClaims(at).with("org", nil))},
		{"tenant", "not listed", mint(t, k.ed, eddsa(), supportClaims(at).with("org", object{"id": "initech"}))},
		{"tenant", "a list", mint(t, k.ed, eddsa(), supportClaims(at).with("org", object{"id": []string{"acme"}}))},
		{"tenant", "dotted name", mint(t, k.ed, eddsa(), supportClaims(at).with("org", nil, "org.id", "acme"))},
		{"scopes", "an object", sign("scope", object{"a": true})},
		{"scopes", "spaces within", sign("scope", []string{"a b"})},
		{"scopes", "control character", sign("scope", "a\tb")},
		{"groups", "an object", sign("groups", object{"platform": true})},
		{"groups", "numbers", sign("groups", []int{1})},
		{"groups", "control character", sign("groups", []string{"support\r"})},
		{"groups_overage", "a distributed claim", sign("groups", nil, "_claim_names", object{"groups": "src1"}, "_claim_sources", object{"src1": object{"endpoint": "https://graph.example"}})},
		{"groups_overage", "beside some groups", sign("_claim_names", object{"groups": "src1"})},
		{"groups_overage", "a pointer as value", sign("groups", "src1", "_claim_sources", object{"src1": object{"endpoint": "https://graph.example"}})},
		{"groups_overage", "groups:src1", sign("groups", nil, "groups:src1", object{"endpoint": "https://graph.example"})},
		{"groups_overage", "hasgroups", sign("groups", nil, "hasgroups", true)},
		{"groups_overage", "hasgroups as text", sign("groups", nil, "hasgroups", "true")},
		{"actors", "null", mint(t, k.rsa, rs256(), raw+`,"act":null}`)},
		{"actors", "text", sign("act", "robot")},
		{"actors", "a list", sign("act", []any{object{"sub": "robot"}})},
		{"actors", "nobody", sign("act", object{})},
		{"actors", "an issuer alone", sign("act", object{"iss": staff})},
		{"actors", "not text", sign("act", object{"sub": 5})},
		{"actors", "control character", sign("act", object{"sub": "robot\u202e"})},
		{"actors", "issuer not text", sign("act", object{"sub": "robot", "iss": 1})},
		{"actors", "nested text", sign("act", object{"sub": "robot", "act": "earlier"})},
		{"actors", "nested nobody", sign("act", object{"sub": "robot", "act": object{"client": "x"}})},
		{"actors", "nested not text", sign("act", object{"sub": "robot", "act": object{"sub": []string{"x"}}})},
		{"actors", "too many", sign("act", chain(6))},
		{"audience", "none", sign("aud", nil)},
		{"audience", "another", sign("aud", "https://other.example")},
		{"audience", "a prefix", sign("aud", mcp+"/x")},
		{"audience", "an object", sign("aud", object{})},
		{"audience", "the console's", sign("aud", console)},
		{"audience", "the console's too", sign("aud", []string{mcp, console})},
		{"agent", "none", sign("azp", nil)},
		{"agent", "empty", sign("azp", "")},
		{"agent", "act without sub", sign("act", object{"client_id": "robot"})},
		{"agent", "control character", sign("azp", "a\x7f")},
	} {
		t.Run(test.check+"/"+test.name, func(t *testing.T) {
			c, err := v.Caller(t.Context(), bearer(test.token))
			if err == nil || c.Valid() || c.Owner() != (record.Owner{}) {
				t.Fatalf("taken as %+v", c.Owner())
			}
			if kind := record.KindOf(err); kind != record.Unauthenticated {
				t.Errorf("kind %s", kind)
			}
			e := v.Explain(t.Context(), bearer(test.token))
			if test.check == "format" && test.name == "empty" {
				return
			}
			if strings.HasPrefix(test.name, "the console's") {
				return // explained as a person's, below
			}
			if n := len(e.Checks); n == 0 || e.Checks[n-1] != (identity.Check{Name: test.check}) || e.As != "" || e.Problem != err.Error() {
				t.Errorf("noticed by %v: %v", e.Checks, err)
			}
			for _, secret := range []string{test.token, "root", parts[2]} {
				if len(secret) > 3 && strings.Contains(err.Error(), secret) {
					t.Errorf("the message quotes the token: %v", err)
				}
			}
		})
	}
}

// chain is n actors, the current one first.
func chain(n int) object {
	o := object{"sub": fmt.Sprint("actor", n)}
	for i := n - 1; i > 0; i-- {
		o = object{"sub": fmt.Sprint("actor", i), "iss": staff, "exp": "means nothing", "act": o}
	}
	return o
}

// The outermost act is the agent; those inside it are told and change nothing.
func TestActorsChain(t *testing.T) {
	at, k := newClock(), testKeys()
	v := verifier(t, config(t), at)
	for n := 1; n <= 5; n++ {
		token := mint(t, k.rsa, rs256(), claims(at).with("act", chain(n)))
		c, err := v.Caller(t.Context(), bearer(token))
		if err != nil || c.Owner().Agent != "actor1" || c.Owner().Principal.Subject != "anna" {
			t.Errorf("%d actors: %v %v", n, c.Owner(), err)
		}
		if e := v.Explain(t.Context(), bearer(token)); len(e.Actors) != n || e.Actors[0] != "actor1" {
			t.Errorf("%d actors: told %q", n, e.Actors)
		}
		if _, err := v.Person(t.Context(), mint(t, k.rsa, rs256(), claims(at).with("aud", console, "act", chain(n)))); err == nil {
			t.Errorf("%d actors answer for their subject", n)
		}
	}
	// may_act only says who could act (RFC 8693 section 4.4).
	if c, err := v.Caller(t.Context(), bearer(mint(t, k.rsa, rs256(), claims(at).with("may_act", object{"sub": "robot"})))); err != nil || c.Owner().Agent != "helper" {
		t.Errorf("may_act: %v %v", c.Owner(), err)
	}
}

// Where an issuer states no groups that count, what it says of theirs is nothing.
func TestOverageMattersOnlyWhereGroupsCount(t *testing.T) {
	at := newClock()
	v := verifier(t, config(t), at)
	c, err := v.Caller(t.Context(), bearer(mint(t, testKeys().ed, eddsa(), supportClaims(at).with("hasgroups", true))))
	if err != nil || len(c.Groups()) != 0 {
		t.Errorf("%v %v", c.Groups(), err)
	}
}

func TestRule_I4_ATokenCountsAtMostSoLong(t *testing.T) {
	at := newClock()
	c := config(t)
	c.Issuers[0].MaxTokenAge = time.Minute
	v := verifier(t, c, at)
	token := mint(t, testKeys().rsa, rs256(), claims(at))
	if got, err := v.Caller(t.Context(), bearer(token)); err != nil || !got.Expires().Equal(at.now().Add(time.Minute)) {
		t.Errorf("expires %v, %v", got.Expires(), err)
	}
	if _, err := v.Caller(t.Context(), bearer(mint(t, testKeys().rsa, rs256(), claims(at).with("iat", nil)))); err == nil {
		t.Error("a token of unknown age was taken")
	}
	at.pass(time.Minute)
	if _, err := v.Caller(t.Context(), bearer(token)); err == nil || !strings.Contains(err.Error(), "max_token_age") {
		t.Errorf("an old token: %v", err)
	}
	at.pass(time.Hour)
	if _, err := v.Caller(t.Context(), bearer(token)); err == nil || strings.Contains(err.Error(), "max_token_age") {
		t.Errorf("an expired token: %v", err)
	}
}

// A token that was verified a moment ago still expires on time.
func TestExpiryIsLookedAtEachTime(t *testing.T) {
	at := newClock()
	v := verifier(t, config(t), at)
	token := mint(t, testKeys().rsa, rs256(), claims(at).with("exp", at.now().Unix()+20))
	for range 2 {
		if _, err := v.Caller(t.Context(), bearer(token)); err != nil {
			t.Fatal(err)
		}
	}
	at.pass(20 * time.Second)
	if _, err := v.Caller(t.Context(), bearer(token)); record.KindOf(err) != record.Unauthenticated {
		t.Errorf("an expired token was taken: %v", err)
	}
}

func TestNobody(t *testing.T) {
	var c identity.Caller
	var p identity.Person
	var o identity.Operator
	var r identity.Reader
	if c.Valid() || p.Valid() || o.Valid() || r.Valid() || c.Vouches() || c.HasScope("") || p.Operates() || p.Reads() || o.Operates() || c.SessionID() != "" ||
		c.InGroup(record.Group{}) || p.InGroup(record.Group{}) || string(c.Claims()) != "{}" || c.Workload().May(identity.Vouch) {
		t.Error("nobody is somebody")
	}
	v := verifier(t, identity.Config{}, newClock())
	if _, err := v.Caller(t.Context(), identity.Credentials{}); record.KindOf(err) != record.Unauthenticated {
		t.Errorf("no credentials: %v", err)
	}
}

func TestSessionsOfDifferentCallersDiffer(t *testing.T) {
	at, k := newClock(), testKeys()
	v := verifier(t, config(t), at)
	seen := map[string]string{}
	for name, token := range map[string]string{
		"anna":          mint(t, k.rsa, rs256(), claims(at)),
		"berta":         mint(t, k.rsa, rs256(), claims(at).with("sub", "berta")),
		"another agent": mint(t, k.rsa, rs256(), claims(at).with("azp", "x")),
		"issuer":        mint(t, k.ed, eddsa(), supportClaims(at).with("client_id", "helper", "org", object{"id": "acme"})),
		"tenant":        mint(t, k.ed, eddsa(), supportClaims(at).with("client_id", "helper")),
	} {
		c, err := v.Caller(t.Context(), bearer(token))
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[c.SessionID()]; ok {
			t.Errorf("%s has the session of %s", name, other)
		}
		seen[c.SessionID()] = name
	}
	later, err := v.Caller(t.Context(), bearer(mint(t, k.rsa, rs256(), claims(at).with("exp", at.now().Unix()+99))))
	if err != nil || seen[later.SessionID()] != "anna" {
		t.Errorf("a later token is another session: %v", err)
	}
}

func TestConcurrentUse(t *testing.T) {
	at, k := newClock(), testKeys()
	v := verifier(t, config(t), at)
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			subject := fmt.Sprint("user", n%4)
			token := mint(t, k.ed, eddsa(), supportClaims(at).with("sub", subject))
			for range 50 {
				c, err := v.Caller(context.Background(), bearer(token))
				if err != nil || c.Owner().Principal.Subject != subject {
					t.Errorf("%s: %v, %v", subject, c.Owner(), err)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkCaller(b *testing.B) {
	at := newClock()
	v := verifier(b, config(b), at)
	token := mint(b, testKeys().rsa, rs256(), claims(at))
	b.Run("known", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := v.Caller(b.Context(), bearer(token)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			at.pass(-time.Nanosecond) // memory is not trusted by a clock that went back
			if _, err := v.Caller(b.Context(), bearer(token)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
