package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/placet-dev/placet/dispatch"
)

// greeting is what a server said of itself.
type greeting struct {
	era     era
	version string
	tools   bool // it announces changes of a list: capabilities.tools.listChanged, or that of prompts or resources
}

// asker sends a request and returns its answer, in a given era.
type asker func(ctx context.Context, e era, q *request) answer

// greet finds out the era: server/discover first, as the specification asks of
// a client that speaks both, then initialize.
func greet(ctx context.Context, ask asker, version string) (greeting, error) {
	a := ask(ctx, modern, &request{method: "server/discover"})
	if a.result != nil {
		if g, ok, err := readDiscover(a.result); err != nil || ok {
			return g, err
		}
	} else if a.fault == nil && (a.status == 0 || !saysLegacy(a.status)) {
		return greeting{}, a.failure()
	}
	a = ask(ctx, legacy, initialize(version))
	if a.result == nil {
		if err := a.failure(); err != nil {
			return greeting{}, fmt.Errorf("initialize: %w", err)
		}
		return greeting{}, errNoResult
	}
	return readInitialize(a.result)
}

// saysLegacy reports whether a server that knows nothing of server/discover may
// answer with this status. What a server in trouble answers tells nothing.
func saysLegacy(status int) bool {
	return status >= 400 && status < 500 && status != http.StatusTooManyRequests &&
		status != http.StatusUnauthorized && status != http.StatusForbidden
}

func readDiscover(result json.RawMessage) (g greeting, ok bool, err error) {
	err = eachMember(result, func(name string, value []byte) error {
		switch name {
		case "supportedVersions":
			return eachElement(value, func(v []byte) error {
				ok = ok || string(v) == `"`+modernVersion+`"`
				return nil
			})
		case "capabilities":
			g.tools = announces(value)
		}
		return nil
	})
	g.era, g.version = modern, modernVersion
	return g, ok, err
}

func readInitialize(result json.RawMessage) (greeting, error) {
	g := greeting{era: legacy}
	err := eachMember(result, func(name string, value []byte) (err error) {
		switch name {
		case "protocolVersion":
			g.version, err = unquote(value)
		case "capabilities":
			g.tools = announces(value)
		}
		return err
	})
	if err == nil && !legacyKnown(g.version) {
		err = fmt.Errorf("the server speaks protocol version %q, which we do not", clip(g.version, 20))
	}
	return g, err
}

// announces reports whether capabilities say listChanged of tools, prompts or resources.
func announces(capabilities []byte) bool {
	yes := false
	for _, list := range []string{"tools", "prompts", "resources"} {
		member(capabilities, list, func(one []byte) error {
			return member(one, "listChanged", func(v []byte) error {
				yes = yes || string(v) == "true"
				return nil
			})
		})
	}
	return yes
}

// dial greets a server over HTTP. In the legacy era it opens a session. known is
// what it turned out to be before, or unknownEra.
func (w *wire) dial(ctx context.Context, u *url.URL, known era, c dispatch.Credential, ids *atomic.Int64, changed func()) (*remote, error) {
	r := &remote{wire: w, url: u, ids: ids, changed: changed}
	ask := func(ctx context.Context, e era, q *request) answer {
		if known == legacy && e == modern {
			return answer{status: http.StatusNotFound}
		}
		r.era, q.credential = e, c
		return r.open(ctx, q)
	}
	g, err := greet(ctx, ask, w.version)
	if err != nil {
		return nil, err
	}
	r.era, r.version, r.tools = g.era, g.version, g.tools
	if g.era == legacy {
		// A modern one is everybody's, and keeps nothing of who asked first.
		r.opened = c
		if err := r.tell(ctx, notification("notifications/initialized", nil), c); err != nil {
			r.close(context.WithoutCancel(ctx))
			return nil, fmt.Errorf("initialize: %w", err)
		}
	}
	return r, nil
}

// open is call for a request that may begin a session.
func (r *remote) open(ctx context.Context, q *request) answer {
	id := r.ids.Add(1)
	resp, a := r.post(ctx, &outgoing{text: q.encode(id, r.era, r.wire.version), now: r.wire.now}, q, q.credential)
	if resp == nil {
		return a
	}
	defer resp.Body.Close()
	if r.era == legacy && resp.StatusCode == http.StatusOK {
		r.session = resp.Header.Get("Mcp-Session-Id")
	}
	a = r.read(ctx, resp, id, q)
	a.sent = true
	return a
}
