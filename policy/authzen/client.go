package authzen

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/placet-dev/placet/record"
)

const (
	// MostTimeout is the longest that a question may take: a caller waits for it.
	MostTimeout = 5 * time.Second

	mostBytes = 256 << 10 // of an answer
)

// Options is how a decision point is reached. HTTP, Random and Clock are required.
type Options struct {
	URL      string // of the decision point, which its metadata must name
	Discover bool   // endpoints by its metadata (section 9); else the paths of the specification
	Batch    bool   // several resources in one request, where the decision point has it
	Semantic Semantic
	Timeout  time.Duration // of a question, whatever number of requests it takes
	Token    string        // bearer credential; "" for none
	HTTP     *http.Client
	Random   io.Reader
	Clock    func() time.Time
}

// Client asks one decision point. It is safe for concurrent use.
type Client struct {
	o    Options
	base *url.URL
	http http.Client

	mu    sync.Mutex
	found *endpoints // by discovery
	until time.Time
}

// New makes a client. It connects nowhere.
func New(o Options) (*Client, error) {
	base, err := parseURL(o.URL)
	switch {
	case err != nil:
		return nil, record.Errorf(record.Invalid, "the decision point's URL %w", err)
	case o.Timeout <= 0 || o.Timeout > MostTimeout:
		return nil, record.Errorf(record.Invalid, "the decision point's timeout must be more than 0 and at most %s", MostTimeout)
	case o.Semantic != ExecuteAll && o.Semantic != DenyOnFirstDeny:
		return nil, record.Errorf(record.Invalid, "%.40q is no semantic; use %s or %s", string(o.Semantic), ExecuteAll, DenyOnFirstDeny)
	case o.HTTP == nil || o.Random == nil || o.Clock == nil:
		return nil, errors.New("a decision point's client needs an HTTP client, randomness and a clock")
	}
	c := &Client{o: o, base: base, http: *o.HTTP}
	// Whoever answers in the decision point's place decides: nobody is sent on to.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http.Jar = nil
	return c, nil
}

// parseURL reads a URL that questions, and a credential, may be sent to: over TLS
// everywhere but on this machine.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("wants a form such as https://pdp.example.com")
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, errors.New("must be https beyond this machine")
	}
	return u, nil
}

// Ask puts one question. The decision allows only if each resource is allowed. An
// error means that it is not decided; its text is for operators.
func (c *Client) Ask(ctx context.Context, q Question) (Decision, error) {
	if err := q.check(); err != nil {
		return Decision{}, err
	}
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	d, err := c.ask(ctx, q)
	switch {
	case err == nil:
		return d, nil
	case outer.Err() == nil && ctx.Err() != nil:
		err = fmt.Errorf("no answer within %s", c.o.Timeout)
	}
	return Decision{}, record.Because(record.Unavailable, err, "the decision point cannot decide")
}

func (c *Client) ask(ctx context.Context, q Question) (Decision, error) {
	at, err := c.endpoints(ctx)
	if err != nil {
		return Decision{}, err
	}
	if len(q.Resources) > 1 && c.o.Batch && at.batch != "" {
		body, err := q.batch(c.o.Semantic)
		if err != nil {
			return Decision{}, err
		}
		object, err := c.post(ctx, at.batch, body)
		if err != nil {
			return Decision{}, err
		}
		return decisions(object, len(q.Resources), c.o.Semantic)
	}
	for i := range q.Resources {
		body, err := q.single(i)
		if err != nil {
			return Decision{}, err
		}
		object, err := c.post(ctx, at.single, body)
		if err != nil {
			return Decision{}, err
		}
		d, err := decision(object)
		if err != nil || !d.Allowed {
			d.Denied = i
			return d, err
		}
	}
	return Decision{Allowed: true}, nil
}

// post sends one request (section 10.1) and returns the answer's object.
func (c *Client) post(ctx context.Context, to string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	// A question changes nothing, so that it may be sent again when a connection
	// turns out to be closed. net/http does not send this header when it is empty.
	req.Header["Idempotency-Key"] = []string{}
	return c.send(req)
}

// send makes a request and reads a JSON object that is the answer to it.
func (c *Client) send(req *http.Request) ([]byte, error) {
	id, err := c.requestID()
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set(requestIDHeader, id)
	if c.o.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.o.Token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers with status %d, wanted 200 (redirects are not followed)", req.URL.Path, resp.StatusCode)
	}
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, errors.New("the answer is not application/json")
	}
	// The decision point must repeat the request's ID (section 10.1.7); one that does
	// not is taken at its word, one that names another request is not.
	for _, echoed := range resp.Header.Values(requestIDHeader) {
		if echoed != id {
			return nil, errors.New("the answer is to another request: its X-Request-ID differs")
		}
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer: %w", err)
	case len(text) > mostBytes:
		return nil, fmt.Errorf("the answer is longer than %d bytes", mostBytes)
	}
	return parse(text)
}

const requestIDHeader = "X-Request-ID"

func (c *Client) requestID() (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(c.o.Random, b[:]); err != nil {
		return "", fmt.Errorf("make a request ID: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// path appends a path of the specification to the decision point's URL.
func (c *Client) path(p string) string { return strings.TrimSuffix(c.base.String(), "/") + p }
