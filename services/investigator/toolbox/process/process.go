// Package process runs one program with pipes, a clean environment and an empty working
// directory, so that nothing of it is left when it is closed, or when this process dies.
//
// On Unix the program runs in a process group of its own under a guard: a second process of
// this executable that holds one end of a pipe. The pipe closes when this process ends, however
// it ends. Then, and when the program ends by itself, the guard removes the directory and kills
// the group. A descendant that leaves the group by setsid is not reached. Without Unix there is no group: Close kills the
// program alone, and a kill of this process leaves programs that do not stop at the end of their
// standard input.
//
// The package knows no protocol.
package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	// MaxStderr is how much of the end of standard error is kept, in bytes.
	MaxStderr = 64 << 10
	// closeGrace is how long a program has to end after its standard input was closed.
	closeGrace = 500 * time.Millisecond
	// directoryPrefix begins the name of the temporary working directories.
	directoryPrefix = "tocsin-mcp-"
)

// Process is a program that runs. Its methods are safe for concurrent use.
type Process struct {
	// Stdin and Stdout are the program's pipes.
	Stdin, Stdout *os.File

	cmd       *exec.Cmd
	pipes     guardPipes
	directory string
	stderr    *tail
	done      chan struct{} // closed when the process is reaped, its group killed, its directory removed
	exit      string
	closeOnce sync.Once
}

// guardPipes are the pipes between this process and a guard, all nil without one.
type guardPipes struct {
	// lifeline is held open by this process alone: the guard kills the program when it ends.
	lifeline, guardLifeline *os.File
	// status takes a line of the guard: how the program ended.
	status, guardStatus *os.File
}

func (g guardPipes) close() {
	for _, f := range []*os.File{g.lifeline, g.guardLifeline, g.status, g.guardStatus} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// exited describes the end of a program without an error.
const exited = "exit status 0"

// Start runs command, a path or a name to look up in PATH, with exactly the given environment. No shell
// is involved.
func Start(command string, args, env []string) (_ *Process, err error) {
	path, err := exec.LookPath(command)
	if err != nil {
		return nil, fmt.Errorf("cannot find the program: %w", err)
	}
	if path, err = filepath.Abs(path); err != nil { // it starts in another directory
		return nil, fmt.Errorf("cannot find the program %s: %w", command, err)
	}
	directory, err := os.MkdirTemp("", directoryPrefix)
	if err != nil {
		return nil, fmt.Errorf("cannot make a working directory: %w", err)
	}
	var files []*os.File
	defer func() {
		if err != nil {
			for _, f := range files {
				_ = f.Close()
			}
			_ = os.RemoveAll(directory)
		}
	}()
	pipe := func() (r, w *os.File) {
		if err != nil {
			return nil, nil
		}
		if r, w, err = os.Pipe(); err == nil {
			files = append(files, r, w)
		}
		return r, w
	}
	inRead, inWrite := pipe()
	outRead, outWrite := pipe()
	errRead, errWrite := pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot make pipes: %w", err)
	}
	cmd, pipes, err := guarded(path, args, directory)
	if err != nil {
		return nil, err
	}
	cmd.Dir, cmd.Env = directory, env
	if cmd.Env == nil {
		cmd.Env = []string{}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inRead, outWrite, errWrite
	if err = cmd.Start(); err != nil {
		pipes.close()
		return nil, fmt.Errorf("cannot start %s: %w", path, err)
	}
	for _, f := range []*os.File{inRead, outWrite, errWrite, pipes.guardLifeline, pipes.guardStatus} {
		if f != nil {
			_ = f.Close()
		}
	}
	p := &Process{Stdin: inWrite, Stdout: outRead, cmd: cmd, pipes: pipes, directory: directory,
		stderr: &tail{}, done: make(chan struct{})}
	go p.reap(errRead)
	return p, nil
}

// reap waits for the end of the program, and then for the end of its standard error: what is
// left of the group is killed between the two, so that nothing holds the pipe open.
func (p *Process) reap(stderr *os.File) {
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		buffer := make([]byte, 8<<10)
		for {
			n, err := stderr.Read(buffer)
			p.stderr.add(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	err := p.cmd.Wait()
	killGroup(p.cmd)
	select {
	case <-copied:
	case <-time.After(closeGrace): // a descendant that left the group holds it
	}
	_ = stderr.Close()
	<-copied
	p.exit = exitStatus(err, p.pipes.status)
	p.pipes.close()
	_ = os.RemoveAll(p.directory)
	close(p.done)
}

// exitStatus describes how the program ended: in the words of its guard, unless that died first.
func exitStatus(waited error, guard *os.File) string {
	if guard != nil {
		line, _ := io.ReadAll(guard)
		if status, ok := strings.CutSuffix(string(line), "\n"); ok {
			return status
		}
	}
	if waited != nil {
		return waited.Error()
	}
	return exited
}

// Done is closed when the program ended and nothing of it is left.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit describes how the program ended, or returns "" while it runs.
func (p *Process) Exit() string {
	select {
	case <-p.done:
		return p.exit
	default:
		return ""
	}
}

// Stderr returns the end of the program's standard error, at most [MaxStderr] bytes, from the
// beginning of a line on.
func (p *Process) Stderr() string { return p.stderr.String() }

// Kill ends the program and its group at once. It does not wait.
func (p *Process) Kill() { killNow(p.cmd, p.pipes.lifeline) }

// Close closes the program's standard input, gives it half a second to end by itself, and kills
// what is left of its group. It waits for the end.
func (p *Process) Close() error {
	p.closeOnce.Do(func() {
		_ = p.Stdin.Close()
		timer := time.NewTimer(closeGrace)
		defer timer.Stop()
		select {
		case <-p.done:
		case <-timer.C:
			p.Kill()
		}
	})
	<-p.done
	err := p.Stdout.Close()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// tail keeps the end of a stream.
type tail struct {
	mu   sync.Mutex
	data []byte
	cut  bool
}

func (t *tail) add(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, b...)
	if over := len(t.data) - MaxStderr; over > 0 {
		t.data = append(t.data[:0], t.data[over:]...)
		t.cut = true
	}
}

// String leaves out a first line that was cut: half a secret can't be recognized.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	data := t.data
	if t.cut {
		_, after, ok := bytes.Cut(data, []byte("\n"))
		if !ok {
			return "[one line over 64 KiB, not shown]"
		}
		data = after
	}
	return string(data)
}
