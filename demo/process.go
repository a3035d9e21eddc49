package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	startWait = 30 * time.Second // a cold machine needs some of it
	stopWait  = 3 * time.Second
)

// process is a child of the demo. Its end is always waited for.
type process struct {
	role  string
	cmd   *exec.Cmd
	input io.Closer // its end tells the child to end
	said  *tail
	ready chan struct{} // closed when it serves
	done  chan struct{} // closed when it has ended
}

// start runs this program again in a role and waits until it serves.
func start(ctx context.Context, self []string, role, dir string, l *net.TCPListener) (_ *process, err error) {
	file, err := l.File()
	if err != nil {
		return nil, fmt.Errorf("hand on the %s's listener: %w", role, err)
	}
	defer file.Close()
	p := &process{role: role, said: &tail{}, ready: make(chan struct{}), done: make(chan struct{})}
	p.cmd = exec.Command(self[0], append(append([]string{}, self[1:]...), role, dir)...)
	p.cmd.ExtraFiles = []*os.File{file} // becomes listenerFD
	p.cmd.Stderr = p.said
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start the %s: %w", role, err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the %s: %w", role, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the %s: %w", role, err)
	}
	go p.watch(out)
	timeout := time.NewTimer(startWait)
	defer timeout.Stop()
	select {
	case <-p.ready:
		return p, nil
	case <-p.done:
		err = errors.New("it ended")
	case <-ctx.Done():
		err = ctx.Err()
	case <-timeout.C:
		err = errors.New("it does not serve")
	}
	p.kill()
	return nil, fmt.Errorf("start the %s: %w%s", role, err, p.said.note())
}

// watch owns the child's output and its end.
func (p *process) watch(out io.Reader) {
	defer close(p.done)
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); err == nil && line == readyLine {
		close(p.ready)
	}
	_, _ = io.Copy(io.Discard, r)
	_ = p.cmd.Wait() // how it ended is told by what did not work because of it
}

// kill is SIGKILL: the child does nothing any more. On return it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error means that it has ended already
	<-p.done
}

// stop asks the child to end, and kills one that does not.
func (p *process) stop() {
	_ = p.input.Close()
	timeout := time.NewTimer(stopWait)
	defer timeout.Stop()
	select {
	case <-p.done:
	case <-timeout.C:
		p.kill()
	}
}

// tail keeps the end of what a child said, for when it fails.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 4 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - tailSize; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(b), nil
}

// note is what was said, to stand behind an error.
func (t *tail) note() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if text := strings.TrimSpace(string(t.text)); text != "" {
		return "; it said: " + text
	}
	return ""
}
