package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// delegateTool is the built-in tool that opens a run below the caller's (rule B4). It
// gives nothing that the caller does not have, and takes what it gives from them.
const delegateTool = "placet_delegate"

const delegateEntry = `{"name":"placet_delegate","title":"Open a run for a sub-agent",` +
	`"description":"Opens a run below yours, for a sub-agent that acts for the same user with its own credential. Give it less than you have: the tools it needs by name, a number of calls, and minutes. ` +
	`The sub-agent names the run in _meta as dev.placet/run. What it spends is yours; it ends with your run, at your user's next message, or after its minutes.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"tools":{"type":"array","items":{"type":"string"},"minItems":1,"description":"Names from your list of tools."},` +
	`"calls":{"type":"integer","minimum":1,"description":"How many calls it may make."},` +
	`"minutes":{"type":"integer","minimum":1,"maximum":10080,"description":"After how many minutes it ends."},` +
	`"agent":{"type":"string","description":"The sub-agent, as its credential names it; without it, yourself."},` +
	`"label":{"type":"string","description":"A name for the run."},` +
	`"scopes":{"type":"array","items":{"type":"string"},"description":"Of yours; without it, those that the tools need."},` +
	`"targets":{"type":"object","additionalProperties":{"type":"array"},"description":"For arguments of the tools: the only values that each may have."},` +
	`"money":{"type":"object","additionalProperties":{"type":"string"},"description":"What it may spend, by currency, such as {\"EUR\":\"20\"}; without it, nothing."}},` +
	`"required":["tools","calls","minutes"],"additionalProperties":false},"annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false}}`

// delegate serves placet_delegate.
func (h *Handler) delegate(run context.Context, x *request, c call) ([]byte, *refusal) {
	want, problem := readChild(c.arguments, h.Clock())
	if problem != "" {
		return toolText("Denied: " + delegateTool + ": " + problem + ". No run was opened. Correct the arguments and ask again."), nil
	}
	child, err := h.Boundary.OpenChildUnder(run, x.caller, x.meta.run, want)
	switch record.KindOf(err) {
	case record.Unauthenticated, record.Unavailable, record.Internal:
		if err != nil {
			return nil, h.failed(x, err)
		}
	}
	if err != nil {
		return toolText("Denied: " + record.PublicMessage(err) + ". No run was opened."), nil
	}
	return childResult(child), nil
}

// childResult names the run that was opened.
func childResult(r record.Run) []byte {
	type content struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	until := r.Grant.Until.Format(time.RFC3339)
	out, _ := json.Marshal(struct {
		Type       string    `json:"resultType"`
		Content    []content `json:"content"`
		Structured any       `json:"structuredContent"`
		IsError    bool      `json:"isError"`
	}{"complete", []content{{"text", "Opened " + string(r.ID) + " for " + string(r.Agent) + ", until " + until + " at the latest, with " + strings.Join(r.Grant.Tools, ", ") +
		". Give this ID to the sub-agent; its calls name it in _meta as " + metaRun + "."}},
		map[string]any{"run": r.ID, "agent": r.Agent, "until": until, "tools": r.Grant.Tools}, false})
	return out
}

// readChild reads the arguments, which are canonical: each member by its exact name.
func readChild(arguments json.RawMessage, now time.Time) (want dispatch.Child, problem string) {
	g := &want.Grant
	for name, v := range canon.Members(arguments) {
		ok := false
		switch name {
		case "agent":
			var text string
			text, ok = canon.Text(v)
			want.Agent, ok = record.AgentID(text), ok && text != ""
		case "label":
			want.Label, ok = canon.Text(v)
		case "tools":
			g.Tools, ok = textList(v)
		case "scopes":
			g.Scopes, ok = textList(v)
		case "calls":
			ok = json.Unmarshal(v, &g.Calls) == nil && g.Calls > 0
		case "minutes":
			var minutes int64
			ok = json.Unmarshal(v, &minutes) == nil && minutes > 0 && minutes <= 7*24*60
			g.Until = now.Add(time.Duration(minutes) * time.Minute)
		case "targets":
			g.Targets, ok = targetLists(v)
		case "money":
			g.Money, ok = amounts(v)
		}
		if !ok {
			return want, "the argument " + name + " does not fit its schema"
		}
	}
	if len(g.Tools) == 0 || g.Calls == 0 || g.Until.IsZero() {
		return want, "it needs tools, calls and minutes"
	}
	return want, ""
}

func textList(v []byte) (out []string, ok bool) {
	if v[0] != '[' {
		return nil, false
	}
	for element := range canon.Elements(v) {
		text, ok := canon.Text(element)
		if !ok || text == "" {
			return nil, false
		}
		out = append(out, text)
	}
	return out, true
}

func targetLists(v []byte) (map[string][]string, bool) {
	if v[0] != '{' {
		return nil, false
	}
	out := map[string][]string{}
	for argument, list := range canon.Members(v) {
		if list[0] != '[' {
			return nil, false
		}
		out[argument] = []string{}
		for element := range canon.Elements(list) {
			out[argument] = append(out[argument], string(element))
		}
	}
	return out, true
}

func amounts(v []byte) (map[string]int64, bool) {
	if v[0] != '{' {
		return nil, false
	}
	out := map[string]int64{}
	for currency, value := range canon.Members(v) {
		amount, ok := canon.Decimal(value)
		if !ok {
			return nil, false
		}
		if out[currency], ok = record.Micros(amount); !ok {
			return nil, false
		}
	}
	return out, true
}
