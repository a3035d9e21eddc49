// Package failpoint lets a process die at a chosen place. The chaos build adds it to
// cmd/placet; no other build has it.
package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// point is "NAME|N|SIGNAL": at the Nth time that NAME is passed, this process gets the
// signal, kill or stop, and note says so first.
var (
	name, signal = "", syscall.SIGKILL
	left         atomic.Int64
	note         = os.Getenv("PLACET_CHAOS_NOTE")
	mutant       = os.Getenv("PLACET_CHAOS_MUTANT")
)

func init() {
	parts := strings.Split(os.Getenv("PLACET_CHAOS_POINT"), "|")
	if len(parts) != 3 {
		return
	}
	n, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return
	}
	name = parts[0]
	left.Store(n)
	if parts[2] == "stop" {
		signal = syscall.SIGSTOP
	}
}

// At is a place. It returns when the process is not to die there.
func At(place string) {
	if place != name || left.Add(-1) != 0 {
		return
	}
	if err := os.WriteFile(note, []byte(place), 0o600); err != nil {
		return // a point without a note would count for nothing
	}
	_ = syscall.Kill(os.Getpid(), signal)
	if signal == syscall.SIGKILL {
		select {}
	}
}

// Mutant reports whether this process is to break a promise, for the test of the test.
func Mutant(which string) bool { return mutant == which }
