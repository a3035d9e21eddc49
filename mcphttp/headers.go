package mcphttp

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/placet-dev/placet/canon"
)

// ParamPrefix begins the headers that repeat arguments, where the tool's schema
// asks for it by [Annotation] (revision 2026-07-28, transports, custom headers).
const (
	ParamPrefix = "Mcp-Param-"
	Annotation  = "x-mcp-header"
)

// ParamText writes an argument, which is one JSON value: a string, an exact integer
// or a boolean. Null and everything else has no header.
func ParamText(value []byte) (string, bool) {
	if len(value) == 0 {
		return "", false
	}
	switch c := value[0]; {
	case c == '"':
		s, ok := canon.Text(value)
		if !ok {
			return "", false
		}
		return HeaderValue(s), true
	case c == 't', c == 'f':
		return string(value), true
	case c == '-', c >= '0' && c <= '9':
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil || n > 1<<53-1 || n < -(1<<53-1) {
			return "", false
		}
		return string(value), true
	}
	return "", false
}

// HeaderValue writes what is not plain visible ASCII, or looks as if it were
// encoded already, in the base64 form of the specification.
func HeaderValue(s string) string {
	plain := !strings.HasPrefix(s, "=?base64?") && strings.Trim(s, " \t") == s
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= 0x20 && s[i] <= 0x7e
	}
	if plain {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}

// IsToken reports whether s can be the name of a header (RFC 9110, section 5.6.2).
func IsToken(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		alnum := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
