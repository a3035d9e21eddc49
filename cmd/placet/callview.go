package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/record"
)

// answered prints the boundary's answer to a proposal or dispatch.
func (p *program) answered(a api.Answer) error {
	err := p.out(a, func() {
		p.say("%s", a.Text)
		if a.Text == "" {
			p.say("%s", a.State)
		}
		if len(a.Result) > 0 {
			p.say("%s", safe(string(a.Result)))
		}
		var parts []string
		for _, part := range []struct{ name, value string }{{"call", string(a.Call)}, {"state", string(a.State)}, {"code", string(a.Code)}, {"approval", string(a.Approval)}} {
			if part.value != "" {
				parts = append(parts, part.name+" "+part.value)
			}
		}
		p.say("(%s)", safe(strings.Join(parts, ", ")))
		p.lease(a.Lease)
	})
	if err != nil {
		return err
	}
	if !settled(a.State) {
		return &verdict{code: exitWaiting, quiet: true}
	}
	return nil
}

// lease prints what is told once: what the asker runs, and what shows that they hold it.
func (p *program) lease(l *api.LeaseView) {
	if l == nil {
		return
	}
	p.field("runs as", l.Tool)
	p.field("arguments", string(l.Arguments))
	p.field("key", l.Key)
	p.field("attempt", strconv.Itoa(l.Attempt))
	p.field("lease ends", shortTime(l.Ends))
	p.field("secret", l.Secret)
	p.field("token", l.Token)
}

// settled reports whether nothing is to be waited for.
func settled(s record.State) bool { return s == record.None || s.Terminal() }

// field prints one line of a description, if there is anything to say.
func (p *program) field(name, value string) {
	if value != "" {
		p.say("%-12s %s", name, safe(value))
	}
}

// effect prints the effect in words: the sentence, and below it, each on a line of
// its own, what the sentence does not mention. The line ends are ours: values are
// quoted and escaped where the text was made.
func (p *program) effect(text string) {
	for i, line := range strings.Split(text, "\n") {
		name := "effect"
		if i > 0 {
			name = ""
		}
		p.field(name, line)
	}
}

func shortTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// call prints a call for people. Text of the agent is data.
func (p *program) call(v api.ShownCall) {
	p.callFields(v.CallView)
	p.field("model's text", v.Text)
	p.field("result", string(v.Result))
}

// redacted says what is no longer in the record of a call.
func redacted(r api.RedactedView) string {
	return "at " + shortTime(r.At) + ": " + strings.Join(r.What, ", ") + " (" + r.Why + ")"
}

func (p *program) callFields(v api.CallView) {
	p.field("call", string(v.ID))
	p.field("state", string(v.State)+code(v.Code))
	p.field("tool", v.Tool)
	p.field("look-up for", string(v.Supports))
	p.effect(v.Effect)
	p.field("arguments", string(v.Arguments))
	if r := v.Redacted; r != nil {
		p.field("redacted", redacted(*r))
	}
	p.field("principal", v.Principal.String())
	p.field("agent", string(v.Agent))
	p.field("purpose", quoted(v.Purpose))
	p.field("run", string(v.Run)+", turn "+strconv.FormatInt(int64(v.Turn), 10))
	p.field("source", string(v.Source)+", by "+string(v.Route))
	p.field("occurrence", v.Occurrence)
	p.field("approval", string(v.Approval))
	if v.Attempt > 0 {
		p.field("attempt", strconv.Itoa(v.Attempt))
	}
	if v.Leased != nil {
		p.field("leased", "until "+shortTime(*v.Leased)+", to its caller")
	}
	p.field("proposed", shortTime(v.Proposed))
	p.field("changed", shortTime(v.Changed))
	for _, r := range v.Reasons {
		p.field("reason", reason(r))
	}
	if o := v.Outcome; o != nil {
		by := ""
		if o.Reported {
			by = ", as its caller reported"
		}
		p.field("outcome", "at "+shortTime(o.At)+code(o.Code)+by)
		p.field("reference", o.Effect)
	}
	if o := v.Operators; o != nil {
		p.field("server", o.Server)
		p.field("decided by", o.DecidedBy)
		p.field("binding", o.Binding)
		p.field("detail", o.Detail)
		p.field("undone by", o.Compensate)
		p.field("reconciled", strings.TrimSpace(o.By+" "+quoted(o.Evidence)))
	}
}

func code(c record.Code) string {
	if c == "" {
		return ""
	}
	return " (" + string(c) + ")"
}

func quoted(text string) string {
	if text == "" {
		return ""
	}
	return strconv.Quote(text)
}

func reason(r api.ReasonView) string {
	parts := []string{string(r.Verdict), string(r.Code), r.Rule, r.Place, quoted(r.Text), quoted(r.Private)}
	var out []string
	for _, part := range parts {
		if part != "" {
			out = append(out, part)
		}
	}
	if r.Observe {
		out = append(out, "observed only")
	}
	return strings.Join(out, ", ")
}
