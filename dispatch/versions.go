package dispatch

import (
	"context"
	"fmt"

	"github.com/placet-dev/placet/record"
)

// Versions is what a store tells of what decided and decides (rule H2). None of it
// belongs to a tenant.
type Versions interface {
	// Version returns one with its files, or record.NotFound: it was never active, or
	// was activated by a program that stored none.
	Version(ctx context.Context, digest string) (record.Version, error)

	// Activations returns them from before a generation on, newest first, at most n;
	// before 0: from the newest.
	Activations(ctx context.Context, before int64, n int) ([]record.Activation, error)

	// Unconsumed returns the questions of every tenant that people said yes to and that
	// no call has used, in the order of their IDs from after a given one, at most n.
	Unconsumed(ctx context.Context, after record.ApprovalID, n int) ([]Loaded, error)
}

// Act is an activation beside what it activates.
type Act struct {
	Who   record.Who
	Files record.FilesFrom
	Plan  []string // what it changes, as it was shown
}

// Activate is [Boundary.Enact] for a process's own files.
func (b *Boundary) Activate(ctx context.Context, a Active, who record.Who) (int64, error) {
	return b.Enact(ctx, a, Act{Who: who, Files: record.FilesOwn})
}

// Enact makes a version the one that decides. It is durable on return, with its files,
// and every reservation by any process is then made under it or refused (rules C3, H2).
// On any error the version before stays.
func (b *Boundary) Enact(ctx context.Context, a Active, act Act) (int64, error) {
	next, err := prepared(a)
	if err != nil {
		return 0, err
	}
	have, digest, err := b.store.Generation(ctx)
	if err != nil {
		return 0, err
	}
	next.generation = have
	var v *record.Version
	if len(a.Files) > 0 {
		made := record.NewVersion(a.Digest, a.Files, a.Parts, record.Needs(), act.Who, b.clock())
		v = &made
	}
	if digest != a.Digest {
		next.generation = have + 1
		err = b.activate(ctx, a, act, have, v)
	} else if v != nil {
		err = b.keepVersion(ctx, *v)
	}
	if err != nil {
		return 0, err
	}
	b.decideBy(next)
	return next.generation, nil
}

func (b *Boundary) activate(ctx context.Context, a Active, act Act, have int64, v *record.Version) error {
	var overrides []string
	for _, o := range a.Overrides {
		overrides = append(overrides, fmt.Sprintf("%s: %s: %s (%s)", o.Subject, o.Setting, o.Detail, o.Place))
	}
	change, err := record.Activate(record.Activation{From: have, To: have + 1, Digest: a.Digest, Who: act.Who, At: b.clock(),
		Files: act.Files, Plan: act.Plan}, v, overrides)
	if err != nil {
		return err
	}
	return b.apply(ctx, change)
}

// keepVersion stores the files of the active version where a program before this one
// stored none.
func (b *Boundary) keepVersion(ctx context.Context, v record.Version) error {
	_, err := b.store.Version(ctx, v.Digest)
	if err == nil || record.KindOf(err) != record.NotFound {
		return err
	}
	change, err := record.KeepVersion(v)
	if err != nil {
		return err
	}
	return b.apply(ctx, change)
}

// Adopt makes the version that the store says is active the one that this process
// decides by. It writes nothing, and refuses any other version.
func (b *Boundary) Adopt(ctx context.Context, a Active) (int64, error) {
	next, err := prepared(a)
	if err != nil {
		return 0, err
	}
	now, digest, err := b.store.Generation(ctx)
	switch {
	case err != nil:
		return 0, err
	case digest != a.Digest:
		return 0, record.Errorf(record.Conflict, "another version is active by now")
	}
	next.generation = now
	b.decideBy(next)
	return now, nil
}

func (b *Boundary) decideBy(next *active) {
	b.now.Store(next)
	b.Halt(nil)
}

// prepared resolves whom the entries of a version name as approvers.
func prepared(a Active) (*active, error) {
	next := &active{Active: a, parts: make(map[string]record.ApprovalPart)}
	for t := range a.Registry.Tools() {
		if len(t.Approval.Approvers) == 0 {
			continue
		}
		part := record.ApprovalPart{From: "registry", Quorum: max(t.Approval.Quorum, 1)}
		for _, ref := range t.Approval.Approvers {
			if err := a.Approver(ref, &part); err != nil {
				return nil, record.Errorf(record.Invalid, "%s: approver %q: %w", t.Place, ref, err)
			}
		}
		next.parts[t.Name] = part
	}
	return next, nil
}
