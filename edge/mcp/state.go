package mcp

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// A request state goes through the client and comes back as the client likes. So
// it is sealed, and bound to principal and agent, to one call, and to an expiry
// (MCP 2026-07-28, multi round-trip requests). It authorises nothing: it says
// which call is meant, and the boundary decides on that call anew. That a yes
// counts once is the call's own state.
type state struct {
	Session string        `json:"p"`           // identity.Caller.SessionID
	Digest  canon.Digest  `json:"d"`           // of tool and arguments
	Expires int64         `json:"e"`           // Unix seconds
	Call    record.CallID `json:"c,omitempty"` // our own question: the call that waits
	Inner   *string       `json:"s,omitempty"` // a tool's question: its own state
}

const (
	stateVersion = "pls1."
	stateLabel   = "placet/request-state/1"
	maxState     = 64 << 10
)

type sealer struct {
	aead   cipher.AEAD
	random io.Reader
}

func newSealer(key []byte, random io.Reader) (sealer, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return sealer{}, fmt.Errorf("key of request states: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return sealer{}, fmt.Errorf("key of request states: %w", err)
	}
	return sealer{aead, random}, nil
}

// close seals a state.
func (s sealer) close(st state) (string, error) {
	text, err := json.Marshal(st)
	if err != nil {
		return "", fmt.Errorf("write request state: %w", err)
	}
	if len(text) > maxState/2 {
		return "", fmt.Errorf("request state of %d bytes is too large", len(text))
	}
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(text)+s.aead.Overhead())
	if _, err := io.ReadFull(s.random, nonce); err != nil {
		return "", fmt.Errorf("read randomness for a request state: %w", err)
	}
	sealed := s.aead.Seal(nonce, nonce, text, []byte(stateLabel))
	return stateVersion + base64.RawURLEncoding.EncodeToString(sealed), nil
}

// open gives the state back if it is ours, whole, unexpired, this caller's and
// for this very call. All failures look alike.
func (s sealer) open(sealed, session string, digest canon.Digest, now time.Time) (state, bool) {
	text, ok := strings.CutPrefix(sealed, stateVersion)
	if !ok || len(text) > maxState {
		return state{}, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < s.aead.NonceSize() {
		return state{}, false
	}
	n := s.aead.NonceSize()
	plain, err := s.aead.Open(nil, raw[:n], raw[n:], []byte(stateLabel))
	if err != nil {
		return state{}, false
	}
	var st state
	if json.Unmarshal(plain, &st) != nil {
		return state{}, false
	}
	if session == "" || st.Session != session || st.Digest != digest || now.Unix() >= st.Expires {
		return state{}, false
	}
	return st, true
}

// callDigest says which call a state is for. arguments are canonical.
func callDigest(c call) canon.Digest {
	arguments := c.arguments
	if arguments == nil {
		arguments = json.RawMessage("{}")
	}
	return canon.Of("placet/mcp/call/1", []byte(c.name), arguments)
}
