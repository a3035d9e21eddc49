package yamlfile

import "strings"

// Closest returns the candidate that a person most likely meant by word, or ""
// when none is close: the distance is at most a third of the word, and at least
// a prefix of three letters counts as close.
func Closest(word string, candidates []string) string {
	word = strings.ToLower(word)
	if len(word) > 64 {
		return ""
	}
	best, bestDistance := "", 1<<30
	for _, c := range candidates {
		d := distance(word, strings.ToLower(c))
		if len(word) >= 3 && (strings.HasPrefix(c, word) || strings.HasPrefix(word, c) && len(c) >= 4) {
			d = min(d, 1)
		}
		if d < bestDistance {
			best, bestDistance = c, d
		}
	}
	if bestDistance > max(1, (len(word)+1)/3) {
		return ""
	}
	return best
}

// distance is Levenshtein's, over bytes: keys and names are ASCII.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost = 1 + min(diagonal, row[j], row[j-1])
			}
			diagonal, row[j] = row[j], cost
		}
	}
	return row[len(b)]
}

// cut shortens text from a file for a message and keeps it on one line.
func cut(s string) string {
	const longest = 60
	s = strings.ToValidUTF8(s, "?")
	runes := []rune(s)
	if len(runes) > longest {
		return string(runes[:longest]) + "…"
	}
	return s
}
