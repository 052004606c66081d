//go:build !unix

package process

import (
	"os"
	"os/exec"
)

func guarded(path string, args []string, _ string) (*exec.Cmd, guardPipes, error) {
	return &exec.Cmd{Path: path, Args: append([]string{path}, args...)}, guardPipes{}, nil
}

func killGroup(*exec.Cmd) {}

func killNow(cmd *exec.Cmd, _ *os.File) { _ = cmd.Process.Kill() }
