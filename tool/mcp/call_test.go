package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/mcphttp"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// What was decided is what arrives, and what the server answers is what comes back.
func TestRule_C6_BytesBothWays(t *testing.T) {
	everywhere(t, func(t *testing.T, v *Invoker, s *target) {
		const arguments = `{"a":"<&> ü","n":9007199254740993,"x":1e+30}`
		out := mustReach(t, v, s.work("echo", arguments))
		if got := s.ledger.count("echo " + arguments + " key=key-1"); got != 1 {
			t.Errorf("the server's ledger: %q", s.ledger.lines())
		}
		if !strings.Contains(string(out.Result), `9007199254740993`) || out.IsError || out.Asks || out.Refused {
			t.Errorf("result %s, %+v", out.Result, out)
		}
		if out := mustReach(t, v, s.work("fail", `{}`)); !out.IsError {
			t.Errorf("isError was lost: %+v", out)
		}
	})
}

func TestIdempotencyKeyGoesWithCallsOnly(t *testing.T) {
	everywhere(t, func(t *testing.T, v *Invoker, s *target) {
		mustReach(t, v, s.work("echo", `{}`))
		if _, err := v.Offer(within(t), s.Server, "echo", 0); err != nil {
			t.Fatal(err)
		}
		if s.seen == nil {
			return
		}
		keys := 0
		s.seen.each(func(r *http.Request) {
			if r.Header.Get("Idempotency-Key") == "key-1" {
				keys++
			}
			if m := r.Header.Get("Mcp-Method"); m != "" && m != "tools/call" && r.Header.Get("Idempotency-Key") != "" {
				t.Errorf("%s carried a key", m)
			}
		})
		if keys != 1 {
			t.Errorf("%d requests carried the key, want 1", keys)
		}
	})
}

func TestUnknownToolIsRefused(t *testing.T) {
	everywhere(t, func(t *testing.T, v *Invoker, s *target) {
		out := v.invoke(within(t), s.work("nope", `{}`))
		if !out.Refused || !out.Sent || out.Result != nil || out.Err == nil {
			t.Errorf("%+v", out)
		}
		mustReach(t, v, s.work("echo", `{}`)) // and the next call works
	})
}

func TestDeadlineIsCheckedBeforeTheFirstByte(t *testing.T) {
	everywhere(t, func(t *testing.T, v *Invoker, s *target) {
		mustReach(t, v, s.work("who", `{}`))
		w := s.work("echo", `{}`)
		w.Deadline = time.Now().Add(-time.Millisecond)
		if out := v.invoke(within(t), w); out.Sent || !errors.Is(out.Err, errDeadline) {
			t.Errorf("late: %+v", out)
		}
		mustReach(t, v, s.work("echo", `{"second":1}`))
		if n := s.ledger.count("echo"); n != 1 {
			t.Errorf("%d effects, want 1: %q", n, s.ledger.lines())
		}
	})
}

func TestManyAtOnceDoNotMix(t *testing.T) {
	everywhere(t, func(t *testing.T, v *Invoker, s *target) {
		var all sync.WaitGroup
		for i := range 80 {
			all.Go(func() {
				w := s.work("echo", fmt.Sprintf(`{"from":%d}`, i))
				w.Owner.Principal.Subject = fmt.Sprintf("user-%d", i%4)
				w.Key = fmt.Sprintf("key-%d", i)
				out := v.invoke(within(t), w)
				if out.Err != nil || !strings.Contains(string(out.Result), fmt.Sprintf(`{"from":%d}`, i)) {
					t.Errorf("call %d: %s, %v", i, out.Result, out.Err)
				}
				if n := s.ledger.count(fmt.Sprintf(`echo {"from":%d} key=key-%d`, i, i)); n != 1 {
					t.Errorf("call %d had %d effects", i, n)
				}
			})
		}
		all.Wait()
	})
}

func TestCancelReachesTheRightCall(t *testing.T) {
	everywhere(t, func(t *testing.T, v *Invoker, s *target) {
		type end struct {
			name string
			out  dispatch.Reached
		}
		ends := make(chan end, 2)
		cancel := map[string]context.CancelFunc{}
		for _, name := range []string{"a", "b"} {
			ctx, stop := context.WithCancel(within(t))
			cancel[name] = stop
			go func() {
				ends <- end{name, v.invoke(ctx, s.work("slow", fmt.Sprintf(`{"ms":3000,"name":%q}`, name)))}
			}()
			s.ledger.until(t, "started", len(cancel))
		}
		cancel["a"]()
		if e := <-ends; e.name != "a" || !e.out.Sent || !errors.Is(e.out.Err, context.Canceled) {
			t.Errorf("the cancelled call: %s %+v", e.name, e.out)
		}
		s.ledger.until(t, "cancelled a", 1)
		if e := <-ends; e.name != "b" || e.out.Err != nil || textOf(t, e.out) != "b" {
			t.Errorf("the other call: %s %+v", e.name, e.out)
		}
		if s.ledger.count("cancelled b") != 0 || s.ledger.count("finished b") != 1 {
			t.Errorf("the server's ledger: %q", s.ledger.lines())
		}
		cancel["b"]()
	})
}

func TestProgressComesInOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, v *Invoker, s *target) {
		if s.seen != nil && !s.modern && strings.Contains(t.Name(), "json") || strings.Contains(t.Name(), "modern_json") {
			t.Skip("the SDK sends no notifications with JSON answers")
		}
		var all sync.WaitGroup
		for _, name := range []string{"x", "y", "z"} {
			all.Go(func() {
				var got []int
				w := s.work("steps", fmt.Sprintf(`{"n":20,"name":%q}`, name))
				w.Progress = func(params json.RawMessage) {
					var p struct {
						Progress int
						Message  string
					}
					if err := json.Unmarshal(params, &p); err != nil || p.Message != name {
						t.Errorf("progress of %s: %s, %v", name, params, err)
					}
					got = append(got, p.Progress)
				}
				if out := v.invoke(within(t), w); out.Err != nil {
					t.Errorf("%v", out.Err)
				}
				for i, n := range got {
					if n != i+1 {
						t.Errorf("%s: order %v", name, got)
						break
					}
				}
				if len(got) != 20 {
					t.Errorf("%s: %d notices, want 20", name, len(got))
				}
			})
		}
		all.Wait()
	})
}

func TestResultLargerThanTheLimit(t *testing.T) {
	const limit = 200_000
	run := func(t *testing.T, v *Invoker, s *target) {
		out := v.invoke(within(t), s.work("big", `{"bytes":1000000}`))
		if !out.Sent || out.Result != nil || !errors.Is(out.Err, mcphttp.ErrTooLarge) {
			t.Errorf("%d bytes, sent %t, %v", len(out.Result), out.Sent, out.Err)
		}
		out = v.invoke(within(t), s.work("big", `{"bytes":210000}`)) // fits a message, not a result
		if !out.Sent || out.Result != nil || !errors.Is(out.Err, mcphttp.ErrTooLarge) {
			t.Errorf("%d bytes, sent %t, %v", len(out.Result), out.Sent, out.Err)
		}
		mustReach(t, v, s.work("big", `{"bytes":150000}`))
		if n := s.ledger.count("big"); n != 3 {
			t.Errorf("%d effects, want 3", n)
		}
	}
	for _, modern := range []bool{true, false} {
		for _, asJSON := range []bool{true, false} {
			t.Run(fmt.Sprintf("http modern=%t json=%t", modern, asJSON), func(t *testing.T) {
				run(t, open(t, Options{MaxResult: limit}), httpTarget(t, modern, asJSON))
			})
		}
	}
	t.Run("stdio", func(t *testing.T) {
		s, env := childTarget(t, "modern")
		run(t, open(t, Options{MaxResult: limit, LookupEnv: env}), s)
	})
}

func TestServerDiesInTheMiddle(t *testing.T) {
	for _, child := range []string{"modern", "legacy"} {
		t.Run(child, func(t *testing.T) {
			s, env := childTarget(t, child)
			v := open(t, Options{LookupEnv: env})
			out := v.invoke(within(t), s.work("die", `{}`))
			if !out.Sent || out.Refused || out.Result != nil || out.Err == nil {
				t.Errorf("%+v", out)
			}
			mustReach(t, v, s.work("echo", `{}`)) // a new child
			if s.ledger.count("died") != 1 {
				t.Errorf("the server's ledger: %q", s.ledger.lines())
			}
		})
	}
	for _, modern := range []bool{true, false} {
		t.Run(fmt.Sprintf("http modern=%t", modern), func(t *testing.T) {
			l := newLedger(t)
			srv := onHTTP(t, newServer(l), modern, false, nil)
			s := &target{Server: &registry.Server{Name: "srv", URL: srv.URL}, ledger: l}
			v := open(t, Options{})
			go func() {
				l.until(t, "started", 1)
				srv.CloseClientConnections()
			}()
			out := v.invoke(within(t), s.work("slow", `{"ms":5000,"name":"a"}`))
			if !out.Sent || out.Refused || out.Result != nil || out.Err == nil {
				t.Errorf("%+v", out)
			}
		})
	}
}

func TestNothingSent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	l.Close()
	for name, server := range map[string]*registry.Server{
		"connection refused": {Name: "srv", URL: url},
		"no such command":    {Name: "srv", Command: []string{"/nonexistent/server"}},
		"ends at once":       {Name: "srv", Command: []string{"false"}},
		"no such host":       {Name: "srv", URL: "http://name.invalid/mcp"},
		"no address":         {Name: "srv"},
	} {
		v := open(t, Options{})
		s := &target{Server: server}
		for range 2 { // the second meets what the first learned
			if out := v.invoke(within(t), s.work("echo", `{}`)); out.Sent || out.Err == nil || out.Result != nil {
				t.Errorf("%s: %+v", name, out)
			}
		}
		if _, err := v.Offer(within(t), server, "echo", 0); err == nil || record.KindOf(err) == record.NotFound {
			t.Errorf("%s: what it offers is not known, got %v", name, err)
		}
	}
	// A modern server that was there a moment ago.
	s := httpTarget(t, true, true)
	v := open(t, Options{})
	mustReach(t, v, s.work("echo", `{}`))
	e, _ := v.endpoint(s.Server)
	gone := *e.modern.Load()
	v.wire.rt.(*http.Transport).CloseIdleConnections()
	e.url.Host, gone.url = l.Addr().String(), e.url
	if out := v.invoke(within(t), s.work("echo", `{}`)); out.Sent || out.Err == nil {
		t.Errorf("server gone: %+v", out)
	}
}

func TestTicketWorksOnce(t *testing.T) {
	v := open(t, Options{})
	if out := v.Invoke(within(t), dispatch.Ticket{}); out.Sent || out.Err == nil {
		t.Errorf("the zero ticket: %+v", out)
	}
}

func TestServerThatAsksBack(t *testing.T) {
	everywhere(t, func(t *testing.T, v *Invoker, s *target) {
		if !s.modern {
			if s.seen != nil && strings.Contains(t.Name(), "json") {
				t.Skip("the SDK cannot ask with JSON answers")
			}
			out := mustReach(t, v, s.work("sample", `{}`))
			if s.ledger.count("sample true") != 1 {
				t.Errorf("sampling was not refused: %s", out.Result)
			}
			w := s.work("echo", `{}`)
			w.Input = json.RawMessage(`{"requestState":"x"}`)
			if out := v.invoke(within(t), w); out.Sent || !errors.Is(out.Err, errNotModern) {
				t.Errorf("input to a legacy server: %+v", out)
			}
			return
		}
		if out := v.invoke(within(t), s.work("ask", `{}`)); !out.Refused || out.Asks || out.Result != nil {
			t.Errorf("not allowed to ask: %+v", out)
		}
		asking := *s.Server
		asking.InputRequired = true
		w := s.work("ask", `{}`)
		w.Server = &asking
		out := mustReach(t, v, w)
		if !out.Asks || !strings.Contains(string(out.Result), `"state-1"`) {
			t.Errorf("allowed to ask: %+v %s", out, out.Result)
		}
		w.Input = json.RawMessage(`{"inputResponses":{"q":{"action":"accept","content":{}}},"name":"who","requestState":"state-1"}`)
		if out := mustReach(t, v, w); out.Asks || textOf(t, out) != "thanks" || s.ledger.count("answered state-1") != 1 {
			t.Errorf("answered: %+v %s", out, out.Result)
		}
	})
}

func TestParamHeaders(t *testing.T) {
	s := httpTarget(t, true, true)
	v := open(t, Options{})
	offer, err := v.Offer(within(t), s.Server, "region", 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, arguments := range []string{`{"n":7,"where":"eu"}`, `{"where":" Zürich\n"}`, `{"where":"=?base64?eA==?="}`, `{}`, `{"n":null,"where":""}`} {
		w := s.work("region", arguments)
		w.Tool.Pin = &registry.Pin{Offer: offer}
		if i == 4 {
			continue // an empty value looks absent to the SDK's server
		}
		mustReach(t, v, w)
		if n := s.ledger.count("region"); n != i+1 {
			t.Errorf("%s: the server did not take the headers", arguments)
		}
	}
	w := s.work("region", `{"where":"eu"}`) // without the pin there are no headers, and the server insists
	if out := v.invoke(within(t), w); !out.Refused {
		t.Errorf("%+v", out)
	}
}
