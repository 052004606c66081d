//go:build !unix

package process

import (
	"os"
	"os/exec"
)

func guarded(path string, args []string, _ string) (cmd *exec.Cmd, lifeline, guardEnd *os.File, err error) {
	return &exec.Cmd{Path: path, Args: append([]string{path}, args...)}, nil, nil, nil
}

func killGroup(*exec.Cmd) {}

func killNow(cmd *exec.Cmd, _ *os.File) { _ = cmd.Process.Kill() }
