package metrics

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/history"
	"github.com/placet-dev/placet/record"
)

const page = 500

// Records is what is read.
type Records interface {
	// Last returns number and time of the newest event; zero: there is none.
	Last(ctx context.Context, before time.Time) (int64, time.Time, error)
	Events(context.Context, dispatch.EventQuery) ([]record.Event, error)
	// Open counts the open calls of all tenants.
	Open(context.Context) ([]dispatch.OpenCount, error)
	// Backlog is what waits in the queue of all tenants, and what of it came to nothing.
	Backlog(context.Context) (dispatch.Backlog, error)
}

// Options is what metrics are made of. Records is required.
type Options struct {
	Records     Records
	Quarantined func() int                                   // tools that drifted or are not pinned
	Generation  func() int64                                 // the active version
	Ignored     func() map[string]int64                      // what looked like identity and was none, by what it was
	Unsealed    func(context.Context) (time.Duration, error) // how long the oldest event without a leaf has waited
	Unpublished func() time.Duration                         // how long the newest checkpoint has not come where it is to be kept

	Clock func() time.Time // nil: time.Now
	Log   *slog.Logger     // nil: discarded
	Poll  time.Duration    // how often the log is read; 0: 1 s
}

// Metrics follows the log and serves what it counted.
type Metrics struct {
	o        Options
	registry *prometheus.Registry
	after    int64 // the last event that was counted; of Run, once it runs

	calls, blocked, proposals, emissions, alerts, items, findings *prometheus.CounterVec
	mismatches, foreign, repeats, late, throttled, checked        prometheus.Counter
	revocations                                                   *prometheus.CounterVec
	revoking                                                      prometheus.Histogram
}

// New makes the metrics, all at zero.
func New(o Options) *Metrics {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Poll <= 0 {
		o.Poll = time.Second
	}
	m := &Metrics{o: o, registry: prometheus.NewRegistry()}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "placet", Name: name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	one := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "placet", Name: name, Help: help})
		m.registry.MustRegister(c)
		return c
	}
	m.calls = vec("calls_total", "Events of calls, by what happened.", "event")
	m.blocked = vec("dispatches_blocked_total", "Requests that were denied, refused or held back by a limit, by code.", "code")
	m.proposals = vec("proposals_total", "Proposals, by how well it is known that a model made them.", "source")
	m.emissions = vec("emissions_total", "Calls that models were seen to emit: emitted, matched by a proposal, retired.", "what")
	m.alerts = vec("alerts_total", "Alerts, by rule.", "rule")
	m.items = vec("history_items_total", "Calls and results in histories that were checked, by how far they are to be trusted.", "kind", "class")
	m.findings = vec("history_findings_total", "What was found in histories that were checked.", "code", "severity")
	m.mismatches = one("approval_mismatches_total", "Questions asked because an approval is for something else.")
	m.foreign = one("cross_principal_denials_total", "Requests that named a run or a call of somebody else.")
	m.repeats = one("repeats_answered_total", "Effects not repeated: equal calls that were answered from their record.")
	m.late = one("late_outcomes_total", "Outcomes of attempts that were already given up.")
	m.throttled = one("throttled_windows_total", "Windows in which requests of a caller were refused before the boundary.")
	m.revocations = vec("revocations_total", "Revocations by operators: made, undone.", "what")
	m.revoking = prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "placet", Name: "time_to_revoke_seconds",
		Help: "From an operator's command to when nothing more starts on what was revoked.", Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}})
	m.registry.MustRegister(m.revoking)
	m.checked = one("histories_checked_total", "Histories that were checked.")
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), standing{m})
	return m
}

// Handler serves the metrics in Prometheus's text format and in OpenMetrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true, ErrorLog: failures{m.o.Log}, MaxRequestsInFlight: 4})
}

// History counts one check of a history. classes is nil where it was not compared with records.
func (m *Metrics) History(t *history.Transcript, findings []history.Finding, classes *history.Classification) {
	m.checked.Inc()
	for _, f := range findings {
		m.findings.WithLabelValues(f.Code, string(f.Severity)).Inc()
	}
	if t == nil || classes == nil {
		return
	}
	for _, f := range classes.Findings {
		m.findings.WithLabelValues(f.Code, string(f.Severity)).Inc()
	}
	for item := range t.Items {
		if item.Kind == history.Call || item.Kind == history.Result {
			m.items.WithLabelValues(string(item.Kind), string(classes.Of(item.Index).Class)).Inc()
		}
	}
}

// Revoked notes how long a revocation by this process took.
func (m *Metrics) Revoked(took time.Duration) { m.revoking.Observe(took.Seconds()) }

// Begin finds where counting begins: whatever is recorded after it returned is counted.
func (m *Metrics) Begin(ctx context.Context) (err error) {
	m.after, _, err = m.o.Records.Last(ctx, time.Time{})
	return err
}

// Run follows the log until ctx ends, from where Begin began.
func (m *Metrics) Run(ctx context.Context) {
	t := time.NewTicker(m.o.Poll)
	defer t.Stop()
	for {
		var err error
		if m.after, err = m.follow(ctx, m.after); err != nil && ctx.Err() == nil {
			m.o.Log.Error("metrics: the log cannot be followed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

func (m *Metrics) follow(ctx context.Context, after int64) (int64, error) {
	for {
		events, err := m.o.Records.Events(ctx, dispatch.EventQuery{All: true, After: after, Limit: page})
		if err != nil {
			return after, err
		}
		for _, e := range events {
			m.count(e)
			after = e.Seq
		}
		if len(events) < page {
			return after, nil
		}
	}
}

// count adds one event.
func (m *Metrics) count(e record.Event) {
	var b record.Body
	if err := json.Unmarshal(e.Body, &b); err != nil {
		m.o.Log.Error("metrics: an event cannot be read", "seq", e.Seq, "error", err)
		return
	}
	switch e.Kind {
	case record.EventProposed, record.EventExecuting, record.EventSucceeded, record.EventFailed, record.EventUnknown, record.EventDenied,
		record.EventExpired, record.EventCanceled, record.EventRevoked, record.EventAsked, record.EventReconciled:
		m.calls.WithLabelValues(string(e.Kind)).Inc()
	}
	switch e.Kind {
	case record.EventProposed:
		m.proposals.WithLabelValues(string(b.Source)).Inc()
		if b.Emission != "" {
			m.emissions.WithLabelValues("matched").Inc()
		}
	case record.EventDenied, record.EventRefused, record.EventLimited:
		m.blocked.WithLabelValues(string(b.Code)).Inc()
	case record.EventAsked:
		if b.Code == record.CodeNewQuestion {
			m.mismatches.Inc()
		}
	case record.EventForeign:
		m.foreign.Inc()
	case record.EventReturned:
		m.repeats.Inc()
	case record.EventLate:
		m.late.Inc()
	case record.EventThrottled:
		m.throttled.Inc()
	case record.EventRevocation:
		m.revocations.WithLabelValues("made").Inc()
	case record.EventRevocationUndone:
		m.revocations.WithLabelValues("undone").Inc()
	case record.EventAlert:
		if b.Alert != nil {
			m.alerts.WithLabelValues(string(b.Alert.Rule)).Inc()
		}
	case record.EventModelAsked, record.EventModelAnswered:
		if b.Model != nil {
			m.emissions.WithLabelValues("emitted").Add(float64(len(b.Model.Emitted)))
			m.emissions.WithLabelValues("retired").Add(float64(len(b.Model.Retired)))
		}
	}
}

// standing is what stands now: it is read when somebody asks.
type standing struct{ m *Metrics }

var (
	openCalls   = prometheus.NewDesc("placet_calls_open", "Calls that are not settled, by state; unknown ones wait for reconciliation.", []string{"state"}, nil)
	oldestCalls = prometheus.NewDesc("placet_calls_oldest_seconds", "Age of the oldest call in a state.", []string{"state"}, nil)
	queued      = prometheus.NewDesc("placet_queue_calls", "Queued calls that the clock dispatches by itself, now or later.", nil, nil)
	lag         = prometheus.NewDesc("placet_queue_lag_seconds", "For how long the first of them has been due.", nil, nil)
	dead        = prometheus.NewDesc("placet_queue_dead", "Queued calls that came to nothing, counted up to 10000.", nil, nil)
	quarantined = prometheus.NewDesc("placet_tools_quarantined", "Tools of the registry whose server offers something else than what was pinned.", nil, nil)
	generation  = prometheus.NewDesc("placet_version_active", "Number of the active registry and policy version.", nil, nil)
	unsealed    = prometheus.NewDesc("placet_log_unsealed_seconds", "How long the oldest event that is under no checkpoint has waited.", nil, nil)
	unpublished = prometheus.NewDesc("placet_log_unpublished_seconds", "How long a place outside of the store has not taken the newest checkpoint.", nil, nil)
	ignored     = prometheus.NewDesc("placet_identity_ignored_total", "What looked like identity and was ignored, by what it was.", []string{"what"}, nil)
)

func (s standing) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{openCalls, oldestCalls, queued, lag, dead, quarantined, generation, unsealed, unpublished, ignored} {
		to <- d
	}
}

func (s standing) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	o := s.m.o
	counts, err := o.Records.Open(ctx)
	if err != nil {
		to <- prometheus.NewInvalidMetric(openCalls, err)
	}
	now := o.Clock()
	for _, c := range counts {
		to <- prometheus.MustNewConstMetric(openCalls, prometheus.GaugeValue, float64(c.N), string(c.State))
		to <- prometheus.MustNewConstMetric(oldestCalls, prometheus.GaugeValue, max(0, now.Sub(c.Oldest).Seconds()), string(c.State))
	}
	backlog, err := o.Records.Backlog(ctx)
	if err != nil {
		to <- prometheus.NewInvalidMetric(queued, err)
	} else {
		to <- prometheus.MustNewConstMetric(queued, prometheus.GaugeValue, float64(backlog.Queued))
		to <- prometheus.MustNewConstMetric(lag, prometheus.GaugeValue, backlog.Lag(now).Seconds())
		to <- prometheus.MustNewConstMetric(dead, prometheus.GaugeValue, float64(backlog.Dead))
	}
	if o.Quarantined != nil {
		to <- prometheus.MustNewConstMetric(quarantined, prometheus.GaugeValue, float64(o.Quarantined()))
	}
	if o.Generation != nil {
		to <- prometheus.MustNewConstMetric(generation, prometheus.GaugeValue, float64(o.Generation()))
	}
	if o.Unsealed != nil {
		if lag, err := o.Unsealed(ctx); err != nil {
			to <- prometheus.NewInvalidMetric(unsealed, err)
		} else {
			to <- prometheus.MustNewConstMetric(unsealed, prometheus.GaugeValue, lag.Seconds())
		}
	}
	if o.Unpublished != nil {
		to <- prometheus.MustNewConstMetric(unpublished, prometheus.GaugeValue, o.Unpublished().Seconds())
	}
	if o.Ignored != nil {
		for what, n := range o.Ignored() {
			to <- prometheus.MustNewConstMetric(ignored, prometheus.CounterValue, float64(n), what)
		}
	}
}

// failures are errors of the exporter, in the log.
type failures struct{ log *slog.Logger }

func (f failures) Println(v ...any) { f.log.Error("metrics: not served whole", "error", v) }
