// Package standin answers calls in place of tools, so that what a registry and a
// policy let through can be seen without anything being reached.
//
// It promises that nothing leaves this process, and that a ticket is answered once.
//
// It may import dispatch and the standard library.
package standin

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/placet-dev/placet/dispatch"
)

// Answer is what a call gets in place of the tool's result.
type Answer func(dispatch.Work) (json.RawMessage, error)

// Invoke redeems the ticket and answers it.
func (a Answer) Invoke(_ context.Context, t dispatch.Ticket) dispatch.Reached {
	w, ok := t.Redeem()
	if !ok {
		return dispatch.Reached{Err: errors.New("the ticket is not good for a call")}
	}
	result, err := a(w)
	return dispatch.Reached{Sent: true, Result: result, Err: err}
}
