package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// effect is a line of the tool server's own account.
type effect struct {
	At     time.Time `json:"at"`
	Side   string    `json:"side"`
	Tool   string    `json:"tool"`
	Key    string    `json:"key"`
	N      int       `json:"n"`
	Purse  string    `json:"purse,omitempty"`
	Amount int       `json:"amount,omitempty"`
	Again  bool      `json:"again,omitempty"` // a tool that honours keys was asked again, and did nothing
}

// account is the file of what the tools did, on the disk before they answer.
type account struct {
	mu   sync.Mutex
	file *os.File
	done map[string]bool // keys of the tool that honours them
}

func openAccount(path string) (*account, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &account{file: f, done: map[string]bool{}}, err
}

func (a *account) write(e effect) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Contains(honouring, e.Tool) {
		e.Again = a.done[e.Key]
		a.done[e.Key] = true
	}
	e.At = time.Now()
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := a.file.Write(append(text, '\n')); err != nil {
		return err
	}
	return a.file.Sync()
}

// readAccount reads the file as anybody could afterwards.
func readAccount(path string) ([]effect, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []effect
	for line := range bytes.Lines(text) {
		var e effect
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, line, err)
		}
		all = append(all, e)
	}
	return all, nil
}

// toolServer serves the tools of each side, and loses answers on purpose.
type toolServer struct {
	account *account
	http    *http.Server
	mux     *http.ServeMux
	at      string

	loss                 float64     // how many of the calls lose their answer
	calm                 atomic.Bool // none does any more
	lost, early, answers atomic.Int64
	mu                   sync.Mutex
	chance               *rand.Rand
}

func serveTools(account *account, loss float64, chance *rand.Rand, sides ...string) (*toolServer, error) {
	mux := http.NewServeMux()
	t := &toolServer{account: account, loss: loss, chance: chance, mux: mux}
	for _, side := range sides {
		desk := t.desk(side)
		inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return desk }, &mcp.StreamableHTTPOptions{Stateless: true})
		mux.Handle("/"+side+"/mcp", t.fateful(inner, []byte(`"tools/call"`)))
		for _, tool := range honouring {
			mux.Handle("POST /"+side+"/"+tool, t.fateful(t.honours(side, tool), nil))
		}
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t.at, t.http = l.Addr().String(), &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = t.http.Serve(l) }() // it ends by close
	return t, nil
}

func (t *toolServer) close() { _ = t.http.Close() }

// chances is a source of chance for somebody else.
func (t *toolServer) chances() *rand.Rand {
	t.mu.Lock()
	defer t.mu.Unlock()
	return rand.New(rand.NewPCG(t.chance.Uint64(), t.chance.Uint64()))
}

// honouring are the tools that act once for each key, however often they are asked.
var honouring = []string{"line", "later", "chime"}

// nowhere reports whether a thing of this number is refused by the tools that honour keys.
func nowhere(tool string, n int) bool { return tool == "later" && n%8 == 0 }

// schema of every tool's arguments.
const schema = `{"type":"object","properties":{"n":{"type":"integer"},"purse":{"type":"string"},"amount":{"type":"integer"}},"required":["n"]}`

// desk is an MCP server whose tools do what they are asked, as often as they are.
func (t *toolServer) desk(side string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1"}, nil)
	for _, name := range []string{"note", "look", "wire", "draw", "stamp", "once"} {
		s.AddTool(&mcp.Tool{Name: name, Description: "Does " + name + ".", InputSchema: json.RawMessage(schema)},
			func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				e := effect{Side: side, Tool: name}
				if err := json.Unmarshal(r.Params.Arguments, &e); err != nil {
					return nil, err
				}
				e.Key, _ = r.Params.Meta["dev.placet/idempotency_key"].(string)
				if err := t.account.write(e); err != nil {
					return nil, err
				}
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
			})
	}
	return s
}

// honours is a plain HTTP service that honours idempotency keys.
func (t *toolServer) honours(side, tool string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		e := effect{Side: side, Tool: tool, Key: r.Header.Get("Idempotency-Key")}
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil || nowhere(tool, e.N) {
			http.Error(w, "no line", http.StatusUnprocessableEntity)
			return
		}
		if err := t.account.write(e); err != nil {
			http.Error(w, "no disk", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"line-1"}`) // who is gone hears nothing
	}
}

// fateful resets the connection of some calls: when the tool has acted and nobody knows
// it, or while it only begins to, so that it acts after its caller has given up.
// What does not hold the marker is no call.
func (t *toolServer) fateful(inner http.Handler, marker []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			return // the caller died while it wrote
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		isCall := bytes.Contains(body, marker)
		fate := 0.0
		if isCall && !t.calm.Load() {
			t.mu.Lock()
			fate = t.chance.Float64()
			t.mu.Unlock()
		}
		quiet := r.WithContext(context.WithoutCancel(r.Context()))
		switch {
		case fate > 1-t.loss/3:
			t.early.Add(1)
			reset(w)
			inner.ServeHTTP(&deaf{header: http.Header{}}, quiet)
		case fate > 1-t.loss:
			t.lost.Add(1)
			inner.ServeHTTP(&deaf{header: http.Header{}}, quiet)
			reset(w)
		default:
			if isCall {
				t.answers.Add(1)
			}
			inner.ServeHTTP(w, quiet)
		}
	}
}

// reset ends a connection as a machine does that has lost its memory.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// deaf is an answer that nobody hears.
type deaf struct{ header http.Header }

func (d *deaf) Header() http.Header         { return d.header }
func (d *deaf) Write(p []byte) (int, error) { return len(p), nil }
func (d *deaf) WriteHeader(int)             {}
func (d *deaf) Flush()                      {}
