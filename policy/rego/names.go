package rego

import "github.com/open-policy-agent/opa/v1/ast"

// names are the member names of the input document as terms, made once.
type names struct {
	version, tool, args, amounts, principal, agent, run, call *ast.Term
	targets, origins, approval, limits, env, time             *ast.Term

	name, server, flags, annotations, method, network  *ast.Term
	read, write, destructive, financial, sink, privacy *ast.Term
	id, issuer, tenant, scopes, claims                 *ast.Term
	groups, otherGroups, groupsKnown                   *ast.Term
	turn, labels, parent                               *ast.Term
	source, route, attempt, purpose                    *ast.Term
	argument, kind, value, state, answers              *ast.Term
	callsInTurn, callsInRun, autonomous, inputTag      *ast.Term
}

func newNames() names {
	t := ast.StringTerm
	return names{
		version: t("version"), tool: t("tool"), args: t("args"), amounts: t("amounts"),
		principal: t("principal"), agent: t("agent"), run: t("run"), call: t("call"),
		targets: t("targets"), origins: t("origins"), approval: t("approval"),
		limits: t("limits"), env: t("env"), time: t("time"),
		name: t("name"), server: t("server"), flags: t("flags"), annotations: t("annotations"), method: t("method"), network: t("network"),
		read: t("read"), write: t("write"), destructive: t("destructive"), financial: t("financial"), sink: t("sink"), privacy: t("privacy"),
		id: t("id"), issuer: t("issuer"), tenant: t("tenant"), scopes: t("scopes"), claims: t("claims"),
		groups: t("groups"), otherGroups: t("other_groups"), groupsKnown: t("groups_known"),
		turn: t("turn"), labels: t("labels"), parent: t("parent"),
		source: t("source"), route: t("route"), attempt: t("attempt"), purpose: t("purpose"),
		argument: t("argument"), kind: t("kind"), value: t("value"), state: t("state"), answers: t("answers"),
		callsInTurn: t("calls_in_turn"), callsInRun: t("calls_in_run"), autonomous: t("autonomous"),
		inputTag: t(inputVersion),
	}
}
