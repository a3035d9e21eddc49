package connect

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/placet-dev/placet/record"
)

// page is where the browser comes back to: on this machine only, once (RFC 8252
// section 7.3).
type page struct {
	redirect string
	answer   chan url.Values
	server   *http.Server
	first    sync.Once
}

// callback is our own redirect address; port 0 stands for a free one.
func callback(port int) string {
	return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) + "/callback"
}

// openPage listens at a redirect address.
func openPage(redirect string) (*page, error) {
	u, err := url.Parse(redirect)
	if err != nil {
		return nil, err
	}
	host := "127.0.0.1"
	if u.Hostname() == "::1" {
		host = "::1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, u.Port()))
	if err != nil {
		return nil, record.Because(record.Unavailable, err, "cannot listen on port %s for the browser's answer", u.Port())
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, err
	}
	u.Host = net.JoinHostPort(u.Hostname(), port)
	p := &page{redirect: u.String(), answer: make(chan url.Values, 1)}
	path := u.Path
	if path == "" {
		path = "/"
	}
	p.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.take(w, r, path) })}
	go func() { _ = p.server.Serve(l) }() // until close
	return p, nil
}

// take hands on the one answer. None of its values appear on the page.
func (p *page) take(w http.ResponseWriter, r *http.Request, path string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet || r.URL.Path != path {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	taken := false
	p.first.Do(func() {
		p.answer <- r.URL.Query()
		taken = true
	})
	switch {
	case !taken:
		w.WriteHeader(http.StatusGone)
		_, _ = w.Write([]byte(sheet("This sign-in is over.")))
	case r.URL.Query().Has("error"):
		_, _ = w.Write([]byte(sheet("You are not signed in. Your program says why.")))
	default:
		_, _ = w.Write([]byte(sheet("You can close this window and go back to your program.")))
	}
}

func sheet(words string) string {
	return "<!doctype html><html lang=en><title>Placet</title><p>" + words + "</p></html>\n"
}

func (p *page) wait(ctx context.Context) (url.Values, error) {
	select {
	case v := <-p.answer:
		return v, nil
	case <-ctx.Done():
		return nil, record.Errorf(record.Unauthenticated, "nobody signed in within %s", signInLasts)
	}
}

// close ends the page after what it said has been written.
func (p *page) close() {
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	if p.server.Shutdown(ctx) != nil {
		_ = p.server.Close()
	}
}
