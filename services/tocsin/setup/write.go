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

// Change is a change of a file from one text to another. A nil text is a missing file.
type Change struct {
	File          File
	Before, After []byte
	// Private reports whether only its owner may read a new file.
	Private bool
	// NoBackup reports whether Before needs no backup, because nothing is lost with it.
	NoBackup bool
}

// IsEmpty reports whether the file stays as it is.
func (c Change) IsEmpty() bool {
	return bytes.Equal(c.Before, c.After) && (c.Before == nil) == (c.After == nil)
}

// Part describes which of the file's entries change: the MCP server, the hooks or both.
func (c Change) Part() string {
	before, errBefore := c.File.Find(c.Before)
	after, errAfter := c.File.Find(c.After)
	if errBefore != nil || errAfter != nil {
		return c.File.Contents
	}
	server := !reflect.DeepEqual(before.Server, after.Server)
	hooks := !reflect.DeepEqual(before.Hooks, after.Hooks)
	switch {
	case server && !hooks:
		return "MCP server"
	case hooks && !server:
		return "hooks"
	}
	return c.File.Contents
}

// Diff returns the change as a unified diff.
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

// Read returns the text of a configuration file, or nil if it is missing.
func Read(path string) ([]byte, error) {
	target, err := resolveLinks(path)
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

// resolveLinks returns the path of the file that a path leads to through symbolic links,
// or nothing if it is missing.
func resolveLinks(path string) (string, error) {
	target, err := filepath.EvalSymlinks(path)
	if err == nil {
		return target, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		// filepath has no error value for a cycle of links.
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

// Write writes a backup of an existing file beside it, then changes the file, and returns
// the path of the backup. It fails if the file has changed since Before was read.
func (c Change) Write() (backup string, err error) {
	now, err := Read(c.File.Path)
	if err != nil {
		return "", err
	}
	if !bytes.Equal(now, c.Before) || (now == nil) != (c.Before == nil) {
		return "", fmt.Errorf("another program has just changed %s: quit the client, and run this again", c.File.Path)
	}
	target, err := resolveLinks(c.File.Path)
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
		if !c.NoBackup {
			if backup, err = writeBackup(c.File.Path, c.Before, was.Mode().Perm()); err != nil {
				return "", fmt.Errorf("write a backup of %s, which was not changed: %w: free space or give this user write permission there, and run this again", c.File.Path, err)
			}
		}
	}
	if c.After == nil && !isLink(c.File.Path) {
		return backup, c.remove()
	}
	if c.After == nil { // the link is the user's: it must not lead to a missing file
		c.After = c.File.format.empty()
	}
	if target == "" {
		dir := fs.FileMode(0o755)
		if c.Private {
			dir = 0o700
		}
		target = c.File.Path
		if err := createDir(filepath.Dir(target), dir); err != nil {
			return backup, fmt.Errorf("create the directory of %s: %w: give this user write permission, and run this again", target, err)
		}
	}
	if err := c.replace(target, was); err != nil {
		return backup, fmt.Errorf("write %s, which was not changed: %w: free space or give this user write permission there, and run this again", c.File.Path, err)
	}
	return backup, nil
}

// remove removes the file, and its directory if install created that and it is empty.
func (c Change) remove() error {
	if err := os.Remove(c.File.Path); err != nil {
		return err
	}
	removeCreatedDir(filepath.Dir(c.File.Path))
	return nil
}

// replace replaces the file by the new text in one rename, and keeps its mode and owner.
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
		err = copyOwner(tmp, was)
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

// copyOwner sets the owner of a new file to that of the old one, for example when root
// sets up a client of another user.
func copyOwner(tmp *os.File, was fs.FileInfo) error {
	stat, ok := was.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) == os.Geteuid() && int(stat.Gid) == os.Getegid() {
		return nil
	}
	return tmp.Chown(int(stat.Uid), int(stat.Gid))
}

// BackupMark is in the name of each backup, before its number.
const BackupMark = ".tocsin-backup-"

func backupName(path string, n int) string { return path + BackupMark + strconv.Itoa(n) }

// writeBackup writes a backup with the next free number, and returns its path.
func writeBackup(path string, data []byte, mode fs.FileMode) (string, error) {
	for n := lastBackup(path) + 1; n <= maxBackups; n++ {
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

// lastBackup returns the highest number of a backup beside a file, or 0.
func lastBackup(path string) int {
	for n := maxBackups; n > 0; n-- {
		if _, err := os.Lstat(backupName(path, n)); err == nil {
			return n
		}
	}
	return 0
}

// Backups returns the texts of the backups beside a file, newest first. It skips those
// that can't be read.
func Backups(path string) [][]byte {
	var out [][]byte
	for n := lastBackup(path); n > 0; n-- {
		if data, err := Read(backupName(path, n)); err == nil && data != nil {
			out = append(out, data)
		}
	}
	return out
}
