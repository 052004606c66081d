package statedir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// Runtime is the content of runtime.json: what runs on a state directory, and where. The URL of
// a service that does not run is empty.
type Runtime struct {
	PID          int    `json:"pid"`
	Version      string `json:"version"`
	NATSURL      string `json:"nats_url"`
	NATSWSURL    string `json:"nats_ws_url"`
	IngestURL    string `json:"ingest_url"`
	OTLPURL      string `json:"otlp_url,omitempty"`
	DashboardURL string `json:"dashboard_url"`
	// InvestigatorURL is left out where no investigator runs.
	InvestigatorURL string `json:"investigator_url,omitempty"`
}

// ErrNotRunning is returned when no bus runs on a directory.
var ErrNotRunning = errors.New("no bus is running on this state directory")

// RunningError is returned when another process holds the directory.
type RunningError struct {
	// PID is the process, or 0 where it has not written it yet.
	PID  int
	Path string
}

func (e *RunningError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("tocsin is starting already on %s: wait for it, or set another TOCSIN_STATE_DIR", e.Path)
	}
	return fmt.Sprintf("tocsin runs already on %s with pid %d: stop it first, or set another TOCSIN_STATE_DIR", e.Path, e.PID)
}

// UnannouncedError is returned when a process holds the directory and has not announced where it
// listens: it is starting, or runtime.json was removed, which it then writes again within
// seconds. It is an [ErrNotRunning], because the bus can't be reached yet.
type UnannouncedError struct {
	// PID is the process, or 0 where it has not written it yet.
	PID  int
	Path string
}

func (e *UnannouncedError) Error() string {
	who := "tocsin up"
	if e.PID != 0 {
		who += fmt.Sprintf(" (pid %d)", e.PID)
	}
	return fmt.Sprintf("%s is on %s and has not announced itself yet: wait a few seconds", who, e.Path)
}

// Is reports whether target is ErrNotRunning.
func (e *UnannouncedError) Is(target error) bool { return target == ErrNotRunning }

// Lock is the exclusive right to run a bus on a directory. The kernel releases it when the
// process ends in any way.
type Lock struct {
	dir  Dir
	file *flock.Flock
}

// lockTimeout is how long Lock tries: Running holds the lock for microseconds, and must not be
// taken for a bus.
const lockTimeout = 250 * time.Millisecond

// Lock acquires the directory, or returns a *[RunningError] after lockTimeout.
func (d Dir) Lock() (*Lock, error) {
	f := flock.New(filepath.Join(d.path, lockFile), flock.SetPermissions(secretMode))
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	ok, err := f.TryLockContext(ctx, lockTimeout/25)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("lock state directory: %w", err)
	}
	if !ok {
		return nil, &RunningError{PID: d.holder(), Path: d.path}
	}
	// A process that can't read runtime.json, or finds none yet, reads the pid here.
	pid := fmt.Appendln(nil, os.Getpid())
	if err := os.WriteFile(filepath.Join(d.path, lockFile), pid, secretMode); err != nil {
		return nil, errors.Join(fmt.Errorf("write the pid into the lock: %w", err), f.Unlock())
	}
	// The file of a killed process would send gateways to a dead port.
	if err := os.Remove(filepath.Join(d.path, runtimeFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("remove stale runtime.json: %w", err), f.Unlock())
	}
	return &Lock{dir: d, file: f}, nil
}

// Release removes runtime.json and releases the directory. It is no error when the directory was
// removed.
func (l *Lock) Release() error {
	gone := func(err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return errors.Join(
		gone(os.Remove(filepath.Join(l.dir.path, runtimeFile))),
		gone(os.Truncate(filepath.Join(l.dir.path, lockFile), 0)),
		l.file.Unlock(),
	)
}

// holder returns the process that has the lock, or 0 where it has not written its pid.
func (d Dir) holder() int {
	if r, err := d.readRuntime(); err == nil {
		return r.PID
	}
	data, err := os.ReadFile(filepath.Join(d.path, lockFile))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0 // not written yet
	}
	return pid
}

// Running returns what runs on the directory. The error is [ErrNotRunning] when no process holds
// the lock, also where a dead one left a runtime.json. It is an *[UnannouncedError], which wraps
// ErrNotRunning, while the holder has announced nothing. Other errors name the fix.
func (d Dir) Running() (Runtime, error) {
	r, readErr := d.readRuntime()
	locked, err := d.isLocked()
	switch {
	case err != nil:
		return Runtime{}, err
	case !locked:
		return Runtime{}, ErrNotRunning
	case errors.Is(readErr, ErrNotRunning):
		return Runtime{}, &UnannouncedError{PID: d.holder(), Path: d.path}
	case readErr != nil:
		return Runtime{}, fmt.Errorf("%w: wait a few seconds: tocsin up (pid %d) writes the file again", readErr, d.holder())
	}
	return r, nil
}

func (d Dir) readRuntime() (Runtime, error) {
	var r Runtime
	file := filepath.Join(d.path, runtimeFile)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, ErrNotRunning
	}
	if err != nil {
		return r, fmt.Errorf("read %s: %w", file, err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return Runtime{}, fmt.Errorf("read %s: %w", file, err)
	}
	if r.PID <= 0 {
		return Runtime{}, fmt.Errorf("read %s: there is no pid in it", file)
	}
	return r, nil
}

// isLocked reports whether a process has the lock, by a shared lock that is released at once. A bus
// that starts in that moment waits for it, see lockTimeout.
func (d Dir) isLocked() (bool, error) {
	f := flock.New(filepath.Join(d.path, lockFile), flock.SetFlag(os.O_RDONLY))
	free, err := f.TryRLock()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("check the lock of the state directory: %w", err)
	}
	if free {
		if err := f.Unlock(); err != nil {
			return false, fmt.Errorf("release the lock of the state directory: %w", err)
		}
	}
	return !free, nil
}
