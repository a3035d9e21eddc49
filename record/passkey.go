package record

import (
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/placet-dev/placet/canon"
)

// Passkey is a person's WebAuthn credential, as it was enrolled. Seal is this
// server's signature over the rest of what is here but for Count and Used, by a key
// that is not in the store: a row that somebody wrote there enrols nothing.
type Passkey struct {
	Tenant TenantID  `json:"tenant"`
	Person Principal `json:"person"`
	ID     []byte    `json:"id"`         // the credential ID
	Public []byte    `json:"public_key"` // COSE (RFC 9052 section 7)
	Name   string    `json:"name"`       // the person's own word for it
	RPID   string    `json:"rp_id"`      // the domain that it signs for
	Added  time.Time `json:"added_at"`
	Seal   []byte    `json:"seal"`

	Count uint32    `json:"-"` // the highest signature counter seen; 0: it keeps none
	Used  time.Time `json:"-"` // when it last signed
}

// Ref names the passkey.
func (p Passkey) Ref() PasskeyRef { return PasskeyRef{p.Tenant, p.Person, p.ID} }

// PasskeyRef names an enrolled passkey of a person.
type PasskeyRef struct {
	Tenant TenantID
	Person Principal
	ID     []byte
}

// Proof is a WebAuthn assertion, byte for byte as the browser sent it, with the
// enrolment of the passkey that made it: what somebody needs to verify it later.
type Proof struct {
	Passkey       Passkey `json:"passkey"`
	Authenticator []byte  `json:"authenticator_data"`
	Client        []byte  `json:"client_data"`
	Signature     []byte  `json:"signature"`
	Seal          []byte  `json:"seal"` // this server's signature over the answer, see Sealable

	Count uint32 `json:"-"` // the counter in Authenticator
}

// AnswerChallenge is what a passkey signs for an answer: the question's binding, which
// is all that would run and who decides; the question, so that an answer is for one
// asking; and the word.
func AnswerChallenge(binding canon.Digest, q ApprovalID, w Word) canon.Digest {
	return canon.Of("placet/answer/1", binding[:], []byte(q), []byte(w))
}

// Sealable digests an answer as it was recorded, for the seal that keeps it so: a
// row can then change neither who answered nor by which groups it counts.
func (r Reply) Sealable(tenant TenantID, q ApprovalID) canon.Digest {
	if r.Proof == nil {
		return canon.Digest{}
	}
	proof := *r.Proof
	proof.Seal = nil
	r.Proof = &proof
	text, err := json.Marshal(r)
	if err != nil {
		return canon.Digest{} // strings, bytes and times: it always marshals; zero is never sealed
	}
	return canon.Of("placet/reply/1", []byte(tenant), []byte(q), text)
}

// evidence names the passkey in an event.
func (p *Proof) evidence() string {
	if p == nil {
		return ""
	}
	return "passkey " + base64.RawURLEncoding.EncodeToString(p.Passkey.ID)
}

// PasskeyMove adds a passkey, removes one or notes that one signed. Exactly one of
// them is set.
type PasskeyMove struct {
	Add    *Passkey    // RefusedConflict if its ID is enrolled, for whomever
	Remove *PasskeyRef // RefusedConflict if it is not enrolled
	Used   *PasskeyUse
}

// PasskeyUse is RefusedConflict if the passkey is not enrolled, or if its counter
// did not rise (WebAuthn section 6.1.1); one that keeps none always says 0.
type PasskeyUse struct {
	PasskeyRef
	Count uint32
	At    time.Time
}

// Rises reports whether a counter goes on from the highest one seen. Passkeys that
// are kept on several devices say 0 every time.
func Rises(seen, count uint32) bool { return count > seen || seen == 0 && count == 0 }

// MaxPasskeys is how many a person may have.
const MaxPasskeys = 10

// AddPasskey enrols a passkey. what says what the enrolment rests on.
func AddPasskey(p Passkey, who Who, what string) Change {
	e := Event{At: p.Added, Tenant: p.Tenant, Kind: EventPasskeyAdded, Who: who,
		Body: Body{Evidence: (&Proof{Passkey: p}).evidence(), Detail: what}.encode()}
	return Change{Facts{At: p.Added, Passkey: &PasskeyMove{Add: &p}, Events: []Event{e}}}
}

// RemovePasskey ends a passkey: what it signed, and was not used yet, counts no longer.
func RemovePasskey(p Passkey, who Who, what string, at time.Time) Change {
	ref := p.Ref()
	e := Event{At: at, Tenant: p.Tenant, Kind: EventPasskeyRemoved, Who: who,
		Body: Body{Evidence: (&Proof{Passkey: p}).evidence(), Detail: what}.encode()}
	return Change{Facts{At: at, Passkey: &PasskeyMove{Remove: &ref}, Events: []Event{e}}}
}
