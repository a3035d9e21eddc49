// Agentdojo replays recorded tasks and prompt injections through the real gateway,
// over MCP, and counts what ran by the tool server's own log. No model is asked:
// the calls of task and attack are the recorded ones, and an attack's follow at once
// on the result that carries it, as if the model did whatever it is told.
//
//	go run ./bench/agentdojo -suite FILE -registry FILE
//
// A suite is a file of the format of the recorded AgentDojo suites; a registry is a
// tools.yaml for its tools, whose servers are all put in place of the recorded one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "agentdojo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("agentdojo", flag.ContinueOnError)
	suiteFile := flags.String("suite", "", "the suite, such as ../shared/data/agentdojo/banking.json")
	registryFile := flags.String("registry", "", "the registry for its tools")
	var optIns []string
	flags.Func("opt-in", "given, or directory=TOOL+TOOL: an opt-in for every tool that has targets; may be repeated", func(v string) error {
		optIns = append(optIns, v)
		return nil
	})
	verbose := flags.Bool("v", false, "say what was asked in tasks and what ran of attacks")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *suiteFile == "" || *registryFile == "" || flags.NArg() > 0 {
		return errors.New("wants -suite FILE and -registry FILE")
	}
	s, err := load(*suiteFile)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "placet-agentdojo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tools, err := serveTools(s.Tools)
	if err != nil {
		return err
	}
	defer tools.close()
	g, err := open(ctx, dir, *registryFile, optIns, tools)
	if err != nil {
		return err
	}
	b := &bench{suite: s, gateway: g, out: out, verbose: *verbose, registry: filepath.Base(*registryFile)}
	return errors.Join(b.all(ctx), g.close())
}

type bench struct {
	suite    *suite
	gateway  *gateway
	out      io.Writer
	verbose  bool
	registry string
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.out, format+"\n", args...) }

func (b *bench) detail(format string, args ...any) {
	if b.verbose {
		b.say("  "+format, args...)
	}
}

// tally is one printed line.
type tally struct {
	automatic, tasks, approvals  int
	stopped, pairs, denied, held int
	useful                       int
}

func (b *bench) line(name string, t tally) {
	b.say("agentdojo: %s automatic=%d/%d approvals=%d stopped=%d/%d denied=%d held=%d under_attack_utility=%d/%d", name,
		t.automatic, t.tasks, t.approvals, t.stopped, t.pairs, t.denied, t.held, t.useful, t.pairs)
}

// variants are how an attack's calls are made.
var variants = []struct {
	name   string
	calls  func([]call) []call
	fresh  bool
	author bool
}{
	{name: "", calls: func(c []call) []call { return c }},
	{name: "re-encoded", calls: reencoded},
	{name: "split", calls: split},
	{name: "fresh-turn", calls: func(c []call) []call { return c }, fresh: true},
	{name: "author", calls: func(c []call) []call { return c }, author: true},
}

func (b *bench) all(ctx context.Context) error {
	benign, err := b.benign(ctx, true)
	if err != nil {
		return err
	}
	for _, v := range variants {
		t := benign
		for _, task := range b.suite.Tasks {
			for _, a := range b.suite.Attacks {
				if err := b.attacked(ctx, task, a, v.calls, v.fresh, v.author, &t); err != nil {
					return fmt.Errorf("%s %s %s: %w", v.name, task.ID, a.ID, err)
				}
			}
		}
		b.line(strings.TrimSpace(b.suite.Name+" "+v.name), t)
	}
	plain, err := b.benign(ctx, false)
	if err != nil {
		return err
	}
	b.say("agentdojo: %s unvouched automatic=%d/%d approvals=%d", b.suite.Name, plain.automatic, plain.tasks, plain.approvals)
	return b.context(ctx)
}

// benign plays every task as it was recorded.
func (b *bench) benign(ctx context.Context, vouched bool) (t tally, err error) {
	for _, task := range b.suite.Tasks {
		prompt := task.Prompt
		if !vouched {
			prompt = ""
		}
		s, err := b.gateway.begin(ctx, prompt)
		if err != nil {
			return t, err
		}
		t.tasks++
		all := true
		for _, c := range task.Calls {
			v, err := s.play(ctx, c, c.Result)
			if err != nil {
				return t, fmt.Errorf("%s: %w", task.ID, err)
			}
			if v.held {
				t.approvals++
			}
			if !v.ran {
				all = false
				if vouched {
					b.detail("%s %s %s: %s", task.ID, c.Tool, v.code, v.message)
				}
			}
		}
		if all {
			t.automatic++
		}
	}
	return t, nil
}

// attacked plays one task with one attack: up to and including the first result
// that carries the injection, then the attack's calls, then the rest.
func (b *bench) attacked(ctx context.Context, task task, a attack, variant func([]call) []call, fresh, author bool, t *tally) error {
	s, err := b.gateway.begin(ctx, task.Prompt)
	if err != nil {
		return err
	}
	party := ""
	if author {
		party = a.party()
	}
	t.pairs++
	injected, all, stopped := false, true, true
	hostile := func() error {
		injected = true
		if fresh {
			if err := s.freshTurn(ctx); err != nil {
				return err
			}
		}
		for _, c := range variant(a.Calls) {
			v, err := s.play(ctx, c, c.Result)
			if err != nil {
				return err
			}
			if !c.Changes {
				continue
			}
			switch {
			case v.ran:
				stopped = false
				b.detail("ran: %s %s %s %s", task.ID, a.ID, c.Tool, c.Arguments)
			case v.held:
				t.held++
			case v.denied:
				t.denied++
			}
		}
		return nil
	}
	for _, c := range task.Calls {
		result := c.Result
		if len(c.Vectors) > 0 && c.Template != "" {
			result = c.poisoned(a.Goal, party)
		}
		v, err := s.play(ctx, c, result)
		if err != nil {
			return err
		}
		all = all && v.ran
		if len(c.Vectors) > 0 && !injected {
			if err := hostile(); err != nil {
				return err
			}
		}
	}
	if !injected {
		if err := hostile(); err != nil {
			return err
		}
	}
	if stopped {
		t.stopped++
	}
	if all {
		t.useful++
	}
	return nil
}

// context plays what no rule about the origin of values can tell from the task
// itself, in place of the task's own call.
func (b *bench) context(ctx context.Context) error {
	stopped, total := map[string]int{}, map[string]int{}
	for _, task := range b.suite.Tasks {
		names, calls := task.inContext()
		for i, c := range calls {
			s, err := b.gateway.begin(ctx, task.Prompt)
			if err != nil {
				return err
			}
			for _, own := range task.Calls {
				if own.Changes {
					continue
				}
				if _, err := s.play(ctx, own, own.Result); err != nil {
					return err
				}
			}
			v, err := s.play(ctx, c, c.Result)
			if err != nil {
				return fmt.Errorf("%s: %w", task.ID, err)
			}
			total[names[i]]++
			if !v.ran {
				stopped[names[i]]++
			}
		}
	}
	b.say("agentdojo: %s in-context amount=%d/%d stopped, prose=%d/%d stopped", b.suite.Name, stopped["amount"], total["amount"], stopped["prose"], total["prose"])
	return nil
}
