package api

import (
	"errors"
	"net/http"

	"github.com/placet-dev/placet/record"
)

// registerHealth adds what no token is needed for. Both say nothing but whether.
func (d *door) registerHealth() {
	d.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { d.ok(w) })
	d.mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if d.ready != nil {
			if err := d.ready(r.Context()); err != nil {
				d.send(w, unready(err))
				return
			}
		}
		d.ok(w)
	})
	d.mux.HandleFunc("GET /v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		text, err := d.specification()
		if err != nil {
			d.send(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/openapi+json")
		d.deliver(w, text)
	})
}

// unready says why to anybody, as far as anybody may read it, and to the log all of it, once.
func unready(err error) error {
	var known *record.Error
	if errors.As(err, &known) && known.Message == err.Error() {
		return record.Errorf(record.Unavailable, "not ready: %s", known.Message)
	}
	return record.Because(record.Unavailable, err, "not ready: %s", record.PublicMessage(err))
}

func (d *door) ok(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	d.deliver(w, []byte(`{"status":"ok"}`+"\n"))
}

func (d *door) deliver(w http.ResponseWriter, text []byte) {
	if _, err := w.Write(text); err != nil {
		d.log.Debug("answer not written", "error", err)
	}
}
