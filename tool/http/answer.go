package http

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	nethttp "net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/mcphttp"
	"github.com/placet-dev/placet/tool/local"
)

// maxAnswer is how large an answer may be.
const maxAnswer = 1 << 20

// reached says what a response means (rule E1). A status of success is a success,
// whatever the body is; of the body only declared fields pass.
func (o *operation) reached(resp *nethttp.Response) dispatch.Reached {
	status := resp.StatusCode
	if status < 200 || status > 299 {
		err := fmt.Errorf("the service answered HTTP status %d", status)
		if status >= 300 && status <= 399 {
			err = fmt.Errorf("the service answered with a redirect (HTTP status %d), which is not followed", status)
		}
		return dispatch.Reached{Sent: true, Answered: true, Refused: dispatch.RefusedStatus(status), IsError: true, Result: local.Failure(err.Error()), Err: err}
	}
	result, err := o.result(resp)
	return dispatch.Reached{Sent: true, Result: result, Err: err}
}

// result is what comes back of an answer of success.
func (o *operation) result(resp *nethttp.Response) (json.RawMessage, error) {
	if len(o.fields) == 0 {
		return bare(resp.StatusCode, ""), nil
	}
	text, err := mcphttp.ReadBody(resp, maxAnswer)
	switch {
	case errors.Is(err, mcphttp.ErrTooLarge):
		return bare(resp.StatusCode, "; the answer is larger than 1 MiB, and not shown"), nil
	case err != nil:
		return nil, errLost
	case len(bytes.TrimSpace(text)) == 0:
		return bare(resp.StatusCode, ""), nil
	}
	value, err := o.fields.of(text)
	if err != nil || !isJSON(resp.Header.Get("Content-Type")) {
		return bare(resp.StatusCode, "; the answer is not JSON, and not shown"), nil
	}
	return local.Result(value)
}

// bare is a result without a field: a status and a text of ours.
func bare(status int, text string) json.RawMessage {
	b := canon.AppendText([]byte(`{"content":[{"type":"text","text":`), fmt.Sprintf("HTTP status %d%s", status, text))
	return append(b, `}],"structuredContent":{}}`...)
}

// isJSON knows application/json and what is built on it (RFC 6839, section 3.1).
func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"))
}

// fields are what passes of an object, by name: a field without fields of its own
// passes if it is a text, number, boolean or null, or an array of those.
type fields map[string]fields

// fieldsOf reads the dotted names of fields.
func fieldsOf(names []string) (fields, error) {
	root := fields{}
	for _, name := range names {
		if !fieldName.MatchString(name) || len(name) > 256 {
			return nil, errors.New("wants names of fields, with dots into objects and arrays, such as id or items.sku")
		}
		at, parts := root, strings.Split(name, ".")
		for i, part := range parts {
			sub, there := at[part]
			if last := i == len(parts)-1; there && (last || sub == nil) {
				return nil, errors.New("names a field twice, or one as well as a field inside it")
			} else if last {
				at[part] = nil
			} else if !there {
				sub = fields{}
				at[part] = sub
			}
			at = sub
		}
	}
	return root, nil
}

// of is the declared part of a JSON text, as an object: an array becomes its member
// items. It refuses equal names and what is not UTF-8.
func (f fields) of(text []byte) ([]byte, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	kind := d.PeekKind()
	var out []byte
	if kind == '[' {
		out = []byte(`{"items":`)
	}
	out, passes, err := f.filter(out, d)
	if err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return nil, errors.New("text after the value")
	}
	switch {
	case !passes:
		return []byte(`{}`), nil
	case kind == '[':
		out = append(out, '}')
	}
	return out, nil
}

// filter appends the declared part of the next value, if there is any.
func (f fields) filter(dst []byte, d *jsontext.Decoder) (_ []byte, passes bool, err error) {
	switch kind := d.PeekKind(); {
	case kind == '{' && f != nil:
		return f.object(dst, d)
	case kind == '[':
		return f.array(dst, d)
	case kind == '{' || f != nil:
		return dst, false, d.SkipValue()
	}
	value, err := d.ReadValue()
	if err != nil {
		return dst, false, err
	}
	if text, ok := canon.Text(value); ok && value[0] == '"' {
		return canon.AppendText(dst, text), true, nil
	}
	return append(dst, value...), true, nil // a number as it was written
}

// list reads an object or array: its beginning, each element, its end.
func list(dst []byte, d *jsontext.Decoder, element func(dst []byte) ([]byte, bool, error)) ([]byte, bool, error) {
	begin, err := d.ReadToken()
	if err != nil {
		return dst, false, err
	}
	dst = append(dst, byte(begin.Kind()))
	for empty := len(dst); ; {
		if k := d.PeekKind(); k == '}' || k == ']' {
			break
		}
		before := len(dst)
		if before > empty {
			dst = append(dst, ',')
		}
		var passes bool
		if dst, passes, err = element(dst); err != nil {
			return dst, false, err
		}
		if !passes {
			dst = dst[:before]
		}
	}
	end, err := d.ReadToken()
	if err != nil {
		return dst, false, err
	}
	return append(dst, byte(end.Kind())), true, nil
}

func (f fields) object(dst []byte, d *jsontext.Decoder) ([]byte, bool, error) {
	return list(dst, d, func(dst []byte) ([]byte, bool, error) {
		token, err := d.ReadToken()
		if err != nil {
			return dst, false, err
		}
		name := token.String()
		sub, declared := f[name]
		if !declared {
			return dst, false, d.SkipValue()
		}
		return sub.filter(append(canon.AppendText(dst, name), ':'), d)
	})
}

func (f fields) array(dst []byte, d *jsontext.Decoder) ([]byte, bool, error) {
	return list(dst, d, func(dst []byte) ([]byte, bool, error) { return f.filter(dst, d) })
}
