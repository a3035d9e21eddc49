package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// processor is what the system calls its CPU.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "processor not known"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "processor not known"
}

// diskOf names the kind of file system that holds a folder: the last mount whose
// point is above it. On tmpfs nothing is durable, and the figures say so.
func diskOf(dir string) string {
	text, err := os.ReadFile("/proc/mounts")
	if dir, err2 := filepath.EvalSymlinks(dir); err == nil && err2 == nil {
		best, kind := "", ""
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) < 3 || len(f[1]) < len(best) {
				continue
			}
			if dir == f[1] || f[1] == "/" || strings.HasPrefix(dir, f[1]+"/") {
				best, kind = f[1], f[2]
			}
		}
		if kind == "tmpfs" {
			return "stores on tmpfs, WHICH IS NOT DURABLE: name a folder on a disk with -dir"
		}
		if kind != "" {
			return "stores on " + kind
		}
	}
	return "stores on a file system that is not known"
}

// resident is a process's resident memory in bytes; 0 where it cannot be told.
func resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			f := strings.Fields(rest)
			if len(f) == 0 {
				return 0
			}
			kb, err := strconv.ParseInt(f[0], 10, 64)
			if err != nil {
				return 0
			}
			return kb << 10
		}
	}
	return 0
}
