package registry

import (
	"encoding/json"

	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/record"
)

// normalForm is everything in an entry that decides, with its gaps filled, so
// that writing a default out changes nothing and any change of meaning does.
// Members are added with omitempty only, so that a new key of a later version
// leaves the digests of entries that do not use it.
func normalForm(t *Tool) []byte {
	type limit struct {
		Argument string `json:"argument"`
		Max      string `json:"max"`
		Target   string `json:"per_target,omitempty"`
		Count    int    `json:"count,omitempty"`
		Within   string `json:"within,omitempty"`
	}
	n := struct {
		Name         string           `json:"name"`
		Server       string           `json:"server"`
		Upstream     string           `json:"upstream"`
		Method       Method           `json:"method,omitempty"`
		Completes    string           `json:"completes,omitempty"`
		Scope        string           `json:"scope,omitempty"`
		Callers      Callers          `json:"callers,omitzero"`
		Environments []string         `json:"environments,omitempty"`
		Read         bool             `json:"read,omitempty"`
		Write        bool             `json:"write,omitempty"`
		Destructive  bool             `json:"destructive,omitempty"`
		Financial    bool             `json:"financial,omitempty"`
		Sink         bool             `json:"sink,omitempty"`
		Sources      []record.Source  `json:"sources"`
		SourcesBelow record.Verdict   `json:"sources_below"`
		PerMinute    int              `json:"per_minute,omitempty"`
		PerRun       int              `json:"per_run,omitempty"`
		Concurrent   int              `json:"concurrent,omitempty"`
		Timeout      string           `json:"timeout"`
		Targets      []string         `json:"targets,omitempty"`
		SameEffect   []string         `json:"same_effect,omitempty"`
		Idempotency  string           `json:"idempotency_argument,omitempty"`
		Limit        *limit           `json:"autonomous_limit,omitempty"`
		PerTenant    TenantLimits     `json:"per_tenant,omitzero"`
		MaxRows      int              `json:"max_rows,omitempty"`
		Cost         *Cost            `json:"cost,omitempty"`
		Effect       string           `json:"effect,omitempty"`
		When         When             `json:"when"`
		Approvers    []string         `json:"approvers,omitempty"`
		Quorum       int              `json:"quorum,omitempty"`
		Self         bool             `json:"self,omitempty"`
		Expires      string           `json:"expires,omitempty"`
		Purpose      bool             `json:"purpose,omitempty"`
		Reason       bool             `json:"reason,omitempty"`
		Passkey      bool             `json:"passkey,omitempty"`
		RepeatWithin string           `json:"repeat_within"`
		RepeatAnswer RepeatAnswer     `json:"repeat_answer"`
		Retry        Retry            `json:"retry"`
		Errors       ErrorMeaning     `json:"errors,omitempty"`
		Observe      bool             `json:"observe,omitempty"`
		Instead      string           `json:"instead,omitempty"`
		Compensate   string           `json:"compensate,omitempty"`
		DryRun       *DryRun          `json:"dry_run,omitempty"`
		Reconcile    *Reconcile       `json:"reconcile,omitempty"`
		Network      guard.Zones      `json:"network,omitempty"`
		Guards       []Guard          `json:"guards,omitempty"`
		Labels       any              `json:"labels,omitempty"`
		Unverified   bool             `json:"unverified_lease,omitempty"`
		Queued       bool             `json:"queued,omitempty"`
		Scheduled    bool             `json:"scheduled,omitempty"`
		Recording    record.Recording `json:"record_arguments,omitempty"`
		Retention    string           `json:"retention,omitempty"`
	}{
		Name: t.Name, Server: t.Server, Upstream: t.Upstream, Method: t.Method, Scope: t.Scope, Callers: t.Callers,
		Environments: t.Environments, Read: t.Read, Write: t.Write, Destructive: t.Destructive,
		Financial: t.Financial, Sink: t.Sink, Sources: t.Sources, SourcesBelow: t.SourcesBelow,
		PerMinute: t.PerMinute, PerRun: t.PerRun, Concurrent: t.Concurrent, Timeout: t.Timeout.String(),
		Targets: t.Targets, SameEffect: t.SameEffect, Idempotency: t.IdempotencyArgument,
		Effect: t.Effect.String(), When: t.Approval.When, Approvers: t.Approval.Approvers,
		Quorum: t.Approval.Quorum, Self: t.Approval.Self, Purpose: t.Approval.Purpose, Reason: t.Approval.Reason, Passkey: t.Approval.Passkey,
		RepeatWithin: t.Repeat.Within.String(), RepeatAnswer: t.Repeat.Answer, Retry: t.Retry,
		Errors: t.Errors, Observe: t.Observe, Instead: t.Instead, Guards: t.Guards, Compensate: t.Compensate, DryRun: t.DryRun, Reconcile: t.Reconcile, Network: t.Network,
		PerTenant: t.PerTenant, MaxRows: t.MaxRows, Cost: t.Cost, Labels: t.labelForm(), Unverified: t.Unverified,
		Queued: t.Queued, Scheduled: t.Scheduled, Recording: t.Retention.Arguments,
	}
	if t.Retention.For > 0 {
		n.Retention = t.Retention.For.String()
	}
	if t.Completes != nil {
		n.Completes = t.Completes.Name
	}
	if t.AutonomousLimit != nil {
		l := t.AutonomousLimit
		n.Limit = &limit{Argument: l.Argument, Max: l.Max.String(), Target: l.PerTarget.String(), Count: l.Count}
		if l.PerTarget.Given() || l.Count > 0 {
			n.Limit.Within = l.Within.String()
		}
	}
	if t.Approval.Expires > 0 {
		n.Expires = t.Approval.Expires.String()
	}
	out, err := json.Marshal(n)
	if err != nil {
		// Text, numbers and booleans only: this cannot fail. If it did, a form
		// that no other load gives voids approvals rather than keeping them.
		return []byte(t.Place)
	}
	return out
}
