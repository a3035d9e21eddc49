package mcp

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
)

// era is one of the two ways in which a server speaks.
type era int

const (
	unknownEra era = iota
	legacy         // before 2026-07-28: initialize, sessions
	modern         // 2026-07-28: no sessions, every request says all about itself
)

const (
	modernVersion = "2026-07-28"
	legacyVersion = "2025-11-25" // what we ask a legacy server for
)

// legacyKnown reports whether we speak an older revision. Their calls and results
// have one shape.
func legacyKnown(version string) bool {
	switch version {
	case "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05":
		return true
	}
	return false
}

// A request is what we ask of a server, before it has an ID.
type request struct {
	method       string
	name         string                 // tools/call: the tool's name at the server; else what the Mcp-Name header repeats
	arguments    json.RawMessage        // tools/call: canonical
	input        json.RawMessage        // tools/call: a canonical object of answers, or nil
	key          string                 // tools/call: the idempotency key
	sign         func() (string, error) // tools/call: makes a dispatch token; or nil
	token        string                 // tools/call: the one for this sending
	credential   dispatch.Credential    // what it is sent with
	extra        string                 // other methods: members of params, `"name":value`, or empty
	asks         dispatch.Questions     // what the server may ask back, so that we say we can be asked
	progress     func(json.RawMessage)
	acknowledged func()    // subscriptions/listen: the server hears; or nil
	headers      []header  // tools/call, modern: Mcp-Param-*
	deadline     time.Time // no byte leaves after it; zero: none
}

// encode writes the request's one text. What was decided goes in as it is.
func (r *request) encode(id int64, e era, version string) []byte {
	b := make([]byte, 0, 512+len(r.arguments)+len(r.input)+len(r.name)+len(r.extra))
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendInt(b, id, 10)
	b = append(b, `,"method":`...)
	b = quote(b, r.method)
	b = append(b, `,"params":{`...)
	b = r.appendMeta(b, id, e, version)
	if r.method == "tools/call" {
		b = append(b, `"name":`...)
		b = quote(b, r.name)
		b = append(b, `,"arguments":`...)
		b = append(b, r.arguments...)
		b = append(b, ',')
	}
	for name, value := range canon.Members(r.input) {
		if name == "inputResponses" || name == "requestState" {
			b = append(quote(b, name), ':')
			b = append(append(b, value...), ',')
		}
	}
	if r.extra != "" {
		b = append(append(b, r.extra...), ',')
	}
	if b[len(b)-1] == ',' {
		b = b[:len(b)-1]
	}
	return append(b, "}}"...)
}

// appendMeta writes `"_meta":{…},`, or nothing where there is nothing to say.
// None of it comes from a caller.
func (r *request) appendMeta(b []byte, id int64, e era, version string) []byte {
	start := len(b)
	b = append(b, `"_meta":{`...)
	empty := len(b)
	if e == modern {
		b = append(b, `"io.modelcontextprotocol/protocolVersion":"`+modernVersion+`","io.modelcontextprotocol/clientInfo":`...)
		b = appendClient(b, version)
		b = append(b, `,"io.modelcontextprotocol/clientCapabilities":`...)
		b = appendCapabilities(b, r.asks)
	}
	if r.key != "" {
		b = append(b, `"dev.placet/idempotency_key":`...)
		b = append(quote(b, r.key), ',')
	}
	if r.token != "" {
		b = append(b, `"dev.placet/dispatch_token":`...)
		b = append(quote(b, r.token), ',')
	}
	if r.progress != nil {
		b = append(b, `"progressToken":`...)
		b = append(strconv.AppendInt(b, id, 10), ',')
	}
	if len(b) == empty {
		return b[:start]
	}
	return append(b[:len(b)-1], "},"...)
}

// appendCapabilities says which questions may be asked back.
func appendCapabilities(b []byte, q dispatch.Questions) []byte {
	b = append(b, '{')
	for _, c := range []struct {
		can  bool
		text string
	}{{q.Form, `"elicitation":{"form":{}},`}, {q.Roots, `"roots":{},`}, {q.Sampling, `"sampling":{},`}} {
		if c.can {
			b = append(b, c.text...)
		}
	}
	return append(bytes.TrimSuffix(b, []byte{','}), "},"...)
}

func appendClient(b []byte, version string) []byte {
	b = append(b, `{"name":"placet","version":`...)
	return append(quote(b, version), '}')
}

func initialize(version string) *request {
	extra := []byte(`"protocolVersion":"` + legacyVersion + `","capabilities":{},"clientInfo":`)
	return &request{method: "initialize", extra: string(appendClient(extra, version))}
}

// notification writes a message that gets no answer.
func notification(method string, params []byte) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","method":`), quote(nil, method)...)
	if len(params) > 0 {
		b = append(append(b, `,"params":`...), params...)
	}
	return append(b, '}')
}

func cancelled(id int64) []byte {
	p := strconv.AppendInt([]byte(`{"requestId":`), id, 10)
	return notification("notifications/cancelled", append(p, `,"reason":"the caller gave up"}`...))
}

// refusal answers a request that a server makes of us. It may ask whether we are
// there; everything else it could want (sampling, elicitation, roots) is refused
// (rule F6).
func refusal(m message) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), m.id...)
	if m.method == "ping" {
		return append(b, `,"result":{}}`...)
	}
	return append(b, `,"error":{"code":-32601,"message":"this client serves no requests"}}`...)
}

// progressFor returns the params of m if it is a progress notification for the
// request with this ID. The token was ours.
func progressFor(m message) (id int64, ok bool) {
	if !m.isNotification() || m.method != "notifications/progress" || len(m.params) == 0 {
		return 0, false
	}
	err := eachMember(m.params, func(name string, value []byte) error {
		if name != "progressToken" {
			return nil
		}
		n, err := strconv.ParseInt(string(value), 10, 64)
		id, ok = n, err == nil
		return err
	})
	return id, ok && err == nil
}
