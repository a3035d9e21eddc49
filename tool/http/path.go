package http

import (
	"errors"
	"regexp"
	"strings"

	"github.com/placet-dev/placet/guard"
)

// segment is one part of a path template: text, and at most one parameter in it.
type segment struct{ before, parameter, after string }

var (
	plainSegment = regexp.MustCompile(`^[A-Za-z0-9._~:@!$&'()*+,=-]*$`)
	placeholder  = regexp.MustCompile(`^([^{}]*)\{([^{}]+)\}([^{}]*)$`)
)

// parsePath reads a path template. Two parameters in one part are refused: two
// calls with different arguments could then be the same request.
func parsePath(text string) ([]segment, error) {
	rest, absolute := strings.CutPrefix(text, "/")
	if !absolute || len(text) > 1024 {
		return nil, errors.New("wants a path that starts with /")
	}
	var out []segment
	parts := strings.Split(rest, "/")
	for i, p := range parts {
		s := segment{before: p}
		if m := placeholder.FindStringSubmatch(p); m != nil {
			s = segment{m[1], m[2], m[3]}
		}
		switch {
		case p == "" && i == len(parts)-1:
		case p == "" || s.parameter == "" && guard.Segment(p) != nil:
			return nil, errors.New("has an empty part, or one that means this folder or the one above")
		case !plainSegment.MatchString(s.before) || !plainSegment.MatchString(s.after) || s.parameter != "" && !parameterName.MatchString(s.parameter):
			return nil, errors.New("wants plain characters and at most one {name} between two slashes, and no query")
		}
		out = append(out, s)
	}
	return out, nil
}

// fill is the path with its parameters, as it is (decoded) and as it is sent.
func fill(segments []segment, value func(name string) (string, error)) (decoded, sent string, err error) {
	var d, s strings.Builder
	for _, part := range segments {
		whole := part.before + part.after
		if part.parameter != "" {
			v, err := value(part.parameter)
			if err != nil {
				return "", "", err
			}
			whole = part.before + v + part.after
			if v == "" || guard.Segment(whole) != nil {
				return "", "", refuse("the argument %s cannot stand in the path: it is empty, . or .., or holds a slash, backslash, percent sign or control character", part.parameter)
			}
		}
		d.WriteString("/" + whole)
		s.WriteString("/" + part.before + encoded(whole[len(part.before):len(whole)-len(part.after)]) + part.after)
	}
	return d.String(), s.String(), nil
}

// encoded is a text in which all but unreserved characters are percent-encoded
// (RFC 3986, section 2.3), so that none of them separates anything.
func encoded(text string) string {
	const hexadecimal = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', hexadecimal[c>>4], hexadecimal[c&15]})
	}
	return b.String()
}
