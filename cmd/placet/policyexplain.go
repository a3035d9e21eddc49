package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	placet "github.com/placet-dev/placet"
	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/policy/rego"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

type policyExplain struct {
	configFlag
	Tool      string `required:"" placeholder:"NAME" help:"The tool, by its name in the registry."`
	Arguments string `default:"{}" placeholder:"JSON" help:"Its arguments (default: {})."`
	Input     string `placeholder:"FILE" help:"YAML or JSON laid over the input document, such as principal: {groups: [support]}."`
}

// layerView is one layer's verdict.
type layerView struct {
	Layer   string         `json:"layer"`
	Applies bool           `json:"applies"`
	Mode    string         `json:"mode"`
	Verdict record.Verdict `json:"verdict,omitempty"`
	Code    record.Code    `json:"code,omitempty"`
	Reason  string         `json:"reason,omitempty"`
	Instead string         `json:"instead,omitempty"`
	Private string         `json:"private,omitempty"`
	Places  []string       `json:"places,omitempty"`
	Error   string         `json:"error,omitempty"`
	Version string         `json:"version,omitempty"`
}

func (c policyExplain) Run(ctx context.Context, p *program) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	checked, err := p.check(ctx, cfg, []string{"dev"})
	if err != nil {
		return err
	}
	arguments, _, err := canon.Object([]byte(c.Arguments), canon.Limits{})
	if err != nil {
		return record.Errorf(record.Invalid, "--arguments: %w", err)
	}
	tool, known := find(checked, c.Tool)
	if !known {
		return record.Errorf(record.NotFound, "the registry names no tool %q", c.Tool)
	}
	in, err := c.input(cfg.Environment, tool, arguments)
	if err != nil {
		return err
	}
	views := []layerView{ofRegistry(checked, tool, arguments, in.Call.Source)}
	for _, e := range checked.Policy().Explain(ctx, in) {
		views = append(views, ofLayer(e))
	}
	return p.explained(views)
}

func find(checked *placet.Checked, name string) (*registry.Tool, bool) {
	if t, ok := checked.Registry().Tool(name); ok {
		return t, true
	}
	for _, q := range checked.Registry().Quarantined() {
		if q.Tool.Name == name {
			return q.Tool, true
		}
	}
	return nil, false
}

// input makes the document that layers are asked: a plain call of the tool, with
// what the file lays over it.
func (c policyExplain) input(environment string, t *registry.Tool, arguments []byte) (*policy.Input, error) {
	plain := map[string]any{
		"tool": map[string]any{"name": t.Name, "server": t.Server, "version": t.Digest.String(), "annotations": json.RawMessage("{}"),
			"flags": map[string]any{"read": t.Read, "write": t.Write, "destructive": t.Destructive, "financial": t.Financial, "sink": t.Sink}},
		"args": json.RawMessage(arguments), "env": map[string]any{"name": environment},
		"time": time.Now().UTC().Format(time.RFC3339Nano), "amounts": map[string]any{}, "call": map[string]any{"source": "direct", "route": "api"},
	}
	if t.Pin != nil && len(t.Pin.Annotations) > 0 {
		plain["tool"].(map[string]any)["annotations"] = t.Pin.Annotations
	}
	if l := t.AutonomousLimit; l != nil {
		plain["limits"] = map[string]any{"autonomous": json.Number(l.Max.String())}
		if amount, ok := amountOf(arguments, l.Argument); ok {
			plain["amounts"] = map[string]any{l.Argument: json.Number(amount)}
		}
	}
	over, err := overlayFile(c.Input)
	if err != nil {
		return nil, err
	}
	lay(plain, over)
	text, err := json.Marshal(map[string]any{"name": "explain", "want": record.Allow, "input": plain})
	if err != nil {
		return nil, err
	}
	fixtures, err := rego.ParseFixtures("input.json", text)
	if err != nil {
		return nil, err
	}
	return fixtures[0].Input, nil
}

func overlayFile(path string) (map[string]any, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if ext := filepath.Ext(path); ext == ".yaml" || ext == ".yml" {
		if text, err = yaml.YAMLToJSON(text); err != nil {
			return nil, record.Errorf(record.Invalid, "%s: %w", path, err)
		}
	}
	var over map[string]any
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if err := d.Decode(&over); err != nil {
		return nil, record.Errorf(record.Invalid, "%s: %w", path, err)
	}
	return over, nil
}

// lay puts members of over in the place of those of base, objects member by member.
func lay(base, over map[string]any) {
	for k, v := range over {
		b, isObject := base[k].(map[string]any)
		if o, ok := v.(map[string]any); ok && isObject && k != "args" {
			lay(b, o)
			continue
		}
		base[k] = v
	}
}

// explained prints each layer's verdict, and what they come to. A denial is no
// failure here: the question was what would be decided.
func (p *program) explained(views []layerView) error {
	err := list(p, views, "", []string{"LAYER", "VERDICT", "WHERE", "WHY"}, func(v layerView) []string {
		if !v.Applies {
			return []string{v.Layer, "not asked", "", "it is not for this call"}
		}
		verdict := string(v.Verdict)
		if v.Mode == string(policy.Observe) {
			verdict += " (observed)"
		}
		why := firstOf(v.Error, v.Private, v.Reason)
		return []string{v.Layer, verdict, strings.Join(v.Places, " "), why}
	})
	if err != nil || p.json {
		return err
	}
	all := record.Allow
	for _, v := range views {
		if v.Applies && v.Mode != string(policy.Observe) {
			all = all.Stricter(v.Verdict)
		}
	}
	p.say("\nTogether: %s. What the store knows (limits, equal calls, sources) is not asked here; a running server says it: placet explain %s", all, "TOOL")
	return nil
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
