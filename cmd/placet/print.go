package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// What reaches a terminal may come from a model, a tool's server or a stranger's
// token. It is shown as data: what cannot be seen, acts on a terminal or changes
// the direction of text is written as an escape.

// safe is a text for one line of a terminal.
func safe(s string) string { return escape(s, false) }

// safeLines is a text for several lines, of which only line feeds act.
func safeLines(s string) string { return escape(s, true) }

func escape(s string, lines bool) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n' && lines, unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			escapeRune(&b, r)
		}
		i += n
	}
	return b.String()
}

// plain reports whether a text is printable ASCII, which most are.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

func escapeRune(b *strings.Builder, r rune) {
	if r > 0xFFFF {
		hi, lo := utf16.EncodeRune(r)
		fmt.Fprintf(b, `\u%04x\u%04x`, hi, lo)
		return
	}
	fmt.Fprintf(b, `\u%04x`, r)
}

// writeJSON writes one object on a line of its own. Beyond ASCII only text can
// stand in JSON, so the escapes of [safe] keep its meaning.
func writeJSON(w io.Writer, v any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	line := strings.TrimSuffix(text.String(), "\n")
	_, err := io.WriteString(w, escapeJSON(line)+"\n")
	return err
}

func escapeJSON(line string) string {
	if plain(line) {
		return line
	}
	var b strings.Builder
	for _, r := range line {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			escapeRune(&b, r)
		}
	}
	return b.String()
}

// table collects rows for people.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write prints the table, every cell safe.
func (t *table) write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.head}, t.rows...) {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = safe(c)
		}
		fmt.Fprintln(tw, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	return tw.Flush()
}

// list prints values: a JSON object each, or a table with a row each.
func list[T any](p *program, values []T, empty string, head []string, row func(T) []string) error {
	if p.json {
		for _, v := range values {
			if err := writeJSON(p.stdout, v); err != nil {
				return err
			}
		}
		return nil
	}
	if len(values) == 0 {
		p.say("%s", empty)
		return nil
	}
	t := &table{head: head}
	for _, v := range values {
		t.add(row(v)...)
	}
	return t.write(p.stdout)
}

// say prints a line for people; with --json nothing.
func (p *program) say(format string, args ...any) {
	if !p.json {
		fmt.Fprintln(p.stdout, safeLines(fmt.Sprintf(format, args...)))
	}
}

// out prints a value as JSON, or by its function for people.
func (p *program) out(v any, people func()) error {
	if p.json {
		return writeJSON(p.stdout, v)
	}
	people()
	return nil
}

// warn says something beside the output, on standard error; with --json nothing.
func (p *program) warn(format string, args ...any) {
	if !p.json {
		fmt.Fprintln(p.stderr, safeLines(fmt.Sprintf(format, args...)))
	}
}
