package credential

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/placet-dev/placet/record"
)

// Options say how a signer signs. All fields without a stated default are required.
type Options struct {
	Issuer string // the server's public URL
	Clock  func() time.Time
	Random io.Reader     // for keys and IDs
	Log    *slog.Logger  // nil: none
	Rotate time.Duration // how long a key signs; 24 h
	// Overlap is how long before it signs a key is published, and how long after;
	// 10 m, at least 2 m: twice the life of a token.
	Overlap time.Duration
}

// minOverlap lets every token end, and every copy of the key set that servers may
// keep by our own headers, before a key goes.
const minOverlap = 2 * time.Minute

func (o Options) withDefaults() (Options, error) {
	if o.Issuer == "" || o.Clock == nil || o.Random == nil {
		return o, record.Errorf(record.Invalid, "a signer of dispatch tokens needs an issuer, a clock and a source of randomness")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Rotate <= 0 {
		o.Rotate = 24 * time.Hour
	}
	if o.Overlap <= 0 {
		o.Overlap = 10 * time.Minute
	}
	o.Overlap = max(o.Overlap, minOverlap)
	o.Rotate = max(o.Rotate, 2*o.Overlap)
	return o, nil
}

// Signer signs dispatch tokens and serves the keys that verify them. It is safe
// for concurrent use. Nothing printed of it shows a key.
type Signer struct {
	o    Options
	next func(ring, time.Time) (_ ring, changed bool, err error) // the ring as it has to be

	mu    sync.Mutex // guards what follows, and Options.Random
	ring  ring
	again time.Time // when to try again to replace a key that could not be saved
}

const redacted = "redacted"

func (*Signer) String() string               { return redacted }
func (*Signer) GoString() string             { return redacted }
func (*Signer) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (*Signer) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// Open reads the keys from path, or makes the first one there.
func Open(path string, o Options) (*Signer, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Signer{o: o}
	s.next = func(r ring, now time.Time) (ring, bool, error) {
		next, changed, err := r.at(now, o.Rotate, o.Overlap, o.Random)
		if err == nil && changed {
			err = saveKeys(path, next.keys)
		}
		return next, changed, err
	}
	kept, found, err := readKeys(path)
	if err != nil {
		return nil, err
	}
	if !found {
		k, err := newKey(o.Random, o.Clock())
		if err != nil {
			return nil, err
		}
		kept = []key{k}
		if err := saveKeys(path, kept); err != nil {
			return nil, err
		}
	}
	s.ring, err = newRing(kept)
	return s, err
}

// Derive makes a signer whose keys follow from a secret and the time, so that all
// who have the secret have the same keys without telling one another. Their clocks
// may differ by less than Overlap.
func Derive(secret []byte, o Options) (*Signer, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if len(secret) < ed25519.SeedSize {
		return nil, record.Errorf(record.Invalid, "the keys of dispatch tokens need a secret of %d bytes or more", ed25519.SeedSize)
	}
	s := &Signer{o: o, next: func(r ring, now time.Time) (ring, bool, error) {
		return r.derived(now, secret, o.Rotate, o.Overlap)
	}}
	s.ring, _, err = s.next(ring{}, o.Clock())
	return s, err
}

// Sign makes a token for one sending of a call. It fails when the lease is over.
func (s *Signer) Sign(c Claims) (string, error) {
	s.mu.Lock()
	now := s.o.Clock()
	s.turn(now)
	signer := s.ring.signs(now)
	id, err := record.NewID("tok", now, s.o.Random)
	s.mu.Unlock()
	if err != nil {
		return "", fmt.Errorf("read randomness for a dispatch token: %w", err)
	}
	text, err := c.write(s.o.Issuer, id, now)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(text)
	if err != nil {
		return "", fmt.Errorf("sign a dispatch token: %w", err)
	}
	return signed.CompactSerialize()
}

// turn replaces keys whose time has come. A key is on the disk before anybody
// sees it, and while that fails the old ones go on: a token of an older key is
// still one of ours.
func (s *Signer) turn(now time.Time) {
	if now.Before(s.again) {
		return
	}
	next, changed, err := s.next(s.ring, now)
	switch {
	case err != nil:
		s.again = now.Add(time.Minute)
		s.o.Log.Error("credential: the key of dispatch tokens was not replaced; the old one stays", "error", err)
	case changed:
		s.ring = next
	}
}

// ServeHTTP answers with the public keys, as a JWKS.
func (s *Signer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "GET only", http.StatusMethodNotAllowed)
		return
	}
	s.mu.Lock()
	s.turn(s.o.Clock())
	set := s.ring.public
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/jwk-set+json")
	w.Header().Set("Cache-Control", "public, max-age=60")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(set) // a reader that is gone needs no answer
}

var _ http.Handler = (*Signer)(nil)

// algorithm is the only one that tokens are signed with.
const algorithm = jose.EdDSA
