package front

import (
	"net/http"
	"strings"
)

// Plain refuses requests whose method or path is not plain before next sees them.
//
// Doors authorise the decoded path that they dispatch. A proxy before them may
// have looked at another form of it, so there is only one form: letters, digits and
// - . _ ~ between single slashes. No address of this server needs more. That leaves
// out every escape (%2f, %5c, %2e, %00, also encoded twice), backslashes, NUL,
// look-alikes of slash and dot, and segments that are empty or dots. Below /llm a colon
// may stand in a segment: Gemini's paths have one.
func Plain(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !plainMethod(r.Method) || !plainPath(r.URL.EscapedPath()) || !plainPath(r.URL.Path) || !plainTarget(r) {
			h := w.Header()
			h.Set("Content-Type", "application/problem+json")
			h.Set("Cache-Control", "no-store")
			h.Set("X-Content-Type-Options", "nosniff")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(refusal)) // the client may be gone; nothing depends on it
			return
		}
		next.ServeHTTP(w, r)
	})
}

const refusal = `{"type":"https://placet.dev/problems/invalid","title":"Bad Request","status":400,"detail":"the method or the path is not plain; send the path without escapes, empty segments and dots","code":"invalid"}` + "\n"

func plainMethod(method string) bool {
	return method != "" && strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// plainPath looks at a path as text.
func plainPath(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	for segment := range strings.SplitSeq(strings.TrimSuffix(path[1:], "/"), "/") {
		if segment == "" && path != "/" || segment == "." || segment == ".." {
			return false
		}
		for i := range len(segment) {
			if !unreserved(segment[i]) && (segment[i] != ':' || !strings.HasPrefix(path, "/llm/")) {
				return false
			}
		}
	}
	return true
}

// unreserved is RFC 3986 section 2.3.
func unreserved(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_', c == '~':
		return true
	}
	return false
}

// plainTarget looks at the target as it came, of which the server has made a path.
func plainTarget(r *http.Request) bool {
	target, _, _ := strings.Cut(r.RequestURI, "?")
	return !strings.ContainsAny(target, "%\\#;") && !strings.ContainsFunc(target, func(c rune) bool { return c <= 0x20 || c >= 0x7f })
}
