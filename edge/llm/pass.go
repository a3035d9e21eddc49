package llm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

func decimal(n int) string { return strconv.Itoa(n) }

// sent are the headers of a request that are passed on. The others say who the
// caller is, or choose whose account pays.
var sent = []string{"Content-Type", "Accept", "Anthropic-Version", "Anthropic-Beta", "Openai-Beta"}

// returned are those of an answer. Cookies and the names of the operator's account
// are not among them.
var returned = []string{"Content-Type", "Content-Encoding", "Retry-After", "Retry-After-Ms", "X-Should-Retry", "Request-Id", "X-Request-Id",
	"Openai-Model", "Openai-Version", "Openai-Processing-Ms"}

// returnedFamilies are the same, by how their names begin.
var returnedFamilies = []string{"X-Ratelimit-", "Anthropic-Ratelimit-"}

// writeTime is how long a client may take to take what is written.
const writeTime = 2 * time.Minute

// errSilent ends an exchange in which the provider said nothing for too long.
var errSilent = errors.New("the provider was silent for too long")

// send sends a request to the provider and returns the beginning of its answer. The
// clock ends the exchange when the provider is silent; stop it when all is done.
func (d *door) send(r *http.Request, p *provider, e endpoint, body []byte) (*http.Response, *clock, *refusal) {
	ctx, cancel := context.WithCancelCause(r.Context())
	c := &clock{cancel: cancel}
	c.timer = time.AfterFunc(p.Timeout, func() { cancel(errSilent) })
	address := p.URL + e.path
	if e.query != "" {
		address += "?" + e.query
	}
	out, err := http.NewRequestWithContext(ctx, e.method, address, bytes.NewReader(body))
	if err != nil {
		c.stop()
		return nil, nil, surfaced(err)
	}
	out.GetBody = nil // a request that may have been answered is never sent twice by itself
	for _, name := range sent {
		if v := r.Header.Values(name); len(v) > 0 {
			out.Header[name] = v
		}
	}
	out.Header.Set("User-Agent", "placet/"+d.Version)
	if p.Key != "" {
		switch p.API {
		case Anthropic:
			out.Header.Set("X-Api-Key", p.Key)
		case Gemini:
			out.Header.Set("X-Goog-Api-Key", p.Key)
		default:
			out.Header.Set("Authorization", "Bearer "+p.Key)
		}
	}
	resp, err := d.Transport.RoundTrip(out) // which follows no redirect
	if err != nil {
		defer c.stop()
		if context.Cause(ctx) == errSilent {
			return nil, nil, &refusal{status: http.StatusGatewayTimeout, code: "provider_silent", message: "the provider did not begin to answer in time"}
		}
		if r.Context().Err() == nil {
			d.Log.WarnContext(r.Context(), "a provider cannot be reached", "provider", p.Name, "error", string(p.scrub([]byte(err.Error()))))
		}
		return nil, nil, &refusal{status: http.StatusBadGateway, code: "provider_unreachable", message: "the provider cannot be reached; ask again later"}
	}
	switch {
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusProxyAuthRequired:
		// Its text is about our key, and to the caller a 401 is about theirs.
		d.Log.ErrorContext(r.Context(), "a provider does not take the key of the configuration", "provider", p.Name, "status", resp.StatusCode)
		return nil, nil, c.close(resp, &refusal{status: http.StatusBadGateway, code: "provider_key", message: "the provider does not take this server's key; the operator has to look at providers." + p.Name})
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return nil, nil, c.close(resp, &refusal{status: http.StatusBadGateway, code: "provider_redirects", message: "the provider answered with a redirect, which is not followed; the operator has to look at providers." + p.Name})
	}
	return resp, c, nil
}

// scrub takes the provider's key out of a text.
func (p *provider) scrub(text []byte) []byte {
	if p.Key == "" {
		return text
	}
	return bytes.ReplaceAll(text, []byte(p.Key), []byte("redacted"))
}

// clock ends an exchange that is silent.
type clock struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

func (c *clock) stop() { c.timer.Stop(); c.cancel(nil) }

func (c *clock) close(resp *http.Response, f *refusal) *refusal {
	_ = resp.Body.Close() // nothing of it is wanted
	c.stop()
	return f
}

// begin writes the head of an answer.
func begin(w http.ResponseWriter, resp *http.Response) {
	h := w.Header()
	for name, values := range resp.Header {
		ok := false
		for _, n := range returned {
			ok = ok || name == n
		}
		for _, n := range returnedFamilies {
			ok = ok || strings.HasPrefix(name, n)
		}
		if ok {
			h[name] = values
		}
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(resp.StatusCode)
}

// relay passes on what asks no model, and what it is answered.
func (d *door) relay(w http.ResponseWriter, r *http.Request, p *provider, e endpoint, body []byte) *refusal {
	resp, c, f := d.send(r, p, e, body)
	if f != nil {
		return f
	}
	defer func() { _ = resp.Body.Close(); c.stop() }()
	return d.text(w, r, p, resp)
}

// text passes on an answer of which nothing is witnessed: an error above all.
func (d *door) text(w http.ResponseWriter, r *http.Request, p *provider, resp *http.Response) *refusal {
	text, whole, err := upTo(resp.Body, d.Limits.Answer)
	if err != nil || !whole {
		return broken(r, p)
	}
	begin(w, resp)
	_, _ = w.Write(p.scrub(text)) // the client may be gone; nothing depends on it
	return nil
}

func broken(r *http.Request, p *provider) *refusal {
	if r.Context().Err() != nil {
		return &refusal{status: http.StatusBadGateway, code: "canceled", message: "the client is gone"}
	}
	return &refusal{status: http.StatusBadGateway, code: "provider_broken", message: "the provider's answer broke off, or was too large; of " + p.Name + " nothing was witnessed"}
}

// upTo reads all of a body, unless it is larger than that; what was read is returned
// in any case.
func upTo(r io.Reader, most int) (text []byte, whole bool, err error) {
	text, err = io.ReadAll(io.LimitReader(r, int64(most)+1))
	return text, len(text) <= most, err
}

// pass sends a request on and the answer back, and witnesses what the model says.
func (d *door) pass(w http.ResponseWriter, r *http.Request, x *exchange) *refusal {
	p, e := x.request.provider, x.request.endpoint
	resp, c, f := d.send(r, p, e, x.request.body)
	if f != nil {
		return f
	}
	defer func() { _ = resp.Body.Close(); c.stop() }()
	switch encoded := resp.Header.Get("Content-Encoding") != ""; {
	case resp.StatusCode != http.StatusOK:
		return d.text(w, r, p, resp)
	case isEvents(resp.Header.Get("Content-Type")):
		s := &stream{door: d, exchange: x, out: w, control: http.NewResponseController(w), reader: e.dialect.answer(d.Limits), raw: encoded}
		begin(w, resp)
		s.run(r.Context(), resp, c)
		return nil
	case encoded:
		d.Log.WarnContext(r.Context(), "a provider compresses unasked; its answers are not witnessed", "provider", p.Name)
		return d.text(w, r, p, resp)
	}
	return d.whole(w, r, x, resp)
}

// whole witnesses an answer that is no stream before it is passed on.
func (d *door) whole(w http.ResponseWriter, r *http.Request, x *exchange, resp *http.Response) *refusal {
	text, whole, err := upTo(resp.Body, d.Limits.Answer)
	if err != nil {
		return broken(r, x.request.provider)
	}
	if whole {
		a := x.request.endpoint.dialect.answer(d.Limits)
		a.whole(text)
		d.witness(r.Context(), x, a.done())
	} else {
		d.Log.WarnContext(r.Context(), "an answer is too large to be witnessed", "provider", x.request.provider.Name)
	}
	begin(w, resp)
	if _, err := w.Write(text); err == nil && !whole {
		if _, err := io.Copy(w, resp.Body); err != nil {
			panic(http.ErrAbortHandler) // the answer broke off, and its client must see that
		}
	}
	return nil
}

// ours reports whether an answer calls one of our tools.
func (x *exchange) ours(a *answer) bool {
	for _, c := range a.calls {
		if _, ok := x.tools.tool(c.name); ok {
			return true
		}
	}
	return false
}

// emitted is what is to be recorded of an answer; nothing: false.
func (x *exchange) emitted(a *answer) (dispatch.Emitted, bool) {
	out := dispatch.Emitted{Response: a.id, Void: x.void}
	if a.several {
		out.Void = voidChoices
	}
	if a.spoiled {
		return out, false
	}
	if x.request.stores || x.request.endpoint.dialect != &responses {
		out.Objects = a.objects
	}
	if a.complete {
		for _, c := range a.calls {
			if tool, ok := x.tools.tool(c.name); ok {
				out.Calls = append(out.Calls, dispatch.EmittedCall{Label: c.label, Tool: tool, Arguments: c.arguments, Position: c.position, Forced: x.request.isForced(c.name)})
			}
		}
	}
	return out, len(out.Calls) > 0 || len(out.Objects) > 0
}

// witness records an answer. What is not recorded matches no proposal, so that the
// answer is passed on in any case.
func (d *door) witness(ctx context.Context, x *exchange, a *answer) {
	e, ok := x.emitted(a)
	if !ok {
		return
	}
	ctx = context.WithoutCancel(ctx)
	err := d.Boundary.Witness(ctx, x.asked, e)
	if record.KindOf(err) == record.Conflict && len(e.Objects) > 0 {
		// Some servers give every answer's parts the same IDs. They stay the first run's.
		e.Objects = nil
		err = d.Boundary.Witness(ctx, x.asked, e)
	}
	if err != nil {
		d.Log.ErrorContext(ctx, "an answer was not witnessed: its calls will ask as if nobody had seen them", "provider", x.request.provider.Name, "run", x.asked.Run.ID, "error", err)
	}
}
