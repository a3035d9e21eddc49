package credential

import (
	"crypto"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// key is one key pair, and from when on it signs. It signs until the next one does.
type key struct {
	private ed25519.PrivateKey
	from    time.Time
}

func newKey(random io.Reader, from time.Time) (key, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return key{}, fmt.Errorf("read randomness for a key of dispatch tokens: %w", err)
	}
	return key{ed25519.NewKeyFromSeed(seed), from.UTC().Truncate(time.Second)}, nil
}

// jwk is the public half. Its ID is its thumbprint (RFC 7638).
func (k key) jwk() (jose.JSONWebKey, error) {
	out := jose.JSONWebKey{Key: k.private.Public(), Algorithm: string(algorithm), Use: "sig"}
	sum, err := out.Thumbprint(crypto.SHA256)
	out.KeyID = base64.RawURLEncoding.EncodeToString(sum)
	return out, err
}

func (k key) signer() (jose.Signer, error) {
	public, err := k.jwk()
	if err != nil {
		return nil, err
	}
	with := jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: k.private, KeyID: public.KeyID}}
	return jose.NewSigner(with, (&jose.SignerOptions{}).WithType(tokenType))
}

// ring is the keys at one time: the one that signs, the one before it until its
// tokens have ended, the one after it as soon as it is published. It never changes.
type ring struct {
	keys    []key // by from
	signers []jose.Signer
	public  []byte // the JWKS
}

func newRing(keys []key) (ring, error) {
	r := ring{keys: keys}
	var set jose.JSONWebKeySet
	for _, k := range keys {
		public, err := k.jwk()
		if err != nil {
			return ring{}, fmt.Errorf("name a key of dispatch tokens: %w", err)
		}
		signer, err := k.signer()
		if err != nil {
			return ring{}, fmt.Errorf("use a key of dispatch tokens: %w", err)
		}
		set.Keys = append(set.Keys, public)
		r.signers = append(r.signers, signer)
	}
	var err error
	r.public, err = json.Marshal(set)
	return r, err
}

// current is the index of the key that signs: the last whose time has come. A
// clock that went back gets the first.
func (r ring) current(now time.Time) int {
	at := 0
	for i, k := range r.keys {
		if !k.from.After(now) {
			at = i
		}
	}
	return at
}

func (r ring) signs(now time.Time) jose.Signer { return r.signers[r.current(now)] }

// at is the ring as it has to be now. A key that has signed stays published for
// overlap, and a new one is published for overlap before it signs, also when this
// program was away for longer than a key lasts.
func (r ring) at(now time.Time, rotate, overlap time.Duration, random io.Reader) (_ ring, changed bool, err error) {
	keys, at := r.keys, r.current(now)
	for at > 0 && !keys[at].from.Add(overlap).After(now) {
		keys, at, changed = keys[at:], 0, true // older ones are long out of use
	}
	if at == len(keys)-1 && !now.Before(keys[at].from.Add(rotate-overlap)) {
		from := keys[at].from.Add(rotate)
		if soon := now.Add(overlap); from.Before(soon) {
			from = soon
		}
		next, err := newKey(random, from)
		if err != nil {
			return r, false, err
		}
		keys, changed = append(slices.Clone(keys), next), true
	}
	if !changed {
		return r, false, nil
	}
	out, err := newRing(keys)
	return out, true, err
}

// derived is the ring of a secret: each span of rotate has its key, which is published
// for overlap before it signs and after.
func (r ring) derived(now time.Time, secret []byte, rotate, overlap time.Duration) (_ ring, changed bool, err error) {
	span := now.UnixNano() / int64(rotate)
	first, last := span, span
	if time.Duration(now.UnixNano()%int64(rotate)) < overlap {
		first--
	}
	if time.Duration(now.UnixNano()%int64(rotate)) >= rotate-overlap {
		last++
	}
	begins := func(n int64) time.Time { return time.Unix(0, n*int64(rotate)).UTC() }
	if n := len(r.keys); n > 0 && r.keys[0].from.Equal(begins(first)) && r.keys[n-1].from.Equal(begins(last)) {
		return r, false, nil
	}
	var keys []key
	for n := first; n <= last; n++ {
		seed, err := hkdf.Key(sha256.New, secret, nil, fmt.Sprintf("placet/dispatch-token/%d/%d", int64(rotate), n), ed25519.SeedSize)
		if err != nil {
			return r, false, fmt.Errorf("derive a key of dispatch tokens: %w", err)
		}
		keys = append(keys, key{ed25519.NewKeyFromSeed(seed), begins(n)})
	}
	out, err := newRing(keys)
	return out, true, err
}
