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
	// keeperTick is how often the keeper looks whether the bus still runs.
	keeperTick = 250 * time.Millisecond
	// startPatience is how long a started bus may take to announce itself
	// before it is started once more.
	startPatience = 30 * time.Second
	// minRestart and maxRestart bound the pause before a bus that has ended is
	// started again; it doubles while that does not help.
	minRestart = time.Second
	maxRestart = 30 * time.Second
	// backgroundIdleExit ends a bus that a gateway started, once it is alone.
	backgroundIdleExit = "4h"
)

// keeper sees to it that a bus runs: it starts one in the background when none
// does, and again when one that it started has gone. A bus that somebody else
// ran and stopped stays stopped: that was their wish.
type keeper struct {
	dir statedir.Dir
	// args are the arguments of tocsin that start the bus.
	args []string
	log  *slog.Logger

	started bool
	pid     int
	since   time.Time
	// pause is the time from one start to the next.
	pause time.Duration
}

// run keeps until ctx ends. It leaves the bus running: other gateways and the
// next session use it, and it ends by itself when it is idle.
func (k *keeper) run(ctx context.Context) error {
	tick := time.NewTicker(keeperTick)
	defer tick.Stop()
	first := true
	for {
		k.reap()
		_, err := k.dir.Running()
		if err == nil {
			k.pause = minRestart
		}
		var silent *statedir.UnannouncedError
		if !errors.As(err, &silent) { // else a process holds the directory, and announces itself or ends
			if errors.Is(err, statedir.ErrNotRunning) && k.due(first, time.Now()) {
				if err := k.start(); err != nil {
					k.log.Error("the bus can't be started in the background", "error", err)
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

// due says whether a bus that does not run is ours to start now.
func (k *keeper) due(first bool, now time.Time) bool {
	if first {
		return true
	}
	return k.started && (k.pid == 0 || now.Sub(k.since) > startPatience) && now.Sub(k.since) > k.pause
}

// start runs tocsin up, detached: it must outlive this process and not get the
// signals of its terminal.
func (k *keeper) start() error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	dir, err := statedir.Open(k.dir.Path())
	if err != nil {
		return err
	}
	out, err := openLog(dir.Log())
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()  // the child has its own
	cmd := exec.Command(exe, k.args...) //nolint:noctx,gosec // it must outlive us; it is this very program
	// Whatever project the agent works in, its settings file is none of ours.
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir.Path(), out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	k.started, k.since, k.pause = true, time.Now(), min(max(2*k.pause, minRestart), maxRestart)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", exe, err)
	}
	k.pid = cmd.Process.Pid
	k.log.Info("started the bus in the background", "pid", k.pid, "log", dir.Log())
	return nil
}

// reap takes the end of a bus that we started, so that no zombie stays.
func (k *keeper) reap() {
	if k.pid == 0 {
		return
	}
	pid, err := syscall.Wait4(k.pid, nil, syscall.WNOHANG, nil)
	if pid == k.pid || errors.Is(err, syscall.ECHILD) {
		k.log.Warn("the bus in the background has ended", "pid", k.pid, "its last word", cmp.Or(lastLine(k.dir.Log()), lastLine(k.dir.Log()+".1")), "log", k.dir.Log())
		k.pid = 0
	}
}

// lastLine is the last line of a file, or of its last few KiB.
func lastLine(path string) string {
	const looked = 4 << 10
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	if info, err := f.Stat(); err == nil && info.Size() > looked {
		if _, err := f.Seek(-looked, io.SeekEnd); err != nil {
			return ""
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, looked))
	if err != nil {
		return ""
	}
	line := strings.TrimSpace(string(text))
	return sanitize.Visible(line[strings.LastIndexByte(line, '\n')+1:])
}
