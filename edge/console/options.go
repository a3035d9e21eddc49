package console

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// Boundary is what the pages ask of dispatch.
type Boundary interface {
	Question(context.Context, identity.Person, record.ApprovalID) (dispatch.Loaded, error)
	ReplySigned(context.Context, identity.Person, record.ApprovalID, canon.Digest, record.Word, string, []byte) (dispatch.Loaded, error)
	Passkeys(context.Context, identity.Person) ([]record.Passkey, error)
	AddPasskey(ctx context.Context, p identity.Person, c dispatch.PasskeyChange, name string, message []byte) (record.Passkey, error)
	RemovePasskey(ctx context.Context, p identity.Person, c dispatch.PasskeyChange, id []byte) error
	RejectRun(context.Context, identity.Person, record.RunID, []dispatch.Shown, string) (int, error)
	Barred(identity.Person, record.Approval) string
	Standing(context.Context, identity.Person) ([]record.Standing, error)
	StartFresh(context.Context, identity.Person, record.AgentID) error
	Revocations(context.Context, record.TenantID) ([]record.Revocation, error)
	Revocation(context.Context, record.TenantID, record.RevocationID) (record.Revocation, error)
	Caught(context.Context, record.TenantID, record.Revocation) ([]dispatch.CaughtCall, error)
	Revoke(context.Context, identity.Operator, dispatch.RevokeOrder) (record.Revocation, error)
	UndoRevocation(context.Context, identity.Operator, record.TenantID, record.RevocationID, string) (record.Revocation, error)
	Reconcile(ctx context.Context, o identity.Operator, tenant record.TenantID, id record.CallID, to record.State, evidence string) (record.Call, error)
	Lift(context.Context, identity.Operator, record.RunID, string) (record.Lineage, error)
	Current() *dispatch.Active
	Used([]dispatch.Counted) []dispatch.Use
}

// Reader is what the pages read beside the boundary. An unknown ID and another
// tenant's answer with record.NotFound.
type Reader interface {
	dispatch.Reader
	Alerts(context.Context, dispatch.AlertQuery) ([]record.Event, error)
	Call(context.Context, record.TenantID, record.CallID) (dispatch.Loaded, error)
	Approval(context.Context, record.TenantID, record.ApprovalID) (dispatch.Loaded, error)
	Run(context.Context, record.TenantID, record.RunID) (record.Run, error)
	Schedule(context.Context, record.TenantID, record.ScheduleID) (record.Schedule, error)
	OpenCalls(ctx context.Context, tenant record.TenantID, run record.RunID, n int) ([]record.Call, error)
	Children(ctx context.Context, tenant record.TenantID, run record.RunID, n int) ([]record.Run, error)
}

// Verifier says whose login an access token is.
type Verifier interface {
	Person(ctx context.Context, bearer string) (identity.Person, error)
}

// Login is the OpenID provider that people sign in at, and this console as its client.
type Login struct {
	Issuer       string
	ClientID     string
	ClientSecret string   // empty for a public client
	Scopes       []string // openid is always asked for
	Ask          string   // the parameter that asks for the console's audience: resource, audience, or "" where the client is set up for it
}

// Options is what the console is made of. Without Login it is one page; with it,
// Boundary, Reader, Verifier and PublicURL are required.
type Options struct {
	Boundary  Boundary
	Reader    Reader
	Verifier  Verifier
	PublicURL string
	Login     *Login

	Sessions   Kept   // where sign-ins are kept for several servers; nil: in this process
	SessionKey []byte // what they are sealed with there, 32 bytes

	Log    *slog.Logger     // nil: discarded
	Clock  func() time.Time // nil: time.Now
	Random io.Reader        // nil: crypto/rand
	HTTP   *http.Client     // to the provider; nil: a plain one
	Poll   time.Duration    // how often an open page looks for changes; 0: 1 s
	Stream time.Duration    // how long it does before the browser asks anew; 0: 10 min
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.HTTP == nil {
		o.HTTP = &http.Client{Timeout: 10 * time.Second}
	}
	if o.Poll <= 0 {
		o.Poll = time.Second
	}
	if o.Stream <= 0 {
		o.Stream = 10 * time.Minute
	}
	return o
}
