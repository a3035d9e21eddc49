package pdptest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestCertificationScenario puts requests of the certification scenario, as its
// published text describes them, to the decision point that the other tests use:
// levels Basic, Batch and Discovery.
func TestCertificationScenario(t *testing.T) {
	p := New(t, Certification)
	const (
		alice  = `"subject":{"type":"user","id":"alice"}`
		bob    = `"subject":{"type":"user","id":"bob"}`
		admin  = `"subject":{"type":"user","id":"bob","properties":{"role":"admin"}}`
		read   = `"action":{"name":"read"}`
		change = `"action":{"name":"write"}`
		soft   = `"action":{"name":"delete","properties":{"soft":true}}`
		hard   = `"action":{"name":"delete","properties":{"soft":false}}`
		one    = `"resource":{"type":"record","id":"record-1"}`
		active = `"resource":{"type":"record","id":"record-1","properties":{"status":"active"}}`
		old    = `"resource":{"type":"record","id":"record-2","properties":{"status":"archived"}}`
	)
	object := func(parts ...string) string { return "{" + strings.Join(parts, ",") + "}" }
	list := func(parts ...string) string { return `"evaluations":[` + strings.Join(parts, ",") + "]" }
	for _, c := range []struct{ what, path, body, want string }{
		{"rule 1", "evaluation", object(alice, read, one), "yes"},
		{"rule 2", "evaluation", object(alice, change, one), "yes"},
		{"rule 3", "evaluation", object(bob, read, one), "yes"},
		{"rule 4", "evaluation", object(bob, change, one), "no"},
		{"rule 5", "evaluation", object(alice, change, old), "no"},
		{"rule 6", "evaluation", object(admin, change, old), "yes"},
		{"rule 7", "evaluation", object(alice, soft, one), "yes"},
		{"rule 8", "evaluation", object(alice, hard, one), "no"},
		{"context", "evaluation", object(alice, read, one, `"context":{"time":"2025-06-27T18:03-07:00"}`), "yes"},
		{"unknown fields", "evaluation", object(alice, read, one, `"foo":"bar"`), "yes"},
		{"no subject", "evaluation", object(read, one), "400"},
		{"no action", "evaluation", object(alice, one), "400"},
		{"no resource", "evaluation", object(alice, read), "400"},
		{"no subject type", "evaluation", object(`"subject":{"id":"alice"}`, read, one), "400"},
		{"no subject id", "evaluation", object(`"subject":{"type":"user"}`, read, one), "400"},
		{"no action name", "evaluation", object(alice, `"action":{}`, one), "400"},
		{"no resource type", "evaluation", object(alice, read, `"resource":{"id":"record-1"}`), "400"},
		{"no resource id", "evaluation", object(alice, read, `"resource":{"type":"record"}`), "400"},
		{"subject is a string", "evaluation", object(`"subject":"alice"`, read, one), "400"},
		{"action name is a number", "evaluation", object(alice, `"action":{"name":123}`, one), "400"},
		{"malformed", "evaluation", "{", "400"},
		{"empty", "evaluation", "", "400"},
		{"batch", "evaluations", object(bob, one, list(object(read), object(change))), "yes no"},
		{"batch without defaults", "evaluations", object(list(object(alice, read, one), object(bob, change, one))), "yes no"},
		{"batch with properties", "evaluations", object(alice, change, list(object(active), object(old))), "yes no"},
		{"batch with subjects", "evaluations", object(change, old, list(object(alice), object(admin))), "no yes"},
		{"batch with merged defaults", "evaluations", object(alice, change, `"resource":{"type":"record"}`,
			list(object(`"resource":{"id":"record-1","properties":{"status":"active"}}`), object(old))), "yes no"},
		{"one evaluation fails", "evaluations", object(alice, read, list(object(one), object())), "yes no"},
		{"stop at the first no", "evaluations", object(bob, one, `"options":{"evaluations_semantic":"deny_on_first_deny"}`, list(object(change), object(read))), "no"},
		{"no evaluations", "evaluations", object(alice, read, one), "yes"},
		{"empty evaluations", "evaluations", object(alice, read, one, list()), "yes"},
	} {
		t.Run(c.what, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+"/access/v1/"+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("X-Request-ID", "r-1")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil || resp.Header.Get("X-Request-ID") != "r-1" {
				t.Errorf("%v, request ID %q", err, resp.Header.Get("X-Request-ID"))
			}
			if got := said(t, resp.StatusCode, text); got != c.want {
				t.Errorf("got %s, want %s: %s", got, c.want, text)
			}
		})
	}
	resp, err := http.Get(p.URL + "/.well-known/authzen-configuration")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var m map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&m); err != nil || m["policy_decision_point"] != p.URL || m["access_evaluation_endpoint"] == nil {
		t.Errorf("%v, metadata %v", err, m)
	}
}

func said(t *testing.T, status int, text []byte) string {
	t.Helper()
	if status == http.StatusBadRequest {
		return "400"
	}
	var one struct {
		Decision    *bool
		Evaluations []struct{ Decision *bool }
	}
	if err := json.Unmarshal(text, &one); err != nil || status != http.StatusOK {
		t.Fatalf("status %d, %v", status, err)
	}
	if one.Decision != nil {
		one.Evaluations = append(one.Evaluations, struct{ Decision *bool }{one.Decision})
	}
	var out []string
	for _, e := range one.Evaluations {
		switch {
		case e.Decision == nil:
			out = append(out, "nothing")
		case *e.Decision:
			out = append(out, "yes")
		default:
			out = append(out, "no")
		}
	}
	return strings.Join(out, " ")
}
