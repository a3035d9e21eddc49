package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// ResumeHeader is where a stream goes on. It is exported for huma.
type ResumeHeader struct {
	LastEventID string `header:"Last-Event-ID" pattern:"^[0-9]{1,18}$" doc:"Sent by a client that comes back: the id of the last event that it got."`
}

// after is that number; ok is false where there is none.
func (h ResumeHeader) after() (after int64, ok bool, err error) {
	if h.LastEventID == "" {
		return 0, false, nil
	}
	after, err = strconv.ParseInt(h.LastEventID, 10, 64)
	if err != nil {
		return 0, false, invalid("header.Last-Event-ID", "not a number")
	}
	return after, true, nil
}

type streamInput struct {
	EventsInput
	ResumeHeader
}

func (d *door) registerStream() {
	op := d.operation("stream-events", http.MethodGet, "/v1/events/stream", "Follow the event log", d.asViewer, tag("events"),
		describe("Server-sent events, each with the event's number as its id. The stream ends when the credential ceases to count, and after some minutes in any case; come back with Last-Event-ID, which counts in the place of after."))
	op.Responses["200"] = &huma.Response{Description: "A stream of EventView objects.",
		Content: map[string]*huma.MediaType{"text/event-stream": {Schema: d.schema(EventView{}, "EventView")}}}
	add(d, op, d.follow)
}

func (d *door) follow(ctx context.Context, in *streamInput) (*huma.StreamResponse, error) {
	after, resumed, err := in.after()
	if err != nil {
		return nil, err
	}
	if resumed {
		in.After = after
	}
	q, err := d.eventQuery(ctx, watcher(ctx), &in.EventsInput)
	if err != nil {
		return nil, err
	}
	return d.streamed(ctx, q.Call, func(ctx context.Context, s *stream) error {
		s.follower.Take() // it only said that there is something
		for more := true; more; {
			views, next, err := d.eventsAfter(ctx, s.viewer, q)
			if err != nil {
				return err
			}
			for _, v := range views {
				if err := s.send(v.Seq, string(v.Kind), v); err != nil {
					return err
				}
			}
			more, q.After = next != q.After, next
		}
		return nil
	}), nil
}
