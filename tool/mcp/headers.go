package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/placet-dev/placet/canon"
)

// header is one HTTP header that a modern server demands for an argument.
type header struct{ name, value string }

const maxHeaders = 64

// paramHeaders returns the Mcp-Param-* headers that the pinned schema asks for
// by x-mcp-header (revision 2026-07-28, transports, custom headers). They repeat
// what the arguments say, and come from the same canonical text.
func paramHeaders(schema, arguments json.RawMessage) ([]header, error) {
	if !bytes.Contains(schema, []byte(`x-mcp-header`)) {
		return nil, nil
	}
	var all []header
	err := walkHeaders(schema, arguments, 0, func(name string, value []byte) error {
		if !isToken(name) || len(all) == maxHeaders {
			return fmt.Errorf("its schema asks for a header that cannot be sent")
		}
		for _, h := range all {
			if strings.EqualFold(h.name, "Mcp-Param-"+name) {
				return fmt.Errorf("its schema asks for one header twice")
			}
		}
		if text, ok := headerText(value); ok {
			all = append(all, header{"Mcp-Param-" + name, text})
		}
		return nil
	})
	return all, err
}

// walkHeaders finds the annotations of a schema's properties, and what the
// canonical arguments hold there; an absent argument has no header.
func walkHeaders(schema, arguments []byte, depth int, found func(name string, value []byte) error) error {
	if depth > 16 {
		return nil
	}
	return member(schema, "properties", func(properties []byte) error {
		return eachMember(properties, func(property string, sub []byte) error {
			value, ok := canon.Lookup(arguments, property)
			if !ok || kind(sub) != '{' {
				return nil
			}
			err := member(sub, "x-mcp-header", func(name []byte) error {
				s, err := unquote(name)
				if err != nil {
					return err
				}
				return found(s, value)
			})
			if err != nil || kind(value) != '{' {
				return err
			}
			return walkHeaders(sub, value, depth+1, found)
		})
	})
}

// member hands the named member of an object to use, if there is one.
func member(object []byte, name string, use func(value []byte) error) error {
	return eachMember(object, func(n string, value []byte) error {
		if n != name {
			return nil
		}
		return use(value)
	})
}

// headerText writes a string, an exact integer or a boolean; null and everything
// else has no header.
func headerText(value []byte) (string, bool) {
	switch kind(value) {
	case '"':
		s, err := unquote(value)
		if err != nil {
			return "", false
		}
		return headerValue(s), true
	case 't', 'f':
		return string(value), true
	case '0':
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil || n > 1<<53-1 || n < -(1<<53-1) {
			return "", false
		}
		return string(value), true
	}
	return "", false
}

// headerValue writes what is not plain visible ASCII, or looks as if it were
// encoded already, in the base64 form of the specification.
func headerValue(s string) string {
	plain := !strings.HasPrefix(s, "=?base64?") && strings.Trim(s, " \t") == s
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= 0x20 && s[i] <= 0x7e
	}
	if plain {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}

func isToken(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		alnum := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
