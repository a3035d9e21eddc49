package front

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// through sends one request as a server reads it off the wire.
func through(method, target string) (status int, reached string) {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return http.StatusBadRequest, "" // the server refuses it before us
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.URL, r.RequestURI, r.Method = u, target, method
	w := httptest.NewRecorder()
	Plain(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reached = r.URL.Path; w.WriteHeader(204) })).ServeHTTP(w, r)
	return w.Code, reached
}

func TestPlain(t *testing.T) {
	for _, target := range []string{"/", "/mcp", "/v1/calls/call_01", "/v1/events/stream", "/.well-known/oauth-protected-resource/mcp", "/mcp/", "/v1/calls?state=a%2Fb&x=../..", "/a..b/.c/d~e-f"} {
		if status, reached := through("GET", target); status != 204 || reached == "" {
			t.Errorf("%s: %d", target, status)
		}
	}
	for _, target := range []string{
		"/v1%2fcalls", "/v1%2Fcalls", "/v1%5ccalls", "/v1%5Ccalls", `/v1\calls`, "/v1/%2e%2e/console", "/v1/.%2e/mcp", "/%2e/mcp", "/v1/calls%00", "/v1/calls%0a",
		"/v1%252fcalls", "/v1%25252fcalls", "/v1/%252e%252e/mcp", "/v1%c0%afcalls", "/v1%ef%bc%8fcalls", "/v1%e2%88%95calls", "/v1%e2%81%84calls", "/v1%ef%bc%bccalls", "/v1/%ef%bc%8e%ef%bc%8e/mcp",
		"/v1／calls", "/v1∕calls", "/v1⁄calls", "/v1＼calls", "/v1/．．/mcp", "/v1․/calls", "/m%63p", "/%6dcp", "/v1/calls;x=1", "/v1;/calls", "/v1/calls%3fx", "/v1/calls%23",
		"//mcp", "/v1//calls", "/v1/./calls", "/v1/../mcp", "/..", "/.", "/v1/calls//", "/v1/calls/..", "/v1 calls", "/v1%20calls", "/v1+calls", "/v1/call*", "*", "", "mcp",
	} {
		if status, reached := through("GET", target); status != 400 || reached != "" {
			t.Errorf("%q: %d, reached %q", target, status, reached)
		}
	}
	for _, method := range []string{"get", "Get", "", "POST ", "G\u0000", "PÖST", "X-Y"} {
		if status, _ := through(method, "/mcp"); status != 400 {
			t.Errorf("method %q: %d", method, status)
		}
	}
}

// What gets through reads the same in every way.
func FuzzPlain(f *testing.F) {
	for _, s := range []string{"/mcp", "/v1%2fcalls", "/a/../b", "//x", "/\u2215"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, target string) {
		status, reached := through("GET", target)
		if status == 400 {
			return
		}
		path, _, _ := strings.Cut(target, "?")
		if _, rest, ok := strings.Cut(path, "://"); ok && !strings.HasPrefix(path, "/") { // absolute form
			_, rest, _ = strings.Cut(rest, "/")
			path = "/" + rest
		}
		if reached != path || strings.ContainsAny(reached, "%\\;\x00") || strings.Contains(reached, "//") || strings.Contains(reached+"/", "/../") || strings.Contains(reached+"/", "/./") {
			t.Fatalf("%q reached %q", target, reached)
		}
	})
}

func TestIgnoredCounts(t *testing.T) {
	var log bytes.Buffer
	i := NewIgnored(slog.New(slog.NewTextHandler(&log, nil)))
	h := i.Headers(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for range 11 {
		r := httptest.NewRequest("GET", "/", nil)
		for name, values := range map[string][]string{
			"X-Forwarded-User": {"root", "admin"}, "X_forwarded_user": {"root"}, "X-Goog-Authenticated-User-Email": {"a"}, "X-Ms-Client-Principal": {"a"}, "X-Ms-Token-Aad-Id-Token": {"a"},
			"Placet_workload": {"plk_x"}, "Authorization": {"Bearer x"}, "Placet-Workload": {"plk_y"}, "X-Forwarded-For": {"127.0.0.1"}, "Accept": {"*/*"}, "X-Users": {"x"},
		} {
			r.Header[name] = values
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	got := i.Counts()
	want := map[string]int64{"X-Forwarded-User": 33, "X-Goog-*": 11, "X-Ms-*": 22, "Placet_Workload": 11}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: %d, want %d", name, got[name], n)
		}
	}
	text := log.String()
	if n := strings.Count(text, "what=X-Forwarded-User"); n != 2 || strings.Contains(text, "root") || strings.Contains(text, "plk_") {
		t.Errorf("%d lines: %s", n, text)
	}
}
