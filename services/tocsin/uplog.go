package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"time"
)

// The log of a bus in the background, up.log, has at most about maxLog bytes, as has each
// of the rotated files, up.log.1 and up.log.2.
const (
	maxLog  = 8 << 20
	oldLogs = 2
	// logTick is the time between two checks of the size. The logger bounds what is logged meanwhile.
	logTick = time.Second
)

// openLog opens the log for a bus that starts.
func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := shiftLogs(path); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of the bus: %w", err)
	}
	return f, nil
}

// shiftLogs renames the log to the first rotated file, and drops the last of those.
func shiftLogs(path string) error {
	for n := oldLogs; n > 0; n-- {
		from := path
		if n > 1 {
			from += "." + strconv.Itoa(n-1)
		}
		if err := os.Rename(from, path+"."+strconv.Itoa(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("rotate the log of the bus: %w", err)
		}
	}
	return nil
}

// ownLog is the log file that this process writes to.
type ownLog struct {
	path string
	// open are the standard streams that are written to it.
	open []*os.File
}

// findLog returns which of the standard streams are written to the file at path, or false
// if none is, as in a terminal.
func findLog(path string, streams ...io.Writer) (l ownLog, ok bool) {
	want, err := os.Stat(path)
	if err != nil || !want.Mode().IsRegular() {
		return l, false
	}
	l.path = path
	for _, w := range streams {
		f, isFile := w.(*os.File)
		if !isFile {
			continue
		}
		if info, err := f.Stat(); err == nil && os.SameFile(info, want) {
			l.open = append(l.open, f)
		}
	}
	return l, len(l.open) > 0
}

// rotateOver rotates the log whenever it is larger than limit, until ctx ends.
func (l ownLog) rotateOver(ctx context.Context, limit int64, log *slog.Logger) {
	tick := time.NewTicker(logTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := l.rotate(limit); err != nil {
			log.Warn("could not rotate the log", "error", err)
		}
	}
}

// rotate starts a new file if the log is larger than limit. It redirects the streams
// themselves, so every line is in one of the files, also that of a crash.
func (l ownLog) rotate(limit int64) error {
	if info, err := l.open[0].Stat(); err != nil || info.Size() <= limit {
		return err
	}
	next := l.path + ".next"
	f, err := os.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("start a new log: %w", err)
	}
	defer func() { _ = f.Close() }() // the streams have copies
	if err := shiftLogs(l.path); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	if err := os.Rename(next, l.path); err != nil {
		return fmt.Errorf("start a new log: %w", err)
	}
	for _, stream := range l.open {
		if err := dup(int(f.Fd()), int(stream.Fd())); err != nil {
			return fmt.Errorf("switch to the new log: %w", err)
		}
	}
	return nil
}
