package connect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/placet-dev/placet/connect"
)

// server is a hand-made MCP server that notes what it gets.
type server struct {
	*httptest.Server
	mu  sync.Mutex
	got []string // METHOD body
	hdr []http.Header
}

func newServer(t *testing.T, answer func(http.ResponseWriter, *http.Request, string)) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.got, s.hdr = append(s.got, r.Method+" "+string(body)), append(s.hdr, r.Header.Clone())
		s.mu.Unlock()
		answer(w, r, string(body))
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func (s *server) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.got...)
}

func to(t *testing.T, url string) *desk {
	t.Helper()
	return bridge(t, connect.Options{Server: url, Open: func(context.Context, string) error { t.Error("the browser opened"); return nil }})
}

func answerJSON(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprint(w, text)
}

// What either side wrote passes as it is, in both eras.
func TestBytesPass(t *testing.T) {
	const odd = `"n":9007199254740993,"m":1.0e+2,"x":-0.0,"ü":"\u00fc\/","unknown":{"b":1,"a":[ 1 , 2 ]}`
	for _, stream := range []bool{false, true} {
		s := newServer(t, func(w http.ResponseWriter, r *http.Request, _ string) {
			result := "{\"jsonrpc\": \"2.0\",\r\n \"id\": \"é\",\n \"extra\": 1, \"result\": {" + odd + "}}"
			if !stream {
				answerJSON(w, 200, result)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, ": hello\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{%s}}\n\nevent: message\n", odd)
			for line := range strings.SplitSeq(result, "\n") {
				fmt.Fprintf(w, "data: %s\n", strings.TrimSuffix(line, "\r"))
			}
			fmt.Fprint(w, "\n")
		})
		d := to(t, s.URL)
		request := `{ "id": "é", "method":"tools/call" ,"jsonrpc":"2.0","params":{"name":"x","arguments":{` + odd + `},` + meta + `}}`
		got := d.ask(request)
		if stream {
			if want := `{"jsonrpc":"2.0","method":"notifications/progress","params":{` + odd + `}}`; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			got = d.line()
		}
		if !strings.Contains(got, `"result": {`+odd+`}}`) || !strings.Contains(got, `"extra": 1`) {
			t.Errorf("got %s", got)
		}
		if all := s.all(); len(all) != 1 || all[0] != "POST "+request+"\n" {
			t.Errorf("sent %q", all)
		}
	}
}

func TestHeadersRepeatTheMessage(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, r *http.Request, body string) {
		result := `{}`
		if strings.Contains(body, "tools/list") {
			result = `{"tools":[{"name":"plain","inputSchema":{"type":"object"}},{"name":"héad","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},` +
				`"deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}},"big":{"type":"integer","x-mcp-header":"Big"},"bad":{"type":"string","x-mcp-header":"a b"},"gone":{"type":"string","x-mcp-header":"Gone"}}}}]}`
		}
		answerJSON(w, 200, `{"jsonrpc":"2.0","id":1,"result":`+result+`}`)
	})
	d := to(t, s.URL)
	d.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`)
	d.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"héad","arguments":{"region":" é","deep":{"n":-7},"big":9007199254740993,"bad":"x","gone":null},` + meta + `}}`)
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hdr[1]
	for name, want := range map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "=?base64?aMOpYWQ=?=", "Mcp-Protocol-Version": "2026-07-28",
		"Mcp-Param-Region": "=?base64?IMOp?=", "Mcp-Param-N": "-7", "Mcp-Param-Big": "", "Mcp-Param-Gone": "", "Authorization": "", "Mcp-Session-Id": ""} {
		if h.Get(name) != want {
			t.Errorf("%s: %q, not %q", name, h.Get(name), want)
		}
	}
}

// Every request gets one answer with its ID, whatever the server does.
func TestNeverHangs(t *testing.T) {
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "http://" + nobody.Addr().String() + "/mcp"
	nobody.Close()
	if got := to(t, gone).ask(note(`"a"`, `{}`)); !strings.Contains(got, `"id":"a"`) || !strings.Contains(got, "cannot be reached") {
		t.Errorf("got %s", got)
	}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request, string)
		want   string
	}{
		"status": {func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(503) }, `HTTP status 503`},
		"redirect": {func(w http.ResponseWriter, r *http.Request, _ string) {
			http.Redirect(w, r, "/x", http.StatusTemporaryRedirect)
		}, `redirect`},
		"page":         {func(w http.ResponseWriter, _ *http.Request, _ string) { fmt.Fprint(w, "<html>") }, `-32000`},
		"older server": {func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(400) }, `-32601`},
		"accepted":     {func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(202) }, `without an answer`},
		"another's ID": {func(w http.ResponseWriter, _ *http.Request, _ string) {
			answerJSON(w, 200, `{"jsonrpc":"2.0","id":2,"result":{}}`)
		}, `does not answer this request`},
		"no JSON": {func(w http.ResponseWriter, _ *http.Request, _ string) { answerJSON(w, 200, `{"jsonrpc":`) }, `does not answer this request`},
		"two names": {func(w http.ResponseWriter, _ *http.Request, _ string) {
			answerJSON(w, 200, `{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}`)
		}, `does not answer this request`},
		"error, no ID": {func(w http.ResponseWriter, _ *http.Request, _ string) {
			answerJSON(w, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"m","data":1e999}}`)
		}, `"error":{"code":-32020,"message":"m","data":1e999}`},
		"broken": {func(http.ResponseWriter, *http.Request, string) { panic(http.ErrAbortHandler) }, `had an effect is not known`},
		"broken stream": {func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\n\n")
		}, `without an answer`},
		"forbidden": {func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(403) }, `HTTP status 403`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, c.answer)
			got := to(t, s.URL).ask(note("1", `{}`))
			if !strings.Contains(got, c.want) || !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":1,"error":{`) {
				t.Errorf("got %s", got)
			}
			if n := len(s.all()); n != 1 {
				t.Errorf("sent %d times", n)
			}
		})
	}
}

func TestBadLines(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		answerJSON(w, 200, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
	d := to(t, s.URL)
	for line, code := range map[string]string{
		`{"jsonrpc":"2.0"`: "-32700",
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}`:                            "-32700",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}":                      "-32700",
		`[{"jsonrpc":"2.0","id":1,"method":"x"}]`:                                 "-32600",
		`{"jsonrpc":"2.0","id":null,"method":"x"}`:                                "-32600",
		`{"jsonrpc":"1.0","id":1,"method":"x"}`:                                   "-32600",
		`{"jsonrpc":"2.0","id":1,"method":"x"} {}`:                                "-32600",
		`{"jsonrpc":"2.0","id":1,"method":"x","result":{}}`:                       "-32600",
		`{"jsonrpc":"2.0","id":{},"method":"x"}`:                                  "-32600",
		`{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 17<<20) + `"}`: "-32600",
	} {
		if got := d.ask(line); !strings.Contains(got, code) || !strings.Contains(got, `"id":null`) {
			t.Errorf("%.60s: %s", line, got)
		}
	}
	if n := len(s.all()); n != 0 {
		t.Errorf("%d were sent", n)
	}
	if got := d.ask(note("1", `{}`)); !strings.Contains(got, `"result"`) {
		t.Errorf("after them: %s", got)
	}
}

// A server of an older revision may break a stream off that it numbers: the rest
// is asked for, and the request is not sent again.
func TestResumes(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, r *http.Request, body string) {
		w.Header().Set("Content-Type", "text/event-stream")
		switch {
		case r.Method == http.MethodPost:
			fmt.Fprint(w, "id: 7\nretry: 1\ndata:\n\n")
		case r.Header.Get("Last-Event-ID") == "7":
			fmt.Fprint(w, "id: 8\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n")
		default:
			fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n")
		}
	})
	d := to(t, s.URL)
	if got := d.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`); !strings.Contains(got, "notifications/message") {
		t.Error(got)
	}
	if got := d.line(); !strings.Contains(got, `"result"`) {
		t.Error(got)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.got) != 3 || s.got[1] != "GET " || s.hdr[2].Get("Last-Event-ID") != "8" {
		t.Errorf("got %q", s.got)
	}
}

// old is a real server of the SDK with sessions.
func old(t *testing.T) (url string, lose func(), ran func() []string, sessions func() int) {
	var mu sync.Mutex
	var ledger []string
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		ledger = append(ledger, fmt.Sprintf(format, args...))
	}
	make1 := func() (*sdk.Server, *sdk.StreamableHTTPHandler) {
		s := sdk.NewServer(&sdk.Implementation{Name: "old", Version: "1"}, nil)
		s.AddTool(&sdk.Tool{Name: "add", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			note("add %s", r.Params.Arguments)
			_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1})
			s.AddTool(&sdk.Tool{Name: "added", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return nil, nil })
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "ok"}}}, nil
		})
		s.AddTool(&sdk.Tool{Name: "slow", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			note("slow")
			_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1})
			<-ctx.Done()
			note("canceled")
			return nil, ctx.Err()
		})
		return s, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
	}
	inner, h := make1()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		now := h
		mu.Unlock()
		now.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL, func() {
			mu.Lock()
			defer mu.Unlock()
			inner, h = make1()
		}, func() []string {
			mu.Lock()
			defer mu.Unlock()
			return append([]string(nil), ledger...)
		}, func() (n int) {
			mu.Lock()
			defer mu.Unlock()
			for range inner.Sessions() {
				n++
			}
			return n
		}
}

const (
	initialize  = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"desk","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func TestSessions(t *testing.T) {
	url, lose, ran, sessions := old(t)
	d := to(t, url)
	// The client need not wait for the handshake.
	d.send(initialize)
	d.send(initialized)
	add := func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"add","arguments":{"n":1},"_meta":{"progressToken":"p"}}}`
	}
	d.send(add("1"))
	var progress, changed, answered bool
	for n := 0; !(progress && changed && answered); n++ {
		got := d.line()
		progress = progress || strings.Contains(got, "notifications/progress")
		changed = changed || strings.Contains(got, "notifications/tools/list_changed")
		answered = answered || strings.Contains(got, `"id":1`) && strings.Contains(got, `"ok"`)
		if n == 10 {
			t.Fatalf("progress %t, changed %t, answered %t", progress, changed, answered)
		}
	}

	// Cancellation reaches the tool, and there is no answer.
	d.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"slow","arguments":{},"_meta":{"progressToken":"p"}}}`)
	if got := d.line(); !strings.Contains(got, "notifications/progress") {
		t.Fatal(got)
	}
	d.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"enough"}}`)
	until(t, "the tool was canceled", func() bool { r := ran(); return len(r) > 0 && r[len(r)-1] == "canceled" })

	// A server that has lost the session gets another, and the call runs once.
	lose()
	d.send(add("3"))
	for {
		got := d.line()
		if strings.Contains(got, `"id":3`) {
			if !strings.Contains(got, `"ok"`) {
				t.Fatal(got)
			}
			break
		}
		if !strings.Contains(got, `"method"`) {
			t.Fatalf("an answer that nobody waits for: %s", got)
		}
	}
	if got := ran(); strings.Join(got, ",") != `add {"n":1},slow,canceled,add {"n":1}` {
		t.Errorf("ran %v", got)
	}
	if sessions() != 1 {
		t.Errorf("%d sessions", sessions())
	}
	d.close()
	if sessions() != 0 {
		t.Error("the session is left behind")
	}
}

// From 2026-07-28 on a closed stream cancels; the client's going away does too.
func TestClosingCancels(t *testing.T) {
	for _, leave := range []bool{false, true} {
		closed := make(chan struct{})
		s := newServer(t, func(w http.ResponseWriter, r *http.Request, _ string) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			close(closed)
		})
		d := to(t, s.URL)
		d.ask(note("1", `{}`))
		if leave {
			d.close()
		} else {
			d.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,` + meta + `}}`)
		}
		select {
		case <-closed:
		case <-time.After(20 * time.Second):
			t.Fatal("the stream stays open")
		}
		if n := len(s.all()); n != 1 {
			t.Errorf("%d messages", n)
		}
	}
}
