package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/placet-dev/placet/mcphttp"
)

// read hands on what the child says until it ends.
func (p *pipe) read() {
	defer close(p.child.ended)
	r := bufio.NewReaderSize(p.child.out, 16<<10)
	for {
		line, err := readLine(r, p.max+envelope)
		if err == nil {
			if line = bytes.TrimSpace(line); len(line) == 0 {
				continue
			}
			var m message
			if m, err = readMessage(line); err == nil {
				p.take(m)
				continue
			}
			err = fmt.Errorf("read a message: %w", err)
		} else if errors.Is(err, io.EOF) {
			err = errors.New("it ended")
		}
		go p.end(err, false)
		io.Copy(io.Discard, p.child.out) // until it is dead
		return
	}
}

func readLine(r *bufio.Reader, max int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > max {
			return nil, mcphttp.ErrTooLarge
		}
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

// take gives a message to whom it concerns.
func (p *pipe) take(m message) {
	switch {
	case m.isResponse():
		if w := p.waiterFor(string(m.id)); w != nil {
			a := answer{result: m.result, fault: m.fault}
			if len(m.result) > p.max {
				a = answer{err: mcphttp.ErrTooLarge}
			}
			select {
			case w.done <- a:
			default: // a second answer is none
			}
		}
	case m.isRequest():
		// Its own goroutine: a child that does not read must not stop us reading.
		if p.refusing.Add(1) > maxRefusals {
			p.refusing.Add(-1)
			return
		}
		go func() {
			defer p.refusing.Add(-1)
			ctx, stop := context.WithTimeout(context.Background(), cancelWait)
			defer stop()
			p.write(ctx, refusal(m), time.Time{})
		}()
	case listChanged(m.method):
		p.changed()
	case m.method == acknowledged:
		p.heard()
	default:
		if id, ok := progressFor(m); ok {
			p.mu.Lock()
			w := p.waiting[id]
			p.mu.Unlock()
			if w != nil && w.progress != nil {
				select {
				case w.progress <- m.params:
				default:
				}
			}
		}
	}
}

// heard passes on that subscriptions/listen, of which there is one, has begun.
func (p *pipe) heard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.waiting {
		if w.begun != nil {
			go w.begun()
			w.begun = nil
		}
	}
}

func (p *pipe) waiterFor(id string) *waiter {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != id {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting[n]
}
