package llm

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/history"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/label"
	"github.com/placet-dev/placet/record"
)

// Headers by which a client says what its request belongs to. None is a credential.
const (
	headerRun      = "Placet-Run"     // a run's ID, or the client's own name for it
	headerKeep     = "Placet-Keep"    // waiting calls that outlive the turn that ends
	headerTurn     = "Placet-Turn"    // "continue": no turn begins
	headerTyped    = "Placet-Typed"   // "last": the user typed the last message
	headerFindings = "Placet-History" // of an answer: what was found in the history
)

// dialect is one of the protocols' languages: how requests are read and answers
// put together.
type dialect struct {
	format  history.Format
	members []string // of requests, that are known
	read    func(*request) *refusal
	answer  func(Limits) assembler
}

// endpoint is one path that is passed on.
type endpoint struct {
	method  string
	dialect *dialect // nil: nothing is asked of a model
	path    string   // at the provider
	query   string
	beta    bool // clients may add ?beta=true, which chooses the protocol's newer shapes and no account
	counts  bool // counts tokens: no model answers
}

// provider is one that is ready.
type provider struct {
	Provider
	names atomic.Pointer[known]
}

// known is the names of the tools of one version.
type known struct {
	of    *dispatch.Active
	names names
	err   error
}

// tools are the names under which models know the tools that are active.
func (p *provider) tools(now *dispatch.Active) (names, error) {
	if k := p.names.Load(); k != nil && k.of == now {
		return k.names, k.err
	}
	k := known{of: now}
	var all []string
	for t := range now.Registry.Tools() {
		all = append(all, t.Name)
	}
	k.names, k.err = newNames(all, p.Prefix)
	p.names.Store(&k)
	return k.names, k.err
}

// door is the handler.
type door struct {
	Options
	providers map[string]*provider

	mu   sync.Mutex
	told map[record.RunID]canon.Digest // what was recorded last of a run's history
}

// New returns the handler of /llm/….
func New(o Options) (http.Handler, error) {
	if o.Boundary == nil || o.Verifier == nil {
		return nil, errors.New("llm: a boundary and a verifier are needed")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DisableCompression = true // what is passed on is what came
		t.MaxIdleConnsPerHost = 100
		o.Transport = t
	}
	o.Limits = o.Limits.withDefaults()
	d := &door{Options: o, providers: map[string]*provider{}, told: map[record.RunID]canon.Digest{}}
	for _, p := range o.Providers {
		if p.History == "" {
			p.History = Refuse
		}
		if p.Timeout <= 0 {
			p.Timeout = 10 * time.Minute
		}
		p.URL = strings.TrimRight(p.URL, "/")
		d.providers[p.Name] = &provider{Provider: p}
	}
	return d, nil
}

// shapeOf is whose words a path is answered in, before anything is known of it.
func shapeOf(path string) API {
	switch {
	case strings.Contains(path, "/v1/messages"):
		return Anthropic
	case strings.Contains(path, "/v1beta"):
		return Gemini
	}
	return OpenAI
}

var geminiPath = regexp.MustCompile(`^/v1beta/models/[A-Za-z0-9][A-Za-z0-9._-]{0,127}:(generateContent|streamGenerateContent)$`)

// endpointOf finds what a path is at a provider. Paths that are not listed here are
// not passed on (rule G1).
func (p *provider) endpointOf(path string) (endpoint, bool) {
	switch p.API {
	case OpenAI: // whose base URL ends with /v1
		switch path {
		case "/v1/chat/completions":
			return endpoint{method: http.MethodPost, dialect: &chat, path: "/chat/completions"}, true
		case "/v1/responses":
			return endpoint{method: http.MethodPost, dialect: &responses, path: "/responses"}, true
		case "/v1/models":
			return endpoint{method: http.MethodGet, path: "/models"}, true
		}
	case Anthropic:
		switch path {
		case "/v1/messages":
			return endpoint{method: http.MethodPost, dialect: &messages, path: path, beta: true}, true
		case "/v1/messages/count_tokens":
			return endpoint{method: http.MethodPost, dialect: &messages, path: path, counts: true, beta: true}, true
		case "/v1/models":
			return endpoint{method: http.MethodGet, path: path}, true
		}
	case Gemini:
		m := geminiPath.FindStringSubmatch(path)
		switch {
		case m != nil && m[1] == "streamGenerateContent":
			return endpoint{method: http.MethodPost, dialect: &gemini, path: path, query: "alt=sse"}, true
		case m != nil:
			return endpoint{method: http.MethodPost, dialect: &gemini, path: path}, true
		case path == "/v1beta/models":
			return endpoint{method: http.MethodGet, path: path}, true
		}
	}
	return endpoint{}, false
}

// ServeHTTP serves one request.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/llm/"), "/")
	path = "/" + path
	shape := shapeOf(path)
	caller, f := d.identify(r)
	if f != nil {
		f.write(w, shape)
		return
	}
	p, ok := d.providers[name]
	if ok {
		shape = p.API
	}
	var e endpoint
	if ok {
		e, ok = p.endpointOf(path)
	}
	if !ok {
		(&refusal{status: http.StatusNotFound, code: string(record.NotFound), message: "there is no such path here; only some of a provider's are passed on, see docs/llm-edge.md"}).write(w, shape)
		return
	}
	if f := d.serve(w, r, caller, p, e); f != nil {
		if f.status == http.StatusBadRequest {
			d.refused(r.Context(), caller, f)
		}
		f.write(w, shape)
	}
}

// refused records a request that was not passed on. The refusal stands whether or
// not the record takes it: nothing was sent either way.
func (d *door) refused(ctx context.Context, c identity.Caller, f *refusal) {
	if _, err := d.Boundary.Refuse(ctx, c, "", record.CodeInvalidArguments, "llm: "+f.message); err != nil {
		d.Log.ErrorContext(ctx, "a refusal was not recorded", "error", err)
	}
}

// serve takes a request of a verified caller as far as the provider. Nothing was
// written when it returns a refusal.
func (d *door) serve(w http.ResponseWriter, r *http.Request, c identity.Caller, p *provider, e endpoint) *refusal {
	if e.beta && r.URL.RawQuery == "beta=true" {
		e.query = r.URL.RawQuery
	}
	if f := check(r, e); f != nil {
		return f
	}
	if e.dialect == nil {
		return d.relay(w, r, p, e, nil)
	}
	body, f := d.body(w, r)
	if f != nil {
		return f
	}
	now := d.Boundary.Current()
	if now == nil {
		return surfaced(record.Errorf(record.Unavailable, "nothing is active here, so nothing could be decided; nothing was sent"))
	}
	tools, err := p.tools(now)
	if err != nil {
		return surfaced(record.Because(record.Unavailable, err, "tools have no names of their own for models; nothing was sent"))
	}
	q, f := p.read(e, body)
	if f != nil {
		return f
	}
	if e.counts {
		if len(q.objects) > 0 {
			return notOwned()
		}
		return d.relay(w, r, p, e, body)
	}
	x, found, f := d.ask(r, c, q, tools)
	if f != nil {
		return f
	}
	if n := len(found.findings); n > 0 && p.History != Observe {
		w.Header().Set(headerFindings, "findings="+decimal(n))
	}
	w.Header().Set(headerRun, string(x.asked.Run.ID))
	return d.pass(w, r, x)
}

func notOwned() *refusal {
	return &refusal{status: http.StatusNotFound, code: "unknown_object", message: "the request names an object at the provider that this run does not own"}
}

// check looks at what is common to all requests.
func check(r *http.Request, e endpoint) *refusal {
	if r.Method != e.method {
		return (&refusal{status: http.StatusMethodNotAllowed, code: "method_not_allowed", message: "the method must be " + e.method}).with("Allow", e.method)
	}
	if r.URL.RawQuery != e.query && r.URL.RawQuery != "" {
		return invalid("the query is not passed on; a key goes into a header")
	}
	if r.URL.RawQuery != e.query {
		return invalid("only streams of events are passed on; add ?%s", e.query)
	}
	if e.method == http.MethodGet {
		return nil
	}
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return &refusal{status: http.StatusUnsupportedMediaType, code: "invalid", message: "the Content-Type must be application/json"}
	}
	if r.Header.Get("Content-Encoding") != "" {
		return &refusal{status: http.StatusUnsupportedMediaType, code: "invalid", message: "the body must not be compressed"}
	}
	return nil
}

// body reads all of it, within size and time.
func (d *door) body(w http.ResponseWriter, r *http.Request) ([]byte, *refusal) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(d.Limits.Body)) // a connection that cannot has no clock to run out
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(d.Limits.Request)))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, &refusal{status: http.StatusRequestEntityTooLarge, code: string(record.TooLarge), message: "the body is larger than " + decimal(d.Limits.Request) + " bytes"}
	case err != nil:
		return nil, invalid("the body could not be read")
	}
	return body, nil
}

// exchange is one request that was recorded, and is passed on.
type exchange struct {
	request *request
	asked   dispatch.Sending
	tools   names
	void    string // why no call of the answer is a proposal
}

// ask checks the history, records the request, and labels what it may bring. On
// return all of that is durable, and the request may be sent.
func (d *door) ask(r *http.Request, c identity.Caller, q *request, tools names) (*exchange, *reading, *refusal) {
	found, f := q.readHistory(tools)
	if f == nil {
		if f = q.verdict(found); f != nil && d.Checked != nil {
			d.Checked(q.history, found.findings, nil)
		}
	}
	if f != nil {
		return nil, nil, f
	}
	x := dispatch.Exchange{Caller: c, Provider: q.provider.Name, Request: canon.Of("placet/llm/request/1", []byte(q.provider.Name), []byte(q.endpoint.path), q.body),
		Told: found.told, Objects: q.objects, Detail: found.summary()}
	if len(q.hosted) > 0 || found.hosted {
		// What the provider's own tools bring reaches the caller with the answer's first
		// bytes: the lineage carries the label before that (rules F1 and G1).
		x.Labels = []string{label.Untrusted}
	}
	said := q.said()
	if f := stated(r.Header, said, &x); f != nil {
		return nil, nil, f
	}
	asked, err := d.Boundary.Ask(r.Context(), x)
	if err != nil {
		if record.KindOf(err) == record.NotFound && len(q.objects) > 0 {
			return nil, nil, notOwned()
		}
		return nil, nil, d.failed(r.Context(), "a request to a model was not recorded", err)
	}
	compared, f := q.compare(r.Context(), found, d.Boundary.Records(asked.Run), d.Checked)
	if f != nil {
		return nil, nil, f
	}
	if f = q.verdict(compared); f == nil {
		f = d.report(r.Context(), asked.Run, compared)
	}
	if f != nil {
		return nil, nil, f
	}
	found.findings = append(found.findings, compared.findings...)
	return &exchange{request: q, asked: asked, tools: tools, void: q.voids(said, found)}, found, nil
}

// failed logs what callers are not told, and answers that nothing was sent.
func (d *door) failed(ctx context.Context, what string, err error) *refusal {
	f := surfaced(err)
	if f.status >= http.StatusInternalServerError {
		d.Log.ErrorContext(ctx, what, "error", err)
	}
	return f
}

// report records what comparing a history with the records showed, once as long as
// it stays the same. What its grammar showed is recorded with the request.
func (d *door) report(ctx context.Context, run record.Run, found *reading) *refusal {
	if len(found.findings) == 0 {
		return nil
	}
	what := found.summary()
	digest := canon.Of("placet/llm/found/1", []byte(what))
	d.mu.Lock()
	same := d.told[run.ID] == digest
	d.mu.Unlock()
	if same {
		return nil
	}
	if err := d.Boundary.Found(ctx, run, what); err != nil {
		return d.failed(ctx, "findings were not recorded", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.told) >= 10_000 {
		clear(d.told) // some are recorded once more
	}
	d.told[run.ID] = digest
	return nil
}

// voids says why no call of the answer is a proposal (rule G2); empty: they are.
func (q *request) voids(s said, found *reading) string {
	switch {
	case s.prefilled:
		return voidPrefilled
	case q.void != "":
		return q.void
	}
	for _, f := range found.findings {
		for _, code := range forged {
			if f.Code == code {
				return "history"
			}
		}
	}
	return ""
}

// stated reads what the client says its request belongs to.
func stated(h http.Header, s said, x *dispatch.Exchange) *refusal {
	for _, name := range []string{headerRun, headerKeep, headerTurn, headerTyped} {
		if v := h.Values(name); len(v) > 1 || len(v) == 1 && v[0] == "" {
			return invalid("send the header %s once and not empty, or not at all", name)
		}
	}
	if x.RunLabel = h.Get(headerRun); record.ValidID("run", x.RunLabel) {
		x.Run, x.RunLabel = record.RunID(x.RunLabel), ""
	}
	for id := range strings.SplitSeq(h.Get(headerKeep), ",") {
		if id = strings.TrimSpace(id); id == "" {
			continue
		}
		if !record.ValidID("call", id) {
			return invalid("%s names what is no call's ID", headerKeep)
		}
		x.Keep = append(x.Keep, record.CallID(id))
	}
	switch h.Get(headerTurn) {
	case "":
		x.NewInput = s.newInput
	case "continue":
	default:
		return invalid("%s can say continue and nothing else", headerTurn)
	}
	switch h.Get(headerTyped) {
	case "":
	case "last":
		x.Typed = s.typed
	default:
		return invalid("%s can say last and nothing else", headerTyped)
	}
	return nil
}
