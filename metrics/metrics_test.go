package metrics_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"net/http/httptest"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/history"
	"github.com/placet-dev/placet/metrics"
	"github.com/placet-dev/placet/record"
)

// one is a log of every kind of event, read once.
type one struct{ events []record.Event }

func (o one) Last(context.Context, time.Time) (int64, time.Time, error) { return 0, time.Time{}, nil }
func (o one) Events(_ context.Context, q dispatch.EventQuery) ([]record.Event, error) {
	if q.After >= int64(len(o.events)) {
		return nil, nil
	}
	return o.events[q.After:], nil
}
func (o one) Open(context.Context) ([]dispatch.OpenCount, error) {
	return []dispatch.OpenCount{{State: record.Unknown, N: 2, Oldest: time.Unix(100, 0)}}, nil
}

func (o one) Backlog(context.Context) (dispatch.Backlog, error) {
	return dispatch.Backlog{Queued: 3, Oldest: time.Unix(100, 0), Dead: 1}, nil
}

// TestDocumented: every metric that is served stands in docs/operations.md, and
// every one there is served.
func TestDocumented(t *testing.T) {
	bodies := map[record.EventKind]string{record.EventAlert: `{"alert":{"rule":"retold"}}`, record.EventAsked: `{"code":"new_question"}`,
		record.EventProposed: `{"source":"witnessed","emission":"emi_1"}`, record.EventModelAnswered: `{"model":{"emitted":[{"tool":"t"}]}}`}
	var log one
	for _, kind := range []record.EventKind{record.EventProposed, record.EventAsked, record.EventDenied, record.EventForeign, record.EventReturned,
		record.EventLate, record.EventThrottled, record.EventAlert, record.EventModelAnswered, record.EventRevocation, record.EventRevocationUndone} {
		body := bodies[kind]
		if body == "" {
			body = `{"code":"not_available"}`
		}
		log.events = append(log.events, record.Event{Seq: int64(len(log.events) + 1), Kind: kind, Body: []byte(body)})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := metrics.New(metrics.Options{Records: log, Poll: time.Millisecond, Clock: func() time.Time { return time.Unix(160, 0) },
		Quarantined: func() int { return 1 }, Generation: func() int64 { return 3 }, Ignored: func() map[string]int64 { return map[string]int64{"header": 4} },
		Unsealed: func(context.Context) (time.Duration, error) { return 2 * time.Second, nil }, Unpublished: func() time.Duration { return 3 * time.Second }})
	go m.Run(ctx)
	read, err := history.Read([]byte(`[{"role":"tool","tool_call_id":"c1","content":"x"}]`), history.Chat, history.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	classes, err := history.Classify(ctx, read, history.NoRecords{})
	if err != nil {
		t.Fatal(err)
	}
	m.History(read, []history.Finding{{Code: history.CodeOrphanResult, Severity: history.Violation}}, classes)

	var text string
	for end := time.Now().Add(10 * time.Second); !strings.Contains(text, `placet_revocations_total{what="undone"}`); {
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if text = w.Body.String(); time.Now().After(end) {
			t.Fatalf("not everything was counted:\n%s", text)
		}
	}
	for _, line := range []string{`placet_calls_oldest_seconds{state="unknown"} 60`, `placet_emissions_total{what="emitted"} 1`, `placet_emissions_total{what="matched"} 1`,
		`placet_approval_mismatches_total 1`, `placet_history_findings_total{code="orphan_result",severity="violation"} 1`, `placet_version_active 3`,
		`placet_log_unsealed_seconds 2`, `placet_log_unpublished_seconds 3`, `placet_revocations_total{what="made"} 1`, `placet_revocations_total{what="undone"} 1`} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("not served: %s", line)
		}
	}
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	served, documented := map[string]bool{}, map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^# TYPE (placet_\w+)`).FindAllStringSubmatch(text, -1) {
		served[found[1]] = true
	}
	for _, found := range regexp.MustCompile("`(placet_[a-z_]+)").FindAllStringSubmatch(string(page), -1) {
		documented[found[1]] = true
	}
	for name := range served {
		if !documented[name] {
			t.Errorf("%s is not in the table", name)
		}
	}
	for name := range documented {
		if !served[name] {
			t.Errorf("%s is in the table and not served", name)
		}
	}
}
