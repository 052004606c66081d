package statedir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// errLost is returned where another process may hold the directory by now.
var errLost = errors.New("the lock of the state directory is gone: was the directory removed?")

// Announce writes runtime.json (mode 0600), by which other processes find the bus.
func (l *Lock) Announce(r Runtime) error {
	data, err := announcement(r)
	if err != nil {
		return err
	}
	if err := writeAtomic(filepath.Join(l.dir.path, runtimeFile), data); err != nil {
		return fmt.Errorf("write runtime.json: %w", err)
	}
	return nil
}

// Restore writes runtime.json again where it does not hold what was announced, and
// reports whether it did. It writes nothing where the lock in the directory is no
// longer ours: the file is then another process's.
func (l *Lock) Restore(r Runtime) (restored bool, err error) {
	want, err := announcement(r)
	if err != nil {
		return false, err
	}
	if got, err := os.ReadFile(filepath.Join(l.dir.path, runtimeFile)); err == nil && bytes.Equal(got, want) {
		return false, nil
	}
	ours, err := l.file.Stat()
	if err != nil {
		return false, fmt.Errorf("check the lock of the state directory: %w", err)
	}
	if there, err := os.Stat(filepath.Join(l.dir.path, lockFile)); err != nil || !os.SameFile(ours, there) {
		return false, errLost
	}
	return true, l.Announce(r)
}

func announcement(r Runtime) ([]byte, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode runtime.json: %w", err)
	}
	return append(data, '\n'), nil
}
