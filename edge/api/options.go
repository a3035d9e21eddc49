package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/placet-dev/placet/audit"
	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/edge/oauth"
	"github.com/placet-dev/placet/history"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/passkey"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// Boundary is what this door asks of dispatch.
type Boundary interface {
	Do(context.Context, dispatch.Proposal) (dispatch.Answer, error)
	Propose(context.Context, dispatch.Proposal) (dispatch.Answer, error)
	Dispatch(context.Context, identity.Caller, record.CallID, func(json.RawMessage)) (dispatch.Answer, error)
	Await(context.Context, record.TenantID, record.CallID, time.Duration) bool
	Show(context.Context, identity.Caller, record.CallID) (dispatch.Answer, error)
	Cancel(context.Context, identity.Caller, record.CallID) (dispatch.Answer, error)
	Heartbeat(context.Context, identity.Caller, record.CallID, int, string) (dispatch.Beat, error)
	Report(context.Context, identity.Caller, record.CallID, dispatch.Report) (dispatch.Answer, error)
	Explain(context.Context, dispatch.Proposal) (dispatch.Explanation, error)
	ReplySigned(context.Context, identity.Person, record.ApprovalID, canon.Digest, record.Word, string, []byte) (dispatch.Loaded, error)
	Question(context.Context, identity.Person, record.ApprovalID) (dispatch.Loaded, error)
	RevokePasskeys(context.Context, identity.Operator, record.Principal) (int, error)
	OpenRun(context.Context, identity.Caller, string) (record.Run, error)
	Run(context.Context, identity.Caller, record.RunID) (record.Run, string, error)
	OpenChild(context.Context, identity.Caller, record.RunID, dispatch.Child) (record.Run, error)
	Children(context.Context, record.Run) ([]record.Run, error)
	StartTurn(context.Context, identity.Caller, record.RunID, []record.CallID) (record.Run, error)
	StateInput(context.Context, identity.Caller, record.RunID, string) error
	EndRun(context.Context, identity.Caller, record.RunID, string) (record.Run, error)
	TransferRun(context.Context, identity.Caller, record.RunID, record.Owner) (record.Run, error)
	DelegateRun(context.Context, identity.Caller, record.RunID, time.Time) (record.Run, error)
	Schedule(context.Context, identity.Caller, dispatch.Wanted) (record.Schedule, dispatch.Answer, error)
	OwnSchedule(context.Context, identity.Caller, record.ScheduleID) (record.Schedule, error)
	PauseSchedule(context.Context, identity.Caller, record.ScheduleID) (record.Schedule, error)
	ResumeSchedule(context.Context, identity.Caller, record.ScheduleID) (record.Schedule, dispatch.Answer, error)
	DeleteSchedule(context.Context, identity.Caller, record.ScheduleID) (record.Schedule, error)
	WithdrawDelegation(context.Context, identity.Caller, record.RunID) (record.Run, error)
	Reconcile(context.Context, identity.Operator, record.TenantID, record.CallID, record.State, string) (record.Call, error)
	Look(context.Context, identity.Operator, record.CallID) (record.Call, dispatch.Looked, error)
	Lift(context.Context, identity.Operator, record.RunID, string) (record.Lineage, error)
	VoidAnswers(context.Context, identity.Operator, record.Principal, string) (int, error)
	Revoke(context.Context, identity.Operator, dispatch.RevokeOrder) (record.Revocation, error)
	UndoRevocation(context.Context, identity.Operator, record.TenantID, record.RevocationID, string) (record.Revocation, error)
	Revocation(context.Context, record.TenantID, record.RevocationID) (record.Revocation, error)
	Caught(context.Context, record.TenantID, record.Revocation) ([]dispatch.CaughtCall, error)
	RecordsFor(identity.Caller, record.Run) history.Records
	ResumeRun(context.Context, identity.Caller, record.RunID) (dispatch.Resumed, error)
	ReplayRun(context.Context, identity.Operator, record.RunID) (record.Run, error)
	Import(context.Context, identity.Caller, string, history.Format, []byte) (record.Transcript, error)
	Transcript(context.Context, identity.Caller, record.TranscriptID) (record.Transcript, error)
	DeleteTranscript(context.Context, identity.Caller, record.TranscriptID) error
	Redact(context.Context, identity.Caller, record.TranscriptID, []int) (record.Transcript, error)
	Compact(context.Context, identity.Caller, record.TranscriptID, int, int, string) (record.Transcript, error)
	GiveShare(context.Context, identity.Caller, dispatch.ShareOrder) (record.Share, error)
	TakeShare(context.Context, identity.Caller, record.ShareID) (record.Share, error)
	Shared(context.Context, record.TenantID, record.Principal, record.ShareID) (dispatch.Shared, error)
	Tools(context.Context, identity.Caller) []*registry.Tool
	Usage(context.Context, identity.Caller, record.RunID) ([]dispatch.Use, error)
	Used([]dispatch.Counted) []dispatch.Use
	RedactCall(context.Context, identity.Operator, record.TenantID, record.CallID, string) (record.Call, error)
	Refuse(context.Context, identity.Caller, string, record.Code, string) (dispatch.Answer, error)
	Lacks(ctx context.Context, l identity.Lack, what string) error
	Current() *dispatch.Active
	Moved() <-chan struct{}
}

// Reader is what this door reads beside the boundary, for approvers and operators.
// An unknown ID and another tenant's answer with record.NotFound.
type Reader interface {
	dispatch.Reader
	dispatch.Transcripts
	Alerts(context.Context, dispatch.AlertQuery) ([]record.Event, error)
	Call(context.Context, record.TenantID, record.CallID) (dispatch.Loaded, error)
	Approval(context.Context, record.TenantID, record.ApprovalID) (dispatch.Loaded, error)
	Run(context.Context, record.TenantID, record.RunID) (record.Run, error)
	Activations(ctx context.Context, before int64, n int) ([]record.Activation, error)
	Schedule(context.Context, record.TenantID, record.ScheduleID) (record.Schedule, error)
}

// Verifier says who presents credentials. Its errors are of the kinds
// unauthenticated, forbidden and unavailable.
type Verifier interface {
	Caller(context.Context, identity.Credentials) (identity.Caller, error)
	Login(context.Context, identity.Credentials) (identity.Person, error)
	Operator(context.Context, identity.Credentials) (identity.Operator, error)
	Reader(context.Context, identity.Credentials) (identity.Reader, error)
}

// Ingress counts requests before anything is decided about them, and refuses those
// beyond a caller's rate as record.Limited.
type Ingress interface {
	Admit(ctx context.Context, c identity.Caller) error
}

// Options is what a door is made of. Boundary, Reader and Verifier are required.
type Options struct {
	Boundary  Boundary
	Reader    Reader
	Verifier  Verifier
	Ingress   Ingress         // nil: no limit
	OAuth     *oauth.Resource // what clients are told of tokens; nil: only that they need one
	PublicURL string          // of the console's pages; empty: no links to them
	Version   string          // of this program, shown in the OpenAPI document

	Reload    func(ctx context.Context, by string, order ReloadOrder) (Reloaded, error) // nil: not supported
	Overrides func() []registry.Override                                                // nil: not supported
	Evidence  func(record.Call, record.Approval) passkey.Evidence                       // nil: no passkeys are used here
	Sealed    audit.Log                                                                 // nil: there is nothing to prove events with
	LogKey    string                                                                    // verifies its checkpoints
	Ready     func(context.Context) error                                               // nil: always ready
	Versions  Versions                                                                  // zero: not supported
	Reported  func(result json.RawMessage, failed string) (json.RawMessage, error)      // what a report says, as a tool result; nil: reports are not supported

	Log    *slog.Logger     // nil: discarded
	Clock  func() time.Time // nil: time.Now
	Limits canon.Limits     // of request bodies; zero fields are canon's defaults
	Body   time.Duration    // how long a body may take to arrive; 0: 5 s
	Wait   time.Duration    // the longest a dispatch is held for an answer; 0: 25 s
	Beat   time.Duration    // how often a stream shows a sign of life, and verifies its credential; 0: 15 s
	Stream time.Duration    // how long a stream lasts at most; 0: 10 min

	History HistoryLimits // of transcripts
	// Checked is told of every history that was checked: without the transcript where it
	// was not held, without classes where it was not compared; nil: nobody is.
	Checked func(*history.Transcript, []history.Finding, *history.Classification)
}

// ReloadOrder says what to do with the files as they are now.
type ReloadOrder struct {
	Plan    bool          // only say what activating them would change
	Version string        // activate them only if they are this version; empty: whatever they are
	After   int64         // and only while this generation is active; 0: whatever is
	Of      *VersionOrder // nil: the server's own files
}

// Reloaded is what activating the files again came to.
type Reloaded struct {
	Generation int64    `json:"generation" doc:"The number of the version that decides now."`
	Version    string   `json:"version" doc:"The digest of what was read."`
	Changed    bool     `json:"changed" doc:"False: the files are what was active already."`
	Voids      int      `json:"voids" doc:"How many questions, waiting or answered and not used, rest on what changes and are asked anew."`
	Plan       []string `json:"plan" nullable:"false" doc:"What was added, removed, weakened and tightened, a line each."`
}

func (o Options) withDefaults() Options {
	if o.Reported == nil {
		o.Reported = func(json.RawMessage, string) (json.RawMessage, error) {
			return nil, record.Errorf(record.Unsupported, "reports are not taken here")
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Limits.Bytes <= 0 {
		o.Limits.Bytes = 1 << 20
	}
	if o.Body <= 0 {
		o.Body = 5 * time.Second
	}
	if o.Wait <= 0 {
		o.Wait = 25 * time.Second
	}
	if o.Beat <= 0 {
		o.Beat = 15 * time.Second
	}
	if o.Stream <= 0 {
		o.Stream = 10 * time.Minute
	}
	return o
}
