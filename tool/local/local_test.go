package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

func work(tool, arguments string) dispatch.Work {
	return dispatch.Work{
		Tool: &registry.Tool{Name: tool}, Server: &registry.Server{Name: "inproc", Inproc: true},
		Call: "call_1", Attempt: 1, Key: "key-1", Arguments: json.RawMessage(arguments),
	}
}

func with(t *testing.T, h Handler) *Invoker {
	t.Helper()
	v := New()
	if err := v.Add("note", h); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestResults(t *testing.T) {
	for _, c := range []struct {
		value, want string
		err         error
		isError     bool
	}{
		{value: ``, want: `{"content":[]}`},
		{value: `{"id":9007199254740993}`, want: `{"content":[{"type":"text","text":"{\"id\":9007199254740993}"}],"structuredContent":{"id":9007199254740993}}`},
		{value: `"done <b>"`, want: `{"content":[{"type":"text","text":"done <b>"}]}`},
		{value: `[1,2]`, want: `{"content":[{"type":"text","text":"[1,2]"}]}`},
		{err: errors.New("no such order"), isError: true, want: `{"content":[{"type":"text","text":"no such order"}],"isError":true}`},
		{err: errors.New("bad \xff text"), isError: true, want: `{"content":[{"type":"text","text":"the text is not UTF-8"}],"isError":true}`},
	} {
		v := with(t, func(context.Context, Call) (json.RawMessage, error) { return json.RawMessage(c.value), c.err })
		out := v.invoke(t.Context(), work("note", `{}`))
		if string(out.Result) != c.want || !out.Sent || out.IsError != c.isError || out.Err != nil || out.Refused {
			t.Errorf("%s: %+v, result %s", c.value, out, out.Result)
		}
		if !json.Valid(out.Result) {
			t.Errorf("%s: result is not JSON: %q", c.value, out.Result)
		}
	}
}

func TestHandlerGetsTheCall(t *testing.T) {
	var got Call
	v := with(t, func(_ context.Context, c Call) (json.RawMessage, error) {
		got = c
		c.Progress(json.RawMessage(`{"progress":1}`))
		return nil, nil
	})
	w := work("note", `{"amount":1.5}`)
	var progress []string
	w.Progress = func(p json.RawMessage) { progress = append(progress, string(p)) }
	v.invoke(t.Context(), w)
	if string(got.Arguments) != `{"amount":1.5}` || got.Key != "key-1" || got.ID != "call_1" || got.Attempt != 1 || got.Tool != "note" {
		t.Errorf("the handler got %+v", got)
	}
	if len(progress) != 1 || progress[0] != `{"progress":1}` {
		t.Errorf("progress %q", progress)
	}
	if got.Progress(nil) {
		t.Error("progress was taken after the call was over")
	}
}

// A panic is an outcome nobody knows: it may have come after the effect.
func TestRule_E1_PanicIsUnknown(t *testing.T) {
	for name, h := range map[string]Handler{
		"panic":  func(context.Context, Call) (json.RawMessage, error) { panic("card 4111") },
		"nil":    func(context.Context, Call) (json.RawMessage, error) { var p *Call; return p.Arguments, nil },
		"goexit": func(context.Context, Call) (json.RawMessage, error) { runtime.Goexit(); return nil, nil },
	} {
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		out := with(t, h).invoke(ctx, work("note", `{}`))
		stop()
		if !out.Sent || out.Refused || out.Result != nil || out.Err == nil {
			t.Errorf("%s: %+v", name, out)
		}
		if out.Err != nil && strings.Contains(out.Err.Error(), "4111") {
			t.Errorf("%s: the error holds what the handler panicked with: %v", name, out.Err)
		}
	}
}

func TestRefusals(t *testing.T) {
	ran := 0
	v := with(t, func(context.Context, Call) (json.RawMessage, error) {
		ran++
		return nil, fmt.Errorf("order is closed: %w", ErrRefused)
	})
	if out := v.invoke(t.Context(), work("note", `{}`)); !out.Refused || !out.Sent || ran != 1 {
		t.Errorf("a handler's refusal: %+v", out)
	}
	if out := v.invoke(t.Context(), work("other", `{}`)); out.Sent || out.Err == nil {
		t.Errorf("no handler: %+v", out)
	}
	w := work("note", `{}`)
	w.Deadline = time.Now()
	if out := v.invoke(t.Context(), w); out.Sent || out.Err == nil || ran != 1 {
		t.Errorf("late: %+v, ran %d", out, ran)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if out := v.invoke(ctx, work("note", `{}`)); out.Sent || ran != 1 {
		t.Errorf("cancelled before: %+v, ran %d", out, ran)
	}
	if out := v.Invoke(t.Context(), dispatch.Ticket{}); out.Sent || out.Err == nil || ran != 1 {
		t.Errorf("the zero ticket: %+v, ran %d", out, ran)
	}
}

func TestInvokeReturnsWhenTheContextEnds(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	v := with(t, func(context.Context, Call) (json.RawMessage, error) {
		close(started)
		<-release // ignores its context
		return nil, nil
	})
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-started; stop() }()
	if out := v.invoke(ctx, work("note", `{}`)); !out.Sent || !errors.Is(out.Err, context.Canceled) {
		t.Errorf("%+v", out)
	}
}

func TestAddAndOffer(t *testing.T) {
	v := with(t, func(context.Context, Call) (json.RawMessage, error) { return nil, nil })
	if err := v.Add("note", func(context.Context, Call) (json.RawMessage, error) { return nil, nil }); record.KindOf(err) != record.Conflict {
		t.Errorf("a second handler: %v", err)
	}
	if err := v.Add("nothing", nil); record.KindOf(err) != record.Invalid {
		t.Errorf("no handler: %v", err)
	}
	s := &registry.Server{Name: "inproc"}
	if _, err := v.Offer(t.Context(), s, "note", 0); err != nil {
		t.Error(err)
	}
	if _, err := v.Offer(t.Context(), s, "other", 0); record.KindOf(err) != record.NotFound {
		t.Errorf("an unknown tool: %v", err)
	}
}

func BenchmarkInvoke(b *testing.B) {
	v := New()
	v.Add("note", func(context.Context, Call) (json.RawMessage, error) { return json.RawMessage(`{"ok":true}`), nil })
	w := work("note", `{"text":"hello"}`)
	b.ReportAllocs()
	for b.Loop() {
		if out := v.invoke(b.Context(), w); out.Err != nil {
			b.Fatal(out.Err)
		}
	}
}
