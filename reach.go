package placet

import (
	"context"
	"errors"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/file"
	toolhttp "github.com/placet-dev/placet/tool/http"
	"github.com/placet-dev/placet/tool/lease"
	"github.com/placet-dev/placet/tool/local"
	toolmcp "github.com/placet-dev/placet/tool/mcp"
	"github.com/placet-dev/placet/tool/query"
)

// reach is one way to reach tools.
type reach interface {
	dispatch.Invoker
	// ListOffers returns everything that a server offers now. It calls no tool.
	ListOffers(context.Context, *registry.Server) ([]registry.Offer, error)
	Close() error
}

// Servers reaches the tools of every kind of server.
type Servers struct {
	MCP   *toolmcp.Invoker
	local *local.Invoker // handlers of the embedding program; nil: none
	kinds map[registry.Kind]reach
}

// OpenServers makes the ways to reach tools. world finds hosts, and says what of
// Placet itself no tool may reach.
func OpenServers(mcp toolmcp.Options, world guard.World) *Servers {
	return openServers(mcp, world, held{})
}

// held are files of servers that are part of the active version, and not read from the
// disk (rule H2); a zero one holds none.
type held struct {
	file   func(path string) ([]byte, bool)
	folder func(path string) (map[string][]byte, bool)
}

func openServers(mcp toolmcp.Options, world guard.World, files held) *Servers {
	s := &Servers{MCP: toolmcp.New(mcp)}
	s.kinds = map[registry.Kind]reach{
		registry.KindMCP:        s.MCP,
		registry.KindFiles:      file.New(file.Options{Own: world.Files}),
		registry.KindQueries:    query.New(query.Options{Own: world.Files, Held: files.folder}),
		registry.KindLease:      lease.New(files.file),
		registry.KindOperations: toolhttp.New(toolhttp.Options{World: world, Now: mcp.Now, Log: mcp.Log, Version: mcp.Version, Held: files.file}),
	}
	return s
}

// Invoke implements dispatch.Invoker. It looks at the server the boundary chose.
func (s *Servers) Invoke(ctx context.Context, t dispatch.Ticket) dispatch.Reached {
	if t.Inproc() && s.local != nil {
		return s.local.Invoke(ctx, t)
	}
	if r := s.kinds[t.Kind()]; r != nil {
		return r.Invoke(ctx, t)
	}
	return dispatch.Reached{Refused: true, Err: errors.New("this program knows no such kind of server")}
}

// Offer implements dispatch.Invoker.
func (s *Servers) Offer(ctx context.Context, server *registry.Server, upstream string, maxAge time.Duration) (registry.Offer, error) {
	if server.Inproc && s.local != nil {
		return s.local.Offer(ctx, server, upstream, maxAge)
	}
	r := s.kinds[server.Kind]
	if r == nil {
		return registry.Offer{}, record.Errorf(record.Unavailable, "server %s is of a kind that this program does not know", server.Name)
	}
	return r.Offer(ctx, server, upstream, maxAge)
}

// ListOffers returns everything that a server offers now. It calls no tool.
func (s *Servers) ListOffers(ctx context.Context, server *registry.Server) ([]registry.Offer, error) {
	r := s.kinds[server.Kind]
	if r == nil {
		return nil, record.Errorf(record.Unavailable, "server %s is of a kind that this program does not know", server.Name)
	}
	return r.ListOffers(ctx, server)
}

// ListReadable returns the resources, resource templates and prompts that a server
// offers now. Only MCP servers have any.
func (s *Servers) ListReadable(ctx context.Context, server *registry.Server) ([]registry.Offer, error) {
	if server.Kind != registry.KindMCP || server.Inproc {
		return nil, nil
	}
	return s.MCP.ListReadable(ctx, server)
}

// Close ends every connection and child.
func (s *Servers) Close() error {
	var err error
	for _, r := range s.kinds {
		err = errors.Join(err, r.Close())
	}
	return err
}
