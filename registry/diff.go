package registry

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Diff shows how an offer differs from a pin, line by line: "-" is what is
// pinned, "+" what is offered now. Server text is shown with unprintable
// characters escaped, so that it cannot draw on a terminal. No lines means no
// difference.
func Diff(p Pin, now Offer) []string {
	if q, err := PinOf(now); err == nil {
		now = q.Offer
	}
	var out []string
	for _, part := range partsOf(p.Offer, now) {
		if part.a == part.b {
			continue
		}
		out = append(out, part.name+":")
		out = append(out, diffLines(splitLines(part.a), splitLines(part.b))...)
	}
	return out
}

func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	for i, l := range lines {
		lines[i] = escapeUnprintable(l)
	}
	return lines
}

// maxDiffLines bounds the table below; longer texts are shown whole.
const maxDiffLines = 2000

// diffLines is the longest common subsequence, kept lines left out unless they
// touch a change.
func diffLines(a, b []string) []string {
	if len(a) > maxDiffLines || len(b) > maxDiffLines {
		return append(prefixed("  - ", a), prefixed("  + ", b)...)
	}
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []string
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out = append(out, "  - "+a[i])
			i++
		default:
			out = append(out, "  + "+b[j])
			j++
		}
	}
	return out
}

func prefixed(prefix string, lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = prefix + l
	}
	return out
}

// escapeUnprintable writes what could not be seen, or would act on a terminal or
// change the direction of text, as their \u escapes. Line feeds stay.
func escapeUnprintable(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == ' ' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
