package main

import (
	"encoding/json"
	"math/big"
	"strings"

	placet "github.com/placet-dev/placet"
	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// amountOf is an argument that is a decimal, as text or number.
func amountOf(arguments []byte, name string) (string, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(arguments, &members) != nil {
		return "", false
	}
	text := strings.Trim(string(members[name]), `"`)
	if _, ok := new(big.Rat).SetString(text); !ok || !json.Valid([]byte(text)) {
		return "", false
	}
	return text, true
}

// ofRegistry is what the registry itself says of the call, for a caller that it admits.
func ofRegistry(checked *placet.Checked, t *registry.Tool, arguments []byte, source record.Source) layerView {
	v := layerView{Layer: "registry", Applies: true, Mode: string(policy.Enforce), Verdict: record.Allow, Places: []string{t.Place}, Version: t.Digest.String()}
	if t.Observe {
		v.Mode = string(policy.Observe)
	}
	deny := func(code record.Code, why string) layerView {
		v.Verdict, v.Code, v.Private = record.Deny, code, why
		return v
	}
	for _, q := range checked.Registry().Quarantined() {
		if q.Tool == t {
			return deny(record.CodeNotAvailable, "it is quarantined: "+q.Reason)
		}
	}
	if err := t.CheckArguments(arguments); err != nil {
		return deny(record.CodeInvalidArguments, err.Error())
	}
	if !t.Accepts(source) {
		v.Verdict, v.Code, v.Reason = t.SourcesBelow, record.CodeSourceNotShown, "the source is "+string(source)
		return v
	}
	switch t.Approval.When {
	case registry.Always:
		v.Verdict, v.Code, v.Reason = record.RequiresApproval, record.CodeAlwaysAsks, "approval.when is always"
	case registry.AboveLimit:
		amount, ok := amountOf(arguments, t.AutonomousLimit.Argument)
		if r, parsed := new(big.Rat).SetString(amount); !ok || !parsed || r.Cmp(t.AutonomousLimit.Max.Rat()) > 0 {
			v.Verdict, v.Code, v.Reason = record.RequiresApproval, record.CodeAboveLimit, "above the autonomous limit of "+t.AutonomousLimit.Max.String()
		}
	}
	return v
}

func ofLayer(e policy.Explained) layerView {
	v := layerView{Layer: e.Layer, Applies: e.Applies, Mode: string(e.Mode), Version: e.Version.String()}
	if !e.Applies {
		return v
	}
	o := e.Opinion
	v.Verdict, v.Code, v.Places = o.Verdict, o.Reason.Code, o.Places
	v.Reason, v.Instead, v.Private = o.Reason.Public, o.Reason.Instead, o.Reason.Private
	if o.Err != nil {
		v.Error = o.Err.Error()
	}
	return v
}
