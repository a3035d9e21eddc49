package mcp

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/registry"
)

// list is one of a server's lists and how its elements are read.
type list struct {
	method, member string
	optional       bool // a server that refuses the method offers none
	add            func(*listing, []byte) error
}

var (
	toolLists     = []list{{"tools/list", "tools", false, (*listing).add}}
	readableLists = []list{
		{"resources/list", "resources", true, (*listing).addResource},
		{"resources/templates/list", "resourceTemplates", true, (*listing).addResource},
		{"prompts/list", "prompts", true, (*listing).addPrompt},
	}
)

// refused reports whether the server said no, rather than nothing.
func (a answer) refused() bool {
	return a.fault != nil || a.status >= 400 && a.status < 500 && a.status != http.StatusTooManyRequests && !a.lost
}

// readable is what the three lists have in common.
type readable struct {
	uri, name, title, description, mimeType string
	annotations, arguments                  json.RawMessage
}

func readReadable(text []byte) (r readable, err error) {
	err = eachMember(text, func(name string, value []byte) (err error) {
		switch name {
		case "uri", "uriTemplate":
			r.uri, err = unquote(value)
		case "name":
			r.name, err = unquote(value)
		case "title":
			r.title, err = optional(value)
		case "description":
			r.description, err = optional(value)
		case "mimeType":
			r.mimeType, err = optional(value)
		case "annotations":
			r.annotations = object(value)
		case "arguments":
			r.arguments = object(value)
		}
		return err
	})
	return r, err
}

// addResource reads one resource, or one template. One whose URI or template we do
// not read is as if it were not offered: no entry could name it.
func (l *listing) addResource(text []byte) error {
	r, err := readReadable(text)
	if err != nil || r.uri == "" {
		return errors.New("a resource of the list cannot be read")
	}
	// A resource's name says to people what its URI does not.
	o, err := registry.ResourceOffer(r.uri, cmp.Or(r.title, r.name), r.description, r.mimeType, r.annotations)
	if err == nil {
		l.keep(o)
	}
	return nil
}

// addPrompt reads one prompt.
func (l *listing) addPrompt(text []byte) error {
	r, err := readReadable(text)
	if err != nil || r.name == "" {
		return errors.New("a prompt of the list cannot be read")
	}
	var arguments []registry.Argument
	if r.arguments != nil {
		err = eachElement(r.arguments, func(v []byte) error {
			a, err := readArgument(v)
			arguments = append(arguments, a)
			return err
		})
	}
	if err != nil {
		return errors.New("a prompt's arguments cannot be read")
	}
	if o, err := registry.PromptOffer(r.name, r.title, r.description, arguments); err == nil {
		l.keep(o)
	}
	return nil
}

func readArgument(text []byte) (a registry.Argument, err error) {
	err = eachMember(text, func(name string, value []byte) (err error) {
		switch name {
		case "name":
			a.Name, err = unquote(value)
		case "title":
			a.Title, err = optional(value)
		case "description":
			a.Description, err = optional(value)
		case "required":
			a.Required = string(value) == "true"
		}
		return err
	})
	return a, err
}

// reads writes down what goes upstream of a call that is no tool's. The URI is
// written out of the arguments as they were decided.
func (r *request) reads(t *registry.Tool) error {
	r.method, r.name = t.Method.String(), ""
	switch t.Method {
	case registry.MethodResource:
		uri, err := t.Template.Expand(r.arguments)
		if err != nil {
			return err
		}
		r.name, r.extra = uri, `"uri":`+string(quote(nil, uri))
	case registry.MethodPrompt:
		r.name, r.extra = t.Upstream, `"name":`+string(quote(nil, t.Upstream))
		if string(r.arguments) != "{}" {
			r.extra += `,"arguments":` + string(r.arguments)
		}
	case registry.MethodCompletion:
		r.extra = completed(t, r.arguments)
	default:
		return fmt.Errorf("this program knows no such method")
	}
	return nil
}

// completed is what goes upstream of a completion (MCP 2026-07-28, completion).
func completed(t *registry.Tool, arguments []byte) string {
	ref := `{"type":"ref/prompt","name":`
	if t.Completes.Method == registry.MethodResource {
		ref = `{"type":"ref/resource","uri":`
	}
	argument, _ := canon.Lookup(arguments, "argument")
	value, _ := canon.Lookup(arguments, "value")
	out := `"ref":` + ref + string(quote(nil, t.Upstream)) + `},"argument":{"name":` + string(argument) + `,"value":` + string(value) + `}`
	if context, ok := canon.Lookup(arguments, "context"); ok {
		out += `,"context":{"arguments":` + string(context) + `}`
	}
	return out
}
