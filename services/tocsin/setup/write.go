package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"

	"github.com/aymanbagabas/go-udiff"
)

// maxBackups bounds the backups beside one file; past it nothing is changed.
const maxBackups = 999

// Change is what becomes of a file. A nil text is a file that is not there.
type Change struct {
	File          File
	Before, After []byte
	// Private says that a new file is for its owner only.
	Private bool
	// Bare says that nothing is lost with Before: it needs no backup.
	Bare bool
}

// None says that the file stays as it is.
func (c Change) None() bool {
	return bytes.Equal(c.Before, c.After) && (c.Before == nil) == (c.After == nil)
}

// Of is what of ours is changed. Of a file that holds more than one thing the
// others may not be concerned.
func (c Change) Of() string {
	before, errBefore := c.File.Find(c.Before)
	after, errAfter := c.File.Find(c.After)
	if errBefore != nil || errAfter != nil {
		return c.File.Holds
	}
	server := !reflect.DeepEqual(before.Server, after.Server)
	hooks := !reflect.DeepEqual(before.Hooks, after.Hooks)
	switch {
	case server && !hooks:
		return "MCP server"
	case hooks && !server:
		return "hooks"
	}
	return c.File.Holds
}

// Diff is the change as a unified diff.
func (c Change) Diff() string {
	from, to := c.File.Path, c.File.Path
	if c.Before == nil {
		from = os.DevNull
	}
	if c.After == nil {
		to = os.DevNull
	}
	return udiff.Unified(from, to, string(c.Before), string(c.After))
}

// Read reads a configuration file; nil when it is not there.
func Read(path string) ([]byte, error) {
	target, err := follow(path)
	if err != nil || target == "" {
		return nil, err
	}
	f, err := os.Open(target)
	if err != nil {
		return nil, fmt.Errorf("%w: make this user its owner, and run this again", err)
	}
	info, err := f.Stat()
	var data []byte
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a file: move it away, and run this again", path)
	case info.Size() > maxFile:
		err = fmt.Errorf("%s is larger than %d MiB: check its content", path, maxFile>>20)
	default:
		data, err = io.ReadAll(f)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return data, nil
}

// follow is the file that a path leads to through links; empty when there is
// none.
func follow(path string) (string, error) {
	target, err := filepath.EvalSymlinks(path)
	if err == nil {
		return target, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		// filepath has no error of its own for links that lead nowhere else.
		why := err.Error()
		if strings.Contains(why, "too many links") {
			why = "its links lead in a circle"
		}
		return "", fmt.Errorf("%s can't be read, because %s: fix that, and run this again", path, why)
	}
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("%s is a symbolic link to a missing file: create that file, or remove the link, and run this again", path)
	}
	return "", nil
}

// Write makes the change. What the file was before is first put beside it, and
// the name of that backup returned; a file that was not there needs none. A
// file that has changed since Before was read is left alone.
func (c Change) Write() (backup string, err error) {
	now, err := Read(c.File.Path)
	if err != nil {
		return "", err
	}
	if !bytes.Equal(now, c.Before) || (now == nil) != (c.Before == nil) {
		return "", fmt.Errorf("another program has just changed %s: quit the client, and run this again", c.File.Path)
	}
	target, err := follow(c.File.Path)
	if err != nil {
		return "", err
	}
	var was fs.FileInfo
	if target != "" {
		if was, err = os.Stat(target); err != nil {
			return "", err
		}
		if was.Mode().Perm()&0o200 == 0 {
			return "", fmt.Errorf("%s is read-only (mode %04o) and was not changed: make it writable, and run this again", c.File.Path, was.Mode().Perm())
		}
		if !c.Bare {
			if backup, err = keep(c.File.Path, c.Before, was.Mode().Perm()); err != nil {
				return "", fmt.Errorf("write a backup of %s, which was not changed: %w: free space or give this user write permission there, and run this again", c.File.Path, err)
			}
		}
	}
	if c.After == nil && !isLink(c.File.Path) {
		return backup, c.remove()
	}
	if c.After == nil { // the link is the user's, and is to lead to something
		c.After = c.File.format.empty()
	}
	if target == "" {
		dir := fs.FileMode(0o755)
		if c.Private {
			dir = 0o700
		}
		target = c.File.Path
		if err := makeDir(filepath.Dir(target), dir); err != nil {
			return backup, fmt.Errorf("create the directory of %s: %w: give this user write permission, and run this again", target, err)
		}
	}
	if err := c.replace(target, was); err != nil {
		return backup, fmt.Errorf("write %s, which was not changed: %w: free space or give this user write permission there, and run this again", c.File.Path, err)
	}
	return backup, nil
}

// remove takes the file away, and its directory with it where that was made for
// it.
func (c Change) remove() error {
	if err := os.Remove(c.File.Path); err != nil {
		return err
	}
	unmakeDir(filepath.Dir(c.File.Path))
	return nil
}

// replace puts the new text in the place of the old in one step, with the mode
// and the owner of the old.
func (c Change) replace(target string, was fs.FileInfo) error {
	tmp, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+"-*")
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if c.Private {
		mode = 0o600
	}
	if was != nil {
		mode = was.Mode().Perm()
		err = own(tmp, was)
	}
	_, werr := tmp.Write(c.After)
	err = errors.Join(err, tmp.Chmod(mode), werr, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), target)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// own gives a new file the owner of the old, such as when root sets a client
// of somebody else up.
func own(tmp *os.File, was fs.FileInfo) error {
	stat, ok := was.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) == os.Geteuid() && int(stat.Gid) == os.Getegid() {
		return nil
	}
	return tmp.Chown(int(stat.Uid), int(stat.Gid))
}

// BackupMark is in the name of each backup, before its number.
const BackupMark = ".tocsin-backup-"

func backupName(path string, n int) string { return path + BackupMark + strconv.Itoa(n) }

// keep writes a backup under the first number that is free after the others.
func keep(path string, data []byte, mode fs.FileMode) (string, error) {
	for n := last(path) + 1; n <= maxBackups; n++ {
		name := backupName(path, n)
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, werr := f.Write(data)
		if err := errors.Join(werr, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
			return "", errors.Join(err, os.Remove(name))
		}
		return name, nil
	}
	return "", fmt.Errorf("there are already %d backups: remove old ones", maxBackups)
}

// last is the highest number of a backup beside a file; 0 without one.
func last(path string) int {
	for n := maxBackups; n > 0; n-- {
		if _, err := os.Lstat(backupName(path, n)); err == nil {
			return n
		}
	}
	return 0
}

// Backups are the texts of the backups beside a file, the newest first. One
// that can't be read is passed over.
func Backups(path string) [][]byte {
	var out [][]byte
	for n := last(path); n > 0; n-- {
		if data, err := Read(backupName(path, n)); err == nil && data != nil {
			out = append(out, data)
		}
	}
	return out
}
