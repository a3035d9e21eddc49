package placet

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/placet-dev/placet/record"
)

// lastSpans is how long the end of the process waits for the collector.
const lastSpans = 3 * time.Second

// traces sends spans to a collector (OTLP over HTTP). A collector that is slow or
// away costs spans, never a call.
type traces struct{ provider *sdktrace.TracerProvider }

func (o Options) openTraces(ctx context.Context) (*traces, error) {
	if o.Config.Telemetry.Traces == "" {
		return nil, nil
	}
	to, err := url.Parse(o.Config.Telemetry.Traces)
	if err != nil {
		return nil, record.Because(record.Invalid, err, "telemetry.traces is no URL")
	}
	if to.Path == "" || to.Path == "/" {
		to.Path = "/v1/traces" // where collectors take them (OTLP specification, section "OTLP/HTTP Request")
	}
	sender, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(to.String()))
	if err != nil {
		return nil, record.Because(record.Invalid, err, "telemetry.traces cannot be used")
	}
	about := resource.NewSchemaless(attribute.String("service.name", "placet"), attribute.String("service.version", o.Version))
	return &traces{sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter{sender, o.Log}), sdktrace.WithResource(about),
		// Whether a call is traced is not for its caller to say.
		sdktrace.WithSampler(sdktrace.AlwaysSample()),
	)}, nil
}

// exporter logs what could not be sent, and is done with it.
type exporter struct {
	sdktrace.SpanExporter
	log *slog.Logger
}

func (e exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.log.Warn("spans were not taken by telemetry.traces", "spans", len(spans), "error", err)
	}
	return nil
}

func (t *traces) tracer() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.provider.Tracer("github.com/placet-dev/placet")
}

// spanned begins a span with each request, as a part of the caller's own trace where
// it names one (W3C Trace Context).
func (t *traces) spanned(h http.Handler) http.Handler {
	if t == nil {
		return h
	}
	return otelhttp.NewHandler(h, "", otelhttp.WithTracerProvider(t.provider), otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelhttp.WithFilter(func(r *http.Request) bool { return r.URL.Path != "/healthz" && r.URL.Path != "/readyz" }),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string {
			if r.Pattern != "" {
				return r.Pattern
			}
			return r.Method
		}))
}

func (t *traces) close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // the exporter has logged what was lost
}
