package main

import (
	"strings"

	"github.com/placet-dev/placet/registry"
)

// inventory prints marks. An unmarked tool is an error, at load already.
func (b *bench) inventory(p *program) error {
	rows := b.checked.Registry().Inventory()
	tick := func(is bool) string {
		if is {
			return "x"
		}
		return ""
	}
	err := list(p, rows, "The registry names no tool.",
		[]string{"TOOL", "SERVER", "READ", "WRITE", "DESTRUCTIVE", "FINANCIAL", "SINK", "UNMARKED", "QUARANTINED"}, func(r registry.Row) []string {
			return []string{r.Tool, r.Server, tick(r.Read), tick(r.Write), tick(r.Destructive), tick(r.Financial), tick(r.Sink), tick(r.Unmarked), tick(r.Quarantined != "")}
		})
	var unmarked []string
	for _, r := range rows {
		if r.Unmarked {
			unmarked = append(unmarked, r.Tool)
		}
	}
	if err == nil && len(unmarked) > 0 {
		err = no("unmarked tools: %s", strings.Join(unmarked, ", "))
	}
	return err
}
