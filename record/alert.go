package record

import (
	"encoding/json"
	"time"
)

// AlertRule is a fixed rule over the event log. docs/alerts.md says what each
// means and what to do.
type AlertRule string

const (
	AlertApprovedNeverRun AlertRule = "approved_never_run"  // a complete yes expired unused
	AlertNoApprover       AlertRule = "no_approver"         // a question that nobody is named for
	AlertUnreachable      AlertRule = "unreachable"         // no receiver of a question could be told
	AlertUnknownWaiting   AlertRule = "unknown_waiting"     // an outcome that is not known, and nobody settled it
	AlertRefusals         AlertRule = "refusals"            // refused paths, addresses and other guarded values
	AlertTriedAgain       AlertRule = "tried_again"         // a rejected or denied call in other words
	AlertFollowedBy       AlertRule = "followed_by_calls"   // an approval, and then many calls of its tool
	AlertSensitiveToSink  AlertRule = "sensitive_then_sink" // sensitive data was read, and then something was sent out
)

// AlertRules lists every rule.
func AlertRules() []AlertRule {
	return []AlertRule{AlertApprovedNeverRun, AlertNoApprover, AlertUnreachable, AlertUnknownWaiting, AlertRefusals, AlertTriedAgain,
		AlertFollowedBy, AlertSensitiveToSink}
}

// Alert is what a rule found: about whom or what, in words, and on which evidence.
// It holds no argument's value.
type Alert struct {
	Rule    AlertRule `json:"rule"`
	Subject string    `json:"subject"` // a principal, a run, a call or a tool; with the rule, what an alert is raised for once
	Text    string    `json:"text"`
	Count   int       `json:"count"`
	Events  []int64   `json:"events"`          // their numbers in the log
	Calls   []CallID  `json:"calls,omitempty"` //
}

// Notice is what one receiver was told: of a question, or of an alert.
type Notice struct {
	ID       string `json:"id"`                 // what the receiver knows it by, equal for every try
	Receiver string `json:"receiver"`           // its name in the configuration
	Reminder int    `json:"reminder,omitempty"` // the n-th time that it is told of the question again
	Alert    int64  `json:"alert,omitempty"`    // the number of the alert's event
}

// Raise records an alert. It moves nothing.
func Raise(a Alert, tenant TenantID, run RunID, call CallID, at time.Time) Change {
	return Note(Event{At: at, Tenant: tenant, Kind: EventAlert, Run: run, Call: call, Who: Who{System: "alert"}}, Body{Alert: &a})
}

// Told records that a receiver took a notice of a question.
func Told(n Notice, a Approval, at time.Time) Change {
	return Note(a.told(EventNotified, at), Body{Notice: &n})
}

// ToldAlert records that a receiver took a notice of an alert.
func ToldAlert(n Notice, alert Event, at time.Time) Change {
	return Note(Event{At: at, Tenant: alert.Tenant, Kind: EventNotified, Run: alert.Run, Call: alert.Call, Who: Who{System: "notify"}}, Body{Notice: &n})
}

// Untold records that no receiver of a question can be reached. why names them.
func Untold(a Approval, why string, at time.Time) Change {
	return Note(a.told(EventUnreachable, at), Body{Detail: why})
}

func (a Approval) told(kind EventKind, at time.Time) Event {
	return Event{At: at, Tenant: a.Tenant, Kind: kind, Run: a.Run, Call: a.Call, Approval: a.ID, Who: Who{System: "notify"}}
}

// Internal reports whether an event is for those who read the tenant's records
// alone. Whose call it speaks of does not learn who was told, or that an alert was
// raised: it would tell an agent how far it may go.
func (k EventKind) Internal() bool {
	return k == EventAlert || k == EventNotified || k == EventUnreachable || k == EventHeld || k == EventLifted ||
		k == EventRevocation || k == EventRevocationUndone
}

// rare appends a member that few events have; for those, reflection will do.
func (m *members) rare(n string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		return // strings, numbers and lists of them: it always marshals
	}
	m.name(n)
	m.b = append(m.b, text...)
}
