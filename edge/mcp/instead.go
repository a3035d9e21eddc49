package mcp

import (
	"net/http"
	"strings"
	"sync"
)

// instead lets a handler behind the SDK answer with an HTTP status, which is lost
// once the SDK has begun its stream.
type instead struct {
	w       http.ResponseWriter
	id      []byte
	session bool // the request names a session

	mu    sync.Mutex
	f     *refusal
	begun bool // something was written
	done  bool // the refusal was
}

func (i *instead) set(f *refusal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.f = f
}

// took writes the refusal in place of what the SDK would have.
func (i *instead) took() bool {
	if i.f != nil && !i.begun && !i.done {
		i.done = true
		for name := range i.w.Header() {
			i.w.Header().Del(name)
		}
		i.f.write(i.w, i.id)
	}
	i.begun = true
	return i.done
}

// hide makes another caller's session look like one that is not there, which the
// SDK tells apart (rule I3). It says both in plain text, before anything else.
func (i *instead) hide(status int) {
	if i.session && i.f == nil && !i.begun && (status == http.StatusForbidden || status == http.StatusNotFound) &&
		strings.HasPrefix(i.w.Header().Get("Content-Type"), "text/plain") {
		i.f = plain(http.StatusNotFound, "there is no such session, or it is not yours; initialize a new one")
	}
}

func (i *instead) Header() http.Header {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.done {
		return http.Header{} // what comes now changes nothing
	}
	return i.w.Header()
}

func (i *instead) WriteHeader(status int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.hide(status)
	if !i.took() {
		i.w.WriteHeader(status)
	}
}

func (i *instead) Write(p []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.took() {
		return len(p), nil
	}
	return i.w.Write(p)
}

// Flush lets events out as they come.
func (i *instead) Flush() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.begun = i.begun || i.f == nil
	_ = http.NewResponseController(i.w).Flush()
}
