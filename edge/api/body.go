package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/placet-dev/placet/record"
)

// gather reads the body of a request whose caller is known, within its size and
// the time that ServeHTTP set, and lifts the deadline. huma would leave one on the
// connection: a call that runs longer would then lose its context, and with it
// every later request on the same connection. A refused request keeps its
// deadline, since net/http waits for the rest of a body before it answers.
func (d *door) gather(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	text, err := io.ReadAll(io.LimitReader(r.Body, int64(d.limits.Bytes)+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = problem(http.StatusBadRequest, string(record.Invalid), "the body did not arrive in time")
	case err != nil:
		err = problem(http.StatusBadRequest, string(record.Invalid), "the body did not arrive whole")
	case len(text) > d.limits.Bytes:
		err = record.Errorf(record.TooLarge, "the body is larger than %d bytes", d.limits.Bytes)
	default:
		deadline(w, time.Time{})
		next(gathered{inner: ctx, text: text})
		return
	}
	ctx.SetHeader("Connection", "close") // the rest of the body is still on its way
	d.refuse(ctx, err)
}

// deadline sets until when the body may arrive. Not every connection has
// deadlines; then the server's own count.
func deadline(w http.ResponseWriter, t time.Time) {
	_ = http.NewResponseController(w).SetReadDeadline(t)
}

// gathered is a request whose body is here already.
type gathered struct {
	inner
	text []byte
}

func (g gathered) BodyReader() io.Reader { return bytes.NewReader(g.text) }

// SetReadDeadline has nothing left to do.
func (g gathered) SetReadDeadline(time.Time) error { return nil }

// Unwrap lets the adapter find its own context.
func (g gathered) Unwrap() huma.Context { return g.inner }
