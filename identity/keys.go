package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

const (
	keysFresh    = 10 * time.Minute // older ones are read again, in the background
	keysStale    = time.Hour        // older ones are not used
	keysPause    = 5 * time.Second  // between two attempts to read, whatever tokens name
	keysDeadline = 5 * time.Second  // of one attempt
)

// keyring holds an issuer's public keys. It reads them when there are none, when
// they are old, and when a token names one that is not among them; the last at
// most once per keysPause, so that made-up names do not become requests.
type keyring struct {
	issuer string
	read   func(context.Context) ([]jose.JSONWebKey, error)
	clock  func() time.Time
	log    *slog.Logger

	mu      sync.Mutex
	keys    []jose.JSONWebKey
	readAt  time.Time     // when keys were read; zero: never
	triedAt time.Time     // when reading was last begun
	err     error         // of the last attempt
	reading chan struct{} // closed when the attempt in flight ends; nil: none is
}

// find returns the keys that a token signed with an algorithm may be verified
// with. A token that names no key is accepted only if there is one such key.
func (k *keyring) find(ctx context.Context, name, algorithm string) ([]jose.JSONWebKey, error) {
	keys, err := k.current(ctx)
	if err != nil {
		return nil, err
	}
	found := pick(keys, name, algorithm)
	if len(found) == 0 && name != "" {
		if keys, err = k.again(ctx); err != nil {
			return nil, err
		}
		found = pick(keys, name, algorithm)
	}
	switch {
	case name == "" && len(found) != 1:
		return nil, refuse(checkKey, record.Unauthenticated, "the token does not name its key (kid), and its issuer has %d that fit", len(found))
	case len(found) == 0:
		return nil, refuse(checkKey, record.Unauthenticated, "the token names a key (kid) that its issuer does not publish for this algorithm")
	}
	return found, nil
}

// current returns the keys held, if they are not stale; else it reads them.
func (k *keyring) current(ctx context.Context) ([]jose.JSONWebKey, error) {
	k.mu.Lock()
	if !k.readAt.IsZero() {
		age := k.clock().Sub(k.readAt)
		if age >= keysFresh {
			k.begin()
		}
		if age < keysStale {
			defer k.mu.Unlock()
			return k.keys, nil
		}
	}
	return k.wait(ctx, k.begin())
}

// again reads the keys now, or returns those held if they were read just before.
func (k *keyring) again(ctx context.Context) ([]jose.JSONWebKey, error) {
	k.mu.Lock()
	if attempt := k.begin(); attempt != nil {
		return k.wait(ctx, attempt)
	}
	defer k.mu.Unlock()
	return k.keys, nil
}

// begin starts an attempt, joins the one in flight, or returns nil if the last
// one is too recent. The caller holds the lock.
func (k *keyring) begin() chan struct{} {
	now := k.clock()
	if k.reading != nil {
		return k.reading
	}
	if pause := now.Sub(k.triedAt); !k.triedAt.IsZero() && pause >= 0 && pause < keysPause {
		return nil
	}
	k.triedAt, k.reading = now, make(chan struct{})
	go k.attempt(k.reading)
	return k.reading
}

// attempt has its own context: it serves all who wait, not the one who came first.
func (k *keyring) attempt(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), keysDeadline)
	defer cancel()
	keys, err := k.read(ctx)
	if err != nil {
		k.log.WarnContext(ctx, "an issuer's keys could not be read", slog.String("issuer", k.issuer), slog.Any("error", err))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err = err; err == nil {
		k.keys, k.readAt = keys, k.clock()
	}
	k.reading = nil
	close(done)
}

// wait is called with the lock held, and gives it back. It returns keys only if
// the attempt it waited for, if there was one, was a success.
func (k *keyring) wait(ctx context.Context, attempt chan struct{}) ([]jose.JSONWebKey, error) {
	k.mu.Unlock()
	if attempt != nil {
		select {
		case <-attempt:
		case <-ctx.Done():
			return nil, refuseBecause(checkKey, record.Unavailable, ctx.Err(), "the issuer's keys are still being read; try again")
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return nil, refuseBecause(checkKey, record.Unavailable, k.err, "the issuer's keys could not be read, so nobody of this issuer can be verified; try again in a moment")
	}
	return k.keys, nil
}

// pick selects by name and algorithm. A key's own alg, if stated, must agree.
func pick(keys []jose.JSONWebKey, name, algorithm string) []jose.JSONWebKey {
	var found []jose.JSONWebKey
	for _, key := range keys {
		if (name == "" || key.KeyID == name) && (key.Algorithm == "" || key.Algorithm == algorithm) && fits(key.Key, algorithm) {
			found = append(found, key)
		}
	}
	return found
}

// fits reports whether a public key is of an algorithm's type and long enough.
func fits(key any, algorithm string) bool {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return (algorithm[:2] == "RS" || algorithm[:2] == "PS") && key.N.BitLen() >= 2048
	case *ecdsa.PublicKey:
		return map[string]int{"ES256": 256, "ES384": 384, "ES512": 521}[algorithm] == key.Params().BitSize
	case ed25519.PublicKey:
		return algorithm == "EdDSA" && len(key) == ed25519.PublicKeySize
	default:
		return false
	}
}

// parseKeys reads a JWKS strictly and keeps what can verify one of the
// algorithms. Keys of other kinds are left out; a private key is an error, since
// it should not lie here.
func parseKeys(text []byte, algorithms []string) ([]jose.JSONWebKey, error) {
	set, _, err := canon.Object(text, canon.Limits{})
	if err != nil {
		return nil, record.Errorf(record.Invalid, "the key set is refused: %w", err)
	}
	list, _ := canon.Lookup(set, "keys")
	var keys []jose.JSONWebKey
	for element := range canon.Elements(list) {
		if _, private := canon.Lookup(element, "d"); private {
			return nil, record.Errorf(record.Invalid, "the key set holds a private key; publish only public ones")
		}
		if !forVerifying(element) {
			continue
		}
		var key jose.JSONWebKey
		if err := key.UnmarshalJSON(element); err != nil || !key.Valid() || !key.IsPublic() || key.Use != "" && key.Use != "sig" {
			continue
		}
		if !all(algorithms, func(a string) bool { return !fits(key.Key, a) }) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, record.Errorf(record.Invalid, "the key set holds no public key for %v (RSA keys need 2048 bits)", algorithms)
	}
	return keys, nil
}

// forVerifying reports whether a key is published for checking signatures, as far
// as it says what for (RFC 7517 section 4.3). The library does not look at it.
func forVerifying(key []byte) bool {
	ops, stated := canon.Lookup(key, "key_ops")
	if !stated {
		return true
	}
	names, ok := listClaim(ops, "")
	return ok && ops[0] == '[' && slices.Contains(names, "verify")
}
