package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// createdAttr is the extended attribute of a directory that install created. On a file
// system without extended attributes, uninstall leaves the directory.
const createdAttr = "user.tocsin.made"

// createDir creates a directory and its parents, and marks it with [createdAttr].
func createDir(dir string, mode fs.FileMode) error {
	_, err := os.Lstat(dir)
	missing := errors.Is(err, fs.ErrNotExist)
	if err := os.MkdirAll(dir, mode); err != nil {
		return err
	}
	if missing {
		_ = unix.Setxattr(dir, createdAttr, []byte("1"), 0) // else an empty directory is left
	}
	return nil
}

// removeCreatedDir removes a directory that createDir created, if it is empty. Symbolic
// links and other directories are the user's.
func removeCreatedDir(dir string) {
	if isLink(dir) {
		return
	}
	if _, err := unix.Getxattr(dir, createdAttr, nil); err == nil {
		_ = os.Remove(dir) // fails if it is not empty
	}
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// CheckInside returns an error if symbolic links lead from the path out of the directory,
// to files of another user or of the user's other projects.
func CheckInside(dir, path string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("find the project directory: %w", err)
	}
	// A missing file will be created in the nearest parent that exists.
	for at := path; ; at = filepath.Dir(at) {
		target, err := filepath.EvalSymlinks(at)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !isLink(at) && at != filepath.Dir(at):
			continue
		case err != nil:
			return nil //nolint:nilerr // reading the file reports it
		}
		rel, err := filepath.Rel(real, target)
		if err == nil && filepath.IsLocal(rel) {
			return nil
		}
		return fmt.Errorf("%s is a symbolic link, or inside one, that points out of the project, to %s: use --scope user for the user's own files, or replace the link by a file of the project", path, target)
	}
}
