package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/edge/question"
	"github.com/placet-dev/placet/record"
)

// load returns a question to who may answer it, or reads the tenant.
func (c *Console) load(ctx context.Context, v viewer, id string) (dispatch.Loaded, error) {
	l, err := c.o.Boundary.Question(ctx, v.person, record.ApprovalID(id))
	if err == nil || record.KindOf(err) != record.NotFound || !v.Reads() || !record.ValidID("apr", id) {
		return l, hide(err)
	}
	l, err = c.o.Reader.Approval(ctx, v.person.Tenant(), record.ApprovalID(id))
	if err == nil && !v.sees(l) {
		err = absent()
	}
	return l, hide(err)
}

// questionView is the approver's page.
type questionView struct {
	Loaded      dispatch.Loaded
	Effect      folded
	Rest        []folded // arguments that the sentence does not mention
	RestLeft    int
	Purpose     folded
	Why         string
	Reasons     []reason
	Targets     []named
	Origins     []origin
	Preview     *preview
	Read        string // what the agent had read before
	Arguments   node
	Changed     *changed
	Earlier     *earlier // the question that this one took the place of
	Story       story
	Tries       []record.Call // equal ones after a no
	Reading     reading
	Marks       []string // what the tool does, as the registry says
	Events      []eventRow
	Evidence    []record.Reason
	Environment string
	Left        string
	Parts       []part
	Answers     []given
	Mine        *given
	May         bool      // this person can answer it now
	Barred      string    // but their yes would not count, and why
	Passkey     bool      // a yes is signed
	Sign        *signForm // with one of these; nil: the viewer has none
	Newer       record.ApprovalID
	Others      []row // more of the same run that wait for this person
	OthersMore  bool  // than are listed
	All         []dispatch.Shown
	Outcome     string
	Settled     bool

	Notice   string // what an answer came to, if not to what was meant
	Mismatch bool
}

type named struct {
	Name  string
	Value node
}

// reason is why it is asked, in a rule's own words.
type reason struct {
	Rule string
	Text folded
}

// part is one rule's demand and how far it is met.
type part struct {
	From        string
	Who         []string
	Quorum, Yes int
}

// given is somebody's answer.
type given struct {
	Who  string
	You  bool
	Word record.Word
	Note folded
	At   time.Time
}

func (c *Console) question(w http.ResponseWriter, r *http.Request, v viewer) error {
	l, err := c.load(r.Context(), v, r.PathValue("id"))
	if err != nil {
		return err
	}
	view, err := c.viewOf(r.Context(), v, l)
	if err != nil {
		return err
	}
	return c.showQuestion(w, r, http.StatusOK, v, view)
}

func (c *Console) showQuestion(w http.ResponseWriter, r *http.Request, status int, v viewer, view questionView) error {
	p := page{Title: "A question", Body: view}
	if view.Sign != nil {
		p.Passkeys = passkeyPath
	}
	switch state := view.Loaded.Approval.State; {
	case view.Mismatch:
		p.Title = "What you saw is not what would run"
	case state != record.Pending:
		p.Title = "A question: " + stateWord(state)
	}
	if !view.Settled {
		p.Live = liveQuestion(view.Loaded, view.Story)
	}
	if !view.Settled && !view.May {
		p.Again = 5 // nobody types on this page
		if view.Loaded.Approval.State == record.Rejected {
			p.Again = 60
		}
	}
	return c.showTo(w, r, status, "question", p, v)
}

func (c *Console) viewOf(ctx context.Context, v viewer, l dispatch.Loaded) (questionView, error) {
	a, now := *l.Approval, c.o.Clock()
	story, err := c.storyOf(ctx, l)
	if err != nil {
		return questionView{}, err
	}
	askedFor := l.Call.Decision.Reasons // a no has reasons of its own
	if b, ok := story.asked[a.ID]; ok {
		askedFor = b.Reasons
	}
	effect, rest := effectOf(l.Call)
	view := questionView{Loaded: l, Effect: effect, Purpose: fold(l.Call.Purpose, 300, 2000), Why: asked(a.Code), Arguments: valueOf(l.Call.Arguments),
		Left: left(a.Expires.Sub(now)), Parts: partsOf(a, c.people()), Passkey: a.Rule.Passkey, Settled: settled(l, now), Story: story}
	if active := c.o.Boundary.Current(); active != nil {
		view.Environment = active.Environment
		if tool, ok := active.Registry.Tool(l.Call.Tool.Name); ok {
			view.Marks = marksOf(tool)
		}
	}
	for n, line := range rest {
		if n == 20 {
			view.RestLeft = len(rest) - n
			break
		}
		view.Rest = append(view.Rest, foldAs(line, 200, 1000, sentence))
	}
	for _, r := range askedFor {
		// A rule that only repeats what the line above says is left out.
		if !r.Observe && r.Verdict == record.RequiresApproval && (r.Public != "" || r.Code != a.Code) {
			view.Reasons = append(view.Reasons, reason{r.Rule, fold(cmp.Or(r.Public, asked(r.Code)), 300, 2000)})
		}
	}
	b := budget{nodes: 60, chars: 8000}
	for _, t := range l.Call.Targets {
		view.Targets = append(view.Targets, named{t.Argument, b.value(t.Value, 1)})
	}
	view.Preview = previewOf(a.Preview)
	view.Origins, view.Read = originsOf(l.Call), readText(l.Call.Decision.Labels)
	for _, r := range a.Answers {
		view.Answers = append(view.Answers, givenOf(r, v))
	}
	view.Mine = answerOf(a, v)
	view.May = v.may(l) && a.State == record.Pending && view.Mine == nil && now.Before(a.Expires)
	view.Barred = c.o.Boundary.Barred(v.person, a)
	view.Tries = view.Story.tries
	view.Outcome = outcomeOf(l, view.Story, now)
	if view.Earlier, err = c.earlierOf(ctx, v, l, view.Story); err != nil {
		return view, err
	}
	if view.Changed, err = c.changedSince(ctx, v, l.Call, a, view.Story.asked[a.ID]); err != nil {
		return view, err
	}
	if view.Reading, err = c.readingOf(ctx, l.Call); err != nil {
		return view, err
	}
	for _, r := range askedFor {
		if v.Reads() || !r.Observe {
			view.Evidence = append(view.Evidence, r)
		}
	}
	if view.Events, err = rowsOf(view.Story.events, v, func(record.Event) bool { return true }); err != nil {
		return view, err
	}
	if err := c.nextOf(ctx, v, &view); err != nil || !view.May {
		return view, err
	}
	if view.Passkey {
		if view.Sign, err = c.signForm(ctx, v, a); err != nil {
			return view, err
		}
	}
	return view, c.othersOf(ctx, v, &view)
}

// settled reports whether nothing on the page will move any more. After a no the
// agent may try again, and the page tells.
func settled(l dispatch.Loaded, now time.Time) bool {
	switch l.Approval.State {
	case record.Rejected:
		return !now.Before(l.Approval.Expires)
	}
	return question.Settled(l)
}

// effectOf splits the effect in words: the sentence, and the arguments it leaves out.
func effectOf(c record.Call) (folded, []string) {
	lines := strings.Split(c.EffectText, "\n")
	if c.EffectText == "" {
		return fold(c.Tool.Name, foldAt, 0), nil
	}
	return foldAs(lines[0], foldAt, foldMost, sentence), lines[1:]
}

// people is who is one person by what is active.
func (c *Console) people() *record.People {
	if active := c.o.Boundary.Current(); active != nil {
		return active.People
	}
	return nil
}

func partsOf(a record.Approval, people *record.People) []part {
	var out []part
	for _, p := range a.Rule.Parts {
		view := part{From: p.From, Quorum: max(p.Quorum, 1)}
		for _, g := range p.Groups {
			view.Who = append(view.Who, "group "+g.Name)
		}
		for _, person := range p.People {
			view.Who = append(view.Who, person.Subject)
		}
		if p.Principal {
			view.Who = append(view.Who, "the person it is for")
		}
		view.Yes = question.Yes(p, a, people)
		out = append(out, view)
	}
	return out
}

func givenOf(r record.Reply, v viewer) given {
	return given{Who: r.Person.Subject, You: r.Person == v.person.Principal(), Word: r.Word, Note: fold(r.Note, 300, 2000), At: r.At}
}

func answerOf(a record.Approval, v viewer) *given {
	for _, r := range a.Answers {
		if r.Person == v.person.Principal() {
			g := givenOf(r, v)
			return &g
		}
	}
	return nil
}

// outcomeOf says what became of a question that no longer waits.
func outcomeOf(l dispatch.Loaded, s story, now time.Time) string {
	text := question.Outcome(l, now)
	if held := s.heldText(now); held != "" && l.Approval.State == record.Approved {
		text += " " + held
	}
	return text
}

// nextOf finds the question that took the place of one that is void.
func (c *Console) nextOf(ctx context.Context, v viewer, view *questionView) error {
	a := view.Loaded.Approval
	if a.State != record.Void || view.Loaded.Call.Approval == a.ID || view.Loaded.Call.Approval == "" {
		return nil
	}
	next, err := c.o.Reader.Approval(ctx, v.person.Tenant(), view.Loaded.Call.Approval)
	if err != nil {
		return hide(err)
	}
	if v.sees(next) {
		view.Newer = next.Approval.ID
	}
	return nil
}

// othersOf finds what else of the run waits for this person.
func (c *Console) othersOf(ctx context.Context, v viewer, view *questionView) error {
	waiting, more, err := c.waitingIn(ctx, v, view.Loaded.Call.Run)
	if err != nil {
		return err
	}
	view.OthersMore = more
	now := c.o.Clock()
	for _, l := range waiting {
		view.All = append(view.All, dispatch.Shown{ID: l.Approval.ID, Binding: l.Approval.Binding})
		if l.Approval.ID != view.Loaded.Approval.ID {
			view.Others = append(view.Others, c.rowOf(v, l, now))
		}
	}
	return nil
}

// maxAlike is how many questions of one run a page lists: as many as may be open
// in a lineage where runs.proposals_open has its default.
const maxAlike = 100

// waitingIn lists questions of a run that wait for a person, newest first.
func (c *Console) waitingIn(ctx context.Context, v viewer, run record.RunID) (_ []dispatch.Loaded, more bool, _ error) {
	waiting, next, err := c.asked(ctx, v, dispatch.AskedQuery{Run: run, Limit: maxAlike})
	return slices.DeleteFunc(waiting, func(l dispatch.Loaded) bool {
		return l.Approval.State != record.Pending || answerOf(*l.Approval, v) != nil
	}), next != "", err
}

// questionArguments is the exact arguments as a file: all of them, to be read by
// no browser.
func (c *Console) questionArguments(w http.ResponseWriter, r *http.Request, v viewer) error {
	l, err := c.load(r.Context(), v, r.PathValue("id"))
	if err != nil {
		return err
	}
	return download(w, "arguments-"+string(l.Call.ID), l.Call.Arguments)
}

func download(w http.ResponseWriter, name string, text []byte) error {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="`+name+`.txt"`)
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	_, _ = w.Write(text)
	return nil
}

// answerWith takes an answer to what the page showed, and shows what it came to.
func (c *Console) answerWith(word record.Word) inPage {
	return func(w http.ResponseWriter, r *http.Request, v viewer) error {
		id := record.ApprovalID(r.PathValue("id"))
		var seen canon.Digest
		if err := seen.UnmarshalText([]byte(r.PostForm.Get("binding"))); err != nil || seen.IsZero() {
			return record.Errorf(record.Invalid, "the form does not say what it showed; nothing was done. Open the page again")
		}
		_, err := c.o.Boundary.ReplySigned(r.Context(), v.person, id, seen, word, strings.TrimSpace(r.PostForm.Get("note")), []byte(r.PostForm.Get("passkey")))
		if err == nil {
			http.Redirect(w, r, home+"/approvals/"+string(id), http.StatusSeeOther)
			return nil
		}
		if record.KindOf(err) != record.Conflict {
			return hide(err)
		}
		return c.conflict(w, r, v, id, seen, err)
	}
}

// conflict shows how things stand when an answer did not count: the question as it
// is now, or the one that took its place, with what is different.
func (c *Console) conflict(w http.ResponseWriter, r *http.Request, v viewer, id record.ApprovalID, seen canon.Digest, why error) error {
	l, err := c.load(r.Context(), v, string(id))
	if err != nil {
		return err
	}
	view, err := c.viewOf(r.Context(), v, l)
	if err == nil && view.Newer != "" {
		if l, err = c.load(r.Context(), v, string(view.Newer)); err != nil {
			return err
		}
		view, err = c.viewOf(r.Context(), v, l)
	}
	if err != nil {
		return err
	}
	view.Notice = upper(record.PublicMessage(why)) + "."
	if now := l.Approval; now.State == record.Pending && now.Binding != seen {
		view.Mismatch = true
		view.Notice = "Your answer was not recorded: it was for what your page showed, and that has changed. This is what would run now."
		if view.Earlier == nil {
			view.Notice += " Your page was not of this question as it is asked now."
		}
	}
	return c.showQuestion(w, r, http.StatusConflict, v, view)
}

func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
