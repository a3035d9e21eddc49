package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// past is what a restore of a side needs, and what it left to the judge.
type past struct {
	backed   bool // there is a backup, with an export of the log of that time
	restored bool
	since    int64    // size of the file of published checkpoints when the new epoch was opened
	found    []string // what must not be
	sealed   int64    // events in the newest export that verified
	proofs   int      // exports that verified, or were refused as they must be
	used     int      // calls that the backup has waiting, and that ran
	calls    int      // of before, asked for again afterwards
	asked    int      // questions of before, answered again
}

func (p *past) add(format string, args ...any) {
	p.found = append(p.found, fmt.Sprintf(format, args...))
}

// backup copies the store while its servers work and calls wait that run a moment later, and
// exports the log of that time.
func (s *side) backup(ctx context.Context, chance *rand.Rand) error {
	s.crowd.plant(ctx, chance)
	copied := func() error {
		if s.database == nil {
			_, err := s.says(ctx, "backup", "--config", s.replicas[0].config, "--to", s.file("backup.db"))
			return err
		}
		out, err := os.Create(s.file("backup.dump"))
		if err != nil {
			return err
		}
		cmd := s.database.Command("pg_dump", "--format=custom", "--dbname="+s.database.DSN("owner", "chaos"))
		cmd.Stdout = out
		return errors.Join(heard(cmd), out.Close())
	}
	if err := again(ctx, copied); err != nil {
		return fmt.Errorf("%s: no backup could be made: %w", s.name, err)
	}
	if err := s.export(ctx, "backup.jsonl"); err != nil {
		return err
	}
	s.past.backed, s.past.used = true, s.crowd.use(ctx, chance)
	return nil
}

// again tries what may fail while servers die.
func again(ctx context.Context, what func() error) error {
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && ctx.Err() == nil; rest(ctx, 200*time.Millisecond) {
		if err = what(); err == nil {
			return nil
		}
	}
	return errors.Join(err, ctx.Err())
}

// heard runs a command, and tells what it said when it fails.
func heard(cmd *exec.Cmd) error {
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, said.String())
	}
	return nil
}

// export has a server that answers write out its sealed log, and keeps beside it what had been
// published before.
func (s *side) export(ctx context.Context, name string) error {
	if err := keepCopy(s.published, s.file(name+".published")); err != nil {
		return err
	}
	n := 0
	err := again(ctx, func() error {
		_ = os.Remove(s.file(name)) // what an attempt left that failed
		n++
		_, err := s.says(ctx, "audit", "export", "--config", s.replicas[0].config, "--server", "http://"+s.replicas[n%len(s.replicas)].address, "--out", s.file(name))
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: the log could not be exported: %w", s.name, err)
	}
	return nil
}

func keepCopy(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// verify holds an export against checkpoints that were kept outside. One of the faults must
// be found; without any, none.
func (s *side) verify(ctx context.Context, export, since string, faults ...string) error {
	text, err := s.says(ctx, "audit", "verify", s.file(export), "--key", s.file("log.key"), "--since", s.file(since), "--json")
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	var got struct {
		Verified bool
		Fault    string
		Text     string
		Size     int64
		Known    int
	}
	if e := json.NewDecoder(strings.NewReader(text)).Decode(&got); e != nil {
		return fmt.Errorf("%s: %s cannot be verified: %w", s.name, export, errors.Join(err, e))
	}
	switch {
	case len(faults) == 0 && !got.Verified:
		s.past.add("%s: the log (%s) does not verify: %s: %s", s.name, export, got.Fault, got.Text)
	case len(faults) > 0 && !slices.Contains(faults, got.Fault):
		s.past.add("%s: %s against %s: want %q, it is %q (%s)", s.name, export, since, faults, got.Fault, got.Text)
	case len(faults) == 0 && (got.Size == 0 || got.Known == 0):
		s.past.add("%s: %s was compared with nothing", s.name, export)
	default:
		s.past.proofs++
		if len(faults) == 0 {
			s.past.sealed = got.Size
		}
	}
	return nil
}

// learnKey writes down the public key of the log, as an operator does who sets a server up.
func (s *side) learnKey(ctx context.Context) error {
	return again(ctx, func() error {
		if _, err := os.Stat(s.published); err != nil {
			return err // nothing is sealed yet
		}
		text, err := s.says(ctx, "audit", "checkpoint", "--key", "--config", s.replicas[0].config)
		if err != nil {
			return err
		}
		return os.WriteFile(s.file("log.key"), []byte(text), 0o600)
	})
}

// restore puts the store back to its backup as an operator does: agents are kept away, the
// servers are stopped, and a server that starts refuses the store until a new epoch is opened.
// Then everybody comes back, and asks for all that they know of.
func (s *side) restore(ctx context.Context, chance *rand.Rand) error {
	if err := s.export(ctx, "lost.jsonl"); err != nil {
		return err
	}
	if err := s.verify(ctx, "lost.jsonl", "lost.jsonl.published"); err != nil {
		return err
	}
	s.crowd.pause()
	defer s.crowd.resume(ctx)
	for _, r := range s.replicas {
		defer r.free()
		if err := r.hold(ctx); err != nil {
			return err
		}
	}
	if err := s.swap(ctx); err != nil {
		return err
	}
	kept, err := os.ReadFile(s.published)
	if err != nil {
		return err
	}
	s.past.since = int64(len(kept))
	if err := os.WriteFile(s.file("published.before"), kept, 0o600); err != nil {
		return err
	}
	// What a log shows that was cut off where the backup was made.
	if err := s.verify(ctx, "backup.jsonl", "published.before", "truncated"); err != nil {
		return err
	}
	if err := s.refuses(ctx); err != nil {
		return err
	}
	if _, err := s.says(ctx, "recover", "--config", s.replicas[0].config, "--reason", "restored on purpose", "--yes"); err != nil {
		return err
	}
	s.past.restored = true
	for _, r := range s.replicas {
		r.free()
	}
	s.past.calls, s.past.asked = s.crowd.haunt(ctx, chance)
	return nil
}

// swap puts the backup in the place of the store, and keeps the store that was there.
func (s *side) swap(ctx context.Context) error {
	if s.database == nil {
		if _, err := s.says(ctx, "restore", "--config", s.replicas[0].config, "--from", s.file("backup.db")); err != nil {
			return err
		}
		aside, err := filepath.Glob(filepath.Join(s.dir, "disk", "state.db.before-restore-*Z"))
		if err != nil || len(aside) != 1 {
			return fmt.Errorf("%s: the store that gave way is kept as %q: %w", s.name, aside, err)
		}
		return moveAway(aside[0], s.file("lost.db"))
	}
	for _, q := range []string{"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = 'chaos'",
		"ALTER DATABASE chaos RENAME TO lost", "CREATE DATABASE chaos"} {
		if err := again(ctx, func() error { _, err := s.database.Query("postgres", q); return err }); err != nil {
			return err
		}
	}
	in, err := os.Open(s.file("backup.dump"))
	if err != nil {
		return err
	}
	defer in.Close()
	cmd := s.database.Command("pg_restore", "--exit-on-error", "--single-transaction", "--dbname="+s.database.DSN("owner", "chaos"))
	cmd.Stdin = in
	return heard(cmd)
}

// moveAway moves a file to another file system.
func moveAway(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(err, out.Close())
	}
	return errors.Join(out.Close(), os.Remove(from))
}

// exitConflict is the program's exit code for what stands in the way.
const exitConflict = 6

// refuses starts a server on the store that was put back. It must not begin.
func (s *side) refuses(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	_, err := s.says(ctx, "serve", "--config", s.replicas[0].config)
	var exit *exec.ExitError
	switch {
	case !errors.As(err, &exit):
		return err
	case exit.ExitCode() != exitConflict || !strings.Contains(err.Error(), "placet recover"):
		s.past.add("%s: a server takes the store that was put back: %v", s.name, err)
	}
	return nil
}

// proved exports the log at the end, and holds it against what was published: in the epoch that
// it ends in it holds everything, and the published checkpoints of the one before show what was lost.
func (s *side) proved(ctx context.Context) error {
	rest(ctx, 2*time.Second) // what was recorded last is sealed
	if err := s.export(ctx, "end.jsonl"); err != nil {
		return err
	}
	kept, err := os.ReadFile(s.file("end.jsonl.published"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.file("published.end"), kept[s.past.since:], 0o600); err != nil {
		return err
	}
	if err := s.verify(ctx, "end.jsonl", "published.end"); err != nil || !s.past.restored {
		return err
	}
	// What the backup held and had not sealed yet is sealed anew, which is another way too.
	return s.verify(ctx, "end.jsonl", "published.before", "recovered", "fork")
}
