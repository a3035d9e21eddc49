package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/record"
)

type auditCommand struct {
	Tail       auditTail       `cmd:"" help:"Read the event log."`
	Export     auditExport     `cmd:"" help:"Write out the sealed log, for offline verification."`
	Verify     auditVerify     `cmd:"" help:"Verify an export or a receipt, without a server."`
	Receipt    auditReceipt    `cmd:"" help:"Prove an event, or all events of a call."`
	Checkpoint auditCheckpoint `cmd:"" help:"Show the newest checkpoint and the log's public key, to keep elsewhere."`
}

type auditTail struct {
	serverFlags
	Follow bool   `short:"f" help:"Wait for more events, until interrupted."`
	After  int64  `placeholder:"N" help:"Only events after this one."`
	RunID  string `name:"run" placeholder:"RUN" help:"Only events of this run."`
	Call   string `placeholder:"CALL" help:"Only events of this call."`
}

func (c auditTail) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	after, err := c.read(ctx, p, client)
	if err != nil || !c.Follow {
		return err
	}
	for ctx.Err() == nil {
		after, err = c.follow(ctx, p, client, after)
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// page is how many events one request asks for.
const page = 500

// read prints every event there is.
func (c auditTail) read(ctx context.Context, p *program, client *client) (int64, error) {
	after := c.After
	for {
		var answer struct {
			Events []api.EventView `json:"events"`
			Next   int64           `json:"next"`
		}
		q := query("after", strconv.FormatInt(after, 10), "run", c.RunID, "call", c.Call, "limit", strconv.Itoa(page))
		if err := client.ask(ctx, http.MethodGet, "/v1/events", q, nil, &answer); err != nil {
			return after, err
		}
		for _, e := range answer.Events {
			if err := p.event(e); err != nil {
				return after, err
			}
		}
		if answer.Next <= after || len(answer.Events) < page {
			return max(after, answer.Next), nil
		}
		after = answer.Next
	}
}

// follow prints events as they come, until the stream ends; the server ends it
// after some minutes, and whoever still listens comes back.
func (c auditTail) follow(ctx context.Context, p *program, client *client, after int64) (int64, error) {
	q := query("after", strconv.FormatInt(after, 10), "run", c.RunID, "call", c.Call)
	res, err := client.send(ctx, http.MethodGet, "/v1/events/stream", q, nil, http.Header{"Accept": {"text/event-stream"}})
	if err != nil {
		return after, err
	}
	defer res.Body.Close()
	err = eachData(res.Body, func(data []byte) error {
		var e api.EventView
		if err := json.Unmarshal(data, &e); err != nil {
			return record.Because(record.Unavailable, err, "%s sends something that is no event", client.base)
		}
		after = e.Seq
		return p.event(e)
	})
	return after, err
}

// eachData calls f with the data of every server-sent event. The stream's end is
// no error: the server ends it, or is gone, and the next request tells.
func eachData(r io.Reader, f func([]byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), 8<<20)
	var data []byte
	for lines.Scan() {
		line := lines.Bytes()
		if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(rest, []byte(" "))...)
			continue
		}
		if len(line) == 0 && data != nil {
			if err := f(data); err != nil {
				return err
			}
			data = nil
		}
	}
	return nil
}

// event prints one event on one line.
func (p *program) event(e api.EventView) error {
	return p.out(e, func() {
		parts := []string{strconv.FormatInt(e.Seq, 10), e.At.UTC().Format(time.RFC3339), string(e.Kind)}
		for _, part := range []string{string(e.Call), string(e.Approval), string(e.Run), whoOf(e.Who)} {
			if part != "" {
				parts = append(parts, part)
			}
		}
		if said := saidOf(e.Body); said != "" {
			parts = append(parts, said)
		}
		p.say("%s", safe(strings.Join(parts, "  ")))
	})
}

// saidOf is the part of an event that people look for; --json has the whole.
func saidOf(body json.RawMessage) string {
	var b struct {
		Tool, Word, Note, Detail string
		Verdict                  record.Verdict
		Code                     record.Code
		Attempt                  int
		Reasons                  []api.ReasonView
	}
	if json.Unmarshal(body, &b) != nil {
		return ""
	}
	parts := []string{b.Tool, string(b.Verdict), string(b.Code), b.Word, quoted(b.Note), b.Detail}
	if b.Attempt > 0 {
		parts = append(parts, "attempt "+strconv.Itoa(b.Attempt))
	}
	for _, r := range b.Reasons {
		parts = append(parts, "["+reason(r)+"]")
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}

func whoOf(w *record.Who) string {
	switch {
	case w == nil:
		return ""
	case w.Principal != nil && w.Agent != "":
		return "by " + w.Principal.String() + " through " + string(w.Agent)
	case w.Principal != nil:
		return "by " + w.Principal.String()
	case w.Workload != "":
		return "by " + w.Workload
	case w.System != "":
		return "by placet (" + w.System + ")"
	}
	return ""
}
