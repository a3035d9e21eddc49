package main

import (
	"strings"

	"github.com/placet-dev/placet/edge/api"
)

// refused is a problem that the server answered with (RFC 9457).
type refused struct{ api.Problem }

func (r *refused) Error() string { return r.Detail }

func trimURL(u string) string { return strings.TrimSuffix(u, "/") }
