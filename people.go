package placet

import (
	"net/http"

	"github.com/placet-dev/placet/edge/console"
)

// mountConsole registers the pages for people.
func (p *Placet) mountConsole(mux *http.ServeMux) error {
	c, err := console.New(console.Options{
		Boundary: p.boundary, Reader: p.store, Verifier: p.verifier, PublicURL: p.o.Config.PublicURL,
		Log: p.o.Log, Clock: p.o.Clock, Random: p.o.Random, HTTP: p.o.HTTP,
	})
	if err != nil {
		return err
	}
	c.Mount(mux)
	return nil
}
