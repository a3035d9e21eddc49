// Package passkeytest is a device with passkeys, for tests: what a browser and an
// authenticator do together, without either.
package passkeytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/go-webauthn/webauthn/protocol/webauthncbor"
)

// Device holds one passkey. Its fields may be set to what no honest device would say.
type Device struct {
	RPID, Origin string
	Type         string // of the client data; empty: the right one
	Flags        byte   // user present and user verified, until changed
	Counts       bool   // keeps a signature counter
	Count        uint32
	Cross        bool // the page was inside another site's

	ID  []byte
	key *ecdsa.PrivateKey
}

// Flags of authenticator data (WebAuthn section 6.1).
const (
	Present  = 0x01
	Verified = 0x04
	attested = 0x40
)

// New makes a device with a new key.
func New(rpID, origin string) *Device {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	id := make([]byte, 32)
	if _, err := rand.Read(id); err != nil {
		panic(err)
	}
	return &Device{RPID: rpID, Origin: origin, Flags: Present | Verified, ID: id, key: key}
}

var b64 = base64.RawURLEncoding

func (d *Device) client(kind string, challenge []byte) []byte {
	if d.Type != "" {
		kind = d.Type
	}
	return must(json.Marshal(map[string]any{"type": kind, "challenge": b64.EncodeToString(challenge), "origin": d.Origin, "crossOrigin": d.Cross}))
}

func (d *Device) data(flags byte) []byte {
	if d.Counts {
		d.Count++
	}
	rp := sha256.Sum256([]byte(d.RPID))
	return binary.BigEndian.AppendUint32(append(rp[:], flags), d.Count)
}

// Create is the registration that a page sends, and its attestation object.
func (d *Device) Create(nonce []byte) (message, attestation []byte) {
	point := must(d.key.PublicKey.Bytes()) // 4, x, y
	cose := must(webauthncbor.Marshal(map[int]any{1: 2, 3: -7, -1: 1, -2: point[1:33], -3: point[33:]}))
	data := append(d.data(d.Flags|attested), make([]byte, 16)...)
	data = binary.BigEndian.AppendUint16(data, uint16(len(d.ID)))
	data = append(append(data, d.ID...), cose...)
	attestation = must(webauthncbor.Marshal(map[string]any{"fmt": "none", "attStmt": map[string]any{}, "authData": data}))
	return must(json.Marshal(map[string]any{"id": b64.EncodeToString(d.ID), "rawId": b64.EncodeToString(d.ID), "type": "public-key",
		"response": map[string]string{"clientDataJSON": b64.EncodeToString(d.client("webauthn.create", nonce)), "attestationObject": b64.EncodeToString(attestation)}})), attestation
}

// Sign is the assertion that a page sends.
func (d *Device) Sign(challenge []byte) []byte {
	client, data := d.client("webauthn.get", challenge), d.data(d.Flags)
	hash := sha256.Sum256(client)
	sum := sha256.Sum256(append(append([]byte{}, data...), hash[:]...))
	signature := must(ecdsa.SignASN1(rand.Reader, d.key, sum[:]))
	return must(json.Marshal(map[string]any{"id": b64.EncodeToString(d.ID), "rawId": b64.EncodeToString(d.ID), "type": "public-key",
		"response": map[string]string{"clientDataJSON": b64.EncodeToString(client), "authenticatorData": b64.EncodeToString(data), "signature": b64.EncodeToString(signature)}}))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Sprint("passkeytest: ", err))
	}
	return v
}
