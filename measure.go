package placet

import (
	"context"

	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/measure"
)

// measure is nil for what is loaded only to be compared: nothing that it names is
// looked at or started.
func (p *Placet) measure(ctx context.Context) func([]string) (registry.ServerPin, error) {
	if p.beside {
		return nil
	}
	return measured(ctx)
}

// measured compares, at every activation, what servers' commands would fetch or
// run with what tools.lock holds. A registry without commands starts no process.
func measured(ctx context.Context) func([]string) (registry.ServerPin, error) {
	return func(command []string) (registry.ServerPin, error) { return measure.Command(ctx, command) }
}
