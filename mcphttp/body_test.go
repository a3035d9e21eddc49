package mcphttp

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A body is whole and within its bound, or it is an error.
func TestReadBody(t *testing.T) {
	for name, c := range map[string]struct {
		serve func(http.ResponseWriter)
		want  string // empty: an error
		large bool
	}{
		"known":     {func(w http.ResponseWriter) { fmt.Fprint(w, strings.Repeat("x", 100)) }, strings.Repeat("x", 100), false},
		"too large": {func(w http.ResponseWriter) { fmt.Fprint(w, strings.Repeat("x", 101)) }, "", true},
		"cut off": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "50")
			fmt.Fprint(w, "x")
			panic(http.ErrAbortHandler)
		}, "", false},
		"chunked": {func(w http.ResponseWriter) {
			w.(http.Flusher).Flush()
			fmt.Fprint(w, strings.Repeat("x", 100))
		}, strings.Repeat("x", 100), false},
		"chunked, too large": {func(w http.ResponseWriter) {
			w.(http.Flusher).Flush()
			fmt.Fprint(w, strings.Repeat("x", 101))
		}, "", true},
		"chunked, cut off": {func(w http.ResponseWriter) {
			fmt.Fprint(w, "x")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { c.serve(w) }))
			defer s.Close()
			resp, err := s.Client().Get(s.URL)
			if err != nil {
				if c.want == "" && !c.large {
					return // the connection broke before the status did
				}
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := ReadBody(resp, 100)
			if string(text) != c.want || (err == nil) != (c.want != "") || errors.Is(err, ErrTooLarge) != c.large {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}
