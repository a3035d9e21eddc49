package rego

import (
	"embed"
	"io/fs"
)

//go:embed template
var template embed.FS

// Template is a layer to start from: it allows, and rules add denials and
// questions of which the most restrictive wins. It comes with data, tests and
// fixtures.
func Template() (Files, error) {
	sub, err := fs.Sub(template, "template")
	if err != nil {
		return nil, err
	}
	return ReadFS(sub)
}
