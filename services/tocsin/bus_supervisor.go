package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

const (
	// superviseTick is the time between two checks whether the bus runs.
	superviseTick = 250 * time.Millisecond
	// startTimeout is how long a started bus may take to announce itself before it is
	// started again.
	startTimeout = 30 * time.Second
	// minRestart and maxRestart bound the pause before a bus that has exited is started
	// again. The pause doubles with each start until the bus runs.
	minRestart = time.Second
	maxRestart = 30 * time.Second
	// backgroundIdleExit is the --idle-exit of a bus that a gateway started.
	backgroundIdleExit = "4h"
)

// busSupervisor keeps a bus running: it starts one in the background if none runs, and restarts
// the one that it started if that exits. A bus that the user started and stopped stays
// stopped.
type busSupervisor struct {
	dir statedir.Dir
	// args are the arguments of tocsin to start the bus.
	args []string
	log  *slog.Logger

	started bool
	pid     int
	since   time.Time
	// pause is the time between two starts.
	pause time.Duration
}

// run keeps the bus running until ctx ends. It leaves the bus running then, for other
// gateways and the next session; an idle bus exits.
func (s *busSupervisor) run(ctx context.Context) error {
	tick := time.NewTicker(superviseTick)
	defer tick.Stop()
	first := true
	for {
		s.reap()
		_, err := s.dir.Running()
		if err == nil {
			s.pause = minRestart
		}
		var unannounced *statedir.UnannouncedError
		if !errors.As(err, &unannounced) { // else a process is about to announce itself, or to exit
			if errors.Is(err, statedir.ErrNotRunning) && s.due(first, time.Now()) {
				if err := s.start(); err != nil {
					s.log.Error("could not start the bus in the background", "error", err)
				}
			}
			first = false
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// due reports whether to start a bus now, given that none runs.
func (s *busSupervisor) due(first bool, now time.Time) bool {
	if first {
		return true
	}
	return s.started && (s.pid == 0 || now.Sub(s.since) > startTimeout) && now.Sub(s.since) > s.pause
}

// start runs tocsin up in a session of its own, because it must outlive this process and
// not receive the signals of its terminal.
func (s *busSupervisor) start() error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	dir, err := statedir.Open(s.dir.Path())
	if err != nil {
		return err
	}
	out, err := openLog(dir.Log())
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()  // the child has a copy
	cmd := exec.Command(exe, s.args...) //nolint:noctx,gosec // it outlives this process; it is this program
	// Not the project that the agent works in: a settings file there is not ours.
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir.Path(), out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	s.started, s.since, s.pause = true, time.Now(), min(max(2*s.pause, minRestart), maxRestart)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", exe, err)
	}
	s.pid = cmd.Process.Pid
	s.log.Info("started the bus in the background", "pid", s.pid, "log", dir.Log())
	return nil
}

// reap collects the exit status of a bus that we started, which would otherwise stay a zombie.
func (s *busSupervisor) reap() {
	if s.pid == 0 {
		return
	}
	pid, err := syscall.Wait4(s.pid, nil, syscall.WNOHANG, nil)
	if pid == s.pid || errors.Is(err, syscall.ECHILD) {
		s.log.Warn("the bus in the background has exited", "pid", s.pid, "last log line", cmp.Or(lastLine(s.dir.Log()), lastLine(s.dir.Log()+".1")), "log", s.dir.Log())
		s.pid = 0
	}
}

// lastLine returns the last line of a file, at most of its last 4 KiB.
func lastLine(path string) string {
	const maxRead = 4 << 10
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	if info, err := f.Stat(); err == nil && info.Size() > maxRead {
		if _, err := f.Seek(-maxRead, io.SeekEnd); err != nil {
			return ""
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxRead))
	if err != nil {
		return ""
	}
	line := strings.TrimSpace(string(text))
	return sanitize.Visible(line[strings.LastIndexByte(line, '\n')+1:])
}
