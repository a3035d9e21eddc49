package mcp

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

func contextFor(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

func recordLineage(s string) record.LineageID { return record.LineageID(s) }

func serve(t testing.TB, h http.HandlerFunc) string {
	srv := httptest.NewServer(h)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL
}

func TestOffer(t *testing.T) {
	everywhere(t, func(t *testing.T, v *Invoker, s *target) {
		o, err := v.Offer(within(t), s.Server, "region", time.Minute)
		if err != nil || o.Name != "region" || o.Description != "does region" || !strings.Contains(string(o.InputSchema), `"x-mcp-header":"Region"`) || o.OutputSchema != nil {
			t.Fatalf("%+v, %v", o, err)
		}
		if _, err := v.Offer(within(t), s.Server, "nope", time.Minute); record.KindOf(err) != record.NotFound {
			t.Errorf("a tool that it does not offer: %v", err)
		}
		all, err := v.ListOffers(within(t), s.Server)
		if err != nil || len(all) != 13 {
			t.Errorf("%d offers, %v", len(all), err)
		}
		for _, line := range s.ledger.lines() {
			switch strings.TrimPrefix(line, "method ") {
			case "initialize", "notifications/initialized", "server/discover", "tools/list", "subscriptions/listen":
			default:
				t.Errorf("discovery did %q", line)
			}
		}
	})
}

func TestRule_H5_CachedForALittle(t *testing.T) {
	everywhere(t, func(t *testing.T, v *Invoker, s *target) {
		now := time.Now()
		var mu sync.Mutex
		v.opts.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
		settle(t, v, s)
		before := s.ledger.count("method tools/list")
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if _, err := v.Offer(within(t), s.Server, "echo", time.Minute); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := s.ledger.count("method tools/list") - before; n != 0 {
			t.Errorf("asked %d times for what was young enough", n)
		}
		mu.Lock()
		now = now.Add(61 * time.Second)
		mu.Unlock()
		for range 50 {
			all.Go(func() { v.Offer(within(t), s.Server, "echo", time.Minute) })
		}
		all.Wait()
		if n := s.ledger.count("method tools/list") - before; n != 1 {
			t.Errorf("asked %d times when it had become too old, want once for all", n)
		}
	})
}

// settle asks for the list until the listener is at work and has had its say.
func settle(t *testing.T, v *Invoker, s *target) {
	t.Helper()
	if _, err := v.Offer(within(t), s.Server, "echo", time.Minute); err != nil {
		t.Fatal(err)
	}
	e, _ := v.endpoint(s.Server)
	waitFor(t, "the listener", func() bool { return e.list.changes.Load() > 0 })
	if _, err := v.Offer(within(t), s.Server, "echo", time.Minute); err != nil {
		t.Fatal(err)
	}
}

func TestRule_H5_NoticeInvalidatesAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, v *Invoker, s *target) {
		settle(t, v, s)
		if _, err := v.Offer(within(t), s.Server, "fresh", time.Hour); record.KindOf(err) != record.NotFound {
			t.Fatalf("before: %v", err)
		}
		w := s.work("grow", `{"name":"fresh"}`)
		if s.child {
			// The other children of one command do not know of it: a tool of the
			// discovery child has to be changed, so discovery must make the call.
			e, _ := v.endpoint(s.Server)
			q, _ := requestOf(w)
			if a := v.send(within(t), e, owner{discovery: true}, q); a.result == nil {
				t.Fatalf("%+v", a)
			}
		} else {
			mustReach(t, v, w)
		}
		waitFor(t, "the new tool", func() bool {
			_, err := v.Offer(within(t), s.Server, "fresh", time.Hour)
			return err == nil
		})
	})
}

func TestHostileLists(t *testing.T) {
	tool := `{"name":"x","inputSchema":{"type":"object"}}`
	for name, pages := range map[string]func(n int) string{
		"no tools":      func(int) string { return `{}` },
		"tools twice":   func(int) string { return `{"tools":[],"tools":[]}` },
		"not an array":  func(int) string { return `{"tools":{}}` },
		"no name":       func(int) string { return `{"tools":[{"inputSchema":{}}]}` },
		"null":          func(int) string { return `{"tools":[null]}` },
		"endless pages": func(n int) string { return fmt.Sprintf(`{"tools":[],"nextCursor":"%d"}`, n) },
		"many tools": func(n int) string {
			return `{"tools":[` + strings.Repeat(tool+",", 5000) + tool + fmt.Sprintf(`],"nextCursor":"%d"}`, n)
		},
	} {
		n := 0
		s, _ := rawServer(t, func(w http.ResponseWriter, _ *http.Request, id string) {
			n++
			writeJSON(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, pages(n))
		})
		if o, err := open(t, Options{}).ListOffers(within(t), s.Server); record.KindOf(err) != record.Unavailable {
			t.Errorf("%s: %d offers, %v", name, len(o), err)
		}
	}
	s, _ := rawServer(t, func(w http.ResponseWriter, _ *http.Request, id string) {
		writeJSON(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s,%s,{"name":"y"}]}}`, id, tool, strings.Replace(tool, "object", "array", 1))
	})
	v := open(t, Options{})
	if _, err := v.Offer(within(t), s.Server, "x", 0); record.KindOf(err) != record.Unavailable {
		t.Errorf("a name offered twice: %v", err)
	}
	if _, err := v.Offer(within(t), s.Server, "y", 0); err != nil {
		t.Errorf("its neighbour: %v", err)
	}
}

func TestPagesAreFollowed(t *testing.T) {
	s, _ := rawServer(t, nil)
	var page int
	s.URL = serve(t, func(w http.ResponseWriter, r *http.Request) {
		id := idOf(t, r)
		if r.Header.Get("Mcp-Method") == "server/discover" {
			writeJSON(w, `{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}`, id)
			return
		}
		page++
		next := fmt.Sprintf(`,"nextCursor":"page \"%d\""`, page)
		if page == 3 {
			next = ""
		}
		writeJSON(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"t%d","title":"T","inputSchema":{"const":9007199254740993},"annotations":{"x":1}}]%s}}`, id, page, next)
	})
	all, err := open(t, Options{}).ListOffers(within(t), &registry.Server{Name: "p", URL: s.URL})
	if err != nil || len(all) != 3 || all[2].Name != "t3" || string(all[0].InputSchema) != `{"const":9007199254740993}` || string(all[1].Annotations) != `{"x":1}` || all[0].Title != "T" {
		t.Errorf("%+v, %v", all, err)
	}
}
