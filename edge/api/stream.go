package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/placet-dev/placet/dispatch"
)

type streamInput struct {
	EventsInput
	LastEventID string `header:"Last-Event-ID" pattern:"^[0-9]{1,18}$" doc:"Sent by a client that comes back; counts in the place of after."`
}

func (d *door) registerStream() {
	op := d.operation("stream-events", http.MethodGet, "/v1/events/stream", "Follow the event log", d.asViewer, tag("events"),
		describe("Server-sent events, each with the event's number as its id. The stream ends when the credential ceases to count, and after some minutes in any case; come back with Last-Event-ID."))
	op.Responses["200"] = &huma.Response{Description: "A stream of EventView objects.",
		Content: map[string]*huma.MediaType{"text/event-stream": {Schema: d.schema(EventView{}, "EventView")}}}
	add(d, op, d.follow)
}

func (d *door) follow(ctx context.Context, in *streamInput) (*huma.StreamResponse, error) {
	v, creds := watcher(ctx), credentials(ctx)
	if in.LastEventID != "" {
		after, err := strconv.ParseInt(in.LastEventID, 10, 64)
		if err != nil {
			return nil, invalid("header.Last-Event-ID", "not a number")
		}
		in.After = after
	}
	q, err := d.eventQuery(ctx, v, &in.EventsInput)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		r, w := humago.Unwrap(hctx)
		ctx, cancel := context.WithTimeout(r.Context(), d.stream)
		defer cancel()
		s := &eventStream{door: d, to: w, control: http.NewResponseController(w), query: q, viewer: v}
		s.run(ctx, func() bool {
			now, ok := d.still(ctx, creds, v)
			s.viewer = now
			return ok
		})
	}}, nil
}

// eventStream writes the events of one query as they come.
type eventStream struct {
	door    *door
	to      http.ResponseWriter
	control *http.ResponseController
	query   dispatch.EventQuery
	viewer  viewer
}

// run returns when the client leaves, the time is up, a write fails or valid says
// that the credential no longer counts. It asks valid before every look.
func (s *eventStream) run(ctx context.Context, valid func() bool) {
	s.to.Header().Set("Content-Type", "text/event-stream")
	s.to.WriteHeader(http.StatusOK)
	tick := time.NewTicker(s.door.poll)
	defer tick.Stop()
	for s.flush() == nil && valid() {
		more, err := s.send(ctx)
		if err != nil {
			s.door.log.Debug("event stream ended", "error", err)
			return
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// send writes one page and reports whether there may be another at once.
func (s *eventStream) send(ctx context.Context) (more bool, err error) {
	views, next, err := s.door.eventsAfter(ctx, s.viewer, s.query)
	if err != nil {
		return false, err
	}
	for _, v := range views {
		text, err := encode(v)
		if err != nil {
			return false, err
		}
		frame := append([]byte("id: "+strconv.FormatInt(v.Seq, 10)+"\nevent: "+string(v.Kind)+"\ndata: "), text...)
		if err := s.write(append(frame, "\n\n"...)); err != nil {
			return false, err
		}
	}
	if len(views) == 0 {
		// A comment finds out whether anybody still listens.
		err = s.write([]byte(": \n\n"))
	}
	s.query.After = next
	return len(views) == s.query.Limit, err
}

const writeTimeout = 10 * time.Second

func (s *eventStream) write(frame []byte) error {
	// Not every writer has deadlines; then the server's own count.
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := s.to.Write(frame)
	return err
}

func (s *eventStream) flush() error { return s.control.Flush() }
