package canon

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// Digest is a SHA-256 over domain-separated, length-prefixed parts.
type Digest [sha256.Size]byte

// Of digests parts under a domain such as "placet/arguments/1". The domain and
// every part are length-prefixed, so that no two lists of parts run together.
func Of(domain string, parts ...[]byte) Digest {
	h := sha256.New()
	var n [8]byte
	put := func(b []byte) {
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	put([]byte(domain))
	for _, p := range parts {
		put(p)
	}
	var d Digest
	h.Sum(d[:0])
	return d
}

// IsZero reports whether d was never set.
func (d Digest) IsZero() bool { return d == Digest{} }

// String is "sha256:" and 64 hexadecimal digits; the zero digest is "".
func (d Digest) String() string {
	if d.IsZero() {
		return ""
	}
	return "sha256:" + hex.EncodeToString(d[:])
}

// MarshalText writes the form of String.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the form of String, and nothing else.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = Digest{}
		return nil
	}
	rest, ok := strings.CutPrefix(string(text), "sha256:")
	if !ok || len(rest) != 2*sha256.Size || strings.ToLower(rest) != rest {
		return fmt.Errorf("a digest is sha256: and 64 lower-case hexadecimal digits")
	}
	_, err := hex.Decode(d[:], []byte(rest))
	return err
}

// Bytes returns a copy, for digests of digests.
func (d Digest) Bytes() []byte { return d[:] }
