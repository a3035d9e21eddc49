package record

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/placet-dev/placet/canon"
)

// ToolRef is the tool a call was proposed for, as it was then: the registry's
// name, the digest of its entry, and the pin of what its server offered.
type ToolRef struct {
	Name     string       `json:"name"`
	Server   string       `json:"server"`
	Version  canon.Digest `json:"version"`
	Pin      canon.Digest `json:"pin"`
	ReadOnly bool         `json:"read,omitempty"`
}

// Target is a resource a call acts on: the argument that names it and its value.
type Target struct {
	Argument string          `json:"argument"`
	Value    json.RawMessage `json:"value"`
}

// EffectKey identifies an effect: tenant, principal, tool and the arguments that
// make two calls the same effect (rule A5).
type EffectKey = canon.Digest

// Call is the server's authoritative record of a proposal and of all that
// followed. Only constructors of changes produce a moved one.
type Call struct {
	Owner
	ID      CallID    `json:"id"`
	Run     RunID     `json:"run"`
	Lineage LineageID `json:"lineage"`
	Turn    Turn      `json:"turn"`
	Kept    Turn      `json:"kept,omitempty"` // the last turn that kept it, when later than Turn (rule B3)

	Tool           ToolRef         `json:"tool"`
	Arguments      json.RawMessage `json:"arguments"`          // canonical: what is decided, digested and sent
	Input          json.RawMessage `json:"input,omitempty"`    // canonical answers to a server's own questions, sent with the arguments
	Digest         canon.Digest    `json:"argument_digest"`    // of Arguments and Input
	BlankArguments bool            `json:"blank,omitempty"`    // they came as nothing and were read as {}
	Effect         EffectKey       `json:"effect_key"`         //
	Occurrence     string          `json:"occurrence"`         // empty, or the emission or label that makes equal calls two (rule A5)
	Source         Source          `json:"source"`             //
	Route          Route           `json:"route"`              //
	Purpose        string          `json:"purpose,omitempty"`  // agent text
	Targets        []Target        `json:"targets,omitempty"`  //
	Edits          CallID          `json:"edits,omitempty"`    // the call whose arguments this one edits (rule A10)
	Shown          CallID          `json:"shown,omitempty"`    // an earlier, unsettled call with the same effect key (rule A8)
	EffectText     string          `json:"effect,omitempty"`   // the effect in words, values quoted (rule D7)
	Supports       CallID          `json:"supports,omitempty"` // the call that this look-up was made for (rule C5)
	Emission       EmissionID      `json:"emission,omitempty"` // what the LLM edge saw the model make (rule A2)

	// Salt is random, and this call's alone: what leaves the store commits to the call's
	// content with it. Empty in calls of versions that gave them none, and once redacted.
	Salt      []byte     `json:"-"`
	Retention Retention  `json:"-"`                  // what stays of it once it has ended
	Redacted  *Redaction `json:"redacted,omitempty"` // what was taken from it since; nil: nothing

	// Received is the digest of what was proposed, where guards put it into another
	// form; zero where they did not, and Digest is that of the proposal (rule G3).
	Received canon.Digest `json:"received_digest,omitzero"`

	State    State        `json:"state"`
	Version  int64        `json:"version"` // rises with every change
	Decision Decision     `json:"decision"`
	Binding  canon.Digest `json:"binding"`
	Approval ApprovalID   `json:"approval,omitempty"` // the question now open, or answered
	Attempt  int          `json:"attempt"`
	Key      string       `json:"idempotency_key,omitempty"` // one for all attempts
	Lease    time.Time    `json:"lease,omitzero"`            // until when the holder of Attempt may report; of an unknown call, until when it could
	Holder   canon.Digest `json:"lease_holder,omitzero"`     // of a leased attempt: the digest of what its holder shows; it stays until the next attempt
	Holds    []Charge     `json:"holds,omitempty"`           // given back by the settling change
	Attempts int          `json:"attempts"`                  // how many the registry allows in all

	Outcome  *Outcome  `json:"outcome,omitempty"`
	Proposed time.Time `json:"proposed_at"`
	Changed  time.Time `json:"changed_at"`
	Expires  time.Time `json:"expires_at"`
	Due      time.Time `json:"-"` // when the clock next has something to do; zero: never

	Queued bool      `json:"queued,omitempty"`  // the clock dispatches it, while its run holds a delegation (rule C2)
	Again  time.Time `json:"again_at,omitzero"` // when the clock next tries to; zero: it waits for its agent, or has run
}

// Outcome is what we know of an effect.
type Outcome struct {
	Code      Code            `json:"code,omitempty"`
	Sent      bool            `json:"sent"`                   // a byte may have left this process
	IsError   bool            `json:"is_error"`               // the tool said so
	Reported  bool            `json:"reported,omitempty"`     // by the holder of a lease: no proof of anything (rule E6)
	Report    canon.Digest    `json:"report_digest,omitzero"` // of that report, so that the same one again finds its answer
	Result    json.RawMessage `json:"result,omitempty"`       // byte for byte what the tool returned; kept for calls that may be answered from records
	Digest    canon.Digest    `json:"result_digest,omitzero"`
	Text      canon.Digest    `json:"text_digest,omitzero"` // of a result that is one text: what histories tell of it is compared with
	Detail    string          `json:"detail,omitempty"`     // for operators
	BadOutput string          `json:"bad_output,omitzero"`  // the output schema rule it breaks; recorded, not hidden
	Effect    string          `json:"effect_ref,omitempty"`
	Cost      *int64          `json:"cost,omitempty"`     // that the result reports, in millionths of the currency
	By        string          `json:"by,omitempty"`       // the reconciler, where one settled it
	Evidence  string          `json:"evidence,omitempty"` // and what it rests on
	At        time.Time       `json:"at"`
}

// LiveTurn is the turn in which the call is alive.
func (c Call) LiveTurn() Turn { return max(c.Turn, c.Kept) }

// ArgumentDigest is what an approval, a repeat and a tool server compare.
func ArgumentDigest(arguments, input []byte) canon.Digest {
	return canon.Of("placet/arguments/1", arguments, input)
}

// IdempotencyKey is derived from run and call, so that every attempt of a call
// sends the same one and no two calls do.
func IdempotencyKey(t TenantID, r RunID, c CallID) string {
	d := canon.Of("placet/key/1", []byte(t), []byte(r), []byte(c))
	return idText.EncodeToString(d[:20])
}

// NewEffectKey digests what makes two calls the same effect (rule A5). The
// arguments are canonical.
func NewEffectKey(o Owner, tool string, arguments []byte) EffectKey {
	return canon.Of("placet/effect/1", []byte(o.Tenant), []byte(o.Principal.Issuer),
		[]byte(o.Principal.Subject), []byte(tool), arguments)
}

// OccurrenceKey names an occurrence within a lineage, whatever its effect.
func OccurrenceKey(l LineageID, occurrence string) EffectKey {
	return canon.Of("placet/occurrence/1", []byte(l), []byte(occurrence))
}

// BindingOf is the digest of everything an approval or a dispatch of the call is
// valid for (design, section 4). rule and expires are those of the approval, zero
// where none is asked; decidedBy is the digest of what decided this call. The call's
// salt is part of it: a binding is shown, signed and logged, and without the salt
// nobody can try what arguments it is of.
func BindingOf(c Call, rule *ApprovalRule, expires time.Time, decidedBy string) canon.Digest {
	ruleText, err := json.Marshal(rule)
	if err != nil {
		// An ApprovalRule is strings, numbers and booleans; it always marshals.
		return canon.Digest{}
	}
	targets, err := json.Marshal(c.Targets)
	if err != nil {
		return canon.Digest{} // Value is canonical JSON by construction; a zero binding matches nothing
	}
	text := func(s string) []byte { return []byte(s) }
	tag, salt := "placet/binding/1", [][]byte(nil) // of calls that have no salt, see Salt
	if len(c.Salt) > 0 {
		tag, salt = "placet/binding/2", [][]byte{c.Salt}
	}
	return canon.Of(tag, append(salt,
		text(string(c.Tenant)), text(c.Principal.Issuer), text(c.Principal.Subject), text(string(c.Agent)),
		text(string(c.Run)), decimal(int64(c.Turn)), text(string(c.ID)),
		text(c.Tool.Name), text(c.Tool.Server), c.Tool.Version[:], c.Tool.Pin[:],
		c.Digest[:], targets, text(c.Purpose), ruleText, decimal(unixMicro(expires)), text(decidedBy))...)
}

func decimal(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

func unixMicro(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
