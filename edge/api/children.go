package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// GrantView is what a child run may do at most.
type GrantView struct {
	Tools   []string                     `json:"tools" minItems:"1" maxItems:"256" nullable:"false" doc:"By name."`
	Scopes  []string                     `json:"scopes,omitempty" maxItems:"64" nullable:"false" doc:"Of the caller's. When a run is opened without it: those that the tools need."`
	Targets map[string][]json.RawMessage `json:"targets,omitempty" nullable:"false" doc:"For an argument the only values that it may have. An argument that is not named is left as it is."`
	Money   map[string]string            `json:"money,omitempty" nullable:"false" doc:"Amounts by currency, such as EUR: \"20\". A currency that is not named may not be spent."`
	Calls   int64                        `json:"calls" minimum:"1"`
	Until   time.Time                    `json:"until" doc:"When the run ends, at the latest."`
}

func grantView(g record.Grant) *GrantView {
	v := &GrantView{Tools: g.Tools, Scopes: g.Scopes, Calls: g.Calls, Until: g.Until}
	for argument, values := range g.Targets {
		if v.Targets == nil {
			v.Targets = map[string][]json.RawMessage{}
		}
		v.Targets[argument] = []json.RawMessage{}
		for _, value := range values {
			v.Targets[argument] = append(v.Targets[argument], json.RawMessage(value))
		}
	}
	for currency, micros := range g.Money {
		if v.Money == nil {
			v.Money = map[string]string{}
		}
		v.Money[currency] = record.MicrosText(micros)
	}
	return v
}

// grant reads what is asked for.
func (v GrantView) grant() (g record.Grant, err error) {
	g = record.Grant{Tools: v.Tools, Scopes: v.Scopes, Calls: v.Calls, Until: v.Until}
	for argument, values := range v.Targets {
		if g.Targets == nil {
			g.Targets = map[string][]string{}
		}
		g.Targets[argument] = []string{}
		for _, value := range values {
			g.Targets[argument] = append(g.Targets[argument], string(value))
		}
	}
	for currency, text := range v.Money {
		if g.Money == nil {
			g.Money = map[string]int64{}
		}
		quoted, _ := json.Marshal(text)
		amount, ok := canon.Decimal(quoted)
		if ok {
			g.Money[currency], ok = record.Micros(amount)
		}
		if !ok {
			return g, invalid("body.money", "not an amount of 0 or more")
		}
	}
	return g, nil
}

type openChildInput struct {
	RunPath
	Body struct {
		GrantView
		Agent string `json:"agent,omitempty" maxLength:"256" doc:"Who acts in it, with a token of its own for the same user. Without it: the agent that opens it."`
		Label string `json:"label,omitempty" maxLength:"200" doc:"A name for the run; no credential."`
	}
}

func (d *door) openChild(ctx context.Context, in *openChildInput) (*runOutput, error) {
	if !record.ValidID("run", in.ID) {
		return nil, d.refusal(absent("run"))
	}
	for name, text := range map[string]string{"agent": in.Body.Agent, "label": in.Body.Label} {
		if !printable(text) {
			return nil, invalid("body."+name, "it holds a control character")
		}
	}
	grant, err := in.Body.grant()
	if err != nil {
		return nil, err
	}
	r, err := d.boundary.OpenChild(ctx, caller(ctx), record.RunID(in.ID),
		dispatch.Child{Agent: record.AgentID(in.Body.Agent), Label: in.Body.Label, Grant: grant})
	return d.run(r, "", err)
}

// withChildren answers with one run and the runs directly below it.
func (d *door) withChildren(ctx context.Context, r record.Run, shown string, err error) (*runOutput, error) {
	out, err := d.run(r, shown, err)
	if err != nil {
		return nil, err
	}
	children, err := d.boundary.Children(ctx, r)
	if err != nil {
		return nil, d.refusal(err)
	}
	for _, child := range children {
		out.Body.Children = append(out.Body.Children, child.ID)
	}
	return out, nil
}
