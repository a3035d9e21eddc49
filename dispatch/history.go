package dispatch

import (
	"github.com/placet-dev/placet/history"
	"github.com/placet-dev/placet/record"
)

// Records is what a run's history is compared with.
func (b *Boundary) Records(record.Run) history.Records { return history.NoRecords{} }
