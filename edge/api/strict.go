package api

import (
	"encoding/json"
	"errors"
	"io"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/danielgtaylor/huma/v2"
	"github.com/placet-dev/placet/canon"
)

// apart is a body that holds raw bytes: a tool's result, or a transcript. An encoder would
// reformat them; they go on as they came, as the last member, of that name.
type apart interface {
	apart() (rest any, name string, raw json.RawMessage)
}

// strict is the only format this door reads and writes. huma decodes a body twice,
// into a plain value to validate and into the operation's type; both go through
// the same canonical text, so both see the same thing.
func strict(lim canon.Limits) huma.Format {
	return huma.Format{
		Marshal:   write,
		Unmarshal: func(data []byte, v any) error { return read(data, v, lim) },
	}
}

// read decodes exactly one JSON value. Names match in exact case, unknown and
// duplicate ones are refused, and so is a number that has no exact meaning. The
// error says where and why, and holds no value.
func read(data []byte, v any, lim canon.Limits) error {
	text, err := canon.Canonical(data, lim)
	if err != nil {
		var e *canon.Error
		if errors.As(err, &e) {
			return e
		}
		return errors.New("not JSON")
	}
	if err := jsonv2.Unmarshal(text, v, jsonv2.RejectUnknownMembers(true)); err != nil {
		return misfit(err)
	}
	return nil
}

// misfit turns the library's refusal into ours: the library's text may quote values.
func misfit(err error) error {
	var e *jsonv2.SemanticError
	if !errors.As(err, &e) {
		return errors.New("does not have the shape this operation takes")
	}
	reason := "wrong type"
	if errors.Is(err, jsonv2.ErrUnknownName) {
		reason = "unknown member"
	}
	return &canon.Error{Reason: reason, Offset: int(e.ByteOffset), Pointer: clean(string(e.JSONPointer))}
}

// write encodes an answer. Text is not escaped for HTML: it is served as JSON.
func write(w io.Writer, v any) error {
	var raw json.RawMessage
	var name string
	if a, ok := v.(apart); ok {
		v, name, raw = a.apart()
	}
	text, err := encode(v)
	if err != nil {
		return err
	}
	if json.Valid(raw) { // what is not JSON would break all of the answer
		text = appendMember(text, name, raw)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

func encode(v any) ([]byte, error) {
	return jsonv2.Marshal(v, jsonv1.OmitEmptyWithLegacySemantics(true), jsonv2.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

// appendMember puts a raw member last into an encoded object.
func appendMember(object []byte, name string, raw json.RawMessage) []byte {
	if len(object) < 2 || object[len(object)-1] != '}' {
		return object
	}
	object = object[:len(object)-1]
	if object[len(object)-1] != '{' {
		object = append(object, ',')
	}
	object = append(object, '"')
	object = append(object, name...)
	object = append(object, `":`...)
	object = append(object, raw...)
	return append(object, '}')
}
