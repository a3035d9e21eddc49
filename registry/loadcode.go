package registry

import (
	"cmp"
	"slices"
	"time"

	"github.com/placet-dev/placet/yamlfile"
)

// declared adds a tool of the embedding program. Its schema is code that was
// reviewed with the program, so it is its own pin.
func (b *builder) declared(d Declared) {
	place := yamlfile.Place("the embedding program")
	d.Entry.Server = cmp.Or(d.Entry.Server, "inproc")
	d.Entry.SourcesBelow = cmp.Or(d.Entry.SourcesBelow, "ask")
	d.Entry.Mode = cmp.Or(d.Entry.Mode, "enforce")
	if d.Entry.Repeat == (RepeatEntry{}) {
		d.Entry.Repeat = RepeatEntry{Within: 10 * time.Minute, Answer: RepeatReturn}
	}
	if !b.sound(d, place) {
		return
	}
	t := b.tool(d.Name, place, d.Entry, Defaults{PerMinute: 30, Concurrent: 4, Timeout: 20 * time.Second, Retry: RetryNever})
	if t == nil {
		return
	}
	if t.Method != MethodTool {
		b.fail(place, "tools."+t.Name, "is no tool, and a program declares tools only")
		return
	}
	s := b.snapshot.servers[t.Server]
	if s != nil && !s.Inproc {
		b.fail(place, "tools."+t.Name, "the server %q is one of a registry file (%s); choose another name", t.Server, s.Place)
		return
	}
	if s == nil {
		s = &Server{Name: t.Server, Place: string(place), Inproc: true, Stateless: true}
		s.Digest = serverDigest(s)
		b.snapshot.servers[s.Name] = s
	}
	if !b.present(t) {
		return
	}
	d.Offer.Name = cmp.Or(d.Offer.Name, t.Upstream)
	pin, err := PinOf(d.Offer)
	if err != nil {
		b.fail(place, "tools."+t.Name, "%s", err)
		return
	}
	t.Pin = &pin
	b.later(t, s, d.Entry, place)
	b.finish(t)
}

// sound checks what the file reader checks for entries of files: that words are
// among those that mean something, and that no number is below zero.
func (b *builder) sound(d Declared, place yamlfile.Place) bool {
	before := len(b.problems)
	path := "tools." + d.Name
	word := func(key, value string, choices []string) {
		if value != "" && !slices.Contains(choices, value) {
			b.fail(place, path+"."+key, "wants one of %v", choices)
		}
	}
	number := func(key string, n int) {
		if n < 0 {
			b.fail(place, path+"."+key, "must be 0 or more")
		}
	}
	e := d.Entry
	for _, s := range e.Sources {
		word("sources", cmp.Or(string(s), "(none)"), s.Choices())
	}
	word("sources_below", string(e.SourcesBelow), e.SourcesBelow.Choices())
	word("errors", string(e.Errors), e.Errors.Choices())
	word("mode", string(e.Mode), e.Mode.Choices())
	word("dispatch", string(e.Dispatch), e.Dispatch.Choices())
	word("schedules", string(e.Schedules), e.Schedules.Choices())
	word("approval.when", string(e.Approval.When), e.Approval.When.Choices())
	word("approval.purpose", string(e.Approval.Purpose), e.Approval.Purpose.Choices())
	word("approval.reason", string(e.Approval.Reason), e.Approval.Reason.Choices())
	word("repeat.answer", cmp.Or(string(e.Repeat.Answer), "(none)"), e.Repeat.Answer.Choices())
	word("retry", string(or(e.Retry, RetryNever)), RetryNever.Choices())
	number("per_minute", or(e.PerMinute, 0))
	number("per_run", e.PerRun)
	number("concurrent", or(e.Concurrent, 0))
	number("per_tenant.per_minute", e.PerTenant.PerMinute)
	number("per_tenant.concurrent", e.PerTenant.Concurrent)
	number("approval.quorum", e.Approval.Quorum)
	number("approval.expires", int(e.Approval.Expires))
	number("repeat.within", int(e.Repeat.Within))
	if e.AutonomousLimit != nil && (!e.AutonomousLimit.Max.Given() || e.AutonomousLimit.Argument == "") {
		b.fail(place, path+".autonomous_limit", "needs an argument and a max; make the max with ParseDecimal")
	}
	return len(b.problems) == before
}
