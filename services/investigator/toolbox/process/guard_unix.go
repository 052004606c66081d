//go:build unix

package process

import (
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
	// lifelineFd and statusFd are the guard's ends of its pipes: exec.Cmd's ExtraFiles.
	lifelineFd, statusFd = 3, 4
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

// guarded returns the command that runs path under a guard, and the two pipes between them.
func guarded(path string, args []string, directory string) (*exec.Cmd, guardPipes, error) {
	self, err := executable()
	if err != nil {
		return nil, guardPipes{}, fmt.Errorf("cannot find the own executable: %w", err)
	}
	var pipes guardPipes
	if pipes.guardLifeline, pipes.lifeline, err = os.Pipe(); err != nil {
		return nil, guardPipes{}, fmt.Errorf("cannot make pipes: %w", err)
	}
	if pipes.status, pipes.guardStatus, err = os.Pipe(); err != nil {
		pipes.close()
		return nil, guardPipes{}, fmt.Errorf("cannot make pipes: %w", err)
	}
	return &exec.Cmd{
		Path:        self,
		Args:        append([]string{guardName, directory, path}, args...),
		ExtraFiles:  []*os.File{pipes.guardLifeline, pipes.guardStatus},
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}, pipes, nil
}

// guard runs the program in its own process group. When the program ends, or the lifeline, it
// removes the directory and kills the group, itself included: how the program ended goes
// through the pipe for it. It returns only where the program can't be started.
func guard(directory, path string, args []string) int {
	syscall.CloseOnExec(lifelineFd)
	syscall.CloseOnExec(statusFd)
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
	}()
	status := exited
	if err := cmd.Wait(); err != nil {
		status = err.Error()
	}
	_, _ = fmt.Fprintln(os.NewFile(statusFd, "status"), status)
	// The investigator does the same while it lives. Where it died, the program may have ended
	// because its standard input did, before the end of the lifeline was seen here.
	if strings.HasPrefix(filepath.Base(directory), directoryPrefix) {
		_ = os.RemoveAll(directory) //nolint:gosec // the investigator made it and passes its path
	}
	_ = syscall.Kill(0, syscall.SIGKILL)
	select {} // until the signal arrives
}

// killGroup kills what is left of the group of a process that ended.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// killNow kills a group through its guard, which still runs: its number can't be another's.
func killNow(_ *exec.Cmd, lifeline *os.File) { _ = lifeline.Close() }
