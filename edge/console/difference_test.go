package console

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Every thing that a binding covers has its line when it differs, and none when it
// does not: what a person saw and what would run are never told apart by a digest alone.
func TestEveryDifferenceIsShown(t *testing.T) {
	base := func() side {
		rule := record.ApprovalRule{Expires: time.Hour, Parts: []record.ApprovalPart{{From: "registry", Quorum: 1, Groups: []record.Group{{Issuer: "i", Name: "leads"}}}}}
		call := record.Call{Owner: record.Owner{Tenant: "acme", Principal: record.Principal{Issuer: "i", Subject: "anna"}, Agent: "bot"}, ID: "call_1", Run: "run_1", Turn: 1,
			Tool:      record.ToolRef{Name: "refund", Server: "desk", Version: canon.Of("v1"), Pin: canon.Of("p1")},
			Arguments: []byte(`{"amount":"1200.00","gone":1,"order":"ord_1"}`), Purpose: "because", Targets: []record.Target{{Argument: "order", Value: []byte(`"ord_1"`)}}}
		return side{record.Approval{Rule: rule, Code: record.CodeAboveLimit}, call, record.Body{DecidedBy: "sha256:one", Generation: 1,
			Reasons: []record.Reason{{Rule: "layer support", Verdict: record.RequiresApproval, Code: record.CodePolicyAsks, Public: "above 200", Version: "sha256:l1"}}}}
	}
	if got := differences(base(), base()); len(got) != 0 {
		t.Fatalf("equal questions differ in %+v", got)
	}
	for name, c := range map[string]struct {
		change func(*side)
		want   []string
	}{
		"argument":    {func(s *side) { s.call.Arguments = []byte(`{"amount":"4800.00","gone":1,"order":"ord_1"}`) }, []string{"argument amount", "1200.00", "4800.00"}},
		"new and old": {func(s *side) { s.call.Arguments = []byte(`{"amount":"1200.00","more":2,"order":"ord_1"}`) }, []string{"argument more", "argument gone", "not there"}},
		"target":      {func(s *side) { s.call.Targets[0].Value = []byte(`"ord_2"`) }, []string{"target order", "ord_1", "ord_2"}},
		"no target":   {func(s *side) { s.call.Targets = nil }, []string{"target order", "not there"}},
		"purpose":     {func(s *side) { s.call.Purpose = "<b>other</b>" }, []string{"own words", "because", "&lt;b&gt;other&lt;/b&gt;"}},
		"principal":   {func(s *side) { s.call.Principal.Subject = "bert" }, []string{"who it is for", "anna@i", "bert@i"}},
		"agent":       {func(s *side) { s.call.Agent = "bot\u202e2" }, []string{"agent", "U+202E"}},
		"run":         {func(s *side) { s.call.Run = "run_2" }, []string{"run", "run_2"}},
		"turn":        {func(s *side) { s.call.Turn = 2 }, []string{"turn", "1", "2"}},
		"tool":        {func(s *side) { s.call.Tool.Name, s.call.Tool.Server = "refund2", "desk2" }, []string{"refund2", "server", "desk2"}},
		"version":     {func(s *side) { s.call.Tool.Version = canon.Of("v2") }, []string{"version of the tool", canon.Of("v1").String(), canon.Of("v2").String()}},
		"pin":         {func(s *side) { s.call.Tool.Pin = canon.Of("p2") }, []string{"(pin)", canon.Of("p2").String()}},
		"why":         {func(s *side) { s.approval.Code = record.CodeNewQuestion }, []string{"why it is asked", "above what the agent may do alone"}},
		"quorum":      {func(s *side) { s.approval.Rule.Parts[0].Quorum = 2 }, []string{"who decides, by registry", "1 of: group leads", "2 of: group leads"}},
		"group": {func(s *side) { s.approval.Rule.Parts[0].Groups = []record.Group{{Issuer: "i", Name: "board"}} },
			[]string{"group leads", "group board"}},
		"another rule": {func(s *side) {
			s.approval.Rule.Parts = append(s.approval.Rule.Parts, record.ApprovalPart{From: "layer x", Quorum: 1, People: []record.Principal{{Subject: "lars"}}})
		}, []string{"by layer x", "lars", "not there"}},
		"expiry":         {func(s *side) { s.approval.Rule.Expires = 2 * time.Hour }, []string{"time for an answer", "1 h 0 min", "2 h 0 min"}},
		"self":           {func(s *side) { s.approval.Rule.Self = true }, []string{"may answer", "yes", "no"}},
		"passkey":        {func(s *side) { s.approval.Rule.Passkey = true }, []string{"passkey"}},
		"reason":         {func(s *side) { s.decided.Reasons[0].Public = "above 100" }, []string{"rule layer support", "above 200", "above 100"}},
		"policy version": {func(s *side) { s.decided.Reasons[0].Version = "sha256:l2" }, []string{"version of the rule layer support", "sha256:l2"}},
		"new rule": {func(s *side) {
			s.decided.Reasons = append(s.decided.Reasons, record.Reason{Rule: "layer y", Verdict: record.RequiresApproval})
		}, []string{"rule layer y", "not there"}},
		"decided by": {func(s *side) { s.decided.DecidedBy, s.decided.Generation = "sha256:two", 2 }, []string{"sha256:one", "sha256:two", "version of registry and policy"}},
	} {
		t.Run(name, func(t *testing.T) {
			now := base()
			c.change(&now)
			rows := differences(base(), now)
			var b bytes.Buffer
			if err := templates.ExecuteTemplate(&b, "differences", rows); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(b.String(), want) {
					t.Errorf("does not say %q:\n%s", want, b.String())
				}
			}
		})
	}
}
