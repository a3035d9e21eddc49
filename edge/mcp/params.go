package mcp

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.opentelemetry.io/otel/propagation"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// Members that some reader of a request looks at: exactCase refuses their
// variants on every method.
var (
	paramsMembers = []string{"name", "arguments", "_meta", "inputResponses", "requestState", "cursor", "uri", "ref",
		"argument", "context", "level", "requestId", "reason", "progressToken", "progress", "total", "message",
		"protocolVersion", "capabilities", "clientInfo", "notifications", "task"}
	metaMembers = []string{"progressToken", metaVersion, metaCapabilities, metaClientInfo, metaLogLevel,
		metaRun, metaOccurrence, metaPurpose, metaVouch, metaTraceParent, metaTraceState}
)

const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaClientInfo   = "io.modelcontextprotocol/clientInfo"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
	metaServerInfo   = "io.modelcontextprotocol/serverInfo"

	metaPrefix     = "dev.placet/"
	metaRun        = metaPrefix + "run"        // the client's name for its run: a label
	metaOccurrence = metaPrefix + "occurrence" // makes equal proposals two
	metaPurpose    = metaPrefix + "purpose"    // agent text
	metaVouch      = metaPrefix + "vouch"      // an orchestrator's statement (rule A12)
	metaDecision   = metaPrefix + "decision"   // on answers only
	metaServer     = metaPrefix + "server"     // on a server's own question, where it has no text: who asks
)

// identityNames are what members of _meta are called that say who is calling.
var identityNames = []string{"user", "user_id", "userid", "username", "email", "principal", "subject", "sub", "tenant", "tenant_id", "tenantid",
	"agent", "agent_id", "actor", "act", "iss", "issuer", "groups", "roles", "role", "scope", "scopes", "identity", "authorization", "token", "access_token",
	"on_behalf_of", "onbehalfof", "impersonate", "session", "sessionid", "session_id", "workload"}

// meta is what a request's _meta says. All of it is the client's word.
type meta struct {
	version       string // protocol version; "" when there is none
	capabilities  []byte // the client's, an object; nil when there are none
	progressToken []byte // a string or an integer; nil when there is none
	run           string
	occurrence    string
	purpose       string
	vouch         []byte
	trace         propagation.MapCarrier // the client's own span, by W3C Trace Context (MCP, _meta: traceparent, tracestate)
	claims        bool                   // something in it says who is calling; that counts for nothing
}

// readMeta reads params._meta, and refuses case-variants there and in params.
func readMeta(params []byte) (meta, *refusal) {
	var m meta
	if params == nil {
		return m, nil
	}
	if f := exactCase("params", params, paramsMembers); f != nil {
		return m, f
	}
	object, ok := canon.Lookup(params, "_meta")
	if !ok {
		return m, nil
	}
	if object[0] != '{' {
		return m, refuse(codeInvalidParams, "_meta must be an object")
	}
	if f := exactCase("_meta", object, metaMembers); f != nil {
		return m, f
	}
	if v, ok := canon.Lookup(object, metaVersion); ok {
		if m.version, ok = canon.Text(v); !ok || m.version == "" || len(m.version) > 64 {
			return m, refuse(codeInvalidParams, "missing or invalid _meta field %q", metaVersion)
		}
	}
	if v, ok := canon.Lookup(object, metaCapabilities); ok && v[0] == '{' {
		m.capabilities = v
	}
	if v, ok := canon.Lookup(object, "progressToken"); ok {
		if len(v) > maxID || v[0] != '"' && !integer(v) {
			return m, refuse(codeInvalidParams, "progressToken must be a string or an integer, of at most %d bytes", maxID)
		}
		m.progressToken = v
	}
	m.vouch, _ = canon.Lookup(object, metaVouch)
	m.trace = readTrace(object)
	for name := range canon.Members(object) {
		m.claims = m.claims || slices.Contains(identityNames, strings.ToLower(name[strings.LastIndexAny(name, "/.:")+1:]))
	}
	for _, label := range []struct {
		name string
		to   *string
		max  int
	}{{metaRun, &m.run, 128}, {metaOccurrence, &m.occurrence, 256}, {metaPurpose, &m.purpose, 2000}} {
		v, ok := canon.Lookup(object, label.name)
		if !ok {
			continue
		}
		if *label.to, ok = canon.Text(v); !ok || !readable(*label.to, label.max) {
			return m, refuse(codeInvalidParams, "_meta field %q must be text of at most %d bytes without control characters", label.name, label.max)
		}
	}
	return m, nil
}

func readable(s string, limit int) bool {
	if len(s) > limit {
		return false
	}
	for _, r := range s {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return false
		}
	}
	return true
}

// call is what a method asks for that reaches a tool server.
type call struct {
	method registry.Method
	uri    string          // resources/read
	of     registry.Method // completion/complete: what is completed, a prompt or a template
	ref    string          // and its name, or its text

	name      string
	arguments json.RawMessage // an object, or nil when there are none
	responses json.RawMessage // inputResponses, an object of objects, or nil
	state     string          // requestState, as the client sent it back
}

// readCall reads the parameters of tools/call.
func readCall(params []byte) (call, *refusal) {
	var c call
	if params == nil {
		return c, refuse(codeInvalidParams, "params are missing")
	}
	v, _ := canon.Lookup(params, "name")
	var ok bool
	if c.name, ok = canon.Text(v); !ok || c.name == "" || len(c.name) > 128 || !printable(c.name) {
		return call{}, refuse(codeInvalidParams, "name must be the name of a tool")
	}
	if v, ok := canon.Lookup(params, "arguments"); ok {
		if v[0] != '{' {
			return c, refuse(codeInvalidParams, "arguments must be an object")
		}
		c.arguments = v
	}
	if v, ok := canon.Lookup(params, "task"); ok && string(v) != "null" {
		return c, refuse(codeInvalidParams, "tasks are not supported; call without task")
	}
	return c, c.readInput(params)
}

func (c *call) readInput(params []byte) *refusal {
	if v, ok := canon.Lookup(params, "inputResponses"); ok {
		if v[0] != '{' {
			return refuse(codeInvalidParams, "inputResponses must be an object of objects")
		}
		for _, response := range canon.Members(v) {
			if response[0] != '{' {
				return refuse(codeInvalidParams, "inputResponses must be an object of objects")
			}
		}
		c.responses = v
	}
	if v, ok := canon.Lookup(params, "requestState"); ok {
		if c.state, ok = canon.Text(v); !ok {
			return refuse(codeInvalidParams, "requestState must be text")
		}
	}
	return nil
}

// printable keeps names fit for logs and answers. What is not a registry name
// becomes not_available anyway.
func printable(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return false
		}
	}
	return true
}

// readVouch reads an orchestrator's statement. It is called only for a caller
// that holds vouch; for anyone else the statement does not count.
func readVouch(v []byte) (*dispatch.Vouch, *refusal) {
	bad := refuse(codeInvalidParams, "_meta field %q must be {turn, response, position, user_input}, of which user_input may be left out", metaVouch)
	if v[0] != '{' {
		return nil, bad
	}
	members := []string{"turn", "response", "position", "user_input"}
	for name := range canon.Members(v) {
		if !slices.Contains(members, name) {
			return nil, bad
		}
	}
	turn, okTurn := number(v, "turn")
	position, okPosition := number(v, "position")
	raw, _ := canon.Lookup(v, "response")
	response, okResponse := canon.Text(raw)
	if !okTurn || turn < 1 || !okPosition || position < 0 || !okResponse || response == "" || !readable(response, 256) {
		return nil, bad
	}
	input, ok := "", true
	if raw, given := canon.Lookup(v, "user_input"); given {
		input, ok = canon.Text(raw)
	}
	if !ok {
		return nil, bad
	}
	return &dispatch.Vouch{Turn: record.Turn(turn), Response: response, Position: int(position), Input: input}, nil
}

func number(object []byte, name string) (int64, bool) {
	v, ok := canon.Lookup(object, name)
	if !ok || !integer(v) {
		return 0, false
	}
	n, err := strconv.ParseInt(string(v), 10, 32)
	return n, err == nil
}

// quote writes a JSON string. Text here is valid UTF-8: it came through canon or
// is our own.
func quote(s string) []byte {
	out, err := json.Marshal(s)
	if err != nil {
		return []byte(`""`)
	}
	return out
}
