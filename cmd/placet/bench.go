package main

import (
	"context"
	"slices"
	"strings"
	"time"

	placet "github.com/placet-dev/placet"
	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	toolmcp "github.com/placet-dev/placet/tool/mcp"
)

// contactLimit is how long a server may take to list its tools.
const contactLimit = time.Minute

// bench is the registry and a way to ask its servers, without a store: a running
// server owns that.
type bench struct {
	cfg     *config.Config
	checked *placet.Checked
	servers *placet.Servers
}

func (p *program) bench(ctx context.Context, f configFlag) (*bench, error) {
	cfg, err := f.load()
	if err != nil {
		return nil, err
	}
	checked, err := p.check(ctx, cfg, []string{"dev"})
	if err != nil {
		return nil, err
	}
	servers := placet.OpenServers(toolmcp.Options{LookupEnv: p.env, Version: version(), Own: checked.Own}, guard.World{}) // no operation is called here
	return &bench{cfg, checked, servers}, nil
}

func (b *bench) close() { _ = b.servers.Close() } // it has nothing to report

// server finds a server by name.
func (b *bench) server(name string) (*registry.Server, error) {
	s, ok := b.checked.Registry().Server(name)
	if ok && s.Inproc {
		return nil, record.Errorf(record.Invalid, "the tools of %s are code of this program; there is nothing to ask", name)
	}
	if ok {
		return s, nil
	}
	var names []string
	for s := range b.checked.Registry().Servers() {
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return nil, record.Errorf(record.NotFound, "there is no server %q; the registry names none, add it under servers", name)
	}
	return nil, record.Errorf(record.NotFound, "there is no server %q; the registry names %s", name, strings.Join(names, ", "))
}

// offers asks a server what it offers now. No tool is called.
func (b *bench) offers(ctx context.Context, s *registry.Server) ([]registry.Offer, error) {
	ctx, cancel := context.WithTimeout(ctx, contactLimit)
	defer cancel()
	offers, err := b.servers.ListOffers(ctx, s)
	if err != nil {
		return nil, err
	}
	readable, err := b.servers.ListReadable(ctx, s)
	if err != nil && !slices.ContainsFunc(b.toolsOf(s.Name), func(t *registry.Tool) bool { return t.Method != registry.MethodTool }) {
		return offers, nil // nothing that is named depends on it
	}
	return append(slices.Clip(offers), readable...), err
}
