package dispatch

import (
	"context"
	"time"

	"github.com/placet-dev/placet/record"
)

// Follower is what a store offers, beside [Reader], to whoever follows the log of
// every tenant: notices of questions, and alerts. It moves nothing.
type Follower interface {
	// Last returns number and time of the newest event before a time, or of the
	// newest of all where that is zero. Both are zero where there is none.
	Last(ctx context.Context, before time.Time) (seq int64, at time.Time, err error)

	// Pending returns the questions of every tenant that wait for an answer, oldest
	// first, from after a given one, at most n at once.
	Pending(ctx context.Context, after record.ApprovalID, n int) ([]Loaded, error)

	// Open counts the open calls of every tenant, by state.
	Open(ctx context.Context) ([]OpenCount, error)

	// Backlog returns what of all tenants waits in the queue for the clock, and what of
	// it came to nothing.
	Backlog(ctx context.Context) (Backlog, error)

	// Alerts returns the alerts of one tenant, newest first.
	Alerts(ctx context.Context, q AlertQuery) ([]record.Event, error)
}

// AlertQuery selects alerts of one tenant.
type AlertQuery struct {
	Tenant record.TenantID
	Before int64 // for the next page; 0: from the newest
	Limit  int   // 1 to 500; 0 is 50
}
