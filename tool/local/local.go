package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// Call is what a handler gets.
type Call struct {
	Tool      string
	Owner     record.Owner
	Run       record.RunID
	ID        record.CallID
	Attempt   int
	Arguments json.RawMessage            // canonical, validated against the tool's schema
	Key       string                     // idempotency key, one for all attempts
	Progress  func(json.RawMessage) bool // params of an MCP progress notification; false: nobody listens
}

// Handler runs one call. It returns a JSON value, or an error that the model
// reads. An error says nothing about the effect, unless it wraps [ErrRefused].
type Handler func(context.Context, Call) (json.RawMessage, error)

// ErrRefused in an error's chain says that the handler refused before it did anything.
var ErrRefused = errors.New("refused before execution")

var (
	errTicket   = errors.New("the ticket is not good for a call")
	errDeadline = errors.New("the deadline passed before the call began")
)

// Invoker holds handlers by tool name. It implements [dispatch.Invoker].
type Invoker struct {
	mu       sync.RWMutex
	handlers map[string]Handler
	now      func() time.Time
}

var _ dispatch.Invoker = (*Invoker)(nil)

// New returns an invoker without handlers.
func New() *Invoker { return &Invoker{handlers: map[string]Handler{}, now: time.Now} }

// Add makes h the handler of a tool. A name has one handler, for good.
func (v *Invoker) Add(name string, h Handler) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case h == nil:
		return record.Errorf(record.Invalid, "tool %q has no handler", name)
	case v.handlers[name] != nil:
		return record.Errorf(record.Conflict, "tool %q has a handler already", name)
	}
	v.handlers[name] = h
	return nil
}

func (v *Invoker) handler(name string) Handler {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.handlers[name]
}

// Offer says that a tool with a handler exists. Its description is compiled in,
// so that there is nothing that could have drifted.
func (v *Invoker) Offer(_ context.Context, s *registry.Server, upstream string, _ time.Duration) (registry.Offer, error) {
	if v.handler(upstream) == nil {
		return registry.Offer{}, record.Errorf(record.NotFound, "server %s has no handler for tool %q", s.Name, upstream)
	}
	return registry.Offer{Name: upstream}, nil
}

// Invoke runs the ticket's call.
func (v *Invoker) Invoke(ctx context.Context, t dispatch.Ticket) dispatch.Reached {
	w, ok := t.Redeem()
	if !ok {
		return dispatch.Reached{Err: errTicket}
	}
	return v.invoke(ctx, w)
}

func (v *Invoker) invoke(ctx context.Context, w dispatch.Work) dispatch.Reached {
	h := v.handler(w.Tool.Name)
	switch {
	case h == nil:
		return dispatch.Reached{Refused: true, Err: fmt.Errorf("tool %s has no handler", w.Tool.Name)}
	case ctx.Err() != nil:
		return dispatch.Reached{Err: ctx.Err()}
	case !w.Deadline.IsZero() && !v.now().Before(w.Deadline):
		return dispatch.Reached{Err: errDeadline}
	}
	var over atomic.Bool // nobody reads progress any more
	defer over.Store(true)
	call := Call{
		Tool: w.Tool.Name, Owner: w.Owner, Run: w.Run, ID: w.Call,
		Attempt: w.Attempt, Arguments: w.Arguments, Key: w.Key,
		Progress: func(params json.RawMessage) bool {
			if w.Progress == nil || over.Load() {
				return false
			}
			w.Progress(params)
			return true
		},
	}
	done := make(chan dispatch.Reached, 1)
	go func() {
		out := dispatch.Reached{Sent: true, Err: fmt.Errorf("the handler of %s ended its goroutine", call.Tool)}
		defer func() { done <- out }()
		out = run(ctx, h, call)
	}()
	select {
	case out := <-done:
		return out
	case <-ctx.Done():
		select { // both may be ready: what is known counts
		case out := <-done:
			return out
		default:
			return dispatch.Reached{Sent: true, Err: ctx.Err()}
		}
	}
}

// run calls the handler and writes what it returned as an MCP tool result.
func run(ctx context.Context, h Handler, c Call) (out dispatch.Reached) {
	defer func() {
		if p := recover(); p != nil {
			// Not the value: it may hold arguments.
			out = dispatch.Reached{Sent: true, Err: fmt.Errorf("the handler of %s panicked (%T)", c.Tool, p)}
		}
	}()
	value, err := h(ctx, c)
	switch {
	case errors.Is(err, ErrRefused):
		return dispatch.Reached{Sent: true, Refused: true, Err: err}
	case err != nil:
		return dispatch.Reached{Sent: true, IsError: true, Result: textResult(nil, err.Error(), true)}
	}
	result, err := Result(value)
	if err != nil {
		return dispatch.Reached{Sent: true, Err: fmt.Errorf("the handler of %s returned no JSON: %w", c.Tool, err)}
	}
	return dispatch.Reached{Sent: true, Result: result}
}

// Failure writes why a tool did nothing as an MCP tool result.
func Failure(text string) json.RawMessage { return textResult(nil, text, true) }

var errNotJSON = errors.New("not valid JSON")

// Result writes a value as an MCP tool result: an object as structured content
// beside its text, a string as text, nothing as no content.
func Result(value json.RawMessage) (json.RawMessage, error) {
	if len(value) == 0 {
		return json.RawMessage(`{"content":[]}`), nil
	}
	v := jsontext.Value(value)
	if !v.IsValid() {
		return nil, errNotJSON
	}
	switch v.Kind() {
	case '"':
		text, err := jsontext.AppendUnquote(nil, v)
		if err != nil {
			return nil, errNotJSON
		}
		return textResult(nil, string(text), false), nil
	case '{':
		return textResult(value, string(value), false), nil
	}
	return textResult(nil, string(value), false), nil
}

func textResult(structured json.RawMessage, text string, isError bool) json.RawMessage {
	b := make([]byte, 0, 2*len(text)+len(structured)+96)
	b = append(b, `{"content":[{"type":"text","text":`...)
	if quoted, err := jsontext.AppendQuote(b, text); err == nil {
		b = quoted
	} else {
		b = append(b, `"the text is not UTF-8"`...)
	}
	b = append(b, `}]`...)
	if structured != nil {
		b = append(append(b, `,"structuredContent":`...), structured...)
	}
	if isError {
		b = append(b, `,"isError":true`...)
	}
	return append(b, '}')
}
