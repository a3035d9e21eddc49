package credential

import (
	"bytes"
	"crypto/rand"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Whoever has the secret has the same keys at every time, also with clocks that differ;
// a key is published before it signs, and as long after as a token lives.
func TestKeysOfASecret(t *testing.T) {
	secret := []byte(strings.Repeat("s", 32))
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	signer := func(secret []byte, ahead time.Duration) *Signer {
		s, err := Derive(secret, Options{Issuer: "https://gate", Clock: func() time.Time { return now.Add(ahead) }, Random: rand.Reader})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	published := func(s *Signer) string {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		return w.Body.String()
	}
	a, b, ahead, other := signer(secret, 0), signer(secret, 0), signer(secret, 9*time.Minute), signer([]byte(strings.Repeat("x", 32)), 0)
	signs := map[string]bool{}
	for range 3 * 24 * 6 {
		if published(a) != published(b) {
			t.Fatalf("at %v two of one secret publish other keys", now)
		}
		if published(a) == published(other) {
			t.Fatal("another secret has the same keys")
		}
		ahead.turn(now.Add(9 * time.Minute))
		public, err := ahead.ring.keys[ahead.ring.current(now.Add(9*time.Minute))].jwk()
		if err != nil {
			t.Fatal(err)
		}
		signs[public.KeyID] = true
		if !strings.Contains(published(a), public.KeyID) {
			t.Fatalf("at %v what another's clock signs with is not published", now)
		}
		now = now.Add(10 * time.Minute)
	}
	if len(signs) < 3 || len(signs) > 4 {
		t.Errorf("%d keys signed in three days", len(signs))
	}
	if !bytes.Equal(signer(secret, 0).ring.public, a.ring.public) {
		t.Error("one that starts later has other keys")
	}
	if _, err := Derive([]byte("short"), Options{Issuer: "https://gate", Clock: time.Now, Random: rand.Reader}); err == nil {
		t.Error("a short secret is taken")
	}
}
