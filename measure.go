package placet

import (
	"context"

	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/measure"
)

// measured compares, at every activation, what servers' commands would fetch or
// run with what tools.lock holds. A registry without commands starts no process.
func measured(ctx context.Context) func([]string) (registry.ServerPin, error) {
	return func(command []string) (registry.ServerPin, error) { return measure.Command(ctx, command) }
}
