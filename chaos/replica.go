package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// replica is one server process, started again whenever it has ended.
type replica struct {
	side                  *side
	name, address, config string

	mu     sync.Mutex
	cmd    *exec.Cmd
	killed bool          // by us, since it was started
	paused bool          // it is stopped, and a load balancer would not choose it
	ending bool          // nobody starts it again
	held   chan struct{} // it is not started until this is closed; nil: it is
	over   chan struct{} // closed when the supervisor has ended
}

// ends is what the harness does when a replica has ended: it names the failpoint that
// it is started with next, or none.
type ends func(r *replica, how ending) (point string)

// ending is how a process ended.
type ending struct {
	first bool   // it has not run yet
	point string // the failpoint that it died at
	alone bool   // nobody killed it
	said  string // the end of what it wrote
}

// keep starts the process, and again whenever it ends, until end.
func (r *replica) keep(ctx context.Context, next ends) {
	r.over = make(chan struct{})
	go func() {
		defer close(r.over)
		how := ending{first: true}
		for ctx.Err() == nil {
			point := next(r, how)
			cmd, err := r.start(ctx, point)
			if err != nil {
				how = ending{alone: true, said: err.Error()}
				continue
			}
			if cmd == nil {
				return
			}
			_ = cmd.Wait() // how it ended follows from what we did to it
			how = r.ended()
		}
	}()
}

func (r *replica) note() string { return filepath.Join(r.side.dir, r.name+".point") }
func (r *replica) log() string  { return filepath.Join(r.side.dir, r.name+".log") }

// start runs the process when it may run; nil when it is to run no more.
func (r *replica) start(ctx context.Context, point string) (*exec.Cmd, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for held := r.held; held != nil && ctx.Err() == nil; held = r.held {
		r.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
		}
		r.mu.Lock()
	}
	if r.ending || ctx.Err() != nil {
		return nil, nil
	}
	_ = os.Remove(r.note()) // of an earlier life
	log, err := os.OpenFile(r.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(r.side.program, "serve", "--config", r.config)
	cmd.Dir, cmd.Stderr = r.side.dir, log
	cmd.Env = append(append(os.Environ(), r.side.env...), "PLACET_CHAOS_POINT="+point, "PLACET_CHAOS_NOTE="+r.note())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it does not outlive this program, however that ends
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r.cmd, r.killed, r.paused = cmd, false, false
	return cmd, nil
}

// ended says how the process did.
func (r *replica) ended() ending {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cmd = nil
	how := ending{alone: !r.killed && !r.ending}
	if text, err := os.ReadFile(r.note()); err == nil && !r.killed {
		how.point, how.alone = string(text), false
	}
	if how.alone {
		text, _ := os.ReadFile(r.log())
		how.said = string(text[max(0, len(text)-2000):])
	}
	return how
}

// kill is kill -9. It reports whether there was a process to kill.
func (r *replica) kill() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil || r.killed || r.paused {
		return false
	}
	r.killed = true
	return r.cmd.Process.Kill() == nil
}

// hold ends the process, waits until it is gone, and keeps it from being started until
// it is free.
func (r *replica) hold(ctx context.Context) error {
	r.mu.Lock()
	r.held = make(chan struct{})
	if r.cmd != nil {
		r.killed = true
		_ = r.cmd.Process.Kill() // an error means that it has ended
	}
	r.mu.Unlock()
	for {
		r.mu.Lock()
		gone := r.cmd == nil
		r.mu.Unlock()
		if gone || ctx.Err() != nil {
			return ctx.Err()
		}
		rest(ctx, 5*time.Millisecond)
	}
}

// free lets a process be started that was held.
func (r *replica) free() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held != nil {
		close(r.held)
		r.held = nil
	}
}

// pause stops the process where it is, until the returned function is called. Nil:
// there is none to stop.
func (r *replica) pause() (wake func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil || r.killed || r.paused {
		return nil
	}
	process := r.cmd.Process
	if process.Signal(syscall.SIGSTOP) != nil {
		return nil
	}
	return r.wakes(process)
}

// slept takes charge of a process that has stopped itself at a failpoint. Nil: it has
// not, or not yet.
func (r *replica) slept(point string) (wake func()) {
	text, err := os.ReadFile(r.note())
	if err != nil || string(text) != point {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil || r.killed || r.paused {
		return nil
	}
	return r.wakes(r.cmd.Process)
}

func (r *replica) wakes(process *os.Process) func() {
	r.paused = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		_ = os.Remove(r.note())             // it lives on
		_ = process.Signal(syscall.SIGCONT) // an error means that it is gone
		r.paused = false
	}
}

// up reports whether a load balancer would choose it.
func (r *replica) up() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cmd != nil && !r.paused
}

// ready asks the process itself.
func (r *replica) ready(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.address+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := r.side.http.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// end kills the process and waits for its supervisor.
func (r *replica) end() {
	r.mu.Lock()
	r.ending = true
	if r.cmd != nil {
		_ = r.cmd.Process.Kill() // an error means that it has ended
	}
	r.mu.Unlock()
	r.free()
	if r.over != nil {
		<-r.over
	}
}

// panicked are the lines of a replica's log that no program should write.
func (r *replica) panicked() []string {
	text, err := os.ReadFile(r.log())
	if err != nil {
		return nil // it wrote nothing
	}
	var bad []string
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte("panic:")) || bytes.HasPrefix(line, []byte("fatal error:")) {
			bad = append(bad, fmt.Sprintf("%s: %s", r.name, bytes.TrimSpace(line)))
		}
	}
	return bad
}
