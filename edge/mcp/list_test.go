package mcp_test

import (
	"encoding/json"
	"testing"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"pgregory.net/rapid"
)

type listed struct {
	Tools []struct {
		Name        string
		Description string
		InputSchema json.RawMessage
	}
	ResultType string `json:"resultType"`
	TTL        *int   `json:"ttlMs"`
	Scope      string `json:"cacheScope"`
}

func (w *world) list(t testing.TB, era, token string) listed {
	t.Helper()
	var a answer
	if era == "session" {
		a = w.open(token).send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	} else {
		a = w.modern(token, "tools/list", `{"_meta":{`+modernMeta+`}}`)
	}
	var l listed
	if err := json.Unmarshal(a.rpc(t).Result, &l); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
	return l
}

func TestListIsPrivateAndPinned(t *testing.T) {
	w := newWorld(t, nil)
	l := w.list(t, "modern", w.token("anna"))
	if l.ResultType != "complete" || l.Scope != "private" || l.TTL == nil || *l.TTL < 0 {
		t.Fatalf("%+v", l)
	}
	if e := l.Tools[2]; e.Name != "breaks" || e.Description != "Does breaks." || string(e.InputSchema) != `{"additionalProperties":true,"type":"object"}` {
		t.Fatalf("%+v", e)
	}
	if a := w.modern(w.token("anna"), "tools/list", `{"cursor":"x","_meta":{`+modernMeta+`}}`); a.status != 400 {
		t.Fatalf("%d %s", a.status, a.body)
	}
}

// List and call agree for every caller, in both eras: what is listed is never
// missing when called, and what is not listed always is.
func TestListAndCallAgree(t *testing.T) {
	w := newWorld(t, nil)
	every := []string{"ask_pay", "asks", "bobs", "delete_file", "echo", "mirror", "nothing", "pay", "raw", "secret_pay", "steps"}
	rapid.Check(t, func(t *rapid.T) {
		era := rapid.SampledFrom([]string{"modern", "session"}).Draw(t, "era")
		token := w.token(rapid.SampledFrom([]string{"anna", "bob"}).Draw(t, "user"), func(s *identity.TokenSpec) {
			s.Scopes = rapid.SliceOfDistinct(rapid.SampledFrom([]string{"use", "admin:use", "other"}), rapid.ID[string]).Draw(t, "scopes")
			s.Tenant = rapid.SampledFrom([]string{"acme", "globex"}).Draw(t, "tenant")
		})
		name := rapid.SampledFrom(every).Draw(t, "tool")
		isListed := false
		for _, tool := range w.list(w.t, era, token).Tools {
			isListed = isListed || tool.Name == name
		}
		var a answer
		if era == "session" {
			a = w.open(token).call(name, `{}`)
		} else {
			a = w.call(token, name, `{}`)
		}
		missing := a.status == 403
		if !missing && a.rpc(w.t).Error == nil {
			r := a.tool(w.t)
			missing = r.Meta["dev.placet/decision"] != nil && r.decision(w.t).Code == record.CodeNotAvailable
		}
		if missing == isListed {
			t.Fatalf("listed %t, missing %t: %d %s", isListed, missing, a.status, a.body)
		}
	})
}
