package placet

import (
	"encoding/json"

	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/local"
)

// Tool is a tool that is a Go function. Its entry is what tools.yaml would say of
// it, with the same defaults; without a mark (Read, Write, Destructive, Financial,
// Sink) it is refused.
type Tool struct {
	Name         string
	Title        string
	Description  string
	InputSchema  json.RawMessage // JSON Schema 2020-12 of an object
	OutputSchema json.RawMessage // of the structured content; nil: none
	Entry        registry.Entry
	Handler      local.Handler
}

// handlers registers the embedding program's tools.
func (o Options) handlers() (*local.Invoker, error) {
	v := local.New()
	for _, t := range o.Tools {
		if t.Handler == nil {
			return nil, record.Errorf(record.Invalid, "tool %q has no handler", t.Name)
		}
		if err := v.Add(t.Name, t.Handler); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (o Options) declared() []registry.Declared {
	var out []registry.Declared
	for _, t := range o.Tools {
		out = append(out, registry.Declared{Name: t.Name, Entry: t.Entry, Offer: registry.Offer{Title: t.Title,
			Description: t.Description, InputSchema: t.InputSchema, OutputSchema: t.OutputSchema}})
	}
	return out
}
