// Package pdptest is a policy decision point for tests: it serves the OpenID
// Authorization API 1.0 over HTTP, in this process, by a rule that the test gives.
//
// It promises to be as strict as the API's certification scenario asks of decision
// points: what it answers is an answer of the specification, unless the test puts a
// fault in its place. It may import canon and the standard library.
package pdptest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/placet-dev/placet/canon"
)

// Entity is a subject, a resource or an action of a request.
type Entity struct {
	Type       string         `json:"type"`
	ID         string         `json:"id"`
	Name       string         `json:"name"`
	Properties map[string]any `json:"properties"`
}

// Request is one evaluation.
type Request struct {
	Subject  *Entity        `json:"subject"`
	Action   *Entity        `json:"action"`
	Resource *Entity        `json:"resource"`
	Context  map[string]any `json:"context"`
}

// Response is one decision.
type Response struct {
	Decision bool           `json:"decision"`
	Context  map[string]any `json:"context,omitempty"`
}

// Rule decides.
type Rule func(Request) Response

// Decide is a plain answer.
func Decide(yes bool) Response { return Response{Decision: yes} }

// PDP is a running decision point.
type PDP struct {
	URL      string
	NoBatch  bool           // serve no /access/v1/evaluations
	Metadata map[string]any // nil: as the specification wants

	rule  Rule
	mu    sync.Mutex
	asked []Request
	heads []http.Header
	fault http.HandlerFunc
}

// New starts a decision point, which ends with the test.
func New(t testing.TB, rule Rule) *PDP {
	t.Helper()
	p := &PDP{rule: rule}
	s := httptest.NewServer(p)
	p.URL = s.URL
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return p
}

// Fault answers in the decision point's place until it is nil again.
func (p *PDP) Fault(h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = h
}

// Asked is every evaluation so far, in order.
func (p *PDP) Asked() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Request(nil), p.asked...)
}

// Headers are those of every request so far, in order.
func (p *PDP) Headers() []http.Header {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]http.Header(nil), p.heads...)
}

// Answer writes a text as an answer of the specification would be written.
func Answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		head(w, r)
		_, _ = io.WriteString(w, text)
	}
}

func head(w http.ResponseWriter, r *http.Request) {
	if id := r.Header.Get("X-Request-ID"); id != "" {
		w.Header().Set("X-Request-ID", id)
	}
	w.Header().Set("Content-Type", "application/json")
}

// ServeHTTP implements http.Handler.
func (p *PDP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Read here, also for faults: only then does a handler see that the caller left.
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	p.mu.Lock()
	p.heads = append(p.heads, r.Header.Clone())
	fault := p.fault
	p.mu.Unlock()
	if fault != nil {
		fault(w, r)
		return
	}
	head(w, r)
	switch {
	case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/.well-known/authzen-configuration"):
		write(w, p.metadata())
	case r.Method == http.MethodPost && r.URL.Path == "/access/v1/evaluation", r.Method == http.MethodPost && r.URL.Path == "/access/v1/evaluations" && !p.NoBatch:
		p.evaluate(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (p *PDP) metadata() map[string]any {
	if p.Metadata != nil {
		return p.Metadata
	}
	m := map[string]any{"policy_decision_point": p.URL, "access_evaluation_endpoint": p.URL + "/access/v1/evaluation", "capabilities": []string{}}
	if !p.NoBatch {
		m["access_evaluations_endpoint"] = p.URL + "/access/v1/evaluations"
	}
	return m
}

// evaluate answers both endpoints: several evaluations are what one request to the
// second may hold, and without them it is as the first.
func (p *PDP) evaluate(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Request
		Evaluations []json.RawMessage `json:"evaluations"`
		Options     struct {
			Semantic string `json:"evaluations_semantic"`
		} `json:"options"`
	}
	text, err := io.ReadAll(r.Body)
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil {
		text, err = canon.Canonical(text, canon.Limits{})
	}
	if err != nil || kind != "application/json" || json.Unmarshal(text, &body) != nil {
		http.Error(w, "the request is malformed", http.StatusBadRequest)
		return
	}
	if len(body.Evaluations) == 0 || r.URL.Path == "/access/v1/evaluation" {
		if !body.whole() {
			http.Error(w, "a required field is missing", http.StatusBadRequest)
			return
		}
		write(w, p.decide(body.Request))
		return
	}
	out := struct {
		Evaluations []Response `json:"evaluations"`
	}{}
	for _, one := range body.Evaluations {
		var e Request
		answer := Response{Context: map[string]any{"error": map[string]any{"status": 400, "message": "a required field is missing"}}}
		if json.Unmarshal(one, &e) == nil {
			if e = e.over(body.Request); e.whole() {
				answer = p.decide(e)
			}
		}
		out.Evaluations = append(out.Evaluations, answer)
		if !answer.Decision && body.Options.Semantic == "deny_on_first_deny" || answer.Decision && body.Options.Semantic == "permit_on_first_permit" {
			break
		}
	}
	write(w, out)
}

// over lays an evaluation over the defaults: what it names replaces the default,
// whose type, ID and name stand in where they are missing.
func (r Request) over(defaults Request) Request {
	for _, e := range []struct {
		to   **Entity
		from *Entity
	}{{&r.Subject, defaults.Subject}, {&r.Action, defaults.Action}, {&r.Resource, defaults.Resource}} {
		switch {
		case *e.to == nil:
			*e.to = e.from
		case e.from != nil:
			to := *e.to
			to.Type, to.ID, to.Name = cmp.Or(to.Type, e.from.Type), cmp.Or(to.ID, e.from.ID), cmp.Or(to.Name, e.from.Name)
		}
	}
	if r.Context == nil {
		r.Context = defaults.Context
	}
	return r
}

func (r Request) whole() bool {
	return r.Subject != nil && r.Subject.Type != "" && r.Subject.ID != "" && r.Action != nil && r.Action.Name != "" &&
		r.Resource != nil && r.Resource.Type != "" && r.Resource.ID != ""
}

func (p *PDP) decide(r Request) Response {
	p.mu.Lock()
	p.asked = append(p.asked, r)
	p.mu.Unlock()
	return p.rule(r)
}

func write(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }
