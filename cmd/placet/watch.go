package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/edge/question"
	"github.com/placet-dev/placet/mcphttp"
	"github.com/placet-dev/placet/record"
)

type approvalsWatch struct{ serverFlags }

// watching is what one watch has seen.
type watching struct {
	*program
	last  string // the number of the last event
	ready bool
	known map[record.ApprovalID]string // versions of the questions that wait
}

// Run prints questions until it is interrupted. A stream that ends is opened again:
// the server ends it after some minutes, and with the token that it began with.
func (c approvalsWatch) Run(ctx context.Context, p *program) error {
	w := &watching{program: p, known: map[record.ApprovalID]string{}}
	for pause := time.Duration(0); ; {
		began := w.last
		err := w.follow(ctx, c.serverFlags)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && (kindOf(err) != record.Unavailable || !w.ready) {
			return err
		}
		if began != w.last {
			pause = 0
		}
		if err != nil {
			if pause == 0 {
				p.warn("the server does not answer; trying again: %s", err)
			}
			pause = min(max(time.Second, 2*pause), 30*time.Second)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(pause, 100*time.Millisecond)):
		}
	}
}

// mostEvent bounds one event: a question with its arguments.
const mostEvent = 16 << 20

func (w *watching) follow(ctx context.Context, f serverFlags) error {
	client, err := w.client(ctx, f)
	if err != nil {
		return err
	}
	header := http.Header{"Accept": {"text/event-stream"}}
	if w.last != "" {
		header.Set("Last-Event-ID", w.last)
	}
	res, err := client.send(ctx, http.MethodGet, "/v1/approvals/events", nil, nil, header)
	var r *refused
	if errors.As(err, &r) && r.Status >= 500 {
		return record.Errorf(record.Unavailable, "%s", r.Detail)
	}
	if err != nil {
		return err
	}
	defer res.Body.Close()
	for events := mcphttp.NewEvents(res.Body, mostEvent); ; {
		e, err := events.Next()
		if errors.Is(err, mcphttp.ErrTooLarge) {
			return record.Errorf(record.Unsupported, "a question is too large to be watched; see it on the console")
		}
		if err != nil {
			return nil // the stream's end; the next one tells why
		}
		if err := w.event(e); err != nil {
			return err
		}
		if e.ID != "" {
			w.last = e.ID
		}
	}
}

func (w *watching) event(e mcphttp.Event) error {
	if e.Name == "ready" {
		if !w.ready && len(w.known) == 0 {
			w.warn("Nothing waits for you now. Questions appear here as they come; ctrl-c ends.")
		}
		w.ready = true
		return nil
	}
	if e.Name != "question" {
		return nil
	}
	var a api.ApprovalView
	if err := json.Unmarshal(e.Data, &a); err != nil {
		return record.Because(record.Unavailable, err, "the server sends something that is no question")
	}
	was, seen := w.known[a.ID]
	switch {
	case was == a.Version, !seen && a.State != record.Pending && !w.ready:
		return nil
	case a.Settled:
		delete(w.known, a.ID)
	default:
		w.known[a.ID] = a.Version
	}
	return w.out(a, func() { w.show(a, seen) })
}

// show prints a question that is new, and afterwards what became of it.
func (w *watching) show(a api.ApprovalView, seen bool) {
	now := a.Changed.Local().Format("15:04:05")
	if a.State != record.Pending || seen {
		text := a.Outcome
		if a.State == record.Pending {
			text = "somebody answered; it waits for more"
		}
		w.say("%s  %s  %s", now, a.ID, text)
		return
	}
	s := w.sheet()
	w.say("%s  %s  waits, %s", now, a.ID, question.Left(time.Duration(a.Remaining)*time.Second))
	s.line("", cell(firstOf(a.Call.Effect, a.Call.Tool)))
	s.line("", "for "+cell(a.Call.Principal.String())+", by "+cell(string(a.Call.Agent))+"; "+a.Why)
	s.line("", "placet approvals approve "+string(a.ID))
}
