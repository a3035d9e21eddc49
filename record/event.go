package record

import (
	"encoding/json"
	"time"

	"github.com/placet-dev/placet/canon"
)

// EventKind is what happened. Events are the audit: one is written with every
// change, in the same transaction.
type EventKind string

const (
	EventProposed   EventKind = "proposed"
	EventAsked      EventKind = "approval_requested"
	EventAuthorized EventKind = "authorized"
	EventExecuting  EventKind = "executing"
	EventSucceeded  EventKind = "succeeded"
	EventFailed     EventKind = "failed"
	EventUnknown    EventKind = "unknown"
	EventDenied     EventKind = "denied"
	EventExpired    EventKind = "expired"
	EventCanceled   EventKind = "canceled"
	EventRevoked    EventKind = "revoked"

	EventCallRedacted EventKind = "call_redacted" // content of an ended call was removed for good

	EventAnswered         EventKind = "answered"          // a person answered; the approval may still be pending
	EventApproved         EventKind = "approved"          // the approval is complete
	EventRejected         EventKind = "rejected"          //
	EventApprovalVoided   EventKind = "approval_voided"   //
	EventApprovalConsumed EventKind = "approval_consumed" //
	EventApprovalExpired  EventKind = "approval_expired"  //

	EventPasskeyAdded   EventKind = "passkey_added"   // a person may sign with it from now on
	EventPasskeyRemoved EventKind = "passkey_removed" // what it signed counts no longer

	EventRunOpened   EventKind = "run_opened"
	EventTurnStarted EventKind = "turn_started"
	EventRunEnded    EventKind = "run_ended"
	EventTransferred EventKind = "run_transferred" // to another principal or agent (rule B2)
	EventFresh       EventKind = "started_fresh"   // a person ended what an agent did for them without vouch (rule B1)

	EventTranscriptImported  EventKind = "transcript_imported"  // a client's history is kept, for display
	EventTranscriptRedacted  EventKind = "transcript_redacted"  // text of items was removed for good
	EventTranscriptCompacted EventKind = "transcript_compacted" // items gave way to a summary
	EventTranscriptDeleted   EventKind = "transcript_deleted"
	EventShared              EventKind = "shared" // another principal may read a run or a transcript
	EventShareEnded          EventKind = "share_ended"

	EventDelegated           EventKind = "delegated"            // a run may act while its caller is away (rule C2)
	EventDelegationUsed      EventKind = "delegation_used"      // its live source was asked, and used up what it was asked with
	EventDelegationWithdrawn EventKind = "delegation_withdrawn" //

	EventQueued EventKind = "queued" // an allowed call is left to the clock, or to its agent's return
	EventParked EventKind = "parked" // it waits for its agent: its run holds no delegation

	EventScheduled       EventKind = "scheduled"        // an agent has a tool called at set times
	EventFired           EventKind = "schedule_fired"   // with the call that it opened
	EventSkipped         EventKind = "schedule_skipped" // a firing that opened none
	EventSchedulePaused  EventKind = "schedule_paused"  // by its owner, or since nothing speaks for its principal any more
	EventScheduleResumed EventKind = "schedule_resumed" //
	EventScheduleDeleted EventKind = "schedule_deleted" //

	EventLabelled    EventKind = "labelled"   // a lineage carries labels that it did not carry before (rule F1)
	EventInputStated EventKind = "user_input" // an orchestrator stated what the user typed (rule B5)

	EventHeld   EventKind = "lineage_held"   // an alert holds back what a lineage would change
	EventLifted EventKind = "lineage_lifted" // an operator took the hold away

	EventModelAsked    EventKind = "model_asked"    // a request went to a model's provider
	EventModelAnswered EventKind = "model_answered" // its response completed, with the calls that the model emitted (rule G2)
	EventHistory       EventKind = "history"        // a history that went to a model has findings

	EventRevocation       EventKind = "revocation"        // an operator withdrew authority (rule C3)
	EventRevocationUndone EventKind = "revocation_undone" //

	EventRefused     EventKind = "refused"           // a request that became no call
	EventForeign     EventKind = "foreign"           // somebody named a run or a call of somebody else: they were told that there is none
	EventThrottled   EventKind = "throttled"         // requests of a caller beyond its rate were refused before the boundary, so many in a window
	EventLimited     EventKind = "limited"           // a limit held a call back; its state is unchanged
	EventReturned    EventKind = "returned"          // an equal call was answered from its record
	EventLate        EventKind = "late"              // an outcome of an attempt that was already given up: evidence
	EventReconciled  EventKind = "reconciled"        // with the reconciler and the evidence
	EventExtended    EventKind = "lease_extended"    // the holder of a lease still runs its attempt
	EventNotStarted  EventKind = "not_started"       // the holder of a lease says that it did not begin; believed when lease and token are over
	EventActivated   EventKind = "activated"         // a registry and policy version
	EventVersionKept EventKind = "version_kept"      // the files of a version that was active without them
	EventCompared    EventKind = "versions_compared" // an operator let calls of the record be judged by two versions
	EventRecovered   EventKind = "recovered"         // a new epoch of the store was opened over an older state (rule J2)
	EventOverride    EventKind = "override"          // a setting that weakens a default, at activation (rule H7)

	EventNotified    EventKind = "notified"    // a receiver took a notice of a question or an alert
	EventUnreachable EventKind = "unreachable" // no receiver of a question could be told of it
	EventAlert       EventKind = "alert"       // a fixed rule over the log found something
)

// Who did it. Exactly one of the forms is set.
type Who struct {
	Principal *Principal `json:"principal,omitempty"`
	Agent     AgentID    `json:"agent,omitempty"`    // with Principal, when an agent acted for them
	Workload  string     `json:"workload,omitempty"` // a program's own credential
	System    string     `json:"system,omitempty"`   // "clock", "recovery", "boundary"
}

// By names a call's own caller.
func (o Owner) By() Who { return Who{Principal: &o.Principal, Agent: o.Agent} }

// Event is one entry of the audit log.
type Event struct {
	Seq      int64           `json:"seq"` // given by the store, rising
	At       time.Time       `json:"at"`
	Tenant   TenantID        `json:"tenant"`
	Kind     EventKind       `json:"kind"`
	Run      RunID           `json:"run,omitempty"`
	Call     CallID          `json:"call,omitempty"`
	Approval ApprovalID      `json:"approval,omitempty"`
	Who      Who             `json:"who"`
	Body     json.RawMessage `json:"body"` // a Body
}

// Body is what an event says beside who, when and on what. Argument values are
// never in it: Redacted names what was left out.
type Body struct {
	Tool       string       `json:"tool,omitempty"`
	Verdict    Verdict      `json:"verdict,omitempty"`
	Code       Code         `json:"code,omitempty"`
	Reasons    []Reason     `json:"reasons,omitempty"`
	Labels     []string     `json:"labels,omitempty"`
	Origins    []Origin     `json:"origins,omitempty"` // values by salted digest
	Source     Source       `json:"source,omitempty"`
	Route      Route        `json:"route,omitempty"`
	Arguments  canon.Digest `json:"argument_commitment,omitzero"` // see Call.Commit; so are the next two, and Result
	Received   canon.Digest `json:"received_commitment,omitzero"` // to what was proposed, where guards put it into another form
	Effect     canon.Digest `json:"effect_commitment,omitzero"`
	Binding    canon.Digest `json:"binding,omitzero"`
	Version    canon.Digest `json:"tool_version,omitzero"`
	DecidedBy  string       `json:"decided_by,omitempty"`
	Generation int64        `json:"generation,omitempty"`
	Attempt    int          `json:"attempt,omitempty"`
	Key        string       `json:"idempotency_key,omitempty"`
	Lease      time.Time    `json:"lease,omitzero"`
	Retry      time.Time    `json:"retry_after,omitzero"`
	Result     canon.Digest `json:"result_commitment,omitzero"`
	Turn       Turn         `json:"turn,omitempty"`
	Kept       []CallID     `json:"kept,omitempty"`
	To         *Who         `json:"to,omitempty"`     // whom a run was transferred to
	Until      time.Time    `json:"until,omitzero"`   // how long a delegation lasts
	Scopes     []string     `json:"scopes,omitempty"` // what it delegates at most
	Word       Word         `json:"word,omitempty"`
	Note       string       `json:"note,omitempty"`
	Evidence   string       `json:"evidence,omitempty"`
	Detail     string       `json:"detail,omitempty"`
	Emission   EmissionID   `json:"emission,omitempty"` // what witnessed the proposal
	Model      *Modelled    `json:"model,omitempty"`    // what passed between a run and a model
	Reported   bool         `json:"reported,omitempty"` // by the holder of a lease (rule E6)
	Alert      *Alert       `json:"alert,omitempty"`
	Notice     *Notice      `json:"notice,omitempty"`
	Redacted   []string     `json:"redacted,omitempty"`
	Transcript TranscriptID `json:"transcript,omitempty"`
	Share      ShareID      `json:"share,omitempty"`
	Parent     RunID        `json:"parent,omitempty"`  // of a child run that was opened
	Grant      *Grant       `json:"grant,omitempty"`   // what it may do at most
	Session    string       `json:"session,omitempty"` // the login that an answer was given in
	Schedule   ScheduleID   `json:"schedule,omitempty"`
	Next       time.Time    `json:"next,omitzero"` // when a schedule fires next
}

// event fills in what the call knows. A body always marshals: it is made of
// strings, numbers and digests.
func (c Call) event(kind EventKind, who Who, at time.Time, b Body) Event {
	b.Tool = c.Tool.Name
	return Event{At: at, Tenant: c.Tenant, Kind: kind, Run: c.Run, Call: c.ID, Who: who, Body: b.encode()}
}
