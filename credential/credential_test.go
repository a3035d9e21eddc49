package credential

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/placet-dev/placet/record"
)

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 30, 12, 0, 0, 900e6, time.UTC)} }

func open(t *testing.T, path string, c *clock) *Signer {
	t.Helper()
	s, err := Open(path, Options{Issuer: "https://placet.example", Clock: c.Now, Random: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func claims(c *clock) Claims {
	return Claims{Audience: "https://desk.example/mcp", Tool: "refund", Arguments: []byte(`{"amount":60}`), Run: "run_1", Call: "call_1", Attempt: 2, Key: "key-1",
		Owner:   record.Owner{Tenant: "acme", Principal: record.Principal{Issuer: "https://login.example", Subject: "anna"}, Agent: "bot"},
		Targets: []record.Target{{Argument: "order", Value: json.RawMessage(`"ord_1"`)}, {Argument: "body", Value: json.RawMessage(`"` + strings.Repeat("x", 5000) + `"`)}},
		Lease:   c.Now().Add(30 * time.Second)}
}

// published is the key set as a tool server fetches it, by ID in order.
func published(t *testing.T, s *Signer) (ids []string, keys map[string]ed25519.PublicKey) {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(w.Body.Bytes(), &set); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	keys = map[string]ed25519.PublicKey{}
	for _, k := range set.Keys {
		public, ok := k.Key.(ed25519.PublicKey)
		if !ok || !k.IsPublic() {
			t.Fatalf("the set holds %T", k.Key)
		}
		ids, keys[k.KeyID] = append(ids, k.KeyID), public
	}
	return ids, keys
}

// read verifies a token against a key set and returns its key's ID and its claims.
func read(t *testing.T, token string, keys map[string]ed25519.PublicKey) (string, map[string]any) {
	t.Helper()
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		t.Fatal(err)
	}
	head := signed.Signatures[0].Protected
	text, err := signed.Verify(keys[head.KeyID])
	if err != nil || head.ExtraHeaders[jose.HeaderType] != tokenType {
		t.Fatalf("%v, header %+v, published %d keys", err, head, len(keys))
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return head.KeyID, out
}

func TestATokenSaysWhatIsDispatched(t *testing.T) {
	c := newClock()
	s := open(t, filepath.Join(t.TempDir(), "keys"), c)
	token, err := s.Sign(claims(c))
	if err != nil {
		t.Fatal(err)
	}
	_, keys := published(t, s)
	_, got := read(t, token, keys)
	id, _ := got["jti"].(string)
	if !record.ValidID("tok", id) {
		t.Errorf("jti %q", id)
	}
	delete(got, "jti")
	begin := c.Now().Unix()
	want := map[string]any{
		"iss": "https://placet.example", "aud": "https://desk.example/mcp", "iat": float64(begin), "exp": float64(begin + 30), "sub": "anna",
		"principal": map[string]any{"issuer": "https://login.example", "subject": "anna"}, "tenant": "acme", "act": map[string]any{"sub": "bot"},
		"run": "run_1", "call": "call_1", "attempt": 2.0, "tool": "refund", "key": "key-1",
		"arguments_digest": digestOf([]byte(`{"amount":60}`)),
		"targets": []any{map[string]any{"argument": "order", "value": "ord_1"},
			map[string]any{"argument": "body", "digest": digestOf([]byte(`"` + strings.Repeat("x", 5000) + `"`))}},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if again, err := s.Sign(claims(c)); err != nil || again == token {
		t.Errorf("two tokens are one: %v", err)
	}
	if len(token) > 4000 {
		t.Errorf("a token has %d bytes; headers have bounds", len(token))
	}
}

// TestRule_E5_ATokenEndsWithItsLease, after a minute at most, and is not made after it.
func TestRule_E5_ATokenEndsWithItsLease(t *testing.T) {
	c := newClock()
	s := open(t, filepath.Join(t.TempDir(), "keys"), c)
	for lease, want := range map[time.Duration]int64{11 * time.Second: 11, time.Hour: 60, 1500 * time.Millisecond: 2, 0: 0, -time.Second: 0, 50 * time.Millisecond: 0} {
		q := claims(c)
		q.Lease = c.Now().Add(lease)
		token, err := s.Sign(q)
		if want == 0 {
			if err == nil {
				t.Errorf("a token for a lease of %s", lease)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		_, keys := published(t, s)
		_, got := read(t, token, keys)
		if exp := int64(got["exp"].(float64)); exp-c.Now().Unix() != want || time.Unix(exp, 0).After(q.Lease) {
			t.Errorf("a lease of %s: ends after %d s, want %d", lease, exp-c.Now().Unix(), want)
		}
	}
	q := claims(c)
	q.Lease = time.Time{}
	if _, err := s.Sign(q); err == nil {
		t.Error("a token for a call without a lease")
	}
	for _, edit := range []func(*Claims){func(q *Claims) { q.Audience = "" }, func(q *Claims) { q.Owner.Tenant = "" }, func(q *Claims) { q.Tool = "" }, func(q *Claims) { q.Owner.Agent = "" }} {
		q := claims(c)
		edit(&q)
		if _, err := s.Sign(q); err == nil {
			t.Errorf("a token that lacks something: %+v", q)
		}
	}
}

// TestRotation: over a week, whoever fetches the keys every five minutes knows the
// key of each token until the token ends.
func TestRotation(t *testing.T) {
	c := newClock()
	path := filepath.Join(t.TempDir(), "keys")
	s := open(t, path, c)
	used, most := map[string]bool{}, 0
	_, known := published(t, s)
	for i := range 7 * 24 * 60 {
		c.pass(time.Minute)
		q := claims(c)
		q.Lease = c.Now().Add(time.Hour)
		token, err := s.Sign(q)
		if err != nil {
			t.Fatal(err)
		}
		kid, _ := read(t, token, known)
		used[kid] = true
		if i%5 == 0 {
			_, known = published(t, s)
			most = max(most, len(known))
			read(t, token, known)
		}
		if i%1000 == 0 {
			s = open(t, path, c) // a restart
		}
	}
	if len(used) != 8 || most != 2 {
		t.Errorf("%d keys signed in seven days, at most %d were published", len(used), most)
	}
	before, _ := published(t, s)
	c.pass(30 * 24 * time.Hour) // away for a month
	s = open(t, path, c)
	token, err := s.Sign(claims(c))
	if err != nil {
		t.Fatal(err)
	}
	after, keys := published(t, s)
	if kid, _ := read(t, token, keys); kid != before[len(before)-1] || len(after) != 2 {
		t.Errorf("after a month it signs with %s and publishes %v; before: %v", kid, after, before)
	}
	c.pass(10 * time.Minute)
	if token, err = s.Sign(claims(c)); err != nil {
		t.Fatal(err)
	}
	if kid, _ := read(t, token, keys); kid != after[1] {
		t.Error("the next key does not sign once it was published for long enough")
	}
	c.pass(-365 * 24 * time.Hour) // a clock that went back
	if _, err := s.Sign(claims(c)); err != nil {
		t.Error(err)
	}
}

// A key that cannot be saved is never used, and the old one goes on.
func TestAKeyThatCannotBeSaved(t *testing.T) {
	if os.Getuid() == 0 {
		t.Log("run as root: the folder is removed instead of closed")
	}
	c := newClock()
	dir := filepath.Join(t.TempDir(), "store")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := open(t, filepath.Join(dir, "keys"), c)
	before, keys := published(t, s)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	c.pass(48 * time.Hour)
	token, err := s.Sign(claims(c))
	if err != nil {
		t.Fatal(err)
	}
	read(t, token, keys)
	if after, _ := published(t, s); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("published %v, before %v", after, before)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c.pass(2 * time.Minute)
	if after, _ := published(t, s); len(after) != 2 {
		t.Errorf("it did not try again: %v", after)
	}
}

func TestTheKeyFileIsItsOwnersAlone(t *testing.T) {
	c := newClock()
	dir := t.TempDir()
	path := filepath.Join(dir, "keys")
	first, _ := published(t, open(t, path, c))
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info.Mode(), err)
	}
	if again, _ := published(t, open(t, path, c)); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Error("a restart made another key")
	}
	if left, _ := filepath.Glob(dir + "/*"); len(left) != 1 {
		t.Errorf("files left: %v", left)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{Issuer: "x", Clock: c.Now, Random: rand.Reader}); err == nil || !strings.Contains(err.Error(), "0600") {
		t.Errorf("a file that others read: %v", err)
	}
	bad := filepath.Join(dir, "bad")
	for _, text := range []string{"", "{}", `{"version":1,"keys":[]}`, `{"version":2,"keys":[{"seed":"AA==","from":"2026-01-01T00:00:00Z"}]}`, `{"version":1,"keys":[{"seed":"AA==","from":"2026-01-01T00:00:00Z"}]}`} {
		if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(bad, Options{Issuer: "x", Clock: c.Now, Random: rand.Reader}); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func FuzzParseKeys(f *testing.F) {
	f.Add([]byte(`{"version":1,"keys":[{"seed":"` + base64.StdEncoding.EncodeToString(make([]byte, 32)) + `","from":"2026-01-01T00:00:00Z"}]}`))
	f.Add([]byte(`{"version":1,"keys":[{"seed":null,"from":"2026-01-01T00:00:00Z"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, ok := parseKeys(text)
		if !ok {
			return
		}
		if _, err := newRing(keys); err != nil || len(keys) == 0 {
			t.Errorf("%d keys: %v", len(keys), err)
		}
	})
}

func TestNothingPrintsAKey(t *testing.T) {
	c := newClock()
	s := open(t, filepath.Join(t.TempDir(), "keys"), c)
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{fmt.Sprint(s), fmt.Sprintf("%+v %#v", s, s), string(text)} {
		if strings.Trim(strings.ReplaceAll(p, "redacted", ""), `" `) != "" {
			t.Errorf("printed as %s", p)
		}
	}
}

func TestNoRandomnessNoToken(t *testing.T) {
	c := newClock()
	s := open(t, filepath.Join(t.TempDir(), "keys"), c)
	s.o.Random = io.LimitReader(rand.Reader, 0)
	if token, err := s.Sign(claims(c)); err == nil || token != "" {
		t.Error("a token without randomness")
	}
	if _, err := Open(filepath.Join(t.TempDir(), "keys"), Options{Issuer: "x", Clock: c.Now, Random: s.o.Random}); !errors.Is(err, io.EOF) {
		t.Errorf("a key without randomness: %v", err)
	}
}

func TestAudience(t *testing.T) {
	for in, want := range map[string]string{
		"": "desk", "https://desk.example/mcp": "https://desk.example/mcp", "https://desk.example/mcp?key=secret": "https://desk.example/mcp", "http://127.0.0.1:9/": "http://127.0.0.1:9/",
	} {
		if got, err := Audience("desk", in); err != nil || got != want {
			t.Errorf("%q: %q %v", in, got, err)
		}
	}
}

func BenchmarkSign(b *testing.B) {
	c := newClock()
	s, err := Open(filepath.Join(b.TempDir(), "keys"), Options{Issuer: "x", Clock: c.Now, Random: rand.Reader})
	if err != nil {
		b.Fatal(err)
	}
	q := claims(c)
	for b.Loop() {
		if _, err := s.Sign(q); err != nil {
			b.Fatal(err)
		}
	}
}
