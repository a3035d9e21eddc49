package main

import (
	"runtime"
	"runtime/debug"
)

type versionCommand struct{}

// built is which program this is.
type built struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	System   string `json:"system"`
}

func (versionCommand) Run(p *program) error {
	b := buildOf()
	return p.out(b, func() {
		p.say("placet %s %s %s", b.Version, b.Go, b.System)
		if b.Revision != "" {
			p.say("revision %s", b.Revision)
		}
	})
}

func version() string { return buildOf().Version }

func buildOf() built {
	b := built{Version: "devel", Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}
