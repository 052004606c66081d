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
	// fileWithin bounds a write, waiting for other writers included.
	fileWithin = 5 * time.Second
	// fileMiB is how large the file may get, fileOld how many old ones are kept.
	fileMiB = 10
	fileOld = 5
	// lockRetry is the pause between tries to get the lock.
	lockRetry = 10 * time.Millisecond
)

// file appends a JSON object a line. Every agent on a machine has a gateway of
// its own, and all of them may be told the same file: so each line is written
// under a lock (the file's name and ".lock"), by a logger that lives as long.
// timberjack alone expects to be the only writer.
type file struct {
	path string
	mib  int
	hung detached
}

func newFile(path string) *file { return &file{path: path, mib: fileMiB, hung: newDetached()} }

func (f *file) deliver(ctx context.Context, d delivery) error {
	line, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return f.hung.run(ctx, func() error { return f.append(ctx, append(line, '\n')) })
}

func (f *file) append(ctx context.Context, line []byte) (err error) {
	lock := flock.New(f.path+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
		return fmt.Errorf("wait for other writers: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := mend(f.path); err != nil {
		return err
	}
	w := &timberjack.Logger{Filename: f.path, MaxSize: f.mib, MaxBackups: fileOld, FileMode: 0o600}
	_, err = w.Write(line)
	return errors.Join(err, w.Close())
}

// mend ends the last line of a file that ends within one, as a full disk leaves
// it: the next line would be part of it.
func mend(path string) (err error) {
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
