package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// Arguments as the agent sends them, in canonical form.
const (
	refund1200 = `{"amount":"1200.00","currency":"EUR","order_id":"ord_1001"}`
	refund4800 = `{"amount":"4800.00","currency":"EUR","order_id":"ord_1001"}`
	refund60   = `{"amount":"60.00","currency":"EUR","order_id":"ord_1002"}`
	orders17   = `{"customer":"cus_17","table":"orders"}`
	orders21   = `{"customer":"cus_21","table":"orders"}`
	post       = `{"body":"orders of cus_17","host":"10.0.4.7"}`
)

// scene is what happens, step by step.
type scene struct {
	h           *house
	out         report
	interactive bool
	shown       time.Duration // how long the page has to show an answer before its gateway is killed

	anna, mallory, ben, lena, auditor *person

	steps  map[int64]string  // which step each effect appeared after
	calls  map[string]string // the key that the records name, by step
	faults []string          // where the scene went another way than it is told
	ran    int               // how many effects the steps so far came to

	larger  record.CallID // of step e
	decided []decided     // what people said at the console
	second  burst         // what the log says of the second act
}

// play plays every step. An error is one that ends the scene.
func (s *scene) play(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	for _, step := range []func(context.Context) error{s.read, s.postPrivate, s.refundAcrossACrash, s.sameAgain, s.askLarger, s.resumeByAnother, s.small, s.poisoned, s.overrides} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *scene) enter(ctx context.Context) (err error) {
	if err := s.out.begin(local(s.h.door), local(s.h.desk), s.h.url()+"/console"); err != nil {
		return err
	}
	if s.anna, err = s.h.caller("anna"); err != nil {
		return err
	}
	if s.mallory, err = s.h.caller("mallory"); err != nil {
		return err
	}
	if s.ben, err = s.h.caller("ben"); err != nil {
		return err
	}
	if s.lena, err = s.h.answerer("lena", leads); err != nil {
		return err
	}
	if s.auditor, err = s.h.answerer("omar", auditors); err != nil {
		return err
	}
	return s.anna.connect(ctx)
}

func (s *scene) leave() {
	s.anna.hangUp()
	s.mallory.hangUp()
	s.ben.hangUp()
}

func local(l *net.TCPListener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String()) // a bound address has a port
	return "localhost:" + port
}

func (s *scene) fault(step, format string, args ...any) {
	s.faults = append(s.faults, "step "+step+": "+fmt.Sprintf(format, args...))
}

// want is what a step is told to come to.
type want struct {
	verdict record.Verdict
	state   record.State
	code    record.Code
	effects int
}

// after is the same where n effects are there already.
func (w want) after(n int) want { w.effects = n; return w }

// tell completes a step from the records and the ledger, compares it with what is
// wanted and shows it. It returns the call.
func (s *scene) tell(ctx context.Context, l line, t told, w want) (recorded, error) {
	call, err := s.look(ctx, l.Step, t)
	if err != nil {
		return call, err
	}
	verdict, code := record.Allow, record.CodeNone
	if t.decision != nil {
		verdict, code = t.decision.Verdict, t.decision.Code
	}
	l.Verdict, l.State, l.ran = &verdict, &call.State, t.decision == nil
	if code != record.CodeNone {
		l.Code = &code
	}
	if l.Effects, err = s.effects(ctx, l.Step); err != nil {
		return call, err
	}
	if got := (want{verdict, call.State, code, l.Effects}); got != w {
		s.fault(l.Step, "it came to %s, %s, %q with %d effects, not %s, %s, %q with %d; the agent read: %s",
			got.verdict, got.state, got.code, got.effects, w.verdict, w.state, w.code, w.effects, t.text)
	}
	s.ran = l.Effects
	return call, s.out.step(l)
}

// look finds the call that an answer is about: the one it names, or else the newest.
func (s *scene) look(ctx context.Context, step string, t told) (recorded, error) {
	calls, err := s.auditor.calls(ctx)
	if err != nil {
		return recorded{}, err
	}
	about := t.about
	if t.decision != nil && t.decision.Call != "" {
		about = t.decision.Call
	}
	for _, c := range calls {
		if about == "" || about == c.ID {
			s.calls[step] = c.Operators.Key
			return c, nil
		}
	}
	return recorded{}, fmt.Errorf("step %s: the gateway has no record of the call", step)
}

// effects counts what the ledger holds, and notes after which step it appeared.
func (s *scene) effects(ctx context.Context, step string) (int, error) {
	rows, err := readLedger(ctx, s.h.ledgerPath())
	if err != nil {
		return 0, err
	}
	for _, r := range rows {
		if _, seen := s.steps[r.id]; !seen {
			s.steps[r.id] = step
		}
	}
	return len(rows), nil
}

// asks is a step that is one tool call of anna's agent.
func (s *scene) asks(ctx context.Context, step, tool, arguments, show, note string, w want) error {
	t, err := s.anna.call(ctx, tool, json.RawMessage(arguments), nil)
	if err != nil {
		return err
	}
	_, err = s.tell(ctx, line{Step: step, Tool: &tool, Arguments: json.RawMessage(arguments), show: show, note: note}, t, w)
	return err
}

func (s *scene) read(ctx context.Context) error {
	return s.asks(ctx, "a", "db_query", orders17, "db_query  orders of cus_17", "",
		want{record.Allow, record.Succeeded, record.CodeNone, 0})
}

func (s *scene) postPrivate(ctx context.Context) error {
	return s.asks(ctx, "b", "http_post", post, "http_post host 10.0.4.7", "private net, use proxy",
		want{record.Deny, record.Denied, record.CodePolicyDenied, 0})
}

// refundAcrossACrash is c: asked, answered, and the gateway dies before the agent
// is back. The answer outlives it.
func (s *scene) refundAcrossACrash(ctx context.Context) error {
	tool := "stripe_refund"
	l := line{Step: "c1", Tool: &tool, Arguments: json.RawMessage(refund1200), show: "stripe_refund 1,200.00 EUR ord_1001"}
	t, err := s.anna.call(ctx, tool, l.Arguments, nil)
	if err != nil {
		return err
	}
	if t.decision == nil || t.decision.Approval == "" {
		return fmt.Errorf("step c1: nobody was asked; the agent read: %s", t.text)
	}
	first := t.decision.Call
	answer, err := s.answer(ctx, "c", l.show, t.decision.Approval)
	if err != nil {
		return err
	}
	// The answer is recorded and its agent away: nothing has run, and while the
	// gateway is dead nothing can.
	away, err := s.h.restart(ctx, func() error {
		n, err := s.effects(ctx, "c1")
		if err == nil && n != 0 {
			s.fault("c1", "there are %d effects before the agent came back", n)
		}
		return err
	})
	if err != nil {
		return err
	}
	l.note = answer.told() + "; recorded; gateway killed; back in " + seconds(away)
	if _, err := s.tell(ctx, l, t, answer.asked()); err != nil {
		return err
	}
	if err := s.anna.connect(ctx); err != nil {
		return err
	}
	call, err := s.comesBack(ctx, "c2", l.Arguments, answer)
	if err != nil {
		return err
	}
	if answer.State == record.Approved && call.ID != first {
		s.fault("c2", "it is another call than the approved one")
	}
	asked, err := s.lena.questions(ctx)
	if err == nil && (len(asked) != 1 || asked[0].State != answer.after() || asked[0].Call.ID != first) {
		s.fault("c2", "lena's questions are not one, answered and settled")
	}
	return err
}

// comesBack is the agent's return after an answer: a yes runs once, a no stays.
func (s *scene) comesBack(ctx context.Context, step string, arguments json.RawMessage, answer decided) (recorded, error) {
	tool := "stripe_refund"
	t, err := s.anna.call(ctx, tool, arguments, nil)
	if err != nil {
		return recorded{}, err
	}
	l := line{Step: step, Tool: &tool, Arguments: arguments, show: "  the agent asks again", note: "ran once; " + answer.By + " was not asked again"}
	w := want{record.Allow, record.Succeeded, record.CodeNone, s.ran + 1}
	if answer.State != record.Approved {
		l.note = "it stays rejected; " + answer.By + " was not asked again"
		w = want{record.Deny, record.Denied, record.CodeRejected, s.ran}
	}
	return s.tell(ctx, l, t, w)
}

func (s *scene) sameAgain(ctx context.Context) error {
	note, w := "the recorded result, nothing ran again", want{record.Allow, record.Succeeded, record.CodeAlreadyDone, 1}
	if s.ran == 0 {
		note, w = "a no stays a no in this conversation", want{record.Deny, record.Denied, record.CodeRejected, 0}
	}
	return s.asks(ctx, "d", "stripe_refund", refund1200, "the same once more", note, w)
}

// askLarger is e: a yes is for the amount that was shown.
func (s *scene) askLarger(ctx context.Context) error {
	tool := "stripe_refund"
	l := line{Step: "e", Tool: &tool, Arguments: json.RawMessage(refund4800), show: "stripe_refund 4,800.00 EUR ord_1001",
		note: "the earlier yes does not cover it; nobody answers"}
	t, err := s.anna.call(ctx, tool, l.Arguments, nil)
	if err != nil {
		return err
	}
	if t.decision == nil || t.decision.Approval == "" {
		return fmt.Errorf("step e: nobody was asked; the agent read: %s", t.text)
	}
	s.larger = t.decision.Call
	answer := decided{Step: "e", State: record.Pending}
	if s.interactive {
		if answer, err = s.answer(ctx, "e", l.show, t.decision.Approval); err != nil {
			return err
		}
		l.note = "what was said on c does not cover it; " + answer.told()
	}
	if _, err := s.tell(ctx, l, t, answer.asked().after(s.ran)); err != nil || !s.interactive {
		return err
	}
	_, err = s.comesBack(ctx, "e2", l.Arguments, answer)
	return err
}

func (s *scene) small(ctx context.Context) error {
	return s.asks(ctx, "g", "stripe_refund", refund60, "stripe_refund 60.00 EUR ord_1002", "below the limit of 200",
		want{record.Allow, record.Succeeded, record.CodeNone, s.ran + 1})
}

// overrides shows what the demo weakens, as operators see it.
func (s *scene) overrides(ctx context.Context) error {
	var out struct{ Overrides []registry.Override }
	if err := s.auditor.must(ctx, http.MethodGet, "/v1/overrides", nil, &out); err != nil {
		return err
	}
	return s.out.overrides(out.Overrides)
}
