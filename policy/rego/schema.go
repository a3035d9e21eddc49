package rego

import (
	"encoding/json"

	"github.com/open-policy-agent/opa/v1/ast"
)

// checkInput compiles the layer once more with the input's schema, and reports
// rules that read a member the input does not have: such a rule never fires,
// and a denial that never fires protects nothing.
func (l *Layer) checkInput(r *Report) {
	var schema any
	if err := json.Unmarshal([]byte(inputSchema), &schema); err != nil {
		r.problem(UnknownInput, "", l.name, "the schema of the input: %v", err)
		return
	}
	schemas := ast.NewSchemaSet()
	schemas.Put(ast.SchemaRootRef, schema)
	c := ast.NewCompiler().WithCapabilities(capabilities()).WithDefaultRegoVersion(ast.RegoV1).WithSchemas(schemas)
	c.Compile(l.modules)
	for _, err := range c.Errors {
		r.problem(UnknownInput, "", orNothing(places(err.Location)), "%s", err.Message)
	}
}

// inputSchema names the members of the input. A test compares it with the
// document that layers see.
const inputSchema = `{
  "type": "object", "additionalProperties": false,
  "properties": {
    "version": {"type": "string"},
    "tool": {"type": "object", "additionalProperties": false, "properties": {
      "name": {"type": "string"}, "server": {"type": "string"}, "version": {"type": "string"}, "method": {"type": "string"},
      "flags": {"type": "object", "additionalProperties": false, "properties": {
        "read": {"type": "boolean"}, "write": {"type": "boolean"}, "destructive": {"type": "boolean"},
        "financial": {"type": "boolean"}, "sink": {"type": "boolean"}, "privacy": {"type": "boolean"}}},
      "network": {"type": "string"},
      "annotations": {"type": "object", "additionalProperties": true}}},
    "args": {"type": "object", "additionalProperties": true},
    "amounts": {"type": "object", "additionalProperties": {"type": "number"}},
    "principal": {"type": "object", "additionalProperties": false, "properties": {
      "id": {"type": "string"}, "issuer": {"type": "string"}, "tenant": {"type": "string"},
      "scopes": {"type": "array", "items": {"type": "string"}},
      "groups": {"type": "array", "items": {"type": "string"}},
      "other_groups": {"type": "array", "items": {"type": "object", "additionalProperties": false,
        "properties": {"issuer": {"type": "string"}, "name": {"type": "string"}}}},
      "groups_known": {"type": "boolean"},
      "claims": {"type": "object", "additionalProperties": true}}},
    "agent": {"type": "object", "additionalProperties": false, "properties": {"id": {"type": "string"}}},
    "run": {"type": "object", "additionalProperties": false, "properties": {
      "id": {"type": "string"}, "turn": {"type": "number"},
      "labels": {"type": "array", "items": {"type": "string"}}, "parent": {"type": "string"}}},
    "call": {"type": "object", "additionalProperties": false, "properties": {
      "id": {"type": "string"}, "source": {"type": "string"}, "route": {"type": "string"},
      "attempt": {"type": "number"}, "purpose": {"type": "string"}}},
    "targets": {"type": "array", "items": {"type": "object", "additionalProperties": false, "properties": {
      "argument": {"type": "string"}, "kind": {"type": "string"}, "value": {"type": "string"}}}},
    "origins": {"type": "object", "additionalProperties": {"type": "string"}},
    "approval": {"type": ["object", "null"], "additionalProperties": false, "properties": {
      "id": {"type": "string"}, "state": {"type": "string"}, "answers": {"type": "number"}}},
    "limits": {"type": "object", "additionalProperties": false, "properties": {
      "calls_in_turn": {"type": "number"}, "calls_in_run": {"type": "number"}, "autonomous": {"type": ["number", "null"]}}},
    "env": {"type": "object", "additionalProperties": false, "properties": {"name": {"type": "string"}}},
    "time": {"type": "string"}
  }
}`
