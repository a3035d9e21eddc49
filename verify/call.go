package verify

import (
	"context"
	"encoding/json"
	"time"
)

// Where a token travels.
const (
	MetaKey = "dev.placet/dispatch_token" // in _meta of an MCP tools/call
	Header  = "Placet-Dispatch-Token"     // over HTTP also here
)

// Principal is on whose behalf a call is made. A subject means nothing without
// its issuer.
type Principal struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
}

// Target is a thing that a call acts on: the argument that names it, and its
// value or, where that is long, the digest of it.
type Target struct {
	Argument string          `json:"argument"`
	Value    json.RawMessage `json:"value,omitempty"`
	Digest   string          `json:"digest,omitempty"`
}

// Call is what a verified token says.
type Call struct {
	Token     string // the token's ID
	Principal Principal
	Tenant    string
	Agent     string
	Run       string
	Call      string
	Attempt   int
	Tool      string // its name at this server
	Targets   []Target
	Key       string    // the idempotency key, one for all attempts of the call
	Expires   time.Time // until when the effect may happen

	input string
}

// CheckInput compares the answers to this server's own questions, which come with
// a call beside its arguments, with those that the token was made for. input is an
// object of the members inputResponses and requestState as received; nil when
// there are none.
func (c Call) CheckInput(input []byte) error {
	if len(input) == 0 && c.input == "" {
		return nil
	}
	if len(input) == 0 || !matches(input, c.input) {
		return refuse(OtherArguments, "the answers that came with the call are not those that the token was made for")
	}
	return nil
}

// FromMeta returns the token in an MCP request's _meta, or "".
func FromMeta(meta map[string]any) string {
	token, _ := meta[MetaKey].(string)
	return token
}

type contextKey struct{}

// Into returns a context that holds a verified call.
func Into(ctx context.Context, c Call) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// FromContext returns the call that [Verifier.Middleware], or whoever used [Into],
// put there.
func FromContext(ctx context.Context) (Call, bool) {
	c, ok := ctx.Value(contextKey{}).(Call)
	return c, ok
}
