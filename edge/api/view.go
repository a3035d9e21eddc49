package api

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/edge/question"
	"github.com/placet-dev/placet/record"
)

// RunView is a run as its owner and readers see it.
type RunView struct {
	ID        record.RunID     `json:"id"`
	Label     string           `json:"label,omitempty" doc:"The caller's own name for it; no credential."`
	Lineage   record.LineageID `json:"lineage"`
	Parent    record.RunID     `json:"parent,omitempty"`
	Replays   record.RunID     `json:"replays,omitempty" doc:"The ended run that an operator opened this one to replay."`
	Principal record.Principal `json:"principal"`
	Agent     record.AgentID   `json:"agent"`
	Turn      record.Turn      `json:"turn"`
	Vouched   bool             `json:"vouched" doc:"Opened, and given its turns, by a workload that vouches."`
	State     string           `json:"state" doc:"The stored state, or in its place that of the most advanced open call where that was looked up."`
	Opened    time.Time        `json:"opened_at"`
	Active    time.Time        `json:"active_at"`
	Ended     *time.Time       `json:"ended_at,omitempty"`
	Why       string           `json:"why,omitempty" doc:"Why it ended."`
	Delegated *time.Time       `json:"delegated_until,omitempty" doc:"Until when it may act while its caller is away."`
	Grant     *GrantView       `json:"grant,omitempty" doc:"Of a child run: what it may do at most."`
	Children  []record.RunID   `json:"children,omitempty" doc:"The runs directly below it, newest first; where one run was asked for."`
}

func runView(r record.Run, shown string) RunView {
	if shown == "" {
		shown = string(r.State)
	}
	v := RunView{ID: r.ID, Label: r.Label, Lineage: r.Lineage, Parent: r.Parent, Replays: r.Replays, Principal: r.Principal, Agent: r.Agent,
		Turn: r.Turn, Vouched: r.Vouched, State: shown, Opened: r.Opened, Active: r.Active, Ended: later(r.Ended), Why: r.Why}
	if r.Delegation != nil {
		v.Delegated = later(r.Delegation.Until)
	}
	if r.Grant != nil {
		v.Grant = grantView(*r.Grant)
	}
	return v
}

// CallView is a call. Its owner sees what the model may read; Operators is for
// who may read the tenant.
type CallView struct {
	ID         record.CallID     `json:"id"`
	Run        record.RunID      `json:"run"`
	Turn       record.Turn       `json:"turn"`
	Tool       string            `json:"tool"`
	Principal  record.Principal  `json:"principal"`
	Agent      record.AgentID    `json:"agent"`
	Arguments  json.RawMessage   `json:"arguments" doc:"Canonical: what was decided, digested and sent. Of a redacted call, what is left of it, or null."`
	Digest     string            `json:"argument_digest" doc:"Empty once the call is redacted."`
	Effect     string            `json:"effect,omitempty" doc:"The effect in words."`
	Purpose    string            `json:"purpose,omitempty" doc:"The agent's own words."`
	Source     record.Source     `json:"source"`
	Route      record.Route      `json:"route"`
	Occurrence string            `json:"occurrence,omitempty"`
	Edits      record.CallID     `json:"edits,omitempty" doc:"The call whose arguments this one edits."`
	Shown      record.CallID     `json:"earlier,omitempty" doc:"An earlier call with the same effect that is not settled."`
	Supports   record.CallID     `json:"supports,omitempty" doc:"The call that this look-up was made for."`
	State      record.State      `json:"state"`
	Verdict    record.Verdict    `json:"verdict"`
	Code       record.Code       `json:"code"`
	Reasons    []ReasonView      `json:"reasons" nullable:"false"`
	Approval   record.ApprovalID `json:"approval,omitempty"`
	Attempt    int               `json:"attempt"`
	Queued     bool              `json:"queued,omitempty" doc:"It is dispatched by the server's clock while its run holds a delegation, else when its agent comes back."`
	Again      *time.Time        `json:"again_at,omitempty" doc:"When the clock next tries to dispatch it; without it, it waits for its agent or is over."`
	Leased     *time.Time        `json:"leased_until,omitempty" doc:"While its caller runs it: until when its holder may report."`
	Outcome    *OutcomeView      `json:"outcome,omitempty"`
	Proposed   time.Time         `json:"proposed_at"`
	Changed    time.Time         `json:"changed_at"`
	Expires    time.Time         `json:"expires_at"`
	Redacted   *RedactedView     `json:"redacted,omitempty" doc:"What is no longer in the record of the call, which has ended."`
	Operators  *CallDetail       `json:"operators,omitempty" doc:"Only for readers and operators."`
}

// RedactedView says what was removed from a call for good.
type RedactedView struct {
	At   time.Time `json:"at"`
	Why  string    `json:"why" doc:"The setting, or the operator's reason."`
	What []string  `json:"what" nullable:"false" doc:"The parts that were removed."`
}

func redactedView(r *record.Redaction) *RedactedView {
	if r == nil {
		return nil
	}
	return &RedactedView{At: r.At, Why: r.Why, What: append([]string{}, r.What...)}
}

// ReasonView is one rule's contribution. Place and private text are operators'.
type ReasonView struct {
	Rule    string         `json:"rule,omitempty" doc:"Not told to the agent."`
	Verdict record.Verdict `json:"verdict"`
	Code    record.Code    `json:"code"`
	Text    string         `json:"text,omitempty"`
	Instead string         `json:"instead,omitempty"`
	Observe bool           `json:"observe,omitempty" doc:"Recorded, not applied."`
	Place   string         `json:"place,omitempty" doc:"File and line; only for readers and operators."`
	Private string         `json:"private,omitempty" doc:"Only for readers and operators."`
	Version string         `json:"version,omitempty" doc:"Only for readers and operators."`
}

// OutcomeView is what is known of the effect.
type OutcomeView struct {
	Code     record.Code `json:"code,omitempty"`
	Sent     bool        `json:"sent" doc:"A byte may have reached the tool."`
	IsError  bool        `json:"is_error" doc:"The tool said so."`
	Reported bool        `json:"reported" doc:"The word of a lease's holder; no proof of anything."`
	Digest   string      `json:"result_digest,omitempty"`
	Effect   string      `json:"effect_ref,omitempty"`
	At       time.Time   `json:"at"`
}

// CallDetail is what operators see beside.
type CallDetail struct {
	Lineage    record.LineageID `json:"lineage"`
	Server     string           `json:"server"`
	Tool       string           `json:"tool_version"`
	Pin        string           `json:"tool_pin"`
	EffectKey  string           `json:"effect_key"`
	Binding    string           `json:"binding,omitempty"`
	DecidedBy  string           `json:"decided_by"`
	Generation int64            `json:"generation"`
	Key        string           `json:"idempotency_key,omitempty"`
	Lease      *time.Time       `json:"lease,omitempty"`
	Detail     string           `json:"detail,omitempty"`
	BadOutput  string           `json:"bad_output,omitempty" doc:"The rule of the output schema that the result breaks."`
	By         string           `json:"reconciled_by,omitempty"`
	Evidence   string           `json:"evidence,omitempty"`
	Compensate string           `json:"compensate,omitempty" doc:"The tool that undoes the call, as the registry names it. Nobody has proposed it."`
}

func (d *door) callView(c record.Call, who viewer) CallView {
	v := CallView{
		ID: c.ID, Run: c.Run, Turn: c.Turn, Tool: c.Tool.Name, Principal: c.Principal, Agent: c.Agent,
		Arguments: object(c.Arguments), Digest: c.Digest.String(), Effect: c.EffectText, Purpose: c.Purpose,
		Source: c.Source, Route: c.Route, Occurrence: occurrence(c), Edits: c.Edits, Shown: c.Shown, Supports: c.Supports,
		State: c.State, Verdict: c.Decision.Verdict, Code: c.Decision.Code, Reasons: reasonViews(c.Decision.Reasons, who),
		Approval: c.Approval, Attempt: c.Attempt, Proposed: c.Proposed, Changed: c.Changed, Expires: c.Expires, Redacted: redactedView(c.Redacted),
	}
	if o := c.Outcome; o != nil {
		v.Outcome = &OutcomeView{Code: o.Code, Sent: o.Sent, IsError: o.IsError, Reported: o.Reported, Digest: o.Digest.String(), Effect: o.Effect, At: o.At}
	}
	if r := c.Redacted; r != nil {
		v.Digest = "" // nobody is to try what the arguments were
		if r.All && v.Outcome != nil {
			v.Outcome.Digest = ""
		}
	}
	v.Queued, v.Again = c.Queued, later(c.Again)
	if c.Leased() && c.State == record.Executing {
		v.Leased = later(c.Lease)
	}
	if who.all() {
		v.Operators = callDetail(c)
		if c.Redacted != nil {
			v.Operators.EffectKey = ""
		}
		v.Operators.Compensate = d.boundary.Current().Compensation(c)
	}
	return v
}

func callDetail(c record.Call) *CallDetail {
	d := &CallDetail{
		Lineage: c.Lineage, Server: c.Tool.Server, Tool: c.Tool.Version.String(), Pin: c.Tool.Pin.String(),
		EffectKey: c.Effect.String(), Binding: c.Binding.String(), DecidedBy: c.Decision.DecidedBy,
		Generation: c.Decision.Generation, Key: c.Key, Lease: later(c.Lease),
	}
	if o := c.Outcome; o != nil {
		d.Detail, d.BadOutput, d.By, d.Evidence = o.Detail, o.BadOutput, o.By, o.Evidence
	}
	return d
}

// reasonViews shows reasons to who may know them. The agent learns no rule: which
// one refused would tell a tool that is not its own from one that is not there.
// What is only tried out is nobody's business but the operators'.
func reasonViews(reasons []record.Reason, who viewer) []ReasonView {
	views := make([]ReasonView, 0, len(reasons))
	for _, r := range reasons {
		v := ReasonView{Verdict: r.Verdict, Code: r.Code, Text: r.Public, Instead: r.Instead}
		switch {
		case who.all():
			v.Rule, v.Place, v.Private, v.Version, v.Observe = r.Rule, r.Place, r.Private, r.Version, r.Observe
		case r.Observe:
			continue
		case who.person.Valid():
			v.Rule = r.Rule
		}
		views = append(views, v)
	}
	return views
}

// occurrence leaves out the one that a read gets from its own ID.
func occurrence(c record.Call) string {
	if c.Occurrence == string(c.ID) {
		return ""
	}
	return c.Occurrence
}

// object is raw, or null where the record does not keep the arguments.
func object(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// ApprovalView is a question with all that its binding covers (rule D1).
type ApprovalView struct {
	ID        record.ApprovalID    `json:"id"`
	State     record.ApprovalState `json:"state"`
	Binding   string               `json:"binding" doc:"Send it back with the answer: an answer is for what was shown."`
	Code      record.Code          `json:"code" doc:"Why it is asked."`
	Call      CallView             `json:"call"`
	Targets   []record.Target      `json:"targets" nullable:"false"`
	Rule      []PartView           `json:"rule" nullable:"false" doc:"Each part must be met."`
	Self      bool                 `json:"self" doc:"The call's own principal may answer."`
	Reason    bool                 `json:"reason_required" doc:"An answer must say why, in its note."`
	Challenge string               `json:"passkey_challenge,omitempty" doc:"Set where a yes counts only if the approver's passkey signed this challenge (base64url), on the question's page in the console."`
	Answers   []ReplyView          `json:"answers" nullable:"false"`
	Replaces  record.ApprovalID    `json:"replaces,omitempty" doc:"The voided question whose place it takes."`
	Asked     time.Time            `json:"asked_at"`
	Expires   time.Time            `json:"expires_at"`
	Changed   time.Time            `json:"changed_at"`
	RunsWhen  string               `json:"runs_when,omitempty" doc:"When an approved call runs."`
	Version   string               `json:"version" doc:"Differs when the question or its call has moved. Send it back with wait."`
	Why       string               `json:"why" doc:"Why it is asked, in words."`
	Passkey   bool                 `json:"passkey,omitempty" doc:"It is answered with a passkey, on its page."`
	Outcome   string               `json:"outcome,omitempty" doc:"What became of it, in words."`
	Settled   bool                 `json:"settled" doc:"Nothing of it will move any more."`
	Remaining int64                `json:"seconds_left"`
}

// PartView is one rule's demand.
type PartView struct {
	From      string             `json:"from"`
	Groups    []record.Group     `json:"groups,omitempty" nullable:"false"`
	People    []record.Principal `json:"people,omitempty" nullable:"false"`
	Principal bool               `json:"principal,omitempty"`
	Quorum    int                `json:"quorum"`
	Yes       int                `json:"yes" doc:"How many of them said yes."`
}

// ReplyView is one person's answer.
type ReplyView struct {
	Person *record.Principal `json:"person,omitempty" doc:"Who answered; not told to the agent."`
	Word   record.Word       `json:"word"`
	Note   string            `json:"note,omitempty"`
	At     time.Time         `json:"at"`
}

// approvalView shows a question to who v is. The agent's side learns neither who
// may answer nor who did: it could only use that to press them.
func (d *door) approvalView(l dispatch.Loaded, v viewer) ApprovalView {
	now := d.now()
	var people *record.People
	if active := d.boundary.Current(); active != nil {
		people = active.People
	}
	a := *l.Approval
	view := ApprovalView{
		ID: a.ID, State: a.State, Binding: a.Binding.String(), Code: a.Code, Call: d.callView(l.Call, v),
		Targets: append([]record.Target{}, l.Call.Targets...), Self: a.Rule.Self, Reason: a.Rule.Reason, Replaces: a.Replaces,
		Rule: []PartView{}, Answers: []ReplyView{}, Asked: a.Asked, Expires: a.Expires, Changed: a.Changed,
		Remaining: max(0, int64(a.Expires.Sub(now)/time.Second)),
		Version:   question.Version(l), Why: question.Why(a.Code), Passkey: a.Rule.Passkey, Outcome: question.Outcome(l, now), Settled: question.Settled(l),
	}
	agent := v.caller.Valid()
	if a.Rule.Passkey && !agent {
		challenge := record.AnswerChallenge(a.Binding, a.ID, record.Yes)
		view.Challenge = base64.RawURLEncoding.EncodeToString(challenge[:])
	}
	for _, p := range a.Rule.Parts {
		part := PartView{From: p.From, Quorum: max(p.Quorum, 1), Yes: question.Yes(p, a, people)}
		if !agent {
			part.Groups, part.People, part.Principal = p.Groups, p.People, p.Principal
		}
		view.Rule = append(view.Rule, part)
	}
	for _, r := range a.Answers {
		answer := ReplyView{Word: r.Word, Note: r.Note, At: r.At.UTC().Truncate(time.Microsecond)} // as the store keeps it
		if !agent {
			answer.Person = &r.Person
		}
		view.Answers = append(view.Answers, answer)
	}
	if a.State == record.Approved {
		view.RunsWhen = "R" + strings.TrimPrefix(l.RunsWhen(now, a.Expires.UTC().Format(time.RFC3339)), "r") + "."
	}
	return view
}
