package mcp

import (
	"context"
	"errors"
	"fmt"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/registry"
)

// Own is what this program itself is known by at a server, for what it sends
// without a caller: listings, and the sessions and processes that are nobody's.
type Own struct {
	Credential dispatch.Credential
	// Variable is given to a command's process, as NAME and value; "" for none.
	Variable, Value string
}

// errCredential is the cause of a failure that is about the credential sent, not
// about the server.
var errCredential = errors.New("the server did not take the credential")

// own asks for what is sent to a server without a caller.
func (v *Invoker) own(ctx context.Context, s *registry.Server) (Own, error) {
	if s.Credential == "" {
		return Own{}, nil
	}
	if v.opts.Own == nil {
		return Own{}, fmt.Errorf("the server needs credential %q, and nothing here obtains any", s.Credential)
	}
	o, err := v.opts.Own(ctx, s)
	if err != nil {
		return Own{}, fmt.Errorf("credential %s: %w", s.Credential, err)
	}
	return o, nil
}
