package question

import (
	"fmt"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// Why says to an approver why they are asked.
func Why(code record.Code) string {
	if text, ok := map[record.Code]string{
		record.CodeAboveLimit:      "it is above what the agent may do alone",
		record.CodeAlwaysAsks:      "every call of this tool is decided by a person",
		record.CodePolicyAsks:      "a policy wants a person to decide",
		record.CodeSourceNotShown:  "it is not shown that a model proposed it in answer to its user",
		record.CodeEffectUnsettled: "an earlier call for the same effect is not settled",
		record.CodeRepeatAsks:      "the same was done a short while ago",
		record.CodeTaintedTarget:   "the agent had read text from outside, and this does not come from the user",
		record.CodeNewQuestion:     "an earlier question was for something else",
	}[code]; ok {
		return text
	}
	return string(code)
}

// Trouble says in words, without a value of the call, what of a call that runs later
// went wrong: the event that says so, and its code.
func Trouble(kind record.EventKind, code record.Code) string {
	switch kind {
	case record.EventParked:
		return "its run held no delegation, so that it was left to its agent"
	case record.EventUnknown:
		return "it was sent, or may have been, and its outcome is not known"
	case record.EventFailed:
		return "it had no effect"
	case record.EventExpired:
		return "nobody dispatched it in its time"
	}
	why, ok := map[record.Code]string{
		record.CodeNotAvailable:     "its agent may not use the tool any more",
		record.CodeMissingScope:     "its user may not use the tool any more",
		record.CodeNotGranted:       "its run was given less than it needs",
		record.CodeInvalidArguments: "its arguments do not fit the tool's schema",
		record.CodeGuardRefused:     "an argument is not acceptable",
		record.CodePrivateAddress:   "it names an address that is not reached from here",
		record.CodeNoSuchTarget:     "what it names is not there for its user",
		record.CodePolicyDenied:     "a policy does not allow it",
		record.CodeTaintedTarget:    "its agent had read text from outside, and this does not come from the user",
		record.CodeSourceNotShown:   "it is not shown that a model proposed it",
		record.CodeNoApprover:       "nobody is named who may approve it",
		record.CodeRejected:         "a person rejected it",
		record.CodeRateLimited:      "as many calls as are allowed at a time had been made",
		record.CodeLimitReached:     "the calls or the money allowed were used up",
		record.CodeHeld:             "an alert holds its conversation, until an operator lifts that",
		record.CodeCannotDecide:     "a check could not be completed: the identity provider, a policy or the tool's server did not answer",
		record.CodeRevoked:          "the authority for it was withdrawn",
		record.CodeRunEnded:         "its run had ended",
		record.CodeExpired:          "its time was over",
	}[code]
	if !ok {
		why = string(code)
	}
	if kind == record.EventDenied {
		return "denied: " + why
	}
	return "put off: " + why
}

// State is a state in words.
func State(state any) string {
	text := fmt.Sprint(state)
	if word, ok := map[string]string{
		"pending": "waits", "approved": "approved", "rejected": "rejected", "expired": "expired", "void": "no longer valid", "consumed": "used",
		"proposed": "proposed", "approval_pending": "waits for a person", "dispatch_authorized": "may run", "executing": "running",
		"unknown": "outcome unknown", "succeeded": "succeeded", "failed": "failed", "denied": "denied", "canceled": "canceled", "revoked": "revoked",
		"awaiting_user": "open", "model_pending": "open", "terminated": "ended",
	}[text]; ok {
		return word
	}
	return text
}

// Left is a span until something ends, for people.
func Left(d time.Duration) string {
	switch {
	case d <= 0:
		return "no time left"
	case d < time.Minute:
		return fmt.Sprintf("%d s left", int(d/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%d min left", int(d/time.Minute))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min left", int(d/time.Hour), int(d%time.Hour/time.Minute))
	}
	return fmt.Sprintf("%d days left", int(d/(24*time.Hour)))
}

// Version changes whenever anything moves that is shown of a call and its question.
func Version(l dispatch.Loaded) string {
	if l.Approval == nil {
		return fmt.Sprintf("%s.%d", l.Call.ID, l.Call.Version)
	}
	return fmt.Sprintf("%s.%d.%d", l.Approval.ID, l.Approval.Version, l.Call.Version)
}

// Settled reports whether nothing of a question will move any more.
func Settled(l dispatch.Loaded) bool {
	switch l.Approval.State {
	case record.Rejected, record.Lapsed, record.Void:
		return true
	}
	return l.Call.State.Terminal()
}

// Yes counts the persons whose yes counts for one rule's demand, as
// ApprovalRule.Met does (rule D5).
func Yes(p record.ApprovalPart, a record.Approval, people *record.People) int {
	return a.Rule.Said(p, record.AsGiven(a.Answers), a.Binding, a.Owner, people)
}

// Outcome says what became of a question that no longer waits.
func Outcome(l dispatch.Loaded, now time.Time) string {
	a, call := l.Approval, l.Call
	at := func(t time.Time) string { return t.UTC().Format("15:04:05 UTC") }
	switch a.State {
	case record.Rejected:
		return "Rejected at " + at(a.Changed) + ". It does not run, and an equal call stays rejected in this conversation."
	case record.Lapsed:
		return "Nobody answered in time. It does not run."
	case record.Void:
		if call.State == record.Revoked && call.Approval == a.ID {
			return "An operator revoked what this call needs. It does not run, and no answer to this question counts."
		}
		return "This question is no longer valid, and no answer to it counts: something it was for has changed or ended."
	case record.Approved:
		text := "Approved at " + at(a.Changed) + ". It " + l.RunsWhen(now, at(a.Expires)) + "."
		if l.Run.Delegation.Live(now) {
			text = "Approved at " + at(a.Changed) + ". It runs once, also while the agent is away, until " + at(a.Expires) + "."
		}
		if !call.Decision.RetryAfter.IsZero() && now.Before(call.Decision.RetryAfter) {
			text += " A limit holds it back until " + at(call.Decision.RetryAfter) + "."
		}
		return text
	case record.Consumed:
		return consumed(call, at)
	}
	return ""
}

func consumed(call record.Call, at func(time.Time) string) string {
	when, ref := call.Changed, ""
	if o := call.Outcome; o != nil {
		when = o.At
		if o.Effect != "" {
			ref = " The tool calls it " + o.Effect + "."
		}
	}
	switch call.State {
	case record.Executing:
		return "Approved, and running now."
	case record.Succeeded:
		return "Approved, and done at " + at(when) + "." + ref
	case record.Failed:
		return "Approved and tried at " + at(when) + ". It failed, and the yes is used up."
	case record.Unknown:
		return fmt.Sprintf("Sent at %s, and no answer came (attempt %d of %d). The yes is used up and cannot run it twice.", at(when), call.Attempt, max(call.Attempts, call.Attempt))
	}
	return "Approved. The call is now: " + State(call.State) + "."
}
