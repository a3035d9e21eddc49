//go:build !unix

package mcp

import "os/exec"

// Without process groups only the child itself ends for sure.
func ownGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) { cmd.Process.Kill() }
