package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// request is one message of one verified caller.
type request struct {
	message
	meta   meta
	call   call // of a method that is one
	caller identity.Caller
	creds  identity.Credentials // verified again after a wait (rule C2)
	modern bool
	header http.Header

	// there ends when the client is gone. Nothing is cancelled by that; there is
	// only nobody left to hold for.
	there context.Context
	// session names the protocol session of the older revisions.
	session string
	// instead replaces the HTTP answer where the SDK writes it.
	instead *instead
}

// ServeHTTP serves one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f := h.guard.check(r); f != nil {
		f.write(w, nil)
		return
	}
	caller, creds, f := h.identify(r)
	if f != nil {
		f.write(w, nil)
		return
	}
	x := &request{caller: caller, creds: creds, header: r.Header, there: r.Context(), session: r.Header.Get(headerSession)}
	if r.Method != http.MethodPost {
		h.serveSession(w, r, x)
		return
	}
	if f := h.read(w, r, x); f != nil {
		h.refused(r.Context(), caller, x.call.name, f)
		f.write(w, x.id)
		return
	}
	h.route(w, r, x)
}

// refused records a request that became no call. The refusal stands whether or
// not the record takes it: nothing runs either way.
func (h *Handler) refused(ctx context.Context, c identity.Caller, tool string, f *refusal) {
	if _, err := h.Boundary.Refuse(ctx, c, tool, record.CodeInvalidArguments, "mcp: "+f.message); err != nil {
		h.Log.ErrorContext(ctx, "a refusal was not recorded", "error", err)
	}
}

// read takes the body and decodes it.
func (h *Handler) read(w http.ResponseWriter, r *http.Request, x *request) *refusal {
	body, err := readBody(http.MaxBytesReader(w, r.Body, h.guard.maxBytes), r.ContentLength)
	if err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return h.guard.tooLarge()
		}
		return plain(http.StatusBadRequest, "the body could not be read")
	}
	var f *refusal
	if x.message, f = decode(body, h.Limits); f != nil {
		return f
	}
	if x.reply {
		return nil
	}
	if x.meta, f = readMeta(x.params); f != nil {
		return f
	}
	if x.meta.claims {
		h.Ignored("_meta")
	}
	if x.modern = modern(r.Header, x.meta); x.modern {
		if f = agree(r.Header, x.message, x.meta); f != nil {
			return f
		}
	}
	method, calls := calls[x.method]
	if !calls || x.id == nil {
		return nil
	}
	if method == registry.MethodTool {
		x.call, f = readCall(x.params)
	} else {
		x.call, f = readReading(method, x.params)
	}
	return f
}

// readBody reads all, with one allocation where the length is stated.
func readBody(r io.Reader, length int64) ([]byte, error) {
	if length <= 0 {
		return io.ReadAll(r)
	}
	body := make([]byte, length)
	_, err := io.ReadFull(r, body)
	return body, err
}

// calls are the methods that reach a tool server: each is a call with an entry of
// the registry (rule F6).
var calls = map[string]registry.Method{
	"tools/call": registry.MethodTool, "resources/read": registry.MethodResource,
	"prompts/get": registry.MethodPrompt, "completion/complete": registry.MethodCompletion,
}

// lists are the methods that say what those calls would find.
var lists = map[string]func(*Handler, *request) ([]byte, *refusal){
	"tools/list": (*Handler).list, "prompts/list": (*Handler).listPrompts,
	"resources/list": (*Handler).listResources, "resources/templates/list": (*Handler).listTemplates,
}

// servedBySDK reports what the SDK serves of the newest revision.
func servedBySDK(method string) bool {
	return method == "server/discover" || method == "subscriptions/listen"
}

// route answers what this package answers, and gives the rest to the SDK.
func (h *Handler) route(w http.ResponseWriter, r *http.Request, x *request) {
	_, call := calls[x.method]
	list := lists[x.method]
	switch {
	case x.reply:
		w.WriteHeader(http.StatusAccepted) // an answer to nothing
	case x.id == nil:
		h.notified(w, r, x)
	case x.modern && call:
		h.serveCall(w, x)
	case x.modern && list != nil:
		out := newResponder(w, x)
		result, f := list(h, x)
		out.finish(result, f)
	case x.modern && !servedBySDK(x.method):
		// Removed, not offered, or never heard of: one answer.
		refuse(codeMethodNotFound, "method not found").write(w, x.id)
	case x.modern:
		h.sdk.serveModern(w, r, x)
	default:
		h.sdk.serveSession(w, r, x)
	}
}

// notified takes a message that wants no answer. A tools/call without an ID has
// no effect, like everything else but the two that sessions know.
func (h *Handler) notified(w http.ResponseWriter, r *http.Request, x *request) {
	if !x.modern && x.session != "" {
		switch x.method {
		case "notifications/cancelled":
			h.cancelled(x)
			h.sdk.serveSession(w, r, x)
			return
		case "notifications/initialized":
			h.sdk.serveSession(w, r, x)
			return
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

// serveSession serves GET and DELETE, which only sessions have.
func (h *Handler) serveSession(w http.ResponseWriter, r *http.Request, x *request) {
	if x.session == "" || r.Header.Get(headerVersion) >= stateless {
		f := plain(http.StatusMethodNotAllowed, "the method must be POST")
		f.header = http.Header{"Allow": {"POST"}}
		f.write(w, nil)
		return
	}
	// The stream ends with the token that opened it.
	if expires := x.caller.Expires(); !expires.IsZero() {
		ctx, cancel := context.WithTimeout(r.Context(), expires.Sub(h.Clock()))
		defer cancel()
		r = r.WithContext(ctx)
	}
	h.sdk.serveSession(w, r, x)
}

// serveCall answers a modern call without the SDK.
func (h *Handler) serveCall(w http.ResponseWriter, x *request) {
	out := newResponder(w, x)
	var progress func(json.RawMessage)
	if x.meta.progressToken != nil {
		progress = out.progress
	}
	result, f := h.serve(x, progress)
	out.finish(result, f)
}
