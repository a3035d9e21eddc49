package mcp

import (
	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/registry"
)

// waitTool is a built-in tool; registries may not use its prefix (rule H6).
const waitTool = "placet_wait"

const waitEntry = `{"name":"placet_wait","title":"Continue a held call",` +
	`"description":"Continues a call that waits for approval or whose outcome is not known yet, by the ID that an earlier answer named. ` +
	`It waits for a while; once the call was approved it runs, with the arguments it had, and this tool returns its result.",` +
	`"inputSchema":{"type":"object","properties":{"call":{"type":"string","description":"The call's ID, such as call_01…","pattern":"^call_[0-9a-z]{26}$"}},` +
	`"required":["call"],"additionalProperties":false},"annotations":{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true,"openWorldHint":true}}`

// list serves tools/list: what the boundary would not find missing for this
// caller, as it was pinned, under the registry's names. It is one page, and for
// this caller only.
func (h *Handler) list(x *request) ([]byte, *refusal) {
	if cursor, ok := lookup(x.params, "cursor"); ok && string(cursor) != "null" {
		return nil, refuse(codeInvalidParams, "cursor is not one of ours; list without it")
	}
	out := []byte(`{"tools":[`)
	for _, t := range h.Boundary.EntriesUnder(x.there, x.caller, x.meta.run, registry.MethodTool) {
		out = append(appendTool(out, t), ',')
	}
	if h.Boundary.Delegates() {
		out = append(append(out, delegateEntry...), ',')
	}
	out = append(append(out, waitEntry...), ']')
	if x.modern {
		out = append(out, `,"resultType":"complete","ttlMs":0,"cacheScope":"private"`...)
	}
	return append(out, '}'), nil
}

// appendTool writes one tool from its pin.
func appendTool(out []byte, t *registry.Tool) []byte {
	out = append(append(out, `{"name":`...), quote(t.Name)...)
	raw := func(name string, value []byte) {
		if len(value) > 0 {
			out = append(append(append(append(out, `,"`...), name...), `":`...), value...)
		}
	}
	text := func(name, value string) {
		if value != "" {
			raw(name, quote(value))
		}
	}
	schema := []byte(t.InputSchema())
	if len(schema) == 0 {
		schema = []byte(`{"type":"object"}`)
	}
	if t.Pin != nil {
		text("title", t.Pin.Title)
		text("description", t.Pin.Description)
	}
	raw("inputSchema", schema)
	if t.Pin != nil {
		raw("outputSchema", t.Pin.OutputSchema)
		raw("annotations", t.Pin.Annotations)
	}
	return append(out, '}')
}

// lookup is canon.Lookup for an object that may be absent.
func lookup(object []byte, name string) ([]byte, bool) {
	if object == nil {
		return nil, false
	}
	return canon.Lookup(object, name)
}
