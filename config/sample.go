package config

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed sample/placet.yaml sample/tools.yaml
var sample embed.FS

// Sample returns the commented starter files that placet init writes, by name.
// They load as they are.
func Sample() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, name := range []string{"placet.yaml", "tools.yaml"} {
		text, err := fs.ReadFile(sample, "sample/"+name)
		if err != nil {
			return nil, fmt.Errorf("read the starter file %s: %w", name, err)
		}
		out[name] = text
	}
	return out, nil
}
