package console

import (
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/record"
)

func TestTheLinkLeadsSomewhere(t *testing.T) {
	c, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	c.Mount(mux)
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	id, err := record.NewID("apr", time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w := get("/console/approvals/" + id)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "placet approvals show "+id) {
		t.Fatalf("%d\n%s", w.Code, w.Body)
	}
	if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") {
		t.Fatalf("policy %q", csp)
	}
	for _, bad := range []string{"apr_1", "call_" + id[4:], "%3Cscript%3E", id + "x"} {
		if w := get("/console/approvals/" + bad); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "<script>") {
			t.Errorf("%s: %d %s", bad, w.Code, w.Body)
		}
	}
}
