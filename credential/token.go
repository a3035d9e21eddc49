package credential

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/placet-dev/placet/record"
)

const (
	tokenType = "placet-dispatch+jwt"
	tokenLife = time.Minute

	// targetBytes is the longest value of a target that a token spells out. A
	// token travels in a header, and servers bound those.
	targetBytes = 256
)

// Claims are what a token states.
type Claims struct {
	Audience  string
	Owner     record.Owner
	Run       record.RunID
	Call      record.CallID
	Attempt   int
	Tool      string // its name at the server
	Arguments []byte // canonical, as they are sent; empty stands for {}
	Input     []byte // canonical answers to the server's own questions, or nil
	Targets   []record.Target
	Key       string    // the call's idempotency key
	Lease     time.Time // the token ends no later
}

// Audience is what names a server in tokens: its URL without the query, which may
// hold a secret, or for a server without one its name in the registry.
func Audience(name, rawURL string) (string, error) {
	if rawURL == "" {
		return name, nil
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", record.Errorf(record.Invalid, "the URL of server %q names no audience", name)
	}
	u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment, u.User = "", false, "", "", nil
	return u.String(), nil
}

// payload is the JSON of a token. docs/dispatch-token.md describes each member.
type payload struct {
	Issuer    string           `json:"iss"`
	Audience  string           `json:"aud"`
	IssuedAt  int64            `json:"iat"`
	Expires   int64            `json:"exp"`
	ID        string           `json:"jti"`
	Subject   string           `json:"sub"`
	Principal record.Principal `json:"principal"`
	Tenant    record.TenantID  `json:"tenant"`
	Act       actor            `json:"act"`
	Run       record.RunID     `json:"run"`
	Call      record.CallID    `json:"call"`
	Attempt   int              `json:"attempt"`
	Tool      string           `json:"tool"`
	Arguments string           `json:"arguments_digest"`
	Input     string           `json:"input_digest,omitempty"`
	Targets   []target         `json:"targets,omitempty"`
	Key       string           `json:"key"`
}

type actor struct {
	Subject record.AgentID `json:"sub"`
}

// target names what a call acts on. A long value is given by its digest.
type target struct {
	Argument string          `json:"argument"`
	Value    json.RawMessage `json:"value,omitempty"`
	Digest   string          `json:"digest,omitempty"`
}

// digestOf is plain SHA-256 over the canonical text, so that a server in any
// language computes it from what it received.
func digestOf(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func targetsOf(all []record.Target) []target {
	var out []target
	for _, t := range all {
		if len(t.Value) <= targetBytes {
			out = append(out, target{Argument: t.Argument, Value: t.Value})
			continue
		}
		out = append(out, target{Argument: t.Argument, Digest: digestOf(t.Value)})
	}
	return out
}

// write makes the payload of a token that begins now.
func (c Claims) write(issuer, id string, now time.Time) ([]byte, error) {
	if c.Audience == "" || c.Tool == "" || c.Call == "" || c.Owner.Tenant == "" || c.Owner.Principal.Subject == "" || c.Owner.Agent == "" {
		return nil, record.Errorf(record.Internal, "a dispatch token needs an audience, a tool, a call and its owner")
	}
	ends := now.Add(tokenLife)
	if c.Lease.Before(ends) {
		ends = c.Lease
	}
	if ends.Unix() <= now.Unix() {
		return nil, record.Errorf(record.Unavailable, "the attempt's lease is over")
	}
	p := payload{
		Issuer: issuer, Audience: c.Audience, IssuedAt: now.Unix(), Expires: ends.Unix(), ID: id,
		Subject: c.Owner.Principal.Subject, Principal: c.Owner.Principal, Tenant: c.Owner.Tenant, Act: actor{c.Owner.Agent},
		Run: c.Run, Call: c.Call, Attempt: c.Attempt, Tool: c.Tool, Targets: targetsOf(c.Targets), Key: c.Key,
	}
	arguments := c.Arguments
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	p.Arguments = digestOf(arguments)
	if len(c.Input) > 0 {
		p.Input = digestOf(c.Input)
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write a dispatch token: %w", err)
	}
	return text, nil
}
