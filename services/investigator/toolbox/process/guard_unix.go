//go:build unix

package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	// guardName is argv[0] of a guard. Its arguments are the working directory, the program's
	// path and the program's arguments.
	guardName = "tocsin-mcp-guard"
	// lifelineFd is the guard's end of the pipe: the first of exec.Cmd's ExtraFiles.
	lifelineFd = 3
	// cannotStart is the guard's exit status where the program can't be started.
	cannotStart = 127
)

// A guard is this executable, in tests the test's: the package does not depend on what else is
// installed, and main needs to know nothing of it.
func init() {
	if len(os.Args) >= 3 && os.Args[0] == guardName {
		os.Exit(guard(os.Args[1], os.Args[2], os.Args[3:]))
	}
}

// guarded returns the command that runs path under a guard, this process's end of the pipe, and
// the guard's.
func guarded(path string, args []string, directory string) (cmd *exec.Cmd, lifeline, guardEnd *os.File, err error) {
	self, err := executable()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("cannot find the own executable: %w", err)
	}
	guardEnd, lifeline, err = os.Pipe()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("cannot make pipes: %w", err)
	}
	cmd = &exec.Cmd{
		Path:        self,
		Args:        append([]string{guardName, directory, path}, args...),
		ExtraFiles:  []*os.File{guardEnd},
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	return cmd, lifeline, guardEnd, nil
}

// guard runs the program in its own process group and returns its exit status. When the pipe
// ends, it kills the group, itself included.
func guard(directory, path string, args []string) int {
	syscall.CloseOnExec(lifelineFd)
	// A signal for the group is for the program. A handler, unlike an ignored signal, is not
	// inherited by it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	cmd := &exec.Cmd{Path: path, Args: append([]string{path}, args...), Dir: directory, Env: os.Environ(),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, SysProcAttr: guardedAttributes()}
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot start %s: %v\n", path, err)
		return cannotStart
	}
	_ = os.Stdin.Close()
	_ = os.Stdout.Close()
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(lifelineFd, "lifeline"))
		_ = cmd.Process.Kill()
		if strings.HasPrefix(filepath.Base(directory), directoryPrefix) {
			_ = os.RemoveAll(directory) //nolint:gosec // the investigator made it and passes its path
		}
		_ = syscall.Kill(0, syscall.SIGKILL)
	}()
	err := cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode()
	default:
		fmt.Fprintln(os.Stderr, err) // killed by a signal
		return 1
	}
}

// killGroup kills what is left of the group of a process that ended.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// killNow kills a group through its guard, which still runs: its number can't be another's.
func killNow(_ *exec.Cmd, lifeline *os.File) { _ = lifeline.Close() }
