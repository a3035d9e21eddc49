package demo

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/placet-dev/placet/record"
)

// decided is what came of a question: as lena's own client answered it, or as
// somebody did at the console.
type decided struct {
	Step  string               `json:"step"`
	State record.ApprovalState `json:"answer"`
	By    string               `json:"by"`
}

// answer has the question of a step answered. Without people, lena's client says
// yes; else whoever signs in at the console says what they like.
func (s *scene) answer(ctx context.Context, step, show string, id record.ApprovalID) (decided, error) {
	if !s.interactive {
		return decided{step, record.Approved, s.lena.name}, s.lena.approve(ctx, id)
	}
	if err := s.out.asked(pending{Step: step, URL: s.h.url() + "/console/approvals/" + string(id), SignIn: s.lena.name, show: show}); err != nil {
		return decided{}, err
	}
	d, err := s.untilAnswered(ctx, step, id)
	if err == nil {
		s.decided = append(s.decided, d)
	}
	return d, err
}

const (
	askEvery = 200 * time.Millisecond  // how often the demo asks for the answer
	lookAt   = 1500 * time.Millisecond // how long a person sees the page that took it
)

// untilAnswered reads the question until it is one no longer, as lena may.
func (s *scene) untilAnswered(ctx context.Context, step string, id record.ApprovalID) (decided, error) {
	for {
		var q question
		if err := s.lena.must(ctx, http.MethodGet, "/v1/approvals/"+string(id), nil, &q); err != nil {
			return decided{}, err
		}
		switch {
		case q.State == record.Pending:
			if err := pause(ctx, askEvery); err != nil {
				return decided{}, fmt.Errorf("step %s: nobody decided: %w", step, err)
			}
			continue
		case len(q.Answers) != 1:
			return decided{}, fmt.Errorf("step %s: the question is %s, and nobody answered it", step, q.State)
		}
		return decided{step, q.State, q.Answers[0].Person.Subject}, pause(ctx, s.shown)
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// how is for the summary, told for a step's note.
func (d decided) how() string { return string(d.State) + " by " + d.By }

func (d decided) told() string {
	if d.State == record.Approved {
		return d.By + " approves"
	}
	return d.By + " rejects"
}

// asked is what a step comes to whose question was answered while its agent was
// away: a yes moves nothing by itself, a no ends the call.
func (d decided) asked() want {
	w := want{record.RequiresApproval, record.ApprovalPending, record.CodeAboveLimit, 0}
	if d.State == record.Rejected {
		w.state = record.Denied
	}
	return w
}

// after is what the question is when the agent was back.
func (d decided) after() record.ApprovalState {
	if d.State == record.Approved {
		return record.Consumed
	}
	return d.State
}
