package query

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	defaultRows = 100
	maxBytes    = 1 << 20 // of all rows, as JSON
)

// table is a result under way: rows as JSON, up to a limit of rows and of bytes.
type table struct {
	names [][]byte // of the columns, as JSON
	limit int
	rows  bytes.Buffer
	count int
	more  bool // there was a row that did not fit
}

// newTable refuses columns of one name: a row could show only one of them. SQLite's
// library gives all but the last of them no name.
func newTable(columns []string, limit int) (*table, error) {
	t := &table{limit: limit}
	seen := map[string]bool{}
	for _, c := range columns {
		if seen[c] || c == "" {
			return nil, refuse("the query returns two columns of one name, or one without; its author must name them with AS")
		}
		seen[c] = true
		t.names = append(t.names, quote(c))
	}
	return t, nil
}

// add takes one row, whose cells are JSON, and reports whether there is room for more.
func (t *table) add(cell func(column int) []byte) (bool, error) {
	if t.count == t.limit {
		t.more = true
		return false, nil
	}
	row := []byte{'{'}
	for i, name := range t.names {
		if i > 0 {
			row = append(row, ',')
		}
		row = append(append(append(row, name...), ':'), cell(i)...)
		if len(row) > maxBytes {
			break
		}
	}
	row = append(row, '}')
	if t.rows.Len()+len(row) > maxBytes {
		if t.more = true; t.count == 0 {
			return false, refuse("a row is larger than %d bytes", maxBytes)
		}
		return false, nil
	}
	if t.count > 0 {
		t.rows.WriteByte(',')
	}
	t.rows.Write(row)
	t.count++
	return true, nil
}

// result is the structured content. changed is how many rows a statement changed;
// negative: it was a read.
func (t *table) result(changed int64) json.RawMessage {
	out := append([]byte(`{"rows":[`), t.rows.Bytes()...)
	out = append(out, `],"more":`...)
	out = strconv.AppendBool(out, t.more)
	if changed >= 0 {
		out = append(out, `,"changed":`...)
		out = strconv.AppendInt(out, changed, 10)
	}
	return append(out, '}')
}

// quote writes a text. What is not UTF-8 in it shows as U+FFFD.
func quote(text string) []byte {
	out, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\uFFFD"))
	if err != nil {
		return []byte(`""`) // only texts that are not UTF-8 fail
	}
	return out
}

// whole writes an integer: as a number where every reader gets that very number,
// and as a text beyond.
func whole(n int64) []byte {
	const exact = 1 << 53
	text := strconv.FormatInt(n, 10)
	if n > exact || n < -exact {
		return quote(text)
	}
	return []byte(text)
}

// float writes a number as the shortest text that denotes it. JSON has none for
// infinity and NaN.
func float(f float64) []byte {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return quote(strconv.FormatFloat(f, 'g', -1, 64))
	}
	out, err := json.Marshal(f)
	if err != nil {
		return []byte("null") // it is finite
	}
	return out
}

func encoded(b []byte) []byte { return quote(base64.StdEncoding.EncodeToString(b)) }
