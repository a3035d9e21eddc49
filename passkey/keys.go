package passkey

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Keys seals enrolments and answers, and says which of them are sealed. It is safe
// for concurrent use.
type Keys struct {
	site    Site
	path    string
	private ed25519.PrivateKey

	mu      sync.RWMutex
	removed map[canon.Digest]bool
}

// Open reads the sealing key from path, or makes one there. Who can write that file
// can enrol passkeys for anybody; who can only write the store cannot.
func Open(path string, site Site, random io.Reader) (*Keys, error) {
	k := &Keys{site: site, path: path, removed: map[canon.Digest]bool{}}
	kept, found, err := readFile(path)
	if err != nil {
		return nil, err
	}
	if !found {
		kept.Seed = make([]byte, ed25519.SeedSize)
		if _, err := io.ReadFull(random, kept.Seed); err != nil {
			return nil, fmt.Errorf("read randomness for the key of passkeys: %w", err)
		}
		if err := saveFile(path, kept); err != nil {
			return nil, err
		}
	}
	k.private = ed25519.NewKeyFromSeed(kept.Seed)
	for _, d := range kept.Removed {
		k.removed[d] = true
	}
	return k, nil
}

// New is Open with a seed of 32 bytes, which no file holds: what was removed is kept in
// the records alone.
func New(seed []byte, site Site) (*Keys, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, record.Errorf(record.Invalid, "the key of passkeys needs a seed of %d bytes", ed25519.SeedSize)
	}
	return &Keys{site: site, private: ed25519.NewKeyFromSeed(seed), removed: map[canon.Digest]bool{}}, nil
}

// Site is where these passkeys are used.
func (k *Keys) Site() Site { return k.site }

// Public verifies the seals.
func (k *Keys) Public() ed25519.PublicKey { return k.private.Public().(ed25519.PublicKey) }

func sign(key ed25519.PrivateKey, d canon.Digest) []byte { return ed25519.Sign(key, d[:]) }

// sealedBy reports whether seal is key's for d.
func sealedBy(key ed25519.PublicKey, d canon.Digest, seal []byte) bool {
	return len(key) == ed25519.PublicKeySize && !d.IsZero() && ed25519.Verify(key, d[:], seal)
}

// enrolment digests what a passkey's seal is of.
func enrolment(p record.Passkey) canon.Digest {
	p.Seal = nil
	text, err := json.Marshal(p)
	if err != nil {
		return canon.Digest{} // strings, bytes and a time: it always marshals; zero is never sealed
	}
	return canon.Of("placet/passkey/1", text)
}

// Enrol verifies a registration that a page of the site made for nonce, and seals
// it as p's. It returns what another passkey of the person signs to confirm it.
func (k *Keys) Enrol(message, nonce []byte, p record.Passkey) (record.Passkey, []byte, error) {
	c, err := k.site.create(message, nonce)
	if err != nil {
		return p, nil, record.Because(record.NeedsPasskey, err, "the new passkey was not accepted; nothing was added")
	}
	p.ID, p.Public, p.RPID, p.Count, p.Used = c.id, c.public, k.site.RPID, 0, time.Time{}
	p.Seal = sign(k.private, enrolment(p))
	return p, Confirmation(nonce, c.attestation), nil
}

// Confirmation is what an older passkey signs to confirm a new one: this very one,
// in this very ceremony.
func Confirmation(nonce, attestation []byte) []byte {
	h := sha256.New()
	h.Write([]byte("placet/passkey-add/1\x00"))
	h.Write(nonce)
	h.Write(attestation)
	return h.Sum(nil)
}

// Verify reports whether p is a signature over challenge by a passkey that was
// enrolled here, is as it was then, and was not removed.
func (k *Keys) Verify(p record.Proof, challenge []byte) error {
	d := enrolment(p.Passkey)
	k.mu.RLock()
	gone := k.removed[d]
	k.mu.RUnlock()
	switch {
	case gone:
		return errors.New("the passkey was removed")
	case !sealedBy(k.Public(), d, p.Passkey.Seal):
		return errors.New("the passkey was not enrolled by this server, or was changed since")
	}
	return k.site.Verify(p, challenge)
}

// Read is the function of this package.
func (k *Keys) Read(message []byte) (record.Proof, error) { return Read(message) }

// Seal signs an answer that counts.
func (k *Keys) Seal(d canon.Digest) []byte { return sign(k.private, d) }

// Sealed reports whether Seal made it.
func (k *Keys) Sealed(d canon.Digest, seal []byte) bool { return sealedBy(k.Public(), d, seal) }

// Forget makes a passkey worthless, whatever the store says of it later. It is
// durable on return.
func (k *Keys) Forget(p record.Passkey) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := enrolment(p)
	if k.removed[d] {
		return nil
	}
	if k.path == "" {
		k.removed[d] = true
		return nil
	}
	kept := file{Seed: k.private.Seed(), Removed: []canon.Digest{d}}
	for old := range k.removed {
		kept.Removed = append(kept.Removed, old)
	}
	slices.SortFunc(kept.Removed, func(a, b canon.Digest) int { return slices.Compare(a[:], b[:]) })
	if err := saveFile(k.path, kept); err != nil {
		return err
	}
	k.removed[d] = true
	return nil
}
