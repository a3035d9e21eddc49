// Package llmtest is a model provider for tests and demonstrations: it speaks the
// protocols of OpenAI (Chat Completions, Responses), Anthropic and Gemini byte by
// byte, streaming and not, and says what it is told to say.
//
// It promises that what it sends is what [Reply.Events] and [Reply.Body] return,
// and that it keeps every request as it came. It checks the key as a provider does.
//
// It may import the standard library only.
package llmtest

import (
	"io"
	"net/http"
	"strings"
	"sync"
)

// Call is a tool call that the model makes.
type Call struct {
	ID, Name  string
	Arguments string // JSON, as the model writes it
	Pieces    int    // how many pieces a stream gives them in; 0: two
}

// Reply is what the model says.
type Reply struct {
	ID     string // of the response; empty: one that counts up
	Text   string
	Calls  []Call
	Finish string // why it stops, in the protocol's words; empty: what goes with the rest
	Others int    // further choices, where the protocol has several

	Status int         // of the answer; 0: 200
	Error  string      // the whole body, with Status
	Header http.Header // of the answer, beside its type

	Raw   string          // in place of all the above: the stream, byte by byte
	Cut   int             // events after which the connection breaks; 0: none does
	Chunk int             // bytes that are written at once; 0: an event
	Gate  <-chan struct{} // what is waited for before the last event
	Early func()          // called when all events but the last are written, before Gate
}

// Request is one that came.
type Request struct {
	Method, Path, Query string
	Header              http.Header
	Body                string
}

// Provider is an http.Handler. The zero value answers "ok" to everybody.
type Provider struct {
	Key     string                // that requests must carry; empty: any
	Respond func(r Request) Reply // nil: the replies of Say, in order, and then "ok"

	mu       sync.Mutex
	requests []Request
	replies  []Reply
	count    int
}

// Say queues what the model says next.
func (p *Provider) Say(replies ...Reply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replies = append(p.replies, replies...)
}

// Requests are those that came, and are forgotten.
func (p *Provider) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.requests
	p.requests = nil
	return out
}

func (p *Provider) take(r Request) Reply {
	p.mu.Lock()
	p.requests = append(p.requests, r)
	p.count++
	n := p.count
	respond := p.Respond
	reply := Reply{Text: "ok"}
	if respond == nil && len(p.replies) > 0 {
		reply, p.replies = p.replies[0], p.replies[1:]
	}
	p.mu.Unlock()
	if respond != nil {
		reply = respond(r)
	}
	if reply.ID == "" {
		reply.ID = "resp_" + text(n)
	}
	return reply
}

// keyOf is the credential of a request, wherever the protocol has it.
func keyOf(h http.Header) string {
	for _, name := range []string{"X-Api-Key", "X-Goog-Api-Key"} {
		if v := h.Get(name); v != "" {
			return v
		}
	}
	return strings.TrimPrefix(h.Get("Authorization"), "Bearer ")
}

// ServeHTTP answers one request.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	q := Request{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Clone(), string(body)}
	reply := p.take(q)
	if p.Key != "" && keyOf(r.Header) != p.Key {
		reply = Reply{Status: http.StatusUnauthorized, Error: `{"error":{"message":"Incorrect API key provided: ` + keyOf(r.Header) + `"}}`}
	}
	for name, values := range reply.Header {
		w.Header()[name] = values
	}
	w.Header().Set("X-Request-Id", reply.ID)
	w.Header().Set("Set-Cookie", "provider=1")
	kind, stream := kindOf(q)
	switch {
	case reply.Status != 0:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(reply.Status)
		write(w, reply.Error)
	case kind == "" || r.Method == http.MethodGet:
		w.Header().Set("Content-Type", "application/json")
		write(w, `{"object":"list","data":[]}`)
	case !stream:
		w.Header().Set("Content-Type", "application/json")
		write(w, reply.Body(kind))
	default:
		reply.stream(w, r, kind)
	}
}

// write ignores that a client is gone.
func write(w io.Writer, s string) { _, _ = io.WriteString(w, s) }

// stream writes events, and breaks where it is told to.
func (y Reply) stream(w http.ResponseWriter, r *http.Request, kind Kind) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	flush := func() { _ = http.NewResponseController(w).Flush() } // a client that is gone needs none
	events := y.Events(kind)
	if y.Raw != "" {
		events = []string{y.Raw}
	}
	for n, e := range events {
		if y.Cut > 0 && n == y.Cut {
			flush()
			panic(http.ErrAbortHandler) // this is how net/http breaks a connection
		}
		if n == len(events)-1 {
			if y.Early != nil {
				y.Early()
			}
			if y.Gate != nil {
				select {
				case <-y.Gate:
				case <-r.Context().Done():
					return
				}
			}
		}
		for len(e) > 0 {
			size := len(e)
			if y.Chunk > 0 {
				size = min(size, y.Chunk)
			}
			write(w, e[:size])
			e = e[size:]
			flush()
		}
	}
}
