package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/placet-dev/placet/registry"
)

// rawServer is a modern server whose answers to tools/call a test writes by hand.
// It counts each tools/call that arrives: those are the effects.
func rawServer(t testing.TB, answer func(w http.ResponseWriter, r *http.Request, id string)) (*target, *atomic.Int64) {
	t.Helper()
	effects := new(atomic.Int64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &m); err != nil {
			http.Error(w, "bad", http.StatusBadRequest)
			return
		}
		if m.Method == "server/discover" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}`, m.ID)
			return
		}
		effects.Add(1)
		answer(w, r, string(m.ID))
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return &target{Server: &registry.Server{Name: "raw", URL: srv.URL + "/mcp"}, modern: true}, effects
}

func writeJSON(w http.ResponseWriter, format string, args ...any) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, format, args...)
}

func TestResultsByteForByte(t *testing.T) {
	const result = `{ "content":[ ], "structuredContent":{"n":9007199254740993,"x":1.50,"e":1E400}, "later":{"unknown":[null]}, "isError":false , "u":"\u00e9<&>" }`
	for name, write := range map[string]func(w http.ResponseWriter, id string){
		"json": func(w http.ResponseWriter, id string) {
			writeJSON(w, `{"result":%s,"id":%s,"jsonrpc":"2.0","extra":1}`, result, id)
		},
		"chunked": func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,`, id)
			w.(http.Flusher).Flush()
			fmt.Fprintf(w, `"result":%s}`, result)
		},
		"sse": func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, ": hello\r\nevent: message\r\ndata: {\"jsonrpc\":\"2.0\",\r\ndata: \"id\":%s,\"result\":%s}\r\n\r\n", id, result)
		},
	} {
		s, _ := rawServer(t, func(w http.ResponseWriter, _ *http.Request, id string) { write(w, id) })
		out := mustReach(t, open(t, Options{}), s.work("x", `{}`))
		if string(out.Result) != result {
			t.Errorf("%s:\ngot  %s\nwant %s", name, out.Result, result)
		}
	}
}

// Go's HTTP client sends a POST with an Idempotency-Key again when a kept
// connection breaks before the answer. One call must stay one effect.
func TestPromise_P5_LostAnswerIsNotSentAgain(t *testing.T) {
	lose := func(t *testing.T) (*target, *atomic.Int64) {
		var s *target
		var effects *atomic.Int64
		s, effects = rawServer(t, func(w http.ResponseWriter, _ *http.Request, id string) {
			if effects.Load() == 2 {
				c, _, _ := w.(http.Hijacker).Hijack()
				c.Close()
				return
			}
			writeJSON(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id)
		})
		return s, effects
	}
	s, effects := lose(t)
	v := open(t, Options{})
	mustReach(t, v, s.work("pay", `{}`)) // so that the connection is kept
	out := v.invoke(within(t), s.work("pay", `{}`))
	if !out.Sent || out.Result != nil || out.Refused || out.Err == nil {
		t.Errorf("%+v", out)
	}
	if n := effects.Load(); n != 2 {
		t.Errorf("%d effects of two calls", n)
	}

	// The same requests as net/http makes them, to show what it is that we avoid.
	s, effects = lose(t)
	for range 2 {
		req, _ := http.NewRequest(http.MethodPost, s.URL, bytes.NewReader([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`)))
		req.Header.Set("Idempotency-Key", "key-1")
		if resp, err := v.wire.rt.RoundTrip(req); err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	if n := effects.Load(); n != 3 {
		t.Errorf("with GetBody: %d effects of two calls, expected the trap to make 3", n)
	}
}

func TestRule_E1_Statuses(t *testing.T) {
	for status, refused := range map[int]bool{
		400: true, 401: true, 403: true, 404: true, 422: true,
		405: false, 408: false, 409: false, 429: false, 500: false, 502: false, 503: false, 504: false, 202: false, 204: false,
	} {
		s, effects := rawServer(t, func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(status) })
		out := open(t, Options{}).invoke(within(t), s.work("x", `{}`))
		if !out.Sent || out.Refused != refused || out.Result != nil || out.Err == nil || effects.Load() != 1 {
			t.Errorf("status %d: %+v, %d arrived", status, out, effects.Load())
		}
	}
	for code, refused := range map[int]bool{-32601: true, -32602: true, -32020: true, -32021: true, -32022: true, -32603: false, -32000: false, -32023: false, -32042: false, 1: false} {
		s, _ := rawServer(t, func(w http.ResponseWriter, _ *http.Request, id string) {
			writeJSON(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no"}}`, id, code)
		})
		out := open(t, Options{}).invoke(within(t), s.work("x", `{}`))
		if !out.Sent || out.Refused != refused || out.Result != nil || out.Err == nil {
			t.Errorf("code %d: %+v", code, out)
		}
	}
}

func TestRule_I2_RedirectsAreNotFollowed(t *testing.T) {
	other, effects := rawServer(t, func(w http.ResponseWriter, _ *http.Request, id string) {
		writeJSON(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id)
	})
	for _, status := range []int{301, 302, 303, 307, 308} {
		s, _ := rawServer(t, func(w http.ResponseWriter, r *http.Request, _ string) { http.Redirect(w, r, other.URL, status) })
		out := open(t, Options{}).invoke(within(t), s.work("x", `{}`))
		if !out.Sent || out.Result != nil || out.Err == nil {
			t.Errorf("status %d: %+v", status, out)
		}
	}
	if effects.Load() != 0 {
		t.Errorf("%d calls went where a server pointed", effects.Load())
	}
}

func TestHostileAnswers(t *testing.T) {
	for name, answer := range map[string]string{
		"another id":         `{"jsonrpc":"2.0","id":4711,"result":{"content":[]}}`,
		"id as text":         `{"jsonrpc":"2.0","id":"%s","result":{"content":[]}}`,
		"no id":              `{"jsonrpc":"2.0","result":{"content":[]}}`,
		"batch":              `[{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}]`,
		"wrong case":         `{"jsonrpc":"2.0","id":%s,"Result":{"content":[]}}`,
		"result and error":   `{"jsonrpc":"2.0","id":%s,"result":{},"error":{"code":1,"message":""}}`,
		"result twice":       `{"jsonrpc":"2.0","id":%s,"result":{"isError":true},"result":{}}`,
		"twice within":       `{"jsonrpc":"2.0","id":%s,"result":{"isError":true,"isError":false}}`,
		"trailing":           `{"jsonrpc":"2.0","id":%s,"result":{}} {}`,
		"cut":                `{"jsonrpc":"2.0","id":%s,"result":{"content":[`,
		"not UTF-8":          "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"a\":\"\xff\"}}",
		"result is an array": `{"jsonrpc":"2.0","id":%s,"result":[]}`,
		"result is null":     `{"jsonrpc":"2.0","id":%s,"result":null}`,
		"version":            `{"jsonrpc":"1.0","id":%s,"result":{}}`,
		"a request":          `{"jsonrpc":"2.0","id":%s,"method":"sampling/createMessage","params":{}}`,
		"nothing":            ``,
		"deep":               `{"jsonrpc":"2.0","id":%s,"result":` + strings.Repeat(`{"a":`, 20_000),
	} {
		for _, sse := range []bool{false, true} {
			s, _ := rawServer(t, func(w http.ResponseWriter, _ *http.Request, id string) {
				text := strings.Replace(answer, "%s", id, 1)
				if sse {
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprintf(w, "data: %s\n\n", text)
					return
				}
				writeJSON(w, "%s", text)
			})
			out := open(t, Options{}).invoke(within(t), s.work("x", `{}`))
			if !out.Sent || out.Result != nil || out.Refused || out.Err == nil {
				t.Errorf("%s, sse %t: %+v", name, sse, out)
			}
		}
	}
}

func TestEndlessAnswers(t *testing.T) {
	for name, write := range map[string]func(w http.ResponseWriter) error{
		"json": func(w http.ResponseWriter) error {
			w.Header().Set("Content-Type", "application/json")
			_, err := io.WriteString(w, strings.Repeat(" ", 1<<12))
			return err
		},
		"one event": func(w http.ResponseWriter) error {
			w.Header().Set("Content-Type", "text/event-stream")
			_, err := io.WriteString(w, "data: "+strings.Repeat(" ", 1<<12)+"\n")
			return err
		},
		"one line": func(w http.ResponseWriter) error {
			w.Header().Set("Content-Type", "text/event-stream")
			_, err := io.WriteString(w, strings.Repeat("d", 1<<12))
			return err
		},
		"many events": func(w http.ResponseWriter) error {
			w.Header().Set("Content-Type", "text/event-stream")
			_, err := io.WriteString(w, strings.Repeat("data:\n\n", 1<<10))
			return err
		},
	} {
		s, _ := rawServer(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
			for write(w) == nil {
			}
		})
		out := open(t, Options{MaxResult: 1 << 16}).invoke(within(t), s.work("x", `{}`))
		if !out.Sent || out.Result != nil || out.Err == nil {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

// The same call through us and through the SDK's client, to the same server, which
// does next to nothing.
func BenchmarkCall(b *testing.B) {
	s, _ := rawServer(b, func(w http.ResponseWriter, _ *http.Request, id string) {
		writeJSON(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[],"resultType":"complete"}}`, id)
	})
	const arguments = `{"text":"hello","n":1}`
	b.Run("placet", func(b *testing.B) {
		v := open(b, Options{})
		w := s.work("fail", arguments)
		mustReach(b, v, w)
		b.ReportAllocs()
		for b.Loop() {
			if out := v.invoke(b.Context(), w); out.Err != nil {
				b.Fatal(out.Err)
			}
		}
	})
	b.Run("sdk", func(b *testing.B) {
		c := sdk.NewClient(&sdk.Implementation{Name: "bench"}, nil)
		cs, err := c.Connect(b.Context(), &sdk.StreamableClientTransport{Endpoint: s.URL}, nil)
		if err != nil {
			b.Fatal(err)
		}
		defer cs.Close()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := cs.CallTool(b.Context(), &sdk.CallToolParams{Name: "fail", Arguments: json.RawMessage(arguments)}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A legacy server may end the stream of an answer and let us fetch the rest.
func TestLegacyStreamIsResumed(t *testing.T) {
	for name, comes := range map[string]bool{"the rest comes": true, "it never comes": false} {
		var calls, fetches atomic.Int64
		var pending atomic.Value
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			if r.Method == http.MethodGet {
				if r.Header.Get("Last-Event-ID") != "e1" || r.Header.Get("Mcp-Session-Id") != "s1" || r.Header.Get("Mcp-Protocol-Version") != "2025-06-18" {
					t.Errorf("%s: headers %v", name, r.Header)
				}
				if fetches.Add(1); comes && fetches.Load() == 2 {
					fmt.Fprintf(w, "id: e2\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[]}}\n\n", pending.Load())
				} else {
					fmt.Fprint(w, "retry: 1\n\n")
				}
				return
			}
			var m struct {
				ID     json.RawMessage
				Method string
			}
			json.NewDecoder(r.Body).Decode(&m)
			switch m.Method {
			case "initialize":
				w.Header().Set("Mcp-Session-Id", "s1")
				fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{}}}\n\n", m.ID)
			case "tools/call":
				calls.Add(1)
				pending.Store(string(m.ID))
				fmt.Fprint(w, "id: e1\nretry: 1\ndata:\n\n")
			case "notifications/initialized", "notifications/cancelled":
				w.WriteHeader(http.StatusAccepted)
			default:
				w.WriteHeader(http.StatusBadRequest)
			}
		})
		s := &target{Server: &registry.Server{Name: "srv", URL: url}}
		out := open(t, Options{}).invoke(within(t), s.work("x", `{}`))
		if !out.Sent || comes != (out.Err == nil) || comes != (out.Result != nil) || calls.Load() != 1 {
			t.Errorf("%s: %+v after %d calls, %d fetches", name, out, calls.Load(), fetches.Load())
		}
		if fetches.Load() > maxResumes+1 {
			t.Errorf("%s: %d fetches", name, fetches.Load())
		}
	}
}

// With a transport that somebody else made, written headers already count as sent.
func TestForeignTransport(t *testing.T) {
	s, effects := rawServer(t, func(w http.ResponseWriter, _ *http.Request, id string) {
		writeJSON(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id)
	})
	v := open(t, Options{Transport: http.DefaultTransport.(*http.Transport).Clone()})
	mustReach(t, v, s.work("x", `{}`))
	w := s.work("x", `{}`)
	w.Deadline = time.Now().Add(-time.Second)
	if out := v.invoke(within(t), w); !out.Sent || out.Result != nil || effects.Load() != 1 {
		t.Errorf("%+v, %d effects", out, effects.Load())
	}
	w.Server = &registry.Server{Name: "off", URL: "http://127.0.0.1:1"}
	if out := v.invoke(within(t), w); out.Sent {
		t.Errorf("%+v", out)
	}
}
