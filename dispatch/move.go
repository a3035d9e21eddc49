package dispatch

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"

	"github.com/placet-dev/placet/canon"
)

// Table is a table of a store on its way to another one. Values are int64, string,
// []byte, or nil.
type Table struct {
	Name    string
	Columns []string
	Key     []string
	Rows    func(yield func(row []any) error) error // in the order of the key
}

// Moved is what became of a table.
type Moved struct {
	Table  string
	Rows   int64
	Digest canon.Digest // of its rows, as both stores hold them
}

// Tally counts and digests rows, so that two stores can be compared.
type Tally struct {
	rows int64
	sum  hash.Hash
}

// Add adds a row.
func (t *Tally) Add(row []any) error {
	if t.sum == nil {
		t.sum = sha256.New()
	}
	t.rows++
	for _, v := range row {
		var kind byte
		var text []byte
		switch v := v.(type) {
		case nil:
		case int64:
			kind, text = 'i', binary.BigEndian.AppendUint64(nil, uint64(v))
		case string:
			kind, text = 't', []byte(v)
		case []byte:
			kind, text = 'b', v
		default:
			return fmt.Errorf("a row holds a value of type %T", v)
		}
		t.sum.Write(binary.BigEndian.AppendUint64([]byte{kind}, uint64(len(text))))
		t.sum.Write(text)
	}
	return nil
}

// Of is the tally of a table.
func (t *Tally) Of(table string) Moved {
	m := Moved{Table: table, Rows: t.rows}
	if t.sum != nil {
		m.Digest = canon.Digest(t.sum.Sum(nil))
	}
	return m
}
