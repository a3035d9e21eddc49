package passkey

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Evidence is a question with its answers and all that its binding is of: enough to
// verify, without the server and without its store, who signed what.
type Evidence struct {
	Version  int               `json:"version" doc:"2; 1 where the call has no salt."`
	Approval record.ApprovalID `json:"approval"`
	Binding  canon.Digest      `json:"binding" doc:"What the passkeys signed, with the question and the word yes."`
	Of       Bound             `json:"of" doc:"What the binding is the digest of."`
	Answers  []record.Reply    `json:"answers" nullable:"false"`
	Site     Site              `json:"site" doc:"Where the passkeys are used."`
	Key      []byte            `json:"key" doc:"The public key (Ed25519) of the server's seals over enrolments and answers. Compare it with one that you had before."`
}

// MarshalJSON writes it as encoding/json does, whoever encodes what it is part of: it
// is read back, and verified, in that form.
func (e Evidence) MarshalJSON() ([]byte, error) {
	type plain Evidence
	return json.Marshal(plain(e))
}

// Bound is what a binding is of.
type Bound struct {
	Tenant    record.TenantID     `json:"tenant"`
	Principal record.Principal    `json:"principal"`
	Agent     record.AgentID      `json:"agent"`
	Run       record.RunID        `json:"run"`
	Turn      record.Turn         `json:"turn"`
	Call      record.CallID       `json:"call"`
	Tool      record.ToolRef      `json:"tool"`
	Arguments json.RawMessage     `json:"arguments"`
	Input     json.RawMessage     `json:"input,omitempty"`
	Targets   []record.Target     `json:"targets,omitempty"`
	Purpose   string              `json:"purpose,omitempty"`
	Salt      []byte              `json:"salt,omitempty" doc:"The call's; whoever has the binding alone cannot try what it is of."`
	Rule      record.ApprovalRule `json:"rule"`
	Expires   time.Time           `json:"expires_at"`
	DecidedBy string              `json:"decided_by"`
}

// Evidence is that of a call and one of its questions.
func (k *Keys) Evidence(c record.Call, q record.Approval) Evidence {
	e := Evidence{Approval: q.ID, Binding: q.Binding, Answers: append([]record.Reply{}, q.Answers...), Site: k.site, Key: k.Public(),
		Of: Bound{Tenant: c.Tenant, Principal: c.Principal, Agent: c.Agent, Run: c.Run, Turn: c.Turn, Call: c.ID, Tool: c.Tool,
			Arguments: c.Arguments, Input: c.Input, Targets: c.Targets, Purpose: c.Purpose, Salt: c.Salt, Rule: q.Rule, Expires: q.Expires, DecidedBy: c.Decision.DecidedBy}}
	e.Version = e.Of.version()
	return e
}

// version is that of evidence: a program that does not know of salts must not read it.
func (b Bound) version() int {
	if len(b.Salt) > 0 {
		return 2
	}
	return 1
}

// maxEvidence bounds what is read: a call's arguments are at most a megabyte.
const maxEvidence = 8 << 20

// ReadEvidence reads what Evidence made, strictly.
func ReadEvidence(text []byte) (Evidence, error) {
	var e Evidence
	bad := record.Errorf(record.Invalid, "this is no evidence of an approval")
	text, err := canon.Canonical(text, canon.Limits{Bytes: maxEvidence})
	if err != nil {
		return e, bad
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(&e) != nil || e.Version != e.Of.version() {
		return e, bad
	}
	return e, nil
}

// binding computes it anew from what it is of.
func (b Bound) binding() (canon.Digest, error) {
	whole := func(text json.RawMessage) (json.RawMessage, error) {
		if len(text) == 0 {
			return nil, nil
		}
		return canon.Canonical(text, canon.Limits{Bytes: maxEvidence}) // an export may have been formatted
	}
	c := record.Call{Owner: record.Owner{Tenant: b.Tenant, Principal: b.Principal, Agent: b.Agent}, ID: b.Call, Run: b.Run, Turn: b.Turn,
		Tool: b.Tool, Purpose: b.Purpose, Salt: b.Salt}
	arguments, err := whole(b.Arguments)
	if err != nil {
		return canon.Digest{}, err
	}
	input, err := whole(b.Input)
	if err != nil {
		return canon.Digest{}, err
	}
	for _, t := range b.Targets {
		if t.Value, err = whole(t.Value); err != nil {
			return canon.Digest{}, err
		}
		c.Targets = append(c.Targets, t)
	}
	c.Digest = record.ArgumentDigest(arguments, input)
	return record.BindingOf(c, &b.Rule, b.Expires, b.DecidedBy), nil
}

// Fingerprint names a sealing key.
func Fingerprint(key []byte) string {
	sum := sha256.Sum256(key)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Verify reports whether the answers in e, each signed by a passkey of the person
// whose answer it is, meet the rule for exactly the call in e. It returns those that
// count. Whether Site and Key are the server's, whoever asks must know: evidence that
// somebody made up whole verifies against the key that they made up with it.
func (e Evidence) Verify() ([]record.Reply, error) {
	binding, err := e.Of.binding()
	switch {
	case err != nil:
		return nil, fmt.Errorf("what was bound cannot be read: %w", err)
	case binding.IsZero() || binding != e.Binding:
		return nil, errors.New("the binding is not of this call, rule and time")
	case !e.Of.Rule.Passkey:
		return nil, errors.New("the rule does not demand passkeys, so that nothing here proves who answered")
	}
	var out []record.Reply
	answers := append([]record.Reply{}, e.Answers...)
	for i, r := range answers {
		if r.Word != record.Yes {
			continue
		}
		if err := e.verify(r); err != nil {
			return nil, fmt.Errorf("the answer of %s: %w", r.Person, err)
		}
		answers[i].Proved = true
		out = append(out, answers[i])
	}
	// Without the server's statement of who is one person, logins of one issuer count.
	by := record.Owner{Tenant: e.Of.Tenant, Principal: e.Of.Principal, Agent: e.Of.Agent}
	if !e.Of.Rule.Met(answers, binding, by, nil) {
		return nil, errors.New("the answers do not meet the rule: somebody's is missing, or they come from several issuers, whose logins count together only by the server's own statement of who is one person")
	}
	return out, nil
}

func (e Evidence) verify(r record.Reply) error {
	key := ed25519.PublicKey(e.Key)
	challenge := record.AnswerChallenge(e.Binding, e.Approval, record.Yes)
	switch p := r.Proof; {
	case p == nil:
		return errors.New("it is not signed")
	case r.Binding != e.Binding:
		return errors.New("it is for another binding")
	case p.Passkey.Person != r.Person || p.Passkey.Tenant != e.Of.Tenant:
		return errors.New("the passkey is somebody else's")
	case !sealedBy(key, enrolment(p.Passkey), p.Passkey.Seal):
		return errors.New("the passkey was not enrolled by the server whose key this is, or was changed")
	case !sealedBy(key, r.Sealable(e.Of.Tenant, e.Approval), p.Seal):
		return errors.New("it is not as the server recorded it")
	default:
		return e.Site.Verify(*p, challenge[:])
	}
}
