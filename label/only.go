package label

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/placet-dev/placet/canon"
)

// withheld stands for a result of another form than the registry declares.
var withheld = []byte(`{"content":[{"type":"text","text":"Done. The result is withheld: it has not the form that is declared for it."}]}`)

// Only leaves of a result the declared fields of its records. The records keep
// their place; everything around them is left out. A result that cannot be read is
// withheld: nobody can say what of it would be too much.
func Only(result []byte, r Results) []byte {
	c, err := canon.Canonical(result, canon.Limits{Bytes: len(result) + 1, Members: maxNodes})
	if err != nil {
		return withheld
	}
	v, ok := parsed(c, r)
	if !ok {
		return withheld
	}
	at, ok := v.at(r.Records)
	if !ok || at.kind != 'l' && at.kind != 'o' {
		return withheld
	}
	var b bytes.Buffer
	depth := 0
	if r.Records != "" {
		for part := range strings.SplitSeq(r.Records, ".") {
			b.WriteByte('{')
			b.Write(canon.AppendText(nil, part))
			b.WriteByte(':')
			depth++
		}
	}
	if at.kind == 'l' {
		b.WriteByte('[')
	}
	for i, rec := range records(v, r.Records) {
		if i > 0 {
			b.WriteByte(',')
		}
		rec.only(&b, r.Only)
	}
	if at.kind == 'l' {
		b.WriteByte(']')
	}
	b.WriteString(strings.Repeat("}", depth))
	type block struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	out := struct {
		Content    []block         `json:"content"`
		Structured json.RawMessage `json:"structuredContent,omitempty"`
		IsError    json.RawMessage `json:"isError,omitempty"`
	}{Content: []block{{"text", b.String()}}}
	if _, ok := canon.Lookup(c, "structuredContent"); ok && b.Len() > 0 && b.Bytes()[0] == '{' {
		out.Structured = b.Bytes()
	}
	if e, ok := canon.Lookup(c, "isError"); ok {
		out.IsError = e
	}
	text, err := json.Marshal(out)
	if err != nil {
		return withheld
	}
	return text
}

func (v value) only(b *bytes.Buffer, fields []string) {
	b.WriteByte('{')
	first := true
	for _, name := range fields {
		f, ok := v.get(name)
		if !ok {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		b.Write(canon.AppendText(nil, name))
		b.WriteByte(':')
		f.write(b)
	}
	b.WriteByte('}')
}

func (v value) write(b *bytes.Buffer) {
	switch v.kind {
	case 's':
		if v.bare && json.Valid([]byte(v.scalar)) {
			b.WriteString(v.scalar)
			return
		}
		b.Write(canon.AppendText(nil, v.scalar))
	case 'l':
		b.WriteByte('[')
		for i, e := range v.list {
			if i > 0 {
				b.WriteByte(',')
			}
			e.write(b)
		}
		b.WriteByte(']')
	case 'o':
		b.WriteByte('{')
		for i, m := range v.object {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(canon.AppendText(nil, m.name))
			b.WriteByte(':')
			m.value.write(b)
		}
		b.WriteByte('}')
	default:
		b.WriteString("null")
	}
}
