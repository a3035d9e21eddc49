package lease

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

func work() dispatch.Work {
	return dispatch.Work{Tool: &registry.Tool{Name: "close_account", Upstream: "close"}, Server: &registry.Server{Name: "app", Kind: registry.KindLease},
		Call: "call_1", Attempt: 2, Key: "key-1", Arguments: json.RawMessage(`{"n":1}`), Secret: "secret", Lease: time.Unix(100, 0)}
}

func TestATicketBecomesALease(t *testing.T) {
	w := work()
	w.Token = func() (string, error) { return "a.b.c", nil }
	got := New(nil).invoke(t.Context(), w)
	if got.Err != nil || !got.Sent || got.Result != nil || got.Lease == nil {
		t.Fatalf("%+v", got)
	}
	l := got.Lease
	if l.Attempt != 2 || l.Tool != "close" || string(l.Arguments) != `{"n":1}` || l.Key != "key-1" || l.Secret != "secret" || l.Token != "a.b.c" || !l.Ends.Equal(w.Lease) {
		t.Errorf("%+v", l)
	}
	if w.Token = nil; New(nil).invoke(t.Context(), w).Lease.Token != "" {
		t.Error("a token for a tool that verifies none")
	}
}

// What is not handed out did not leave: it says so, and has no lease.
func TestNoLease(t *testing.T) {
	gone, stop := context.WithCancel(t.Context())
	stop()
	for name, c := range map[string]struct {
		ctx  context.Context
		edit func(*dispatch.Work)
	}{
		"the caller is gone": {ctx: gone},
		"late":               {edit: func(w *dispatch.Work) { w.Deadline = time.Now() }},
		"no holder":          {edit: func(w *dispatch.Work) { w.Secret = "" }},
		"no token":           {edit: func(w *dispatch.Work) { w.Token = func() (string, error) { return "", errors.New("no key") } }},
		"an empty token":     {edit: func(w *dispatch.Work) { w.Token = func() (string, error) { return "", nil } }},
	} {
		w, ctx := work(), t.Context()
		if c.ctx != nil {
			ctx = c.ctx
		}
		if c.edit != nil {
			c.edit(&w)
		}
		if got := New(nil).invoke(ctx, w); got.Lease != nil || got.Sent || got.Err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := New(nil).Invoke(t.Context(), dispatch.Ticket{}); got.Lease != nil || got.Sent || got.Err == nil {
		t.Errorf("the zero ticket: %+v", got)
	}
}

func TestOffersAreTheFilesOfTheSchemas(t *testing.T) {
	dir := t.TempDir()
	s := &registry.Server{Name: "app", Kind: registry.KindLease, Schemas: map[string]string{}}
	for name, text := range map[string]string{"b": `{"title":"B","description":"does b","type":"object"}`, "a": `{"type":"object"}`} {
		s.Schemas[name] = filepath.Join(dir, name+".json")
		if err := os.WriteFile(s.Schemas[name], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	offers, err := New(nil).ListOffers(t.Context(), s)
	if err != nil || len(offers) != 2 || offers[0].Name != "a" || offers[1].Title != "B" || offers[1].Description != "does b" {
		t.Fatalf("%+v %v", offers, err)
	}
	for _, o := range offers {
		if _, err := registry.PinOf(o); err != nil {
			t.Error(err)
		}
	}
	if _, err := New(nil).Offer(t.Context(), s, "c", 0); record.KindOf(err) != record.NotFound {
		t.Errorf("a tool without a schema: %v", err)
	}
	for name, text := range map[string]string{"no JSON": `{"type":`, "no object": `[]`, "a number for a title": `{"title":1}`, "too large": `{"a":"` + strings.Repeat("x", maxSchema) + `"}`, "no file": ""} {
		s.Schemas["a"] = filepath.Join(dir, "bad.json")
		if text == "" {
			s.Schemas["a"] = filepath.Join(dir, "none.json")
		} else if err := os.WriteFile(s.Schemas["a"], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(nil).Offer(t.Context(), s, "a", 0); record.KindOf(err) != record.Unavailable || strings.Contains(record.PublicMessage(err), dir) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := New(nil).ListOffers(t.Context(), s); err == nil {
			t.Errorf("%s is listed", name)
		}
	}
}

// The sample in the documentation was pinned from its own files.
func TestTheSampleIsPinnedFromItsFiles(t *testing.T) {
	s, err := registry.Load([]string{"../../docs/sample/tools.yaml"}, registry.Options{Environment: "production"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"close_account", "show_banner"} {
		tool, ok := s.Tool(name)
		if !ok {
			t.Fatalf("%s is quarantined", name)
		}
		server, _ := s.Server(tool.Server)
		offer, err := New(nil).Offer(t.Context(), server, tool.Upstream, 0)
		if err == nil {
			err = tool.Pin.Check(offer)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestResults(t *testing.T) {
	for value, want := range map[string]string{
		`{"n":1}`: `{"content":[{"type":"text","text":"{\"n\":1}"}],"structuredContent":{"n":1}}`,
		`"done"`:  `{"content":[{"type":"text","text":"done"}]}`,
		``:        `{"content":[]}`,
	} {
		if got, err := Result(json.RawMessage(value), ""); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", value, got, err)
		}
	}
	if got, err := Result(nil, "no such account"); err != nil || !strings.Contains(string(got), `"isError":true`) {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := Result(json.RawMessage(`{"a":`), ""); record.KindOf(err) != record.Invalid {
		t.Errorf("no JSON: %v", err)
	}
}
