package dispatch

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/placet-dev/placet/record"
)

// Text is what the model reads. Its first words are fixed for each kind of
// answer; it says whether anything ran, whether asking again helps, and what to
// do instead. No argument value, secret or operator's detail is in it.
func (a Answer) Text() string {
	tool := "this tool"
	if a.Tool != "" {
		tool = "`" + a.Tool + "`"
	}
	call := ""
	if a.Call != nil {
		call = string(a.Call.ID)
	}
	switch a.Verdict {
	case record.RequiresApproval:
		return a.waitingText(tool, call)
	case record.Allow:
		return a.allowedText(tool, call)
	}
	why, then := a.denied(tool)
	if a.Instead != "" {
		then = sentence(a.Instead)
	}
	first := "Denied: "
	switch a.Code {
	case record.CodeRateLimited, record.CodeLimitReached, record.CodeHeld:
		first = "Denied for now: "
	case record.CodeRejected:
		first = "Rejected by a person: "
	}
	return first + why + " Nothing ran. " + then
}

// denied says why, and what to do.
func (a Answer) denied(tool string) (why, then string) {
	switch a.Code {
	case record.CodeNotAvailable:
		return tool + " is not available to you.",
			"Use a tool from your current list; if none fits, tell the user which step cannot be done here."
	case record.CodeMissingScope:
		return "the user you act for may not use " + tool + ".",
			"No other argument changes this. Tell the user that `" + a.Scope + "` is needed."
	case record.CodeNotGranted:
		return "this run was given less than this call of " + tool + " needs" + because(a.Note) + ".",
			"Do not try it in other words; tell whoever opened the run."
	case record.CodeInvalidArguments:
		return "the arguments of " + tool + " are not valid" + because(a.Note) + ".", "Correct them and ask again."
	case record.CodeGuardRefused:
		return "an argument of " + tool + " is not acceptable" + because(a.Note) + ".", "Use another value, or ask the user."
	case record.CodePrivateAddress:
		return "this address cannot be reached from here, in any spelling.",
			"Do not try others of its kind; ask the user for a public https link."
	case record.CodeHeld:
		return "an operator looks at what was done in this conversation, and until then nothing in it may change anything.", "Do not try it in other words. Tools that only read still work. Tell the user; ask again once an operator has lifted it."
	case record.CodeNoSuchTarget:
		return "what this call of " + tool + " names is not there for the user you act for" + because(a.Note) + ".",
			"Do not try other values; ask the user which one they mean."
	case record.CodePolicyDenied:
		return "a rule here does not allow this call of " + tool + because(a.Note) + ".",
			"Do not try it in other words; use what the rule leaves open, or tell the user."
	case record.CodeTaintedTarget:
		return "this call of " + tool + " cannot be made here" + because(a.Note) + ".",
			"Do not repeat it for other values; ask the user what they want, and tell them that this conversation has read text from outside."
	case record.CodeSourceNotShown:
		return "it is not shown that a model proposed this call of " + tool + " in this turn.", "Tell the user that this step cannot be done from here."
	case record.CodeNoApprover:
		return "this call of " + tool + " needs a person's approval, and nobody is named who may give it.", "Tell the user; the operator has to name an approver."
	case record.CodeRateLimited:
		return "as many calls of " + tool + " as are allowed at a time have been made." + a.retry(), a.againText()
	case record.CodeLimitReached:
		return "the calls allowed here are used up." + a.retry(), a.againText()
	case record.CodeRejected:
		note := ""
		if a.Note != "" {
			note = " Their note: " + fmt.Sprintf("%q", a.Note) + "."
		}
		return "this stays rejected in this conversation." + note, "Do not try it in other words. Tell the user and ask how to go on."
	case record.CodeExpired:
		return "the time for this call of " + tool + " is over.", "If it is still wanted, ask for it again."
	case record.CodeCanceled:
		return "this call of " + tool + " was canceled" + because(a.Note) + ".", "If it is still wanted, ask for it again."
	case record.CodeRevoked:
		return "the authority for this call of " + tool + " was withdrawn.", "Tell the user."
	case record.CodeRunEnded:
		return "the run this call belongs to has ended.", "Start anew if it is still wanted."
	default: // cannot_decide, and whatever this program does not know
		return "the check could not be completed.",
			"Your arguments are not the cause. Ask again once in a minute; then tell the user the tool is out of order."
	}
}

func (a Answer) retry() string {
	if a.Retry.IsZero() {
		return ""
	}
	return " The next may run from " + a.Retry.UTC().Format("15:04:05") + " UTC."
}

func (a Answer) againText() string {
	if a.Retry.IsZero() {
		return "Asking again does not help; tell the user."
	}
	return "Ask again once, after that."
}

// waitingText is for a held call. Nothing has run.
func (a Answer) waitingText(tool, call string) string {
	why := map[record.Code]string{
		record.CodeAboveLimit:      "this is more than you may do alone with " + tool + ".",
		record.CodeAlwaysAsks:      "every call of " + tool + " is decided by a person.",
		record.CodePolicyAsks:      "a rule here wants a person to decide this call of " + tool + because(a.Note) + ".",
		record.CodeSourceNotShown:  "it is not shown that a model proposed this call of " + tool + " in this turn, so a person decides.",
		record.CodeEffectUnsettled: "an earlier call for the same effect is not settled yet, so a person decides.",
		record.CodeRepeatAsks:      "the same was done a short while ago, so a person decides whether it is wanted again.",
		record.CodeNewQuestion:     "what decided this call has changed since a person was asked, so a person is asked anew.",
	}[a.Code]
	if a.Code == record.CodeNewQuestion && a.Call != nil && a.Call.Shown != "" {
		why = "an earlier approval is for other values and was not used. A person is asked anew. The approved call itself can still run, unchanged, with `placet_wait` and " +
			string(a.Call.Shown) + "."
	}
	if why == "" {
		why = "a person decides this call of " + tool + "."
	}
	last := "Do not send it with other values."
	if a.Code == record.CodeTaintedTarget {
		why = cmp.Or(a.Note, "a person decides this call of "+tool) + "."
		last = "Do not repeat it for other values; ask the user which one they mean."
	}
	until := ""
	if a.Approval != nil {
		until = ", until " + a.Approval.Expires.UTC().Format("15:04") + " UTC"
		if a.Approval.State == record.Approved {
			return "Waiting for approval: it is given now. Nothing has run. Call `placet_wait` with " + call + " to run it."
		}
	}
	return "Waiting for approval: " + why + " Nothing has run. A person is asked" + until +
		". Tell the user, go on with other work, then call `placet_wait` with " + call + "; if it is approved by then, it runs then. " + last
}

// allowedText is for answers that carry no result of this attempt.
func (a Answer) allowedText(tool, call string) string {
	switch a.Code {
	case record.CodeAlreadyDone:
		if a.Result == nil && a.Call != nil && a.Call.Outcome != nil && a.Call.Outcome.By != "" {
			return "Already done: it was found out that this call of " + tool + " took effect. Its result is not known; nothing ran again. Do not repeat it."
		}
		if a.Result == nil {
			return "Already done at " + a.DoneAt.UTC().Format("15:04") + " UTC; its result is not kept any more, and nothing ran again. Do not repeat it."
		}
		return "Already done at " + a.DoneAt.UTC().Format("15:04") + " UTC; this is that result, nothing ran again."
	case record.CodeOutcomeUnknown:
		return "Outcome unknown: the call of " + tool + " was sent and its effect is not known. It may have happened. Do not repeat or undo it: " +
			"it is sent again only where that is known not to do it twice. Tell the user it is being checked; look again with `placet_wait` " + call + "."
	case record.CodeInProgress:
		return "Still running: this call of " + tool + " is under way and was not started again. Look again with `placet_wait` " + call + "."
	case record.CodeFailed:
		return "Failed: the call of " + tool + " had no effect. Tell the user, or ask again if it is still wanted."
	case record.CodeQueued:
		return a.queuedText(tool, call)
	case record.CodeLeased:
		return "Allowed: nothing has run yet. The call of " + tool + " is leased to who asked: run it with exactly these arguments, and report what came of it."
	case record.CodeNone:
		if a.Call != nil && a.Call.State == record.DispatchAuthorized {
			return "Allowed: nothing has run yet. Dispatch " + call + " to run it."
		}
	}
	return "Done."
}

func because(note string) string {
	if note == "" {
		return ""
	}
	return ": " + strings.TrimSuffix(note, ".")
}

func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" || strings.HasSuffix(s, ".") || strings.HasSuffix(s, "!") || strings.HasSuffix(s, "?") {
		return s
	}
	return s + "."
}

// Meta is what programs read beside the text: _meta["dev.placet/decision"] over
// MCP, the extension members of a problem over HTTP.
type Meta struct {
	Verdict    record.Verdict    `json:"verdict"`
	State      record.State      `json:"state,omitempty"`
	Code       record.Code       `json:"code,omitempty"`
	Call       record.CallID     `json:"call,omitempty"`
	Approval   record.ApprovalID `json:"approval,omitempty"`
	RetryAfter *time.Time        `json:"retry_after,omitempty"`
}

// Meta returns the answer for programs.
func (a Answer) Meta() Meta {
	m := Meta{Verdict: a.Verdict, Code: a.Code}
	if a.Call != nil {
		m.State, m.Call = a.Call.State, a.Call.ID
	}
	if a.Approval != nil {
		m.Approval = a.Approval.ID
	}
	if !a.Retry.IsZero() {
		t := a.Retry.UTC()
		m.RetryAfter = &t
	}
	return m
}
