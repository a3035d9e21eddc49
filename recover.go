package placet

import (
	"context"
	"fmt"
	"time"

	"github.com/placet-dev/placet/audit"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// older says what to do with a store that is not what it was.
const older = "if the store was restored, placet recover opens a new epoch (docs/operations.md, Restore)"

// whole refuses a store that is older than what it published, goes another way, or
// lies in another place than before (rule J2): what it lacks may have happened.
func (o Options) whole(ctx context.Context, store records, key audit.Key) error {
	if s, ok := store.(interface{ Moved(context.Context) error }); ok {
		if err := s.Moved(ctx); err != nil {
			return err
		}
	}
	files, _ := o.Config.Published()
	for _, path := range files {
		kept, found, err := audit.File{Path: path}.Newest(key.Verifiers())
		if err == nil && found {
			err = audit.Holds(ctx, store, kept, key.Verifiers())
		}
		if err != nil {
			return record.Errorf(record.Conflict, "the store does not go on from the checkpoints in %s: %w", path, err)
		}
	}
	return nil
}

// Recovered is what a recovery did, or would do.
type Recovered struct {
	Epoch    int64                `json:"epoch"` // the new one
	Lost     string               `json:"lost,omitempty"`
	Open     []dispatch.OpenCount `json:"-"`
	Unknown  int64                `json:"unknown"`  // calls that may have been sent
	Canceled int64                `json:"canceled"` // calls that waited, with their questions
	Confirm  []string             `json:"confirm"`  // revocations, for the operator to confirm
}

// Recover opens a new epoch over the store as it is now. With plan it says only what
// that would do. The key may be another one than before.
func Recover(ctx context.Context, o Options, why string, plan bool) (out Recovered, err error) {
	if o, err = o.withDefaults(); err != nil {
		return out, err
	}
	store, err := o.openStore(ctx)
	if err != nil {
		return out, err
	}
	defer store.Close()
	shared, err := o.openSecret()
	if err != nil {
		return out, err
	}
	key, err := o.logKey(shared)
	if err != nil {
		return out, err
	}
	epoch, err := store.StoreEpoch(ctx)
	if err != nil {
		return out, err
	}
	out.Epoch = epoch + 1
	if lost := o.whole(ctx, store, key); lost != nil {
		out.Lost = lost.Error()
	}
	if out.Open, err = store.Open(ctx); err != nil {
		return out, err
	}
	for _, c := range out.Open {
		switch {
		case c.State.Waiting():
			out.Canceled += c.N
		default:
			out.Unknown += c.N
		}
	}
	if out.Confirm, err = revocations(ctx, store); err != nil || plan {
		return out, err
	}
	change, err := record.Recover(record.Recovery{From: epoch, To: out.Epoch, Why: why, Who: record.Who{System: "recovery"},
		At: o.Clock().UTC().Truncate(time.Microsecond)}, out.Lost)
	if err != nil {
		return out, err
	}
	if err := store.Apply(ctx, change); err != nil {
		return out, err
	}
	sealer, err := audit.NewSealer(ctx, audit.Options{Log: store, Apply: store.Apply, Key: key, NewKey: true, Publish: o.targets(), Clock: o.Clock, Random: o.Random, Logger: o.Log})
	if err == nil {
		err = sealer.Step(ctx) // from here on what was published before counts no longer
	}
	if err != nil {
		return out, fmt.Errorf("the new epoch is open, and its first checkpoint was not kept everywhere: %w", err)
	}
	return out, nil
}

// revocations are those that count in the store, for the operator to confirm: one that
// was made after the restored state is not there.
func revocations(ctx context.Context, store records) ([]string, error) {
	out := []string{}
	for before := record.RevocationID(""); ; {
		page, err := store.ListRevocations(ctx, dispatch.RevocationQuery{Before: before, Limit: 500})
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			where := "everywhere"
			if r.Tenant != "" {
				where = "in " + string(r.Tenant)
			}
			out = append(out, fmt.Sprintf("%s %s: %s", r.What(), where, r.Reason))
			before = r.ID
		}
		if len(page) < 500 {
			return out, nil
		}
	}
}
