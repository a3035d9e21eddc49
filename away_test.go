package placet

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/issuer"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// A run holds a delegation that the development issuer backs: what lena approves
// while anna's agent is away runs once, and does not run once anna is dismissed
// (rule C2). Everything goes over HTTP; the tool's own ledger is the oracle.
func TestRule_C2_TheDevelopmentIssuerIsALiveSource(t *testing.T) {
	door := httptest.NewUnstartedServer(nil)
	var done ledger
	refund := done.tool("refund", "desk:write")
	refund.Entry = registry.Entry{Scope: "desk:write", Write: true, Sources: []registry.SourceName{"direct"},
		Approval: registry.Asking{When: registry.Always, Approvers: []string{"group:leads"}}}
	refund.InputSchema = json.RawMessage(`{"type":"object","properties":{"order":{"type":"string"}}}`)
	o := checkedOptions(t, "version: 1\n", refund)
	o.Config.PublicURL = "http://" + door.Listener.Addr().String()
	users := filepath.Join(t.TempDir(), "users.yaml")
	staff := func(text string) {
		t.Helper()
		if err := os.WriteFile(users, []byte("version: 1\nusers:\n  lena: {tenant: acme, groups: [leads]}\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	staff("  anna: {tenant: acme, scopes: [\"desk:write\"]}\n")
	o.Users = issuer.File(users)
	p, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	door.Config.Handler = p.Handler()
	door.Start()
	t.Cleanup(func() { door.CloseClientConnections(); door.Close() })

	token := func(s identity.TokenSpec) string {
		t.Helper()
		text, err := o.Local.Sign(s)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	agent := token(identity.TokenSpec{Audience: o.Config.Audience(), Subject: "anna", Tenant: "acme", Agent: "bot", Scopes: []string{"desk:write"}})
	lead := token(identity.TokenSpec{Audience: o.Config.ConsoleAudience(), Subject: "lena", Tenant: "acme", Groups: []string{"leads"}})
	ask := func(as, method, path, body string, into any) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, o.Config.PublicURL+path, bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+as)
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
			t.Fatalf("%s %s: %d %v", method, path, resp.StatusCode, err)
		}
		return resp.StatusCode
	}
	// propose leaves a call waiting in a run that holds a delegation, and goes away.
	propose := func(order string) (call, approval string) {
		t.Helper()
		var a struct{ Call, Approval string }
		if status := ask(agent, http.MethodPost, "/v1/calls", `{"tool":"refund","arguments":{"order":"`+order+`"}}`, &a); status != http.StatusAccepted {
			t.Fatalf("proposed: %d %+v", status, a)
		}
		var c struct{ Run string }
		ask(agent, http.MethodGet, "/v1/calls/"+a.Call, "", &c)
		var run struct {
			Delegated *time.Time `json:"delegated_until"`
			Detail    string
		}
		until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		if status := ask(agent, http.MethodPost, "/v1/runs/"+c.Run+"/delegation", `{"until":"`+until+`"}`, &run); status != http.StatusOK || run.Delegated == nil {
			t.Fatalf("delegated: %d %+v", status, run)
		}
		return a.Call, a.Approval
	}
	approve := func(approval string) {
		t.Helper()
		var q struct {
			Binding, State string
			Runs           string `json:"runs_when"`
		}
		ask(lead, http.MethodGet, "/v1/approvals/"+approval, "", &q)
		if status := ask(lead, http.MethodPost, "/v1/approvals/"+approval+"/approve", `{"binding":"`+q.Binding+`"}`, &q); status != http.StatusOK || q.State != "approved" || !strings.HasPrefix(q.Runs, "Runs once: now, for a user who is away") {
			t.Fatalf("approved: %d %+v", status, q)
		}
	}
	settles := func(call string) (state record.State) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
			l, err := p.store.Call(t.Context(), "acme", record.CallID(call))
			if err != nil {
				t.Fatal(err)
			}
			if state = l.Call.State; state.Terminal() {
				return state
			}
		}
		return state
	}

	call, approval := propose("ord_1")
	approve(approval)
	if state := settles(call); state != record.Succeeded {
		t.Fatalf("approved while its agent was away, the call is %s", state)
	}
	if got := done.read(); !slices.Equal(got, []string{"refund for anna@" + LocalIssuer}) {
		t.Fatalf("the ledger has %v", got)
	}
	call, approval = propose("ord_2")
	staff("") // anna is dismissed between the approval and the dispatch
	approve(approval)
	if state := settles(call); state != record.Denied {
		t.Fatalf("after her dismissal, the call is %s", state)
	}
	if got := done.read(); len(got) != 1 {
		t.Fatalf("the ledger has %v", got)
	}
}
