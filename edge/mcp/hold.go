package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// errClientCancelled is why a call's context ended.
var errClientCancelled = errors.New("the client cancelled the request")

// waiting reports whether an answer may change by itself: a person is asked, or
// another attempt of the call is under way.
func waiting(a dispatch.Answer) bool {
	if a.Result != nil {
		return false
	}
	return a.State() == record.ApprovalPending || a.State() == record.Executing && !a.Ran
}

// hold keeps the caller while somebody is asked, at most for Wait. When there is
// news, the token is verified again (rule C2), and the boundary decides anew. A
// client's cancel ends the call; a client that is gone only ends the wait
// (rule A14).
func (h *Handler) hold(run context.Context, x *request, a dispatch.Answer, progress func(json.RawMessage)) (dispatch.Answer, error) {
	end := time.Now().Add(h.Wait)
	for n := 1; waiting(a); {
		left := time.Until(end)
		if left <= 0 || h.leaving() {
			return a, nil
		}
		if progress != nil {
			left = min(left, h.ProgressEvery)
		}
		news := h.await(run, x, a.Call, left)
		switch {
		case context.Cause(run) == errClientCancelled:
			return h.Boundary.Cancel(context.WithoutCancel(run), x.caller, a.Call.ID)
		case x.there.Err() != nil:
			return a, nil
		case !news:
			if progress != nil {
				progress(stillWaiting(n))
				n++
			}
			continue
		}
		caller, err := h.Verifier.Caller(x.there, x.creds)
		if err != nil {
			return a, err
		}
		if !caller.Valid() || caller.SessionID() != x.caller.SessionID() {
			return a, record.Errorf(record.Unauthenticated, "the token is another caller's now")
		}
		x.caller = caller
		before := a
		if a, err = h.Boundary.Dispatch(run, caller, a.Call.ID, progress); err != nil {
			return a, err
		}
		if unchanged(before, a) {
			return a, nil // news that the boundary makes nothing of; asking on would spin
		}
	}
	return a, nil
}

// leaving reports whether this process is about to end: who is held is told to come
// back, and finds another one.
func (h *Handler) leaving() bool {
	select {
	case <-h.Leaving:
		return true
	default:
		return false
	}
}

func unchanged(a, b dispatch.Answer) bool {
	if a.Call == nil || b.Call == nil || a.Call.Version != b.Call.Version {
		return false
	}
	return a.Approval == nil && b.Approval == nil ||
		a.Approval != nil && b.Approval != nil && a.Approval.ID == b.Approval.ID && a.Approval.Version == b.Approval.Version
}

// await ends early when the client cancels or goes.
func (h *Handler) await(run context.Context, x *request, c *record.Call, d time.Duration) bool {
	ctx, cancel := context.WithCancel(run)
	defer cancel()
	stop := context.AfterFunc(x.there, cancel)
	defer stop()
	return h.Boundary.Await(ctx, c.Tenant, c.ID, d)
}

// stillWaiting is a progress notification that keeps a client from giving up. Its
// value rises, as MCP demands, and stays below whatever the tool will report.
func stillWaiting(n int) json.RawMessage {
	return json.RawMessage(`{"progress":` + strconv.FormatFloat(float64(n)*1e-6, 'f', 6, 64) + `,"message":"waiting for approval"}`)
}

// inflight finds the requests that a client may cancel: those of a session, by
// the client's ID, for the caller that sent them. IDs of modern clients are
// unique to nothing, so theirs cannot be named.
type inflight struct {
	mu   sync.Mutex
	runs map[inflightKey]context.CancelCauseFunc
}

type inflightKey struct{ caller, session, id string }

func (x *request) key() inflightKey {
	return inflightKey{x.caller.SessionID(), x.session, string(x.id)}
}

// start returns the context under which a call runs. It outlives the connection,
// so that an effect's outcome is learned, and ends only by the client's cancel.
func (f *inflight) start(x *request) (context.Context, func()) {
	ctx := context.WithoutCancel(x.there)
	if x.modern || x.session == "" {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	key := x.key()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.runs == nil {
		f.runs = make(map[inflightKey]context.CancelCauseFunc)
	}
	if _, taken := f.runs[key]; taken {
		return ctx, func() { cancel(nil) } // the SDK refuses an ID in flight; nothing to find it by
	}
	f.runs[key] = cancel
	return ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.runs, key)
		cancel(nil)
	}
}

// cancelled takes notifications/cancelled.
func (h *Handler) cancelled(x *request) {
	id, ok := lookup(x.params, "requestId")
	if !ok {
		return
	}
	key := inflightKey{x.caller.SessionID(), x.session, string(id)}
	h.inflight.mu.Lock()
	cancel := h.inflight.runs[key]
	h.inflight.mu.Unlock()
	if cancel != nil {
		cancel(errClientCancelled)
	}
}
