package yamlfile

import (
	"fmt"
	"slices"
	"strings"
)

// Place is where in a file something stands, such as "tools.yaml:21". A struct
// field of this type is filled with the place of the struct's own key.
type Place string

// Problem is one thing that is wrong with a file.
type Problem struct {
	File    string // as the operator named it
	Line    int    // 1-based; 0 when the whole file is meant
	Column  int    // 1-based; 0 when the whole line is meant
	Path    string // dotted keys down to the place, such as "tools.issue_refund.per_minute"
	Message string // what is wrong and what to write instead
}

// String is the form compilers use, which editors know how to open.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
		if p.Column > 0 {
			fmt.Fprintf(&b, ":%d", p.Column)
		}
	}
	b.WriteString(": ")
	if p.Path != "" {
		b.WriteString(p.Path)
		b.WriteString(": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Place returns file and line.
func (p Problem) Place() Place {
	if p.Line == 0 {
		return Place(p.File)
	}
	return Place(fmt.Sprintf("%s:%d", p.File, p.Line))
}

// Problems are all that is wrong with one or several files. It is an error when
// it is not empty; use [Problems.Err] to return it as one.
type Problems []Problem

// Error lists every problem on a line of its own.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Err returns ps as an error, or nil when there is none.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// Sorted returns the problems in the order of their places. Files keep the
// order in which they first appear.
func (ps Problems) Sorted() Problems {
	order := map[string]int{}
	for _, p := range ps {
		if _, ok := order[p.File]; !ok {
			order[p.File] = len(order)
		}
	}
	out := slices.Clone(ps)
	slices.SortStableFunc(out, func(a, b Problem) int {
		if d := order[a.File] - order[b.File]; d != 0 {
			return d
		}
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return out
}
