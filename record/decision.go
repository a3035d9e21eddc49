package record

import (
	"slices"
	"time"

	"github.com/placet-dev/placet/canon"
)

// Verdict is what was decided on a call. Its zero value is none of them, and
// everything that is none of them denies.
type Verdict string

const (
	Allow            Verdict = "allow"
	Deny             Verdict = "deny"
	RequiresApproval Verdict = "requires-approval"
)

// severity orders verdicts; what is not a verdict is as severe as a denial.
func (v Verdict) severity() int {
	switch v {
	case Allow:
		return 0
	case RequiresApproval:
		return 1
	case Deny:
		return 2
	default:
		return 2
	}
}

// Stricter returns the more restrictive of two verdicts; an unknown one denies.
func (v Verdict) Stricter(w Verdict) Verdict {
	s := max(v.severity(), w.severity())
	return [...]Verdict{Allow, RequiresApproval, Deny}[s]
}

// Source says how well we know that a model proposed a call in this turn (rule A2).
type Source string

const (
	Witnessed Source = "witnessed" // the LLM edge saw the model emit it
	Vouched   Source = "vouched"   // an orchestrator with the vouch permission states it
	Direct    Source = "direct"    // an authenticated caller sent it; nobody shows that a model did
)

// Shows reports whether the source shows at least as much as another one: each shows
// what those below it do (rule A3). One that is not known shows nothing.
func (s Source) Shows(least Source) bool {
	rank := func(s Source) int {
		return slices.Index([]Source{Direct, Vouched, Witnessed}, s)
	}
	return rank(least) >= 0 && rank(s) >= rank(least)
}

// Route says how a call reached dispatch.
type Route string

const (
	RouteModel    Route = "model"
	RouteRestore  Route = "restore"
	RouteAPI      Route = "api"
	RouteQueue    Route = "queue"
	RouteSchedule Route = "schedule"
	RouteDelegate Route = "delegate"
	RouteReplay   Route = "replay"
	RouteRecovery Route = "recovery"
	RouteSupport  Route = "support" // a look-up that the boundary makes for another call (rule C5)
)

// Code is the closed list of reasons that a caller reads. It is the same on
// every door; the words that go with it are dispatch's.
type Code string

const (
	CodeNone             Code = ""
	CodeNotAvailable     Code = "not_available"
	CodeMissingScope     Code = "missing_scope"
	CodeInvalidArguments Code = "invalid_arguments"
	CodeGuardRefused     Code = "guard_refused"
	CodePrivateAddress   Code = "private_address" // an address that cannot be reached from here, in any spelling
	CodeHeld             Code = "lineage_held"    // an operator must lift it first
	CodeNoSuchTarget     Code = "no_such_target"  // absent and not yours look alike (rule C5)
	CodePolicyDenied     Code = "policy_denied"
	CodePolicyAsks       Code = "policy_asks"
	CodeAboveLimit       Code = "above_limit"
	CodeAlwaysAsks       Code = "approval_required"
	CodeSourceNotShown   Code = "source_not_shown"
	CodeRateLimited      Code = "rate_limited"
	CodeLimitReached     Code = "limit_reached"
	CodeRejected         Code = "rejected"
	CodeNewQuestion      Code = "new_question"
	CodeNoApprover       Code = "no_approver"
	CodeEffectUnsettled  Code = "effect_unsettled"
	CodeOutcomeUnknown   Code = "outcome_unknown"
	CodeAlreadyDone      Code = "already_done"
	CodeRepeatAsks       Code = "repeat_asks"
	CodeTaintedTarget    Code = "tainted_target" // rules F1 to F5
	CodeExpired          Code = "expired"
	CodeCanceled         Code = "canceled"
	CodeRevoked          Code = "revoked"
	CodeRunEnded         Code = "run_ended"
	CodeNotGranted       Code = "not_granted" // to the child run, or to one above it (rule B4)
	CodeFailed           Code = "failed"
	CodeInProgress       Code = "in_progress"
	CodeLeased           Code = "leased" // allowed, and its caller's to run (rule E6)
	CodeQueued           Code = "queued" // allowed, and left to the boundary's clock or to its agent's return (rule C2)
	CodeCannotDecide     Code = "cannot_decide"
)

// Reason is one rule's contribution to a decision.
type Reason struct {
	Rule    string  `json:"rule"`              // "registry above_limit", "layer support"
	Place   string  `json:"place,omitempty"`   // file:line of the rule, for operators
	Verdict Verdict `json:"verdict"`           // what this rule alone says
	Code    Code    `json:"code"`              //
	Public  string  `json:"public,omitempty"`  // may be shown to the model
	Private string  `json:"private,omitempty"` // for operators; never leaves towards a caller
	Instead string  `json:"instead,omitempty"` // what to do instead, for the model
	Version string  `json:"version,omitempty"` // digest of the layer or registry entry
	Observe bool    `json:"observe,omitempty"` // recorded, not applied (rule H3)
}

// Decision is a verdict with its reasons, the rules that gave them and their versions.
type Decision struct {
	Verdict    Verdict       `json:"verdict"`
	Code       Code          `json:"code"`
	Reasons    []Reason      `json:"reasons"`
	Rule       *ApprovalRule `json:"approval,omitempty"` // set when the verdict is requires-approval
	Generation int64         `json:"generation"`         // the activation it was made under
	DecidedBy  string        `json:"decided_by"`         // digest of the registry entry and layers consulted (rule D1)
	Labels     []string      `json:"labels,omitempty"`   // that the lineage carried
	Origins    []Origin      `json:"origins,omitempty"`  // where the call's values come from
	RetryAfter time.Time     `json:"retry_after,omitzero"`
	At         time.Time     `json:"at"`
}

// ApprovalRule is who must say yes, how many of them, and for how long it holds.
// When several rules ask, each must be met (rule D8): Parts holds them all.
type ApprovalRule struct {
	Parts   []ApprovalPart `json:"parts"`
	Expires time.Duration  `json:"expires"`           // the shortest of all parts
	Self    bool           `json:"self"`              // the principal may answer; only if all parts permit
	Passkey bool           `json:"passkey,omitempty"` // a yes counts only if it is signed with a passkey; any part's demand
	Reason  bool           `json:"reason,omitempty"`  // every answer must say why
	Preview canon.Digest   `json:"preview,omitzero"`  // of what a dry run showed when it was asked
}

// ApprovalPart is one rule's demand.
type ApprovalPart struct {
	From      string      `json:"from"` // "registry" or a layer's name
	Groups    []Group     `json:"groups,omitempty"`
	People    []Principal `json:"people,omitempty"`
	Principal bool        `json:"principal,omitempty"` // the call's own principal is named as approver
	Quorum    int         `json:"quorum"`              // distinct persons
}
