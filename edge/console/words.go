package console

import (
	"fmt"
	"time"

	"github.com/placet-dev/placet/record"
)

// asked says to an approver why they are asked.
func asked(code record.Code) string {
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

// stateWord is a state in words.
func stateWord(state any) string {
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

// left is a span until something ends, for people.
func left(d time.Duration) string {
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

// clockText is a time for people; the page's script adds their own zone.
func clockText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

func machineTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
