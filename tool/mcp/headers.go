package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/mcphttp"
)

// header is one HTTP header that a modern server demands for an argument.
type header struct{ name, value string }

const maxHeaders = 64

// paramHeaders returns the Mcp-Param-* headers that the pinned schema asks for
// by x-mcp-header (revision 2026-07-28, transports, custom headers). They repeat
// what the arguments say, and come from the same canonical text.
func paramHeaders(schema, arguments json.RawMessage) ([]header, error) {
	if !bytes.Contains(schema, []byte(mcphttp.Annotation)) {
		return nil, nil
	}
	var all []header
	err := walkHeaders(schema, arguments, 0, func(name string, value []byte) error {
		if !mcphttp.IsToken(name) || len(all) == maxHeaders {
			return fmt.Errorf("its schema asks for a header that cannot be sent")
		}
		for _, h := range all {
			if strings.EqualFold(h.name, mcphttp.ParamPrefix+name) {
				return fmt.Errorf("its schema asks for one header twice")
			}
		}
		if text, ok := mcphttp.ParamText(value); ok {
			all = append(all, header{mcphttp.ParamPrefix + name, text})
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
			err := member(sub, mcphttp.Annotation, func(name []byte) error {
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
