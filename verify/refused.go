package verify

import "errors"

// Reason is why a call was refused. The list is closed.
type Reason string

const (
	NoToken        Reason = "no_token"        // there is none
	BadToken       Reason = "bad_token"       // not a token of this issuer's keys, or not of this kind
	OtherIssuer    Reason = "other_issuer"    // of another Placet
	OtherAudience  Reason = "other_audience"  // for another server
	OtherTenant    Reason = "other_tenant"    // for a tenant that this server does not serve
	Expired        Reason = "expired"         // ended, or begins in the future
	OtherTool      Reason = "other_tool"      // for another tool
	OtherArguments Reason = "other_arguments" // for other arguments than those received
	Replayed       Reason = "replayed"        // used before
	CannotCheck    Reason = "cannot_check"    // keys or the store of used tokens cannot be read
)

// Refused is the error of every refusal. Its text holds nothing of the token or
// the arguments, so a caller may read it.
type Refused struct {
	Reason Reason
	text   string
	cause  error
}

func (r *Refused) Error() string { return "dispatch token: " + r.text }

// Unwrap is the cause, for operators: it is not part of the text.
func (r *Refused) Unwrap() error { return r.cause }

func refuse(why Reason, text string) error { return &Refused{Reason: why, text: text} }

func cannot(text string, cause error) error {
	return &Refused{Reason: CannotCheck, text: text, cause: cause}
}

// ReasonOf is the reason of a refusal, and CannotCheck for any other error.
func ReasonOf(err error) Reason {
	var r *Refused
	if errors.As(err, &r) {
		return r.Reason
	}
	return CannotCheck
}
