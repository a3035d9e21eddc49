package passkey

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// assertion is AuthenticationResponseJSON of WebAuthn Level 3 section 5.1, as far as
// it counts.
type assertion struct {
	ID       string `json:"id"`
	RawID    string `json:"rawId"`
	Type     string `json:"type"`
	Response struct {
		Client        string `json:"clientDataJSON"`
		Authenticator string `json:"authenticatorData"`
		Signature     string `json:"signature"`
	} `json:"response"`
}

// Read takes apart what a page sent. It verifies nothing; of the passkey it knows
// the ID only.
func Read(message []byte) (record.Proof, error) {
	bad := func(what string) (record.Proof, error) {
		return record.Proof{}, record.Errorf(record.Invalid, "the passkey's answer cannot be read: %s", what)
	}
	if len(message) > maxMessage {
		return bad("it is too long")
	}
	text, err := canon.Canonical(message, canon.Limits{Bytes: maxMessage})
	if err != nil {
		return bad("it is no JSON object, or names a member twice")
	}
	var a assertion
	if json.Unmarshal(text, &a) != nil || a.Type != "public-key" || a.ID != a.RawID {
		return bad("it is no assertion")
	}
	var p record.Proof
	for _, part := range []struct {
		text string
		into *[]byte
		most int
	}{{a.ID, &p.Passkey.ID, maxCredentialID}, {a.Response.Client, &p.Client, 16 << 10},
		{a.Response.Authenticator, &p.Authenticator, 16 << 10}, {a.Response.Signature, &p.Signature, 8 << 10}} {
		if *part.into, err = base64.RawURLEncoding.Strict().DecodeString(part.text); err != nil || len(*part.into) == 0 || len(*part.into) > part.most {
			return bad("a part of it is missing, too long or no base64url")
		}
	}
	if len(p.Authenticator) < 37 { // WebAuthn section 6.1
		return bad("its authenticator data is too short")
	}
	p.Count = binary.BigEndian.Uint32(p.Authenticator[33:37])
	return p, nil
}
