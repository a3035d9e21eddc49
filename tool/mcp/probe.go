package mcp

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/placet-dev/placet/registry"
)

// Probed is what a server does with a call that nobody dispatched (rule K3).
type Probed string

const (
	ProbeRefuses Probed = "refuses" // it demands a token, or another credential, before it looks at the call
	ProbeAnswers Probed = "answers" // it looked for the tool without asking for a token
)

// probeName is a tool that no server has. The registry reserves the prefix.
const probeName = "placet_probe_no_such_tool"

// Probe calls a tool that the server does not offer, without a dispatch token and
// without a credential. There is nothing that could run, so this needs no ticket
// and has no effect; a server that checks tokens where it must, before it looks at
// the call, refuses it for want of one, and any other tells that the tool is
// unknown. An error means that nobody knows.
func (v *Invoker) Probe(ctx context.Context, s *registry.Server) (Probed, error) {
	e, err := v.endpoint(s)
	if err != nil {
		return "", err
	}
	l, err := v.listing(ctx, e, &e.list, 0)
	if err != nil {
		return "", unavailable(s.Name, err)
	}
	if _, offered := l.byName[probeName]; offered {
		return "", errors.New("the server offers a tool of the probe's name, so that it cannot be probed safely")
	}
	a := v.send(ctx, e, owner{discovery: true}, &request{method: "tools/call", name: probeName, arguments: []byte("{}")})
	switch {
	case a.status == http.StatusUnauthorized, a.status == http.StatusForbidden:
		return ProbeRefuses, nil
	case a.fault != nil && strings.Contains(strings.ToLower(a.fault.message), "dispatch token"):
		return ProbeRefuses, nil
	case a.fault != nil, a.result != nil:
		return ProbeAnswers, nil
	}
	return "", unavailable(s.Name, a.failure())
}
