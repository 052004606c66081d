package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ErrExposed is returned for a directory of another user that everybody can write:
// every user could replace credentials and runtime.json.
var ErrExposed = errors.New("state directory is not safe")

// Write permissions of group and others.
const (
	groupWrites  fs.FileMode = 0o020
	othersWrite  fs.FileMode = 0o002
	beyondOwners fs.FileMode = 0o077
)

// exposure returns what is wrong with a directory that has the mode and belongs to the
// user owner, for a process of the user self. An error wraps ErrExposed; a warning is
// for people.
func exposure(path string, mode fs.FileMode, owner, self int) (warning string, err error) {
	mine, perm := owner == self, mode.Perm()
	switch {
	case !mine && perm&othersWrite != 0:
		return "", fmt.Errorf("%w: %s belongs to another user (id %d) and others can write it (mode %04o): make it this user's own, or choose another with TOCSIN_STATE_DIR", ErrExposed, path, owner, perm)
	case mine && perm&(groupWrites|othersWrite) != 0:
		return fmt.Sprintf("others can write %s (mode %04o)", path, perm), nil
	case perm&groupWrites != 0:
		return fmt.Sprintf("the group of %s can write it (mode %04o), and it belongs to another user (id %d)", path, perm, owner), nil
	}
	return "", nil
}

// Exposure returns a warning where others than its owner can write the directory, and
// ErrExposed where it must not be used.
func Exposure(path string) (warning string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("check the state directory: %w", err)
	}
	owner, ok := ownerOf(info)
	if !ok {
		return "", nil
	}
	return exposure(path, info.Mode(), owner, os.Geteuid())
}

// Restrict takes the permissions of group and others (mode 0700) from a directory that
// belongs to this user. One of another user stays as it is.
func (d Dir) Restrict() error {
	info, err := os.Stat(d.path)
	if err != nil {
		return fmt.Errorf("check the state directory: %w", err)
	}
	if owner, ok := ownerOf(info); !ok || owner != os.Geteuid() || info.Mode().Perm()&beyondOwners == 0 {
		return nil
	}
	if err := os.Chmod(d.path, dirMode); err != nil {
		return fmt.Errorf("restrict the permissions of the state directory (mode %04o): %w", info.Mode().Perm(), err)
	}
	return nil
}

func ownerOf(info fs.FileInfo) (int, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}
