package llm

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/edge/oauth"
	"github.com/placet-dev/placet/history"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// Boundary is what this door needs of the dispatch boundary.
type Boundary interface {
	// Ask opens or continues run and turn, and retires what the request answers,
	// drops or repeats. It is durable on return.
	Ask(ctx context.Context, x dispatch.Exchange) (dispatch.Sending, error)
	// Witness records a completed answer. When it returns nil, proposals match it.
	Witness(ctx context.Context, a dispatch.Sending, e dispatch.Emitted) error
	// Records is what the histories of a run are compared with.
	Records(run record.Run) history.Records
	// Found records what was found in a history that was passed on all the same.
	Found(ctx context.Context, run record.Run, what string) error
	// Refuse records a request that became nothing.
	Refuse(ctx context.Context, c identity.Caller, tool string, code record.Code, why string) (dispatch.Answer, error)
	// Lacks records that somebody known lacks a permission.
	Lacks(ctx context.Context, l identity.Lack, what string) error
	// Current is what decides now; nil: nothing does.
	Current() *dispatch.Active
}

// Verifier turns what a request presents into who is calling.
type Verifier interface {
	Caller(ctx context.Context, c identity.Credentials) (identity.Caller, error)
}

// Ingress counts requests before anything is decided about them, and refuses those
// beyond a caller's rate as record.Limited.
type Ingress interface {
	Admit(ctx context.Context, c identity.Caller) error
}

// API is a provider's wire protocol.
type API string

// The protocols that are spoken. Servers that speak one of them are providers too.
const (
	OpenAI    API = "openai"
	Anthropic API = "anthropic"
	Gemini    API = "gemini"
)

// Mode says what is done about findings in a history.
type Mode string

const (
	// Refuse sends no history on of which something could only be forged.
	Refuse Mode = "refuse"
	// Annotate sends it on, and says so in the answer's headers and the log of events.
	Annotate Mode = "annotate"
	// Observe only records.
	Observe Mode = "observe"
)

// Provider is one that requests are passed on to.
type Provider struct {
	Name    string
	API     API
	URL     string        // what its own clients call the base URL
	Key     string        // never the caller's; empty: none is sent
	History Mode          // empty: Refuse
	Admit   []string      // tools that it may run itself
	Objects []string      // objects there that every run may name
	Members []string      // members of requests beyond those that are known
	Prefix  []string      // that clients put before tools' names
	Timeout time.Duration // until an answer begins; 0: 10 min
}

// Options are what a door is made of. Boundary and Verifier are required.
type Options struct {
	Boundary  Boundary
	Verifier  Verifier
	Ingress   Ingress         // nil: no limit
	OAuth     *oauth.Resource // what clients are told of tokens; nil: only that they need one
	Providers []Provider
	Transport http.RoundTripper // to providers; nil: one of its own
	Log       *slog.Logger      // nil: no log
	// Checked is told of every history that could be read: without classes where it was
	// refused before it was compared; nil: nobody is.
	Checked func(*history.Transcript, []history.Finding, *history.Classification)
	Version string // of this program, as providers are told
	Limits  Limits
}

// Limits bound requests and answers. A field that is not positive means its default.
type Limits struct {
	Request int           // bytes of a request; 32 MiB
	Answer  int           // bytes of an answer that is not a stream and is still looked into; 16 MiB
	Event   int           // bytes of one event of a stream; 4 MiB
	Held    int           // bytes of a stream that are held back at most; 8 MiB
	Calls   int           // calls of one answer; 128
	Body    time.Duration // how long a request may take to arrive; 30 s
	Idle    time.Duration // silence that ends a stream; 5 min
}

func (l Limits) withDefaults() Limits {
	num := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	num(&l.Request, 32<<20)
	num(&l.Answer, 16<<20)
	num(&l.Event, 4<<20)
	num(&l.Held, 8<<20)
	num(&l.Calls, 128)
	if l.Body <= 0 {
		l.Body = 30 * time.Second
	}
	if l.Idle <= 0 {
		l.Idle = 5 * time.Minute
	}
	return l
}
