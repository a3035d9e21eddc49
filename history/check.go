package history

import (
	"errors"
	"io"
	"slices"

	"github.com/placet-dev/placet/canon"
)

// grammar is what a format wants of calls and results beyond their fields.
type grammar struct {
	adjacent bool   // nothing stands between a message with calls and its results
	turn     bool   // all results stand in the one next message
	only     bool   // and nothing else stands in it
	first    bool   // results stand before anything else in their message
	optional bool   // an ID may be missing
	breaks   []Kind // where not everything between breaks, what does
	results  []string
	legal    func(id string) bool
}

var grammars = map[Format]grammar{
	Chat:       {adjacent: true},
	Mistral:    {adjacent: true, legal: func(id string) bool { return len(id) == 9 && plain(id, "") }},
	Responses:  {},
	Messages:   {adjacent: true, turn: true, first: true, results: []string{"user"}, legal: func(id string) bool { return plain(id, "_-") }},
	UI:         {},
	Model:      {adjacent: true, breaks: []Kind{User, System}, results: []string{"tool"}},
	Gemini:     {adjacent: true, turn: true, optional: true, results: []string{"user", "function"}},
	LangChain:  {adjacent: true},
	AGUI:       {},
	AGUIEvents: {},
	Sampling:   {adjacent: true, turn: true, only: true, results: []string{"user"}},
	Bedrock:    {adjacent: true, turn: true, results: []string{"user"}, legal: func(id string) bool { return len(id) <= 64 && plain(id, "_-") }},
	A2A:        {},
	ADK:        {optional: true, results: []string{"user", "function"}},
}

// plain reports whether an ID is letters, digits and what else is allowed.
func plain(id, also string) bool {
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !slices.Contains([]byte(also), c) {
			return false
		}
	}
	return id != ""
}

// modelRoles are the roles in which a model speaks, over all formats.
var modelRoles = []string{"assistant", "model", "agent", "ai"}

// occurrence is one call as it stands in a history. Its ID is a label that an
// earlier or a later occurrence may carry too.
type occurrence struct {
	item     int
	message  int
	at       Position
	id       string
	hasID    bool
	tool     string
	server   string
	digest   canon.Digest
	request  string
	provider bool
	broken   bool // something stood between it and its result
	result   int  // item of its result; -1: open
	answer   canon.Digest
	failed   bool
}

// asked is one request for approval.
type asked struct {
	item, message int
	at            Position
	tool, server  string
	digest        canon.Digest
	call          string
	answers       int
	approved      bool
	settled       bool
	edited        bool // the call that names it is another, or the ID is not its alone
	used          bool // by a call that names it
}

// verdict is what the walk makes of an item. Repair acts on it.
type verdict int

const (
	kept verdict = iota
	paired
	orphan
	duplicate
	conflict
	ambiguous
	foreign
)

// Checker walks over a transcript in order. It keeps one entry for each call and
// each approval, never the messages.
type Checker struct {
	format  Format
	grammar grammar
	lim     Limits
	report  Report

	open    []*occurrence          // in order; those that have a result since are passed over
	byID    map[string]*occurrence // open ones that have an ID
	latest  map[string]*occurrence // the last with a result, by ID
	asked   map[string]*asked
	about   map[string]*asked // by the call that they name
	order   []string          // of asked
	strays  map[string]int    // results without a call, by ID: their finding
	spelled map[string]*Item  // the calls of this message, where it spells some twice
	group   []*occurrence     // calls of the last message that had any
	thinks  *Item             // reasoning that waits for the item it led to
	decide  func(i *Item, v verdict, o *occurrence)
}

// Report is what a check found.
type Report struct {
	Format   Format       `json:"format"`
	Messages int          `json:"messages"`
	Items    map[Kind]int `json:"items"`
	Complete bool         `json:"complete"` // the transcript was read to its end
	Unseen   bool         `json:"unseen"`   // part of the history is kept by the provider and was not checked
	Findings []Finding    `json:"findings"`
	More     int          `json:"more"` // findings beyond the limit
	worst    Severity
}

// OK reports whether there was nothing but notes.
func (r *Report) OK() bool { return r.Complete && (r.worst == "" || r.worst == Note) }

// Forged reports whether there was something that no honest client sends.
func (r *Report) Forged() bool { return r.worst == Forgery }

// NewChecker begins a check.
func NewChecker(f Format, lim Limits) *Checker {
	return &Checker{format: f, grammar: grammars[f], lim: lim.withDefaults(), latest: map[string]*occurrence{},
		byID: map[string]*occurrence{}, asked: map[string]*asked{}, about: map[string]*asked{}, strays: map[string]int{},
		report: Report{Format: f, Items: map[Kind]int{}, Findings: []Finding{}}, decide: func(*Item, verdict, *occurrence) {}}
}

// Check reads and checks a transcript. What cannot be read on is a finding; the
// error is of the source, or of the format's name.
func Check(r io.Reader, f Format, lim Limits) (Report, error) {
	reader, err := NewReader(r, f, lim)
	if err != nil {
		return Report{}, err
	}
	c := NewChecker(f, lim)
	for {
		m, err := reader.Next()
		if err == nil {
			c.Message(m)
			continue
		}
		complete, err := c.stopped(err)
		if err != nil {
			return Report{}, err
		}
		return c.Report(complete), nil
	}
}

// stopped says whether reading stopped at the end of the transcript. What could not
// be read on is a finding; the error that is left is of the source.
func (c *Checker) stopped(err error) (complete bool, _ error) {
	var broken *Error
	switch {
	case err == nil, err == io.EOF:
		return true, nil
	case errors.As(err, &broken):
		c.found(finding(broken.Code, broken.At, "%s", broken.Why))
		return false, nil
	}
	return false, err
}

func (c *Checker) found(f Finding) int {
	if len(c.report.Findings) >= c.lim.Findings {
		c.report.More++
		c.weigh(f.Severity)
		return -1
	}
	c.report.Findings = append(c.report.Findings, f)
	return len(c.report.Findings) - 1
}

func (c *Checker) weigh(s Severity) {
	if s == Forgery || s == Violation && c.report.worst != Forgery || c.report.worst == "" {
		c.report.worst = s
	}
}

// at is a finding at an item.
func (c *Checker) at(code string, i *Item, format string, args ...any) int {
	f := finding(code, i.At, format, args...)
	f.Message, f.Item = i.Message, i.Index
	return c.found(f)
}

// Message checks the next message. It keeps nothing of it but labels and digests.
func (c *Checker) Message(m *Message) {
	if m.Index >= 0 {
		c.report.Messages++
	}
	for _, n := range m.Notes {
		c.found(n)
	}
	if m.Index >= 0 {
		c.between(m)
	}
	var calls []*occurrence
	c.spelled = nil
	for n := range m.Items {
		i := &m.Items[n]
		c.report.Items[i.Kind]++
		c.reasoning(i)
		switch i.Kind {
		case Call:
			if o := c.call(m, i); o != nil && !o.provider {
				calls = append(calls, o)
			}
		case Result:
			c.result(i)
		case ApprovalRequest:
			c.request(i)
		case ApprovalResponse:
			c.answer(i)
		case Reference:
			c.report.Unseen = true
			c.at(CodeUnseen, i, "%s", cut(i.Type, 64))
		}
	}
	if len(calls) > 0 {
		c.group = calls
	}
}

// between looks whether something stands between calls and their results.
func (c *Checker) between(m *Message) {
	if !c.grammar.adjacent {
		return
	}
	for len(c.group) > 0 && (c.group[0].result >= 0 || c.group[0].broken) {
		c.group = c.group[1:] // neither is ever undone
	}
	open := len(c.group) > 0
	results, called, said := false, false, (*Item)(nil)
	for n := range m.Items {
		i := &m.Items[n]
		switch {
		case i.Kind == Result && !i.Provider:
			results = true
			if said != nil && c.grammar.first {
				c.at(CodeTextBetween, said, "stands before a result in the same message")
			}
		case i.Kind == Call && !i.Provider:
			called, said = true, i
		case i.Kind == Assistant && called && c.format == Messages && !interleaved(m):
			c.at(CodeTextBetween, i, "text after a call in the same message")
		case i.Kind == Marker, i.Kind == ApprovalRequest, i.Kind == ApprovalResponse:
		case c.grammar.breaks == nil || slices.Contains(c.grammar.breaks, i.Kind):
			if said == nil {
				said = i
			}
		}
	}
	if results && said != nil && c.grammar.only {
		c.at(CodeTextBetween, said, "a message with results holds nothing else")
	}
	if !open {
		return
	}
	if said != nil && !results {
		c.at(CodeTextBetween, said, "")
	}
	if said != nil && !results || c.grammar.turn {
		closes := map[string]bool{} // what this message closes, then the turn is over
		for n := range m.Items {
			if i := &m.Items[n]; i.Kind == Result {
				closes[i.ID] = true
			}
		}
		for _, o := range c.group {
			o.broken = o.broken || o.result < 0 && !closes[o.id]
		}
	}
}

// interleaved reports whether a message has reasoning or provider-run calls, whose
// order is the model's and may not be touched.
func interleaved(m *Message) bool {
	return slices.ContainsFunc(m.Items, func(i Item) bool { return i.Kind == Reasoning || i.Provider })
}

// reasoning checks signatures, and in Responses that reasoning is followed by what
// it led to.
func (c *Checker) reasoning(i *Item) {
	if i.Signed && i.Role != "" && !slices.Contains(modelRoles, i.Role) && i.Role != "reasoning" {
		c.at(CodeForeignSignature, i, "in a message of the role %q", cut(i.Role, 64))
	}
	if c.format == Messages && i.Type == "thinking" && !i.Signed {
		c.at(CodeForeignSignature, i, "thinking without a signature")
	}
	if c.format != Responses {
		return
	}
	if c.thinks != nil && i.Kind != Reasoning {
		if !slices.Contains(modelRoles, i.Role) {
			c.at(CodeReordered, c.thinks, "reasoning without the item that it led to")
		}
		c.thinks = nil
	}
	if i.Kind == Reasoning {
		kept := *i
		kept.Raw, kept.Content = nil, nil
		c.thinks = &kept
	}
}

// call begins an occurrence. It is nil if this is not one of its own.
func (c *Checker) call(m *Message, i *Item) *occurrence {
	if i.Again {
		c.again(m, i)
		return nil
	}
	if i.Bad != "" && !i.Incomplete {
		c.at(CodeInvalidArguments, i, "%s: %s", shownName(i.Tool), i.Bad)
	}
	if i.Incomplete {
		c.at(CodeIncompleteCall, i, "%s", shownName(i.Tool))
	}
	if !slices.Contains(modelRoles, i.Role) {
		c.at(CodeForeignRole, i, "%s in a message of the role %q", shownName(i.Tool), cut(i.Role, 64))
		c.decide(i, foreign, nil)
		return nil
	}
	o := &occurrence{item: i.Index, message: i.Message, at: i.At, id: i.ID, hasID: i.HasID, tool: i.Tool, server: i.Server,
		digest: i.Digest, request: i.Request, provider: i.Provider, result: -1}
	switch {
	case i.ID == "" && (i.HasID || !c.grammar.optional) && i.Type != "function_call":
		c.at(CodeEmptyID, i, "%s", shownName(i.Tool))
	case i.ID == "":
	default:
		if c.grammar.legal != nil && !c.grammar.legal(i.ID) && !i.Provider {
			c.at(CodeIllegalID, i, "%s", shownName(i.ID))
		}
		if first := c.byID[i.ID]; first != nil {
			if first.tool == i.Tool && first.digest == i.Digest && i.Bad == "" {
				c.at(CodeDuplicateCall, i, "%s, as in message %d", shownName(i.ID), first.message)
				c.decide(i, duplicate, first)
			} else {
				c.at(CodeConflictingCall, i, "%s, as in message %d", shownName(i.ID), first.message)
				c.decide(i, conflict, first)
			}
			return nil
		}
		if before := c.latest[i.ID]; before != nil {
			c.at(CodeReusedID, i, "%s, as in message %d", shownName(i.ID), before.message)
		}
		if f, stray := c.strays[i.ID]; stray {
			c.reordered(f, i)
		}
	}
	c.open = append(c.open, o)
	if o.id != "" {
		c.byID[o.id] = o
	}
	c.decide(i, kept, o)
	c.claims(i, o)
	return o
}

// reordered says of a result without a call that its call came later.
func (c *Checker) reordered(f int, i *Item) {
	delete(c.strays, i.ID)
	if f >= 0 {
		was := c.report.Findings[f]
		is := finding(CodeReordered, was.At, "the result stands before its call %s", shownName(i.ID))
		is.Message, is.Item = was.Message, was.Item
		c.report.Findings[f] = is
	}
}

// again compares a second spelling of a call with the first.
func (c *Checker) again(m *Message, i *Item) {
	if c.spelled == nil {
		c.spelled = map[string]*Item{}
		for n := range m.Items {
			if o := &m.Items[n]; o.Kind == Call && !o.Again {
				c.spelled[o.ID] = o
			}
		}
	}
	if o := c.spelled[i.ID]; o != nil && o.Tool == i.Tool && (o.Digest == i.Digest || o.Bad != "") {
		return
	}
	c.at(CodeConflictingCall, i, "%s is spelled twice in this message, and not alike", shownName(i.Tool))
	c.decide(i, conflict, nil)
}

// claims compares a call with the request for approval that it names.
func (c *Checker) claims(i *Item, o *occurrence) {
	if i.Request == "" || c.format == UI {
		return
	}
	q := c.asked[i.Request]
	if q == nil {
		c.at(CodeUnaskedApproval, i, "%s names the request %s", shownName(i.Tool), shownName(i.Request))
		c.decide(i, foreign, o)
		return
	}
	q.settled = true
	switch {
	case q.used:
		c.at(CodeUnaskedApproval, i, "the request %s was used by an earlier call", shownName(i.Request))
		c.decide(i, foreign, o)
		return
	case q.answers == 0 || !q.approved:
		c.at(CodeUnaskedApproval, i, "nobody said yes to the request %s before", shownName(i.Request))
		c.decide(i, foreign, o)
		q.edited = true
	}
	q.used = true
	if q.tool != o.tool || q.server != o.server || q.digest != o.digest {
		c.at(CodeEditedArguments, i, "%s is not what was asked about in message %d", shownName(i.Tool), q.message)
		q.edited = true
		c.decide(i, foreign, o)
	}
}

// result closes an occurrence.
func (c *Checker) result(i *Item) {
	if roles := c.grammar.results; roles != nil && !i.Provider && i.Role != "" && !slices.Contains(roles, i.Role) {
		c.at(CodeResultInForeignRole, i, "in a message of the role %q", cut(i.Role, 64))
		c.decide(i, foreign, nil)
		return
	}
	o, sure := c.candidate(i)
	if o == nil {
		c.unmatched(i)
		return
	}
	if !sure {
		c.at(CodeMissingID, i, "several open calls could be meant")
		c.decide(i, ambiguous, o)
	} else {
		c.decide(i, paired, o)
	}
	if i.ID == "" && (i.HasID || !c.grammar.optional && i.Type != "function") {
		c.at(CodeEmptyID, i, "a result's")
	}
	if i.Tool != "" && o.tool != "" && i.Tool != o.tool && !(i.Server == "" && c.format == Responses) {
		c.at(CodeSplicedResult, i, "of %s, for the call of %s", shownName(i.Tool), shownName(o.tool))
	}
	if want, ok := responsesPairs[i.Type]; ok && c.format == Responses && o.provider && want != "" {
		c.at(CodeSplicedResult, i, "a result of the client for a call of the provider")
	}
	if o.broken {
		c.at(CodeReordered, i, "%s was called in message %d", shownName(o.id), o.message)
	}
	o.result, o.answer, o.failed = i.Index, i.Digest, i.Failed
	if o.id != "" {
		delete(c.byID, o.id)
		c.latest[o.id] = o
	}
	for len(c.open) > 0 && c.open[0].result >= 0 {
		c.open = c.open[1:]
	}
	c.settle(o)
}

// settle notes that an approved call has run.
func (c *Checker) settle(o *occurrence) {
	for _, q := range []*asked{c.asked[o.request], c.about[o.id]} {
		if q != nil {
			q.settled = true
		}
	}
}

// farthest is how many open calls are looked at for a result without an ID.
const farthest = 1024

// candidate is the open occurrence that a result closes, and whether it is the
// only one that could be meant.
func (c *Checker) candidate(i *Item) (o *occurrence, sure bool) {
	if i.ID != "" {
		return c.byID[i.ID], true
	}
	for k, e := range c.open {
		if k == farthest {
			return o, false
		}
		if e.result >= 0 || e.id != "" && i.HasID || i.Tool != "" && e.tool != i.Tool || e.provider != i.Provider {
			continue
		}
		if o != nil {
			return o, false
		}
		o = e
	}
	return o, o != nil
}

// unmatched is a result that closes nothing.
func (c *Checker) unmatched(i *Item) {
	if o := c.latest[i.ID]; o != nil && i.ID != "" {
		if o.answer == i.Digest && o.failed == i.Failed {
			c.at(CodeDuplicateResult, i, "of %s, as in message %d", shownName(i.ID), o.message)
			c.decide(i, duplicate, o)
		} else {
			c.at(CodeConflictingResult, i, "of %s, called in message %d", shownName(i.ID), o.message)
			c.decide(i, conflict, o)
		}
		return
	}
	f := c.at(CodeOrphanResult, i, "of %s", shownName(i.ID))
	if i.ID != "" {
		c.strays[i.ID] = f
	}
	c.decide(i, orphan, nil)
}

func (c *Checker) request(i *Item) {
	if i.Request == "" {
		c.at(CodeEmptyID, i, "a request's")
		return
	}
	if q := c.asked[i.Request]; q != nil {
		c.at(CodeReusedID, i, "of a request, as in message %d", q.message)
	} else {
		c.order = append(c.order, i.Request)
	}
	q := &asked{item: i.Index, message: i.Message, at: i.At, tool: i.Tool, server: i.Server, digest: i.Digest, call: i.ID}
	q.edited = c.asked[i.Request] != nil
	c.asked[i.Request] = q
	if i.ID == "" {
		return
	}
	c.about[i.ID] = q
	o := c.byID[i.ID]
	switch {
	case o == nil && c.latest[i.ID] == nil:
		c.at(CodeUnaskedApproval, i, "the request names the call %s, which is not there", shownName(i.ID))
	case o != nil && i.Type == confirmation && o.digest != i.Digest:
		c.at(CodeEditedArguments, i, "the question is not about the arguments of message %d", o.message)
	}
}

func (c *Checker) answer(i *Item) {
	q := c.asked[i.Request]
	if q == nil {
		f := finding(CodeUnaskedAnswer, i.At, "%s", shownName(i.Request))
		f.Message, f.Item = i.Message, i.Index
		if i.Type == "resume" {
			f.Severity = Note // the question is never part of the messages
		}
		c.found(f)
		c.decide(i, orphan, nil)
		return
	}
	if q.answers++; q.answers > 1 {
		c.decide(i, duplicate, nil)
		code := CodeRepeatedAnswer
		if q.approved != i.Approved {
			code = CodeConflictingAnswer
		}
		c.at(code, i, "%s", shownName(i.Request))
		return
	}
	q.approved = i.Approved
}

// Report ends the check; complete says whether the transcript was read to its end.
func (c *Checker) Report(complete bool) Report {
	for _, o := range c.open {
		if o.result >= 0 {
			continue
		}
		f := finding(CodeUnresolvedCall, o.at, "%s %s", shownName(o.tool), shownName(o.id))
		f.Message, f.Item = o.message, o.item
		if o.provider {
			f.Severity, f.Detail = Note, "the provider runs it: "+f.Detail
		}
		c.found(f)
	}
	if c.thinks != nil {
		c.at(CodeReordered, c.thinks, "reasoning without the item that it led to")
	}
	for _, id := range c.order {
		q := c.asked[id]
		code := CodeApproval
		if q.answers == 0 {
			code = CodeOpenApproval
		}
		if q.settled || q.answers > 0 && !q.approved {
			continue
		}
		f := finding(code, q.at, "%s", shownName(q.tool))
		f.Message, f.Item = q.message, q.item
		c.found(f)
	}
	r := c.report
	r.Complete = complete
	for n := range r.Findings {
		f := &r.Findings[n]
		if r.Unseen && (f.Code == CodeOrphanResult || f.Code == CodeUnaskedAnswer || f.Code == CodeUnaskedApproval) {
			f.Severity = Note // the provider may hold the other half
		}
		c.weigh(f.Severity)
	}
	r.worst = c.report.worst
	return r
}

// shownName is a name or an ID of the transcript, quoted and cut.
func shownName(s string) string { return string(quote(cut(s, 64))) }
