package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/placet-dev/placet/record"
)

// document is the input as layers see it, in JSON. The tags here are the
// contract; docs/policy.md explains each.
type document struct {
	Version   string                 `json:"version"`
	Tool      toolDocument           `json:"tool"`
	Args      json.RawMessage        `json:"args"`
	Amounts   map[string]json.Number `json:"amounts"`
	Principal principalDocument      `json:"principal"`
	Agent     agentDocument          `json:"agent"`
	Run       runDocument            `json:"run"`
	Call      callDocument           `json:"call"`
	Targets   []targetDocument       `json:"targets"`
	Origins   map[string]string      `json:"origins"`
	Approval  *approvalDocument      `json:"approval"`
	Limits    limitsDocument         `json:"limits"`
	Env       envDocument            `json:"env"`
	Time      time.Time              `json:"time"`
}

type toolDocument struct {
	Name        string          `json:"name"`
	Server      string          `json:"server"`
	Version     string          `json:"version"`
	Method      string          `json:"method"`
	Flags       flagsDocument   `json:"flags"`
	Network     string          `json:"network"`
	Annotations json.RawMessage `json:"annotations"`
}

type flagsDocument struct {
	Read        bool `json:"read"`
	Write       bool `json:"write"`
	Destructive bool `json:"destructive"`
	Financial   bool `json:"financial"`
	Sink        bool `json:"sink"`
	Privacy     bool `json:"privacy"`
}

type principalDocument struct {
	ID          string          `json:"id"`
	Issuer      string          `json:"issuer"`
	Tenant      string          `json:"tenant"`
	Scopes      []string        `json:"scopes"`
	Groups      []string        `json:"groups"` // of the principal's own issuer
	OtherGroups []record.Group  `json:"other_groups"`
	GroupsKnown bool            `json:"groups_known"`
	Claims      json.RawMessage `json:"claims"`
}

type agentDocument struct {
	ID string `json:"id"`
}

type runDocument struct {
	ID     string   `json:"id"`
	Turn   int64    `json:"turn"`
	Labels []string `json:"labels"`
	Parent string   `json:"parent"`
}

type callDocument struct {
	ID      string `json:"id"`
	Source  string `json:"source"`
	Route   string `json:"route"`
	Attempt int    `json:"attempt"`
	Purpose string `json:"purpose"`
}

type targetDocument struct {
	Argument string `json:"argument"`
	Kind     string `json:"kind"`
	Value    string `json:"value"`
}

type approvalDocument struct {
	ID      string `json:"id"`
	State   string `json:"state"`
	Answers int    `json:"answers"`
}

type limitsDocument struct {
	CallsInTurn int64        `json:"calls_in_turn"`
	CallsInRun  int64        `json:"calls_in_run"`
	Autonomous  *json.Number `json:"autonomous"`
}

type envDocument struct {
	Name string `json:"name"`
}

// MarshalJSON writes the document that layers see.
func (in *Input) MarshalJSON() ([]byte, error) {
	d := document{
		Version: InputVersion,
		Tool: toolDocument{in.Tool.Name, in.Tool.Server, in.Tool.Version, in.Tool.Reached(),
			flagsDocument(in.Tool.Flags), in.Tool.Network, object(in.Tool.Annotations)},
		Args:    object(in.Args),
		Amounts: map[string]json.Number{},
		Principal: principalDocument{
			ID: in.Principal.Subject, Issuer: in.Principal.Issuer, Tenant: string(in.Principal.Tenant),
			Scopes: list(in.Principal.Scopes), Groups: []string{}, OtherGroups: []record.Group{},
			GroupsKnown: in.Principal.GroupsKnown, Claims: object(in.Principal.Claims),
		},
		Agent:   agentDocument{string(in.Agent.ID)},
		Run:     runDocument{string(in.Run.ID), int64(in.Run.Turn), list(in.Run.Labels), string(in.Run.Parent)},
		Call:    callDocument{string(in.Call.ID), string(in.Call.Source), string(in.Call.Route), in.Call.Attempt, in.Call.Purpose},
		Targets: []targetDocument{},
		Origins: in.Origins,
		Limits:  limitsDocument{CallsInTurn: in.Limits.CallsInTurn, CallsInRun: in.Limits.CallsInRun},
		Env:     envDocument{in.Env},
		Time:    in.Time.UTC(),
	}
	for name, text := range in.Amounts {
		d.Amounts[name] = json.Number(text)
	}
	for _, g := range in.Principal.Groups {
		if g.Issuer == in.Principal.Issuer {
			d.Principal.Groups = append(d.Principal.Groups, g.Name)
		} else {
			d.Principal.OtherGroups = append(d.Principal.OtherGroups, g)
		}
	}
	for _, t := range in.Targets {
		d.Targets = append(d.Targets, targetDocument(t))
	}
	if in.Origins == nil {
		d.Origins = map[string]string{}
	}
	if a := in.Approval; a != nil {
		d.Approval = &approvalDocument{string(a.ID), a.State, a.Answers}
	}
	if in.Limits.Autonomous != "" {
		n := json.Number(in.Limits.Autonomous)
		d.Limits.Autonomous = &n
	}
	return json.Marshal(d)
}

// UnmarshalJSON reads a document as MarshalJSON writes it. Members may be
// missing; unknown ones are refused, for here they are mistakes.
func (in *Input) UnmarshalJSON(text []byte) error {
	var d document
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return fmt.Errorf("policy input: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("policy input: text after the document")
	}
	if d.Version != "" && d.Version != InputVersion {
		return fmt.Errorf("policy input: version is %q, not %q", d.Version, InputVersion)
	}
	for name, raw := range map[string]json.RawMessage{
		"args": d.Args, "tool.annotations": d.Tool.Annotations, "principal.claims": d.Principal.Claims,
	} {
		if t := bytes.TrimSpace(object(raw)); t[0] != '{' {
			return fmt.Errorf("policy input: %s must be an object", name)
		}
	}
	*in = d.input()
	return nil
}

func (d *document) input() Input {
	in := Input{
		Tool: Tool{d.Tool.Name, d.Tool.Server, d.Tool.Version, d.Tool.Method, Flags(d.Tool.Flags), d.Tool.Network, object(d.Tool.Annotations)},
		Args: object(d.Args),
		Principal: Principal{
			Principal: record.Principal{Issuer: d.Principal.Issuer, Subject: d.Principal.ID},
			Tenant:    record.TenantID(d.Principal.Tenant), Scopes: d.Principal.Scopes,
			GroupsKnown: d.Principal.GroupsKnown, Claims: object(d.Principal.Claims),
		},
		Agent: Agent{record.AgentID(d.Agent.ID)},
		Run:   Run{record.RunID(d.Run.ID), record.Turn(d.Run.Turn), d.Run.Labels, record.RunID(d.Run.Parent)},
		Call: Call{record.CallID(d.Call.ID), record.Source(d.Call.Source), record.Route(d.Call.Route),
			d.Call.Attempt, d.Call.Purpose},
		Origins: d.Origins,
		Limits:  Limits{CallsInTurn: d.Limits.CallsInTurn, CallsInRun: d.Limits.CallsInRun},
		Env:     d.Env.Name,
		Time:    d.Time,
		Amounts: map[string]string{},
	}
	for name, n := range d.Amounts {
		in.Amounts[name] = n.String()
	}
	for _, g := range d.Principal.Groups {
		in.Principal.Groups = append(in.Principal.Groups, record.Group{Issuer: d.Principal.Issuer, Name: g})
	}
	in.Principal.Groups = append(in.Principal.Groups, d.Principal.OtherGroups...)
	for _, t := range d.Targets {
		in.Targets = append(in.Targets, Target(t))
	}
	if a := d.Approval; a != nil {
		in.Approval = &Approval{record.ApprovalID(a.ID), a.State, a.Answers}
	}
	if d.Limits.Autonomous != nil {
		in.Limits.Autonomous = d.Limits.Autonomous.String()
	}
	return in
}

func object(raw []byte) json.RawMessage {
	if len(bytes.TrimSpace(raw)) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
