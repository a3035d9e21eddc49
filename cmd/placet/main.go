// Command placet runs the dispatch boundary and speaks to one that runs.
//
// It is thin: it reads flags, calls the packages below, and prints what they
// answer, as tables for people and as one JSON object a line for programs, from
// the same values. Nothing in it decides about a call. [run] takes everything a
// command touches as parameters, so that tests call it in-process.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // schedules name time zones, also where the system knows none
)

func main() { os.Exit(start()) }

func start() int {
	tune()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.LookupEnv)
}

// memoryLimit is where the collector starts to work harder.
const memoryLimit = 1 << 30

// tune lets garbage grow: a gateway allocates much and keeps little. Whoever sets
// GOGC or GOMEMLIMIT knows better.
func tune() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
