package dispatch

import (
	"context"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// Delegations stand for callers who are away (rule C2). Each is backed by a live
// source at the issuer, which is asked at every dispatch.
type Delegations interface {
	// Grant makes a delegation of the caller's authority, no longer than until.
	// It fails with record.Invalid where the issuer has no live source.
	Grant(ctx context.Context, c identity.Caller, until time.Time) (record.Delegation, error)

	// Caller asks the source who the delegation's principal is now: still there,
	// with which scopes and groups. The caller has the owner of the run, with the
	// scopes and groups of now. What is returned beside it replaces d, which the
	// source may have used up, also beside an error; d itself if not. Any error denies: record.Unavailable when the source
	// does not answer, anything else when it says that the authority is gone.
	Caller(ctx context.Context, owner record.Owner, d record.Delegation) (identity.Caller, record.Delegation, error)

	// Withdraw tells the source that the delegation is not needed any more.
	Withdraw(ctx context.Context, d record.Delegation) error
}
