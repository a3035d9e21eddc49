package console

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/edge/question"
	"github.com/placet-dev/placet/record"
)

// side is one of two questions that are compared: what a yes to it is for.
type side struct {
	approval record.Approval
	call     record.Call
	decided  record.Body // of the event that asked it: the reasons and versions of then
}

// difference is one thing that a yes is for and that is not as it was. Everything
// that a binding covers has its line here, or its digest has.
type difference struct {
	What     string
	Old, New *folded // nil: it was not there
}

// maxDifferences is how many a page lists.
const maxDifferences = 40

// differences compares all that a binding covers (design, section 4).
func differences(old, now side) []difference {
	d := &differing{}
	d.objects("argument", old.call.Arguments, now.call.Arguments)
	d.targets(old.call.Targets, now.call.Targets)
	d.text("the agent's own words", old.call.Purpose, now.call.Purpose)
	d.text("who it is for", old.call.Principal.String(), now.call.Principal.String())
	d.text("agent", string(old.call.Agent), string(now.call.Agent))
	d.text("run", string(old.call.Run), string(now.call.Run))
	d.text("turn", old.call.Turn.String(), now.call.Turn.String())
	d.text("tool", old.call.Tool.Name, now.call.Tool.Name)
	d.text("tool's server", old.call.Tool.Server, now.call.Tool.Server)
	d.text("version of the tool's entry", versionText(old.call.Tool.Version), versionText(now.call.Tool.Version))
	d.text("what the server offers (pin)", versionText(old.call.Tool.Pin), versionText(now.call.Tool.Pin))
	d.text("why it is asked", asked(old.approval.Code), asked(now.approval.Code))
	d.rule(old.approval.Rule, now.approval.Rule)
	d.text("what the dry run showed", previewText(old.approval.Preview), previewText(now.approval.Preview))
	d.reasons(old.decided.Reasons, now.decided.Reasons)
	d.text("what decided it, as a digest", old.decided.DecidedBy, now.decided.DecidedBy)
	if old.decided.DecidedBy != now.decided.DecidedBy && old.decided.Generation > 0 {
		d.text("version of registry and policy", fmt.Sprint(old.decided.Generation), fmt.Sprint(now.decided.Generation))
	}
	return d.found
}

type differing struct{ found []difference }

func (d *differing) add(what string, old, now *folded) {
	if len(d.found) < maxDifferences {
		d.found = append(d.found, difference{what, old, now})
	}
}

func (d *differing) text(what, old, now string) {
	if old != now {
		d.add(what, textShown(old), textShown(now))
	}
}

func textShown(s string) *folded {
	if s == "" {
		return nil
	}
	f := fold(s, 200, 2000)
	return &f
}

func versionText(d canon.Digest) string {
	if d.IsZero() {
		return ""
	}
	return d.String()
}

func (d *differing) objects(what string, old, now []byte) {
	for _, row := range question.Compare(old, now).Rows {
		d.add(what+" "+row.Name, shownAs(row.Old), shownAs(row.New))
	}
}

func (d *differing) targets(old, now []record.Target) {
	value := func(list []record.Target, name string) []byte {
		for _, t := range list {
			if t.Argument == name {
				return t.Value
			}
		}
		return nil
	}
	var seen []string
	for _, t := range append(slices.Clone(old), now...) {
		if slices.Contains(seen, t.Argument) {
			continue
		}
		seen = append(seen, t.Argument)
		if before, after := value(old, t.Argument), value(now, t.Argument); !bytes.Equal(before, after) {
			d.add("target "+t.Argument, shownAs(before), shownAs(after))
		}
	}
}

// rule compares who is asked, part by part, and what else a rule says.
func (d *differing) rule(old, now record.ApprovalRule) {
	demand := func(r record.ApprovalRule, from string) string {
		var out []string
		for _, p := range partsOf(record.Approval{Rule: r}, nil) {
			if p.From == from {
				out = append(out, fmt.Sprintf("%d of: %s", p.Quorum, strings.Join(p.Who, ", ")))
			}
		}
		return strings.Join(out, "; ")
	}
	var seen []string
	for _, p := range append(slices.Clone(old.Parts), now.Parts...) {
		if slices.Contains(seen, p.From) {
			continue
		}
		seen = append(seen, p.From)
		d.text("who decides, by "+p.From, demand(old, p.From), demand(now, p.From))
	}
	span := func(t time.Duration) string { return strings.TrimSuffix(left(t), " left") }
	d.text("time for an answer", span(old.Expires), span(now.Expires))
	yesNo := map[bool]string{true: "yes", false: "no"}
	d.text("the person it is for may answer", yesNo[old.Self], yesNo[now.Self])
	d.text("a passkey is needed", yesNo[old.Passkey], yesNo[now.Passkey])
}

// reasons compares what each rule said, and in which version.
func (d *differing) reasons(old, now []record.Reason) {
	says := func(list []record.Reason, rule string) (text, version string) {
		for _, r := range list {
			if r.Rule == rule {
				text, version = strings.TrimSpace(string(r.Verdict)+" "+string(r.Code)+" "+r.Public), r.Version
				if r.Observe {
					text += " (observed)"
				}
			}
		}
		return text, version
	}
	var seen []string
	for _, r := range append(slices.Clone(old), now...) {
		if slices.Contains(seen, r.Rule) {
			continue
		}
		seen = append(seen, r.Rule)
		before, beforeVersion := says(old, r.Rule)
		after, afterVersion := says(now, r.Rule)
		d.text("rule "+r.Rule, before, after)
		d.text("version of the rule "+r.Rule, beforeVersion, afterVersion)
	}
}
