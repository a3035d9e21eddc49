package registry

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/placet-dev/placet/record"
)

// Override is a setting that weakens a default (rule H7).
type Override struct {
	Setting string `json:"setting"` // "sources", "approval.self"
	Subject string `json:"subject"` // "tool issue_refund"
	Detail  string `json:"detail"`  // what it means, for people
	Place   string `json:"place"`
}

// Overrides lists every setting that weakens a default, quarantined tools
// included: they may come back.
func (s *Snapshot) Overrides() []Override {
	var out []Override
	for v := range s.Servers() {
		add := func(setting, detail string) {
			out = append(out, Override{setting, "server " + v.Name, detail, v.Place})
		}
		if v.Stateless && !v.Inproc && v.Kind == KindMCP {
			add("stateless", "sessions at this server may be shared between principals")
		}
		if v.InputRequired {
			add("input_required", "the server may ask back during a call")
		}
		if v.Sampling {
			add("sampling", "the server may ask the client's model during a call")
		}
		if v.ToolsMaxAge > time.Minute {
			add("tools_max_age", "a changed tool is noticed only after "+v.ToolsMaxAge.String())
		}
		if strings.HasPrefix(v.URL, "http://") && !loopback(hostOf(v.URL)) {
			add("url", "calls travel in the clear")
		}
	}
	for _, name := range sortedKeysOf(s.all) {
		out = append(out, s.all[name].overrides()...)
	}
	return out
}

func (t *Tool) overrides() []Override {
	var out []Override
	add := func(when bool, setting, detail string) {
		if when {
			out = append(out, Override{setting, "tool " + t.Name, detail, t.Place})
		}
	}
	direct := slices.Contains(t.Sources, record.Direct)
	add(!t.Read && direct, "sources", "calls are accepted of which nobody shows that a model proposed them")
	add(t.Observe, "mode", "its own rules are recorded and not applied")
	add(t.Approval.Self, "approval.self", "the call's own principal may approve it")
	add(!t.Read && t.Approval.When == Asked, "approval.when", "it runs without a question unless policy or labels ask")
	add(t.AutonomousLimit != nil, "autonomous_limit", "it runs without a question up to "+t.limitText())
	add(t.Scope == "", "scope", "the end user needs no scope; callers alone decide")
	add(!t.Read && t.Repeat.Answer == RepeatRun, "repeat.answer", "an equal call runs again: a lost answer may double its effect")
	add(!t.Read && t.Repeat.Answer != RepeatRun && t.Repeat.Within < 10*time.Minute, "repeat.within", "an equal call runs again after "+t.Repeat.Within.String())
	add(!t.Read && t.Retry == RetryIdempotent, "retry", "an unknown outcome is tried again: the server is trusted to honour the key")
	add(t.Errors == NoEffect, "errors", "an error counts as proof that nothing happened")
	add(t.Unverified, "unverified_lease", "a framework runs it itself, and nothing at the tool checks that the call was allowed, or that it runs once")
	add(t.Scheduled, "schedules", "agents may have it called at set times, when nobody is there")
	t.labelOverrides(add)
	add(t.PerMinute == 0, "per_minute", "there is no limit per minute")
	add(t.Concurrent == 0, "concurrent", "there is no limit of calls at the same time")
	for _, g := range t.Guards {
		add(slices.Contains(g.Schemes, "http"), "guards."+g.Argument+".schemes", "requests to this argument's host may travel in the clear")
		add(len(g.Networks) > 0, "guards."+g.Argument+".networks", "private networks may be reached: "+strings.Join(g.Networks, ", "))
	}
	return out
}

func (t *Tool) limitText() string {
	if t.AutonomousLimit == nil {
		return ""
	}
	return t.AutonomousLimit.Argument + " " + t.AutonomousLimit.Max.String()
}

func hostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
