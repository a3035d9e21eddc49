package verify

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/placet-dev/placet/credential"
	"github.com/placet-dev/placet/record"
)

var update = flag.Bool("update", false, "write the vectors anew")

const (
	issuer   = "https://placet.example"
	audience = "https://desk.example/mcp"
	refund   = `{"amount":60.5,"order":"ord_1"}`
)

// messageSeeds are messages that readers disagree about, beside those that they agree on.
var messageSeeds = []string{
	callText, `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"arguments":{"b":1.0,"a":[]},"name":"refund"}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"refund"}}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7,"arguments":"x"}}`, `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"refund"}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"requestState":"s","name":"refund","inputResponses":{"b":1,"a":2.0}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`,
	`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`, `{"method":"ping"}`,
	`{"jsonrpc":"2.0","id":1,"method":"resources/read"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/run"}`, `{"jsonrpc":"2.0","id":1,"method":"Tools/Call"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call "}`,
	`{"jsonrpc":"2.0","id":1,"metho\u0064":"tools/c\u0061ll"}`, `[` + callText + `]`, `[]`, `{}`, `x`, ``, `"tools/call"`, `{"jsonrpc":"2.0","id":1,"method":"ping"}` + callText,
	`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, `{"jsonrpc":"2.0","id":1,"Method":"ping","method":"tools/call"}`, `{"jsonrpc":"2.0","id":1,"METHOD":"tools/call"}`,
	`{"jsonrpc":"2.0","id":1,"method":"ping","paramſ":{}}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{},"Arguments":{"amount":605}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","argument\u017f":{}}}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_Meta":{}}}`, `{"jsonrpc":"2.0","id":1,"result":{},"method":"ping"}`, `{"jsonrpc":"2.0","id":1}`, `{"jsonrpc":"2.0","id":1,"method":""}`,
	`{"jsonrpc":"2.0","id":1,"method":7}`, `{"jsonrpc":"2.0","id":1,"method":null}`, `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\ud800"}}`,
}

var begin = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// steady is randomness that repeats, for vectors only.
type steady struct{ n byte }

func (s *steady) Read(p []byte) (int, error) {
	for i := range p {
		s.n++
		p[i] = s.n
	}
	return len(p), nil
}

// vectors is testdata/vectors.json: what every verifier, in any language, must say.
type vectors struct {
	Issuer    string          `json:"issuer"`
	Audience  string          `json:"audience"`
	Now       int64           `json:"now"`
	JWKS      json.RawMessage `json:"jwks"`
	Tokens    []tokenVector   `json:"tokens"`
	Canonical []textVector    `json:"canonical"`
	Messages  []messageVector `json:"messages"`
}

type tokenVector struct {
	Name      string `json:"name"`
	Token     string `json:"token"`
	Now       int64  `json:"now,omitempty"` // in place of the common one
	Tool      string `json:"tool"`
	Arguments string `json:"arguments"` // as received
	Twice     bool   `json:"twice,omitempty"`
	// Input are the answers to the server's questions, checked after the token where they are not null.
	Input   *string  `json:"input,omitempty"`
	Tenants []string `json:"tenants,omitempty"` // those that the server serves
	Want    Reason   `json:"want"`              // "" means that the call is good
}

type textVector struct {
	Text string  `json:"text"`
	Want *string `json:"want"` // null means refused
}

// messageVector is what a guard in front of an MCP server says of a message: "free" runs
// nothing, "call" needs a token for this tool, arguments and answers, "closed" can have
// none, and "bad" is not read at all.
type messageVector struct {
	Text      string `json:"text"`
	Want      string `json:"want"`
	Tool      string `json:"tool,omitempty"`
	Arguments string `json:"arguments,omitempty"` // canonical
	Input     string `json:"input,omitempty"`     // canonical
}

// say is what this guard says of a message.
func say(text string) messageVector {
	v := messageVector{Text: text}
	m, err := readMessage([]byte(text))
	switch {
	case err != nil:
		v.Want = "bad"
	case !m.guarded():
		v.Want = "free"
	case m.method != "tools/call":
		v.Want = "closed"
	default:
		v.Want, v.Tool, v.Arguments, v.Input = "call", m.tool, string(m.arguments), string(m.input)
	}
	return v
}

// maker signs with the key of the vectors.
type maker struct {
	t    *testing.T
	sign *credential.Signer
	key  ed25519.PrivateKey
	kid  string
	jwks []byte
}

func newMaker(t *testing.T, name string, seed byte) *maker {
	t.Helper()
	s, err := credential.Open(filepath.Join(t.TempDir(), "keys"), credential.Options{Issuer: name, Random: &steady{seed}, Clock: func() time.Time { return begin }})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", KeysPath, nil))
	var raw [ed25519.SeedSize]byte
	_, _ = (&steady{seed}).Read(raw[:])
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(w.Body.Bytes(), &set); err != nil {
		t.Fatal(err)
	}
	return &maker{t, s, ed25519.NewKeyFromSeed(raw[:]), set.Keys[0].KeyID, w.Body.Bytes()}
}

func goodClaims() credential.Claims {
	return credential.Claims{
		Audience: audience, Tool: "refund", Arguments: []byte(refund), Run: "run_1", Call: "call_1", Attempt: 1, Key: "key-1",
		Owner:   record.Owner{Tenant: "acme", Principal: record.Principal{Issuer: "https://login.example", Subject: "anna"}, Agent: "support-bot"},
		Targets: []record.Target{{Argument: "order", Value: json.RawMessage(`"ord_1"`)}}, Lease: begin.Add(30 * time.Second),
	}
}

func (m *maker) token(edit func(*credential.Claims)) string {
	m.t.Helper()
	c := goodClaims()
	if edit != nil {
		edit(&c)
	}
	token, err := m.sign.Sign(c)
	if err != nil {
		m.t.Fatal(err)
	}
	return token
}

// forge signs any payload and header with the vectors' own key, or another one.
func (m *maker) forge(key any, alg jose.SignatureAlgorithm, typ string, edit func(map[string]any)) string {
	m.t.Helper()
	_, rest, _ := strings.Cut(m.token(nil), ".")
	body, _, _ := strings.Cut(rest, ".")
	claims := map[string]any{}
	text, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		m.t.Fatal(err)
	}
	if err := json.Unmarshal(text, &claims); err != nil {
		m.t.Fatal(err)
	}
	for _, n := range []string{"iat", "exp"} {
		claims[n] = int64(claims[n].(float64))
	}
	if edit != nil {
		edit(claims)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		m.t.Fatal(err)
	}
	o := (&jose.SignerOptions{}).WithHeader("kid", m.kid)
	if typ != "" {
		o = o.WithType(jose.ContentType(typ))
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, o)
	if err != nil {
		m.t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		m.t.Fatal(err)
	}
	out, err := signed.CompactSerialize()
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

// handmade signs a header and a payload as they stand with the vectors' own key: what no
// library writes.
func (m *maker) handmade(header, payload string) string {
	text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload))
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(m.key, []byte(text)))
}

// handmadeTokens are well signed, and not tokens all the same but for the first.
func (m *maker) handmadeTokens(add func(name, token string, want Reason, edits ...func(*tokenVector)), plain string) {
	part := strings.Split(plain, ".")
	text, err := base64.RawURLEncoding.DecodeString(part[1])
	if err != nil {
		m.t.Fatal(err)
	}
	payload := string(text)
	head := func(more string) string {
		return `{"alg":"EdDSA","kid":"` + m.kid + `","typ":"` + tokenType + `"` + more + `}`
	}
	add("good, made by hand", m.handmade(head(""), payload), "")
	add("the algorithm under its other name", m.handmade(strings.Replace(head(""), "EdDSA", "Ed25519", 1), payload), BadToken)
	add("the algorithm in another case", m.handmade(strings.Replace(head(""), "EdDSA", "eddsa", 1), payload), BadToken)
	add("an extension that must be understood", m.handmade(head(`,"crit":["x"],"x":1`), payload), BadToken)
	add("a header name twice", m.handmade(head(`,"typ":"`+tokenType+`"`), payload), BadToken)
	add("a key's ID that is a number", m.handmade(`{"alg":"EdDSA","kid":1,"typ":"`+tokenType+`"}`, payload), BadToken)
	add("no key's ID", m.handmade(`{"alg":"EdDSA","typ":"`+tokenType+`"}`, payload), BadToken)
	add("a header that is a list", m.handmade(`[]`, payload), BadToken)
	add("a payload that is no JSON", m.handmade(head(""), "x"), BadToken)
	add("an end that is a text", m.handmade(head(""), strings.Replace(payload, `"exp":`, `"exp":"1","end":`, 1)), BadToken)
	add("an end in parts of a second", m.handmade(head(""), strings.Replace(payload, `"exp":`, `"exp":1796040029.5,"end":`, 1)), BadToken)
	add("a tenant that is a number", m.handmade(head(""), strings.Replace(payload, `"acme"`, `1`, 1)), BadToken)
	add("targets that are no list", m.handmade(head(""), strings.Replace(payload, `"targets":`, `"targets":{},"t":`, 1)), BadToken)
	add("an agent that is null", m.handmade(head(""), strings.Replace(payload, `"act":`, `"act":null,"a":`, 1)), BadToken)
	add("padding", plain+"==", BadToken)
	add("a line break in the signature", part[0]+"."+part[1]+"."+part[2][:40]+"\n"+part[2][40:], BadToken)
	add("a space before it", " "+plain, BadToken)
	add("stray bits at the signature's end", plain[:len(plain)-1]+string(plain[len(plain)-1]+1), BadToken)
	add("a fourth part", plain+".", BadToken)
	add("the signature in base64", part[0]+"."+part[1]+"."+strings.NewReplacer("-", "+", "_", "/").Replace(part[2])+"+", BadToken)
	add("one bit of the signature changed", part[0]+"."+part[1]+"."+flip(part[2]), BadToken)
}

// flip changes the first character of a text to a neighbour in its alphabet.
func flip(s string) string {
	if s[0] == 'A' {
		return "B" + s[1:]
	}
	return "A" + s[1:]
}

func makeVectors(t *testing.T) vectors {
	m, other := newMaker(t, issuer, 0), newMaker(t, issuer, 100)
	elsewhere := newMaker(t, "https://other.example", 0)
	v := vectors{Issuer: issuer, Audience: audience, Now: begin.Unix() + 5, JWKS: m.jwks}
	add := func(name, token string, want Reason, edits ...func(*tokenVector)) {
		c := tokenVector{Name: name, Token: token, Tool: "refund", Arguments: refund, Want: want}
		for _, e := range edits {
			e(&c)
		}
		v.Tokens = append(v.Tokens, c)
	}
	args := func(s string) func(*tokenVector) { return func(c *tokenVector) { c.Arguments = s } }
	at := func(n int64) func(*tokenVector) { return func(c *tokenVector) { c.Now = begin.Unix() + n } }
	plain := m.token(nil)
	add("good", plain, "")
	add("good, arguments in another order and spacing", m.token(nil), "", args("{ \"order\": \"ord_\\u0031\",\n\"amount\": 60.50 }"))
	add("good, no arguments", m.token(func(c *credential.Claims) { c.Arguments = nil }), "", args(""))
	add("good, with answers to the server's questions", m.token(func(c *credential.Claims) { c.Input = []byte(`{"requestState":"s"}`) }), "")
	add("good, in its last second", m.token(nil), "", at(29))
	input := func(s string) func(*tokenVector) { return func(c *tokenVector) { c.Input = &s } }
	answered := func(c *credential.Claims) { c.Input = []byte(`{"inputResponses":{"a":1},"requestState":"s"}`) }
	add("good, answers in another order", m.token(answered), "", input(`{"requestState":"s", "inputResponses":{"a":1.0}}`))
	add("other answers", m.token(answered), OtherArguments, input(`{"requestState":"s","inputResponses":{"a":2}}`))
	add("answers left out", m.token(answered), OtherArguments, input(""))
	add("answers that nobody signed", m.token(nil), OtherArguments, input(`{"requestState":"s"}`))
	add("good, for one of several tenants", m.token(nil), "", func(c *tokenVector) { c.Tenants = []string{"globex", "acme"} })
	add("for another tenant", m.token(nil), OtherTenant, func(c *tokenVector) { c.Tenants = []string{"globex"} })
	big := func(c *credential.Claims) { c.Arguments = []byte(`{"n":9007199254740992}`) }
	add("good, the largest integer of all doubles", m.token(big), "", args(`{"n":9007199254740992.0}`))
	add("an integer that a double does not hold", m.token(big), OtherArguments, args(`{"n":9007199254740993}`))
	add("arguments after a byte order mark", m.token(nil), OtherArguments, args("\ufeff"+refund))
	add("used twice", m.token(nil), Replayed, func(c *tokenVector) { c.Twice = true })
	add("none", "", NoToken)
	add("no token at all", "Bearer x", BadToken)
	add("ended", m.token(nil), Expired, at(30))
	add("begins in the future", m.token(nil), Expired, at(-11))
	add("another tool", m.token(func(c *credential.Claims) { c.Tool = "lookup" }), OtherTool)
	add("another audience", m.token(func(c *credential.Claims) { c.Audience = "https://mail.example/mcp" }), OtherAudience)
	add("another issuer, same key", elsewhere.token(nil), OtherIssuer)
	add("another amount", m.token(nil), OtherArguments, args(`{"amount":605,"order":"ord_1"}`))
	add("one member more", m.token(nil), OtherArguments, args(`{"amount":60.5,"order":"ord_1","to":"x"}`))
	add("a member twice", m.token(nil), OtherArguments, args(`{"amount":605,"order":"ord_1","amount":60.5}`))
	add("arguments that are no JSON", m.token(nil), OtherArguments, args(`{"amount":60.5,"order":"ord_1"} x`))
	add("a key that is not published", other.token(nil), BadToken)
	add("an unpublished key under a published ID", m.forge(other.key, jose.EdDSA, tokenType, nil), BadToken)
	add("the public key as a secret", m.forge([]byte(m.key.Public().(ed25519.PublicKey)), jose.HS256, tokenType, nil), BadToken)
	add("no signature", "eyJhbGciOiJub25lIiwidHlwIjoicGxhY2V0LWRpc3BhdGNoK2p3dCJ9."+strings.Split(plain, ".")[1]+".", BadToken)
	add("a token of another kind", m.forge(m.key, jose.EdDSA, "at+jwt", nil), BadToken)
	add("a token of no kind", m.forge(m.key, jose.EdDSA, "", nil), BadToken)
	add("lasts too long", m.forge(m.key, jose.EdDSA, tokenType, func(c map[string]any) { c["exp"] = c["iat"].(int64) + 61 }), BadToken)
	add("without an ID", m.forge(m.key, jose.EdDSA, tokenType, func(c map[string]any) { delete(c, "jti") }), BadToken)
	add("without a tenant", m.forge(m.key, jose.EdDSA, tokenType, func(c map[string]any) { delete(c, "tenant") }), BadToken)
	add("without an end", m.forge(m.key, jose.EdDSA, tokenType, func(c map[string]any) { delete(c, "exp") }), Expired)
	add("several audiences", m.forge(m.key, jose.EdDSA, tokenType, func(c map[string]any) { c["aud"] = []string{audience, "x"} }), BadToken)
	parts := strings.Split(plain, ".")
	add("payload of another token", parts[0]+"."+strings.Split(m.token(func(c *credential.Claims) { c.Tool = "x" }), ".")[1]+"."+parts[2], BadToken)
	m.handmadeTokens(add, plain)
	for _, s := range jsonSeeds {
		if !utf8.ValidString(s) {
			continue // a JSON file cannot hold it
		}
		c := textVector{Text: s}
		if text, err := canonical([]byte(s)); err == nil {
			form := string(text)
			c.Want = &form
		}
		v.Canonical = append(v.Canonical, c)
	}
	for _, s := range messageSeeds {
		v.Messages = append(v.Messages, say(s))
	}
	return v
}

// TestVectors: the file is what this code makes, and this verifier says of each
// token what the file says.
func TestVectors(t *testing.T) {
	made := makeVectors(t)
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(made); err != nil {
		t.Fatal(err)
	}
	const file = "testdata/vectors.json"
	if *update {
		if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(kept, text.Bytes()) {
		t.Errorf("%s is not current; run: go test ./verify -update", file)
	}
	var v vectors
	if err := json.Unmarshal(kept, &v); err != nil {
		t.Fatal(err)
	}
	for _, c := range v.Tokens {
		now := time.Unix(max(v.Now, 0), 0)
		if c.Now != 0 {
			now = time.Unix(c.Now, 0)
		}
		clock := func() time.Time { return now }
		k, err := New(Options{Issuer: v.Issuer, Audience: v.Audience, Tenants: c.Tenants, Keys: v.JWKS, Seen: PerProcess(clock), Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		call, err := k.Check(context.Background(), c.Token, c.Tool, []byte(c.Arguments))
		if c.Twice {
			if err != nil {
				t.Errorf("%s: the first time: %v", c.Name, err)
			}
			call, err = k.Check(context.Background(), c.Token, c.Tool, []byte(c.Arguments))
		}
		if c.Input != nil && err == nil {
			err = call.CheckInput([]byte(*c.Input))
		}
		if c.Want == "" && (err != nil || call.Tenant != "acme" || call.Agent != "support-bot" || call.Principal.Subject != "anna" || call.Key != "key-1" || len(call.Targets) != 1) {
			t.Errorf("%s: %v, %+v", c.Name, err, call)
		}
		if c.Want != "" && (err == nil || ReasonOf(err) != c.Want) {
			t.Errorf("%s: %v, want %s", c.Name, err, c.Want)
		}
		if err != nil && (strings.Contains(err.Error(), "ord_1") || c.Token != "" && strings.Contains(err.Error(), c.Token)) {
			t.Errorf("%s: the error tells too much: %v", c.Name, err)
		}
	}
}
