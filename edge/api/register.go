package api

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/placet-dev/placet/record"
)

// add registers an operation. What no handler may return, an error that is no
// problem yet, becomes one here.
func add[I, O any](d *door, op huma.Operation, handler func(context.Context, *I) (*O, error)) {
	huma.Register(d.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handler(ctx, in)
		if err != nil {
			return nil, d.refusal(err)
		}
		return out, nil
	})
}

func (d *door) schema(of any, name string) *huma.Schema {
	return d.api.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(of), true, name)
}

type keyEntered struct{}

// entered notes that a proposal reached the boundary, which records what becomes of it.
func entered(ctx context.Context) {
	if e, ok := ctx.Value(keyEntered{}).(*bool); ok {
		*e = true
	}
}

// noting records a request of a known caller that became no call, because its
// body could not be read (P6). What the body held stays out of the record.
func (d *door) noting(op *huma.Operation) {
	op.Middlewares = append(op.Middlewares, func(ctx huma.Context, next func(huma.Context)) {
		reached := false
		next(huma.WithValue(ctx, keyEntered{}, &reached))
		if !reached {
			// The answer is written already; the record must not wait for a caller that left.
			if _, err := d.boundary.Refuse(context.WithoutCancel(ctx.Context()), caller(ctx.Context()), "",
				record.CodeInvalidArguments, "the request body was not readable as a proposal"); err != nil {
				d.log.Error("an event was not recorded", "error", err)
			}
		}
	})
}

// specification returns the OpenAPI document.
func (d *door) specification() ([]byte, error) {
	return json.MarshalIndent(d.api.OpenAPI(), "", "  ")
}

// finishSpec removes what huma adds for its own error type, which this door never sends.
func (d *door) finishSpec() {
	for _, name := range []string{"ErrorModel", "ErrorDetail"} {
		delete(d.api.OpenAPI().Components.Schemas.Map(), name)
	}
}
