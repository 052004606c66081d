package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/DeRuina/timberjack"
	"github.com/gofrs/flock"
)

const (
	// fileTimeout bounds a write, waiting for other writers included.
	fileTimeout = 5 * time.Second
	// maxFileMiB is the size at which the file is rotated, maxOldFiles the number of
	// rotated files that are kept.
	maxFileMiB  = 10
	maxOldFiles = 5
	// lockRetry is the pause between attempts to get the lock.
	lockRetry = 10 * time.Millisecond
)

// file appends notices to a file, one JSON object a line. Every agent on a machine has a
// gateway of its own, and all may write the same file. timberjack expects to be the only
// writer, so each line is written under a lock (the file's name and ".lock"), by a new
// logger.
type file struct {
	path   string
	maxMiB int
	runner serialRunner
}

func newFile(path string) *file {
	return &file{path: path, maxMiB: maxFileMiB, runner: newSerialRunner()}
}

func (f *file) deliver(ctx context.Context, d delivery) error {
	line, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return f.runner.run(ctx, func() error { return f.append(ctx, append(line, '\n')) })
}

func (f *file) append(ctx context.Context, line []byte) (err error) {
	lock := flock.New(f.path+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
		return fmt.Errorf("wait for other writers: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := endLastLine(f.path); err != nil {
		return err
	}
	w := &timberjack.Logger{Filename: f.path, MaxSize: f.maxMiB, MaxBackups: maxOldFiles, FileMode: 0o600}
	_, err = w.Write(line)
	return errors.Join(err, w.Close())
}

// endLastLine appends a missing line feed to a file, as a full disk leaves it: otherwise
// the next line would be appended to the broken one.
func endLastLine(path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil || end == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, end-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = f.WriteString("\n")
	return err
}
