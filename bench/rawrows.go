package main

import (
	"errors"
	"fmt"
	"strconv"

	"zombiezen.com/go/sqlite"
)

// rows writes what one commit of one call holds: at first the call, its events
// but the last, and the caller's counters; then the outcome, its event and the
// counter that is given back.
func (r *raw) rows(c *commit) error {
	t := r.t
	events, counters := t.events[:len(t.events)-1], t.counters
	if c.settle {
		events, counters = t.events[len(t.events)-1:], t.counters[:min(t.held, len(t.counters))]
	}
	if err := r.callRow(c); err != nil {
		return err
	}
	for _, e := range events {
		for i, v := range e {
			if t.names[i] == "call" {
				v = c.id
			}
			bindValue(r.insertEvent, i+1, v)
		}
		if err := step(r.insertEvent); err != nil {
			return err
		}
	}
	for _, row := range counters {
		bindValue(r.upsertCounter, 1, row[0])
		name, _ := row[1].(string)
		r.upsertCounter.BindText(2, name+strconv.Itoa(c.caller))
		bindValue(r.upsertCounter, 3, row[2])
		if err := step(r.upsertCounter); err != nil {
			return err
		}
	}
	return nil
}

func (r *raw) callRow(c *commit) error {
	t := r.t
	if c.settle {
		for i, name := range []string{"state", "version", "lease", "holds", "outcome", "result", "changed", "due", "tenant"} {
			bindValue(r.updateCall, i+1, t.call[t.column(name)])
		}
		r.updateCall.BindText(10, c.id)
		if err := step(r.updateCall); err != nil {
			return err
		}
		if r.conn.Changes() != 1 {
			return errors.New("the call's row is not there")
		}
		return nil
	}
	for i, v := range t.call {
		switch t.columns[i] {
		case "id", "occurrence": // a read's occurrence is its own ID
			v = c.id
		case "state":
			v = "executing"
		case "outcome":
			v = ""
		case "due":
			v = t.call[t.column("changed")]
		}
		bindValue(r.insertCall, i+1, v)
	}
	return step(r.insertCall)
}

func bindValue(s *sqlite.Stmt, i int, v any) {
	switch v := v.(type) {
	case nil:
		s.BindNull(i)
	case int64:
		s.BindInt64(i, v)
	case string:
		s.BindText(i, v)
	case []byte:
		s.BindBytes(i, v)
	default:
		panic(fmt.Sprintf("a column of type %T", v)) // table makes no other
	}
}

func step(s *sqlite.Stmt) error {
	_, err := s.Step()
	return errors.Join(err, s.Reset())
}
