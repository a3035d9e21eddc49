package guard

import (
	"embed"
	"encoding/json"
	"strings"
)

//go:embed corpus/*.txt
var corpora embed.FS

// Hostile is one value that a guard of a type must refuse.
type Hostile struct {
	Kind  string          // the abuse, in a few words
	Value json.RawMessage // {root} in a text stands for the caller's folder
}

// Corpus is what guards of a type are tried with. It is part of the program, so
// that operators can try their own tools with it. Types without a corpus are
// tried by their bounds alone.
func Corpus(t Type) []Hostile {
	text, err := corpora.ReadFile("corpus/" + string(t) + ".txt")
	if err != nil {
		return nil
	}
	var out []Hostile
	kind := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "# "); ok {
			kind = name
		} else if line != "" && !strings.HasPrefix(line, "//") {
			out = append(out, Hostile{kind, json.RawMessage(line)})
		}
	}
	return out
}
