package credential

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

const (
	sealBytes = 32 // AES-256
	sealTag   = "placet/delegation/1"
)

// sealed is what lies in a record of a delegation, encrypted. All of it is
// authenticated: a record moved to another tenant, person or agent, or with more
// scopes or a later end, does not gain anything.
type sealed struct {
	Owner   record.Owner `json:"owner"`
	Scopes  []string     `json:"scopes"`
	Until   time.Time    `json:"until"`
	Refresh string       `json:"refresh"`
}

// sealer encrypts with one key (AES-256-GCM, a random nonce each time).
type sealer struct {
	aead   cipher.AEAD
	random io.Reader
}

func newSealer(key []byte, random io.Reader) (*sealer, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("use the key of delegations: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("use the key of delegations: %w", err)
	}
	return &sealer{aead, random}, nil
}

func (s *sealer) seal(v sealed) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("seal a delegation: %w", err)
	}
	nonce := make([]byte, s.aead.NonceSize())
	if _, err := io.ReadFull(s.random, nonce); err != nil {
		return nil, fmt.Errorf("read randomness for a delegation: %w", err)
	}
	return s.aead.Seal(nonce, nonce, text, []byte(sealTag)), nil
}

func (s *sealer) open(text []byte) (sealed, bool) {
	n := s.aead.NonceSize()
	if len(text) < n {
		return sealed{}, false
	}
	plain, err := s.aead.Open(nil, text[:n], text[n:], []byte(sealTag))
	if err != nil {
		return sealed{}, false
	}
	plain, err = canon.Canonical(plain, canon.Limits{Bytes: answerBytes})
	if err != nil {
		return sealed{}, false
	}
	var v sealed
	if json.Unmarshal(plain, &v) != nil {
		return sealed{}, false
	}
	return v, true
}
