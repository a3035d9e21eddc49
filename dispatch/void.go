package dispatch

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// VoidAnswers takes back every yes of a person that no call has used: each question
// that holds one is void, and asked anew (rules D3, D5). On return, no call runs on an
// answer that the person gave, by any of their logins, before this began. It returns
// how many questions that were.
func (b *Boundary) VoidAnswers(ctx context.Context, o identity.Operator, person record.Principal, why string) (int, error) {
	switch {
	case !o.Valid():
		return 0, record.Errorf(record.Forbidden, "voiding answers needs the operate permission")
	case person.Issuer == "" || person.Subject == "":
		return 0, record.Errorf(record.Invalid, "name the person by subject and issuer")
	case strings.TrimSpace(why) == "" || len(why) > maxNote:
		return 0, record.Errorf(record.Invalid, "state the reason, in at most %d bytes", maxNote)
	}
	voided := 0
	for _, login := range b.people().Logins(person) {
		after := record.ApprovalID("")
		for {
			page, err := b.store.Answered(ctx, o.Tenant(), login, after, 100)
			if err != nil {
				return voided, err
			}
			for _, id := range page {
				done, err := b.voidOne(ctx, o, login, id, why)
				if err != nil {
					return voided, err
				}
				if done {
					voided++
				}
				after = id
			}
			if len(page) < 100 {
				break
			}
		}
	}
	return voided, nil
}

// voidOne starts over while the record moves under it. A question that was used or
// ended meanwhile is left as it is.
func (b *Boundary) voidOne(ctx context.Context, o identity.Operator, login record.Principal, id record.ApprovalID, why string) (bool, error) {
	for range maxReplies {
		l, err := b.store.Approval(ctx, o.Tenant(), id)
		if err != nil {
			return false, err
		}
		now := b.clock()
		yes := slices.ContainsFunc(l.Approval.Answers, func(r record.Reply) bool { return r.Person == login && r.Word == record.Yes })
		if live(l.Approval) == nil || !yes {
			return false, nil
		}
		if now.Before(l.Approval.Expires) {
			err = b.reask(ctx, l, why, record.Step{At: now, Who: record.Who{Workload: o.Name()}})
		} else {
			_, err = b.expire(ctx, l, now)
		}
		var moved *record.Refusal
		if !errors.As(err, &moved) {
			return err == nil, err
		}
	}
	return false, record.Errorf(record.Conflict, "the question %s kept changing; void again", id)
}

func (b *Boundary) reask(ctx context.Context, l Loaded, why string, s record.Step) error {
	id, err := b.newApproval(s.At)
	if err != nil {
		return record.Because(record.Unavailable, err, "no approval ID could be made")
	}
	q := *l.Approval
	q.ID, q.Answers, q.Asked, q.Expires = id, nil, s.At, s.At.Add(q.Rule.Expires)
	change, err := record.Reask(l.Call, *l.Approval, q, why, s)
	if err != nil {
		return err
	}
	return b.apply(ctx, change)
}
