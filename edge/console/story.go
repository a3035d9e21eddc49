package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// Bounds of one page.
const (
	maxStory = 200 // events of a call
	maxTries = 20  // equal calls after a no
	maxReads = 20  // calls of the run before this one
)

// story is what became of a question beside its own state: what its events say, and
// what was tried after a no.
type story struct {
	events []record.Event
	asked  map[record.ApprovalID]record.Body // what was decided with each question of the call
	held   *record.Body                      // why the call was last held back, since its last answer
	tries  []record.Call                     // equal ones, denied after a no; newest first
}

func (c *Console) storyOf(ctx context.Context, l dispatch.Loaded) (story, error) {
	s := story{asked: map[record.ApprovalID]record.Body{}}
	var err error
	if s.events, err = c.o.Reader.Events(ctx, dispatch.EventQuery{Tenant: l.Call.Tenant, Call: l.Call.ID, Limit: maxStory}); err != nil {
		return s, err
	}
	for _, e := range s.events {
		switch e.Kind {
		case record.EventAsked, record.EventLimited:
		case record.EventExecuting, record.EventAnswered:
			s.held = nil
			continue
		default:
			continue
		}
		var b record.Body
		if err := json.Unmarshal(e.Body, &b); err != nil {
			return s, record.Because(record.Internal, err, "an event cannot be read")
		}
		if e.Kind == record.EventAsked {
			s.asked[e.Approval] = b
		} else {
			s.held = &b
		}
	}
	if l.Approval.State == record.Rejected {
		tries, err := c.o.Reader.Calls(ctx, dispatch.CallQuery{Tenant: l.Call.Tenant, Denied: &l.Call, Limit: maxTries})
		if err != nil {
			return s, err
		}
		for _, t := range tries {
			if t.ID != l.Call.ID && t.Decision.Code == record.CodeRejected && t.Proposed.After(l.Approval.Changed) {
				s.tries = append(s.tries, t)
			}
		}
	}
	return s, nil
}

// version differs when the story went on.
func (s story) version() string {
	last := int64(0)
	if n := len(s.events); n > 0 {
		last = s.events[n-1].Seq
	}
	return fmt.Sprintf("%d.%d", last, len(s.tries))
}

// heldText says why an approved call has not run.
func (s story) heldText(now time.Time) string {
	if s.held == nil {
		return ""
	}
	why := map[record.Code]string{record.CodeRateLimited: "rate limit", record.CodeLimitReached: "a limit is reached",
		record.CodeCannotDecide: "it could not be decided at the last attempt"}[s.held.Code]
	if why == "" {
		why = string(s.held.Code)
	}
	text := "Approved, not run yet: " + why
	if s.held.Retry.After(now) {
		text += ", next slot " + s.held.Retry.UTC().Format("15:04:05 UTC")
	}
	return text + "."
}

// liveQuestion is what the page of a question follows.
func liveQuestion(l dispatch.Loaded, s story) string {
	return url.Values{"question": {string(l.Approval.ID)}, "seen": {version(l) + "." + s.version()}}.Encode()
}

// earlier is the question that another one took the place of.
type earlier struct {
	ID      record.ApprovalID
	Answers []given
	Rows    []difference
}

// earlierOf compares a question with the one it took the place of (rule D3). Both are
// of one call, so whoever sees the one may see the other only if it was theirs too.
func (c *Console) earlierOf(ctx context.Context, v viewer, l dispatch.Loaded, s story) (*earlier, error) {
	if l.Approval.Replaces == "" {
		return nil, nil
	}
	old, err := c.o.Reader.Approval(ctx, l.Call.Tenant, l.Approval.Replaces)
	if err != nil || !v.sees(old) {
		if err != nil && record.KindOf(err) != record.NotFound {
			return nil, err
		}
		return nil, nil
	}
	out := &earlier{ID: old.Approval.ID, Rows: differences(side{*old.Approval, l.Call, s.asked[old.Approval.ID]}, side{*l.Approval, l.Call, s.asked[l.Approval.ID]})}
	for _, r := range old.Approval.Answers {
		out.Answers = append(out.Answers, givenOf(r, v))
	}
	return out, nil
}

// reading is which tools the run called before this one; the labels of what they
// returned are the decision's.
type reading struct {
	Tools []toolCount
	More  bool
}

type toolCount struct {
	Tool  string
	Times int
}

// readingOf counts which of the calls just before one have run.
func (c *Console) readingOf(ctx context.Context, call record.Call) (reading, error) {
	list, err := c.o.Reader.Calls(ctx, dispatch.CallQuery{Tenant: call.Tenant, Run: call.Run, Before: call.ID, Limit: maxReads})
	if err != nil {
		return reading{}, err
	}
	out := reading{More: len(list) == maxReads}
	at := map[string]int{}
	for _, e := range list {
		if e.Attempt == 0 {
			continue
		}
		n, ok := at[e.Tool.Name]
		if !ok {
			n = len(out.Tools)
			at[e.Tool.Name] = n
			out.Tools = append(out.Tools, toolCount{Tool: e.Tool.Name})
		}
		out.Tools[n].Times++
	}
	return out, nil
}
