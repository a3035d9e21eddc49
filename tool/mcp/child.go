package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// child is a process that speaks over its standard input and output. It leads a
// process group of its own, so that what it starts ends with it.
type child struct {
	cmd    *exec.Cmd
	in     *os.File // write end of its standard input
	out    *os.File // read end of its standard output
	errs   *tail
	ended  chan struct{} // closed when its output ended
	killed sync.Once
	reaped chan struct{}
}

// exitGrace is how long a child may take to leave after its input closed.
const exitGrace = 2 * time.Second

// start runs a command with an environment of the variables named, PATH and HOME,
// and the one that its credential comes in (rule K1).
func start(command, env []string, own Own, lookup func(string) (string, bool)) (*child, error) {
	if len(command) == 0 {
		return nil, errors.New("no command")
	}
	c := &child{errs: &tail{secret: []byte(own.Value)}, ended: make(chan struct{}), reaped: make(chan struct{})}
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		inR.Close()
		inW.Close()
		return nil, err
	}
	c.in, c.out = inW, outR
	c.cmd = exec.Command(command[0], command[1:]...)
	c.cmd.Env = environment(env, lookup)
	if own.Variable != "" {
		c.cmd.Env = append(c.cmd.Env, own.Variable+"="+own.Value)
	}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = inR, outW, c.errs
	c.cmd.WaitDelay = exitGrace // a grandchild may hold standard error open
	ownGroup(c.cmd)
	err = c.cmd.Start()
	inR.Close()
	outW.Close()
	if err != nil {
		inW.Close()
		outR.Close()
		return nil, fmt.Errorf("start the command: %w", err)
	}
	return c, nil
}

func environment(names []string, lookup func(string) (string, bool)) []string {
	env := []string{}
	for _, name := range append([]string{"PATH", "HOME"}, names...) {
		value, ok := lookup(name)
		if entry := name + "=" + value; ok && !slices.Contains(env, entry) {
			env = append(env, entry)
		}
	}
	return env
}

// stop ends the child and everything in its group, and reaps it. With patience it
// first closes its input and gives it a moment to leave by itself.
func (c *child) stop(patient bool) {
	c.killed.Do(func() {
		c.in.Close()
		if patient {
			select {
			case <-c.ended:
			case <-time.After(exitGrace):
			}
		}
		// The leader is not reaped yet, so that its number is still its own.
		killGroup(c.cmd)
		c.cmd.Wait()
		c.out.Close()
		close(c.reaped)
	})
	<-c.reaped
}

// tail keeps the last of what a child wrote to standard error while it was
// starting, for the operator who wonders why it does not. Later its words are
// dropped: they may hold what calls carried.
type tail struct {
	mu     sync.Mutex
	text   []byte
	silent bool
	secret []byte // is not part of what operators read
}

const tailSize = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.silent {
		t.text = append(t.text, p[max(0, len(p)-tailSize):]...)
		t.text = t.text[max(0, len(t.text)-tailSize):]
	}
	return len(p), nil
}

func (t *tail) silence() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.silent, t.text = true, nil
}

// explain adds what the child said last.
func (t *tail) explain(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := t.text
	if len(t.secret) > 0 {
		text = bytes.ReplaceAll(text, t.secret, []byte("(redacted)"))
	}
	if said := bytes.TrimSpace(bytes.ToValidUTF8(text, nil)); len(said) > 0 {
		return fmt.Errorf("%w; it said: %q", err, said)
	}
	return err
}

var _ io.Writer = (*tail)(nil)
