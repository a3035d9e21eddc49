package dispatch

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// Spans tell operators where a call's time went. They follow OpenTelemetry's
// semantic conventions for generative AI ("execute tool") and MCP ("tools/call"). They
// name a tool of the registry, this server's own IDs and words, and nobody: no
// principal, tenant, argument, result or reason is in one. They are no evidence; the
// log is.
type spans struct{ trace.Tracer }

func newSpans(t trace.Tracer) spans {
	if t == nil {
		t = noop.NewTracerProvider().Tracer("")
	}
	return spans{t}
}

// call spans a request that proposes or continues a call. done says how it ended.
func (s spans) call(ctx context.Context, tool string, id record.CallID) (_ context.Context, done func(Answer, error)) {
	ctx, span := s.Start(ctx, "execute_tool", trace.WithAttributes(attribute.String("gen_ai.operation.name", "execute_tool")))
	if !span.IsRecording() {
		return ctx, func(Answer, error) { span.End() }
	}
	return ctx, func(a Answer, err error) {
		defer span.End()
		if a.Call != nil {
			tool, id = a.Call.Tool.Name, a.Call.ID
			span.SetAttributes(attribute.String("placet.run", string(a.Call.Run)), attribute.String("placet.state", string(a.Call.State)),
				attribute.Int("placet.attempt", a.Call.Attempt))
		}
		if toolName(tool) { // nothing else that a caller sends names a tool
			span.SetName("execute_tool " + tool)
			span.SetAttributes(attribute.String("gen_ai.tool.name", tool))
		}
		if record.ValidID("call", string(id)) {
			span.SetAttributes(attribute.String("gen_ai.tool.call.id", string(id)))
		}
		if err != nil {
			span.SetAttributes(attribute.String("error.type", string(record.KindOf(err))))
			span.SetStatus(codes.Error, "")
			return
		}
		span.SetAttributes(attribute.String("placet.verdict", string(a.Verdict)), attribute.String("placet.code", string(a.Code)),
			attribute.Bool("placet.ran", a.Ran))
		if a.IsError {
			span.SetAttributes(attribute.String("error.type", "tool_error"))
			span.SetStatus(codes.Error, "")
		}
	}
}

// reach spans what is sent to a tool.
func (s spans) reach(ctx context.Context, t *registry.Tool, c record.Call) (_ context.Context, done func(Reached)) {
	ctx, span := s.Start(ctx, t.Method.String()+" "+t.Name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("mcp.method.name", t.Method.String()), attribute.String("gen_ai.tool.name", t.Name),
		attribute.String("gen_ai.tool.call.id", string(c.ID)), attribute.String("placet.server", t.Server), attribute.Int("placet.attempt", c.Attempt)))
	return ctx, func(r Reached) {
		span.SetAttributes(attribute.Bool("placet.sent", r.Sent))
		switch {
		case r.IsError:
			span.SetAttributes(attribute.String("error.type", "tool_error"))
		case r.Err != nil:
			span.SetAttributes(attribute.String("error.type", "no_answer"))
		}
		if r.Err != nil || r.IsError {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}
