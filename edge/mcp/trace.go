package mcp

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

const (
	metaTraceParent = "traceparent"
	metaTraceState  = "tracestate"
)

// readTrace reads which span of the client's a request belongs to. What is malformed
// is no trace: it decides nothing and refuses nothing.
func readTrace(object []byte) propagation.MapCarrier {
	var out propagation.MapCarrier
	for _, name := range []string{metaTraceParent, metaTraceState} {
		if v, ok := canon.Lookup(object, name); ok && len(v) <= 600 {
			if text, ok := canon.Text(v); ok {
				if out == nil {
					out = propagation.MapCarrier{}
				}
				out[name] = text
			}
		}
	}
	return out
}

// spanned begins the span of a request that reaches a tool (OpenTelemetry, semantic
// conventions for MCP). It belongs to the client's span that _meta names, and is linked
// with the HTTP request's, which may carry others.
func (h *Handler) spanned(ctx context.Context, x *request) (context.Context, trace.Span) {
	if h.Tracer == nil {
		return ctx, trace.SpanFromContext(context.Background())
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("mcp.method.name", x.method), attribute.String("network.transport", "tcp"))}
	if x.meta.trace != nil {
		options = append(options, trace.WithLinks(trace.LinkFromContext(ctx)))
		ctx = propagation.TraceContext{}.Extract(ctx, x.meta.trace)
	}
	return h.Tracer.Start(ctx, x.method, options...)
}

// named tells a span what was called, once it is known to be a tool of the registry.
func named(span trace.Span, method, tool string, code record.Code) {
	if span.IsRecording() {
		span.SetName(method + " " + tool)
		span.SetAttributes(attribute.String("gen_ai.tool.name", tool), attribute.String("placet.code", string(code)))
	}
}
